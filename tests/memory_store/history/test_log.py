"""Settle gives every act one place in the log, whoever settles, however often."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from hindlake.memory_store.clock import END_OF_TIME
from hindlake.memory_store.errors import LakeError
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history import log
from hindlake.memory_store.history.inbox import Row, inbox_paths, write_proposals, write_user_act
from hindlake.memory_store.history.log import KEYS, head, log_path, log_paths, read_keys, read_log, settle
from hindlake.memory_store.schema import STATE
from hindlake.memory_store.settings import Settings

NS = "default"
NOW = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
_counter = count()


def fresh_namespace() -> str:
    return f"t{next(_counter)}"


def add(id: str, act: str, **columns: Any) -> Row:
    return {
        "act": act, "at": NOW, "decision": "add", "id": id, "kind": "fact", "text": f"text of {id}",
        "state": "pending", "strength": 1.0, "confidence": 1.0, "valid_from": NOW, "valid_to": END_OF_TIME,
        "superseded_by": "", **columns,
    }  # fmt: skip


def change(id: str, act: str, state: str = "archived", decision: str = "archive", **columns: Any) -> Row:
    return {"act": act, "at": NOW, "decision": decision, "id": id, "state": state, **columns}


def logged(lake: Lake, namespace: str = NS) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_log(lake, namespace).to_pylist()
    return rows


def test_acts_are_numbered_onward_without_a_gap(lake: Lake) -> None:
    for i in range(3):
        write_user_act(lake, NS, [add(f"m{i}", f"a{i}")])
    settle(lake, NS)
    write_user_act(lake, NS, [add("m3", "a3")])
    assert settle(lake, NS).seq == 4
    assert [row["seq"] for row in logged(lake)] == [1, 2, 3, 4]
    assert head(lake, NS) == (2, 4)
    assert inbox_paths(lake, NS) == []


def test_settling_an_empty_inbox_writes_nothing(lake: Lake) -> None:
    assert settle(lake, NS).seq == 0
    assert log_paths(lake, NS) == []


def test_an_act_that_is_logged_already_is_dropped(lake: Lake) -> None:
    write_user_act(lake, NS, [add("m", "a")])
    settle(lake, NS)
    write_user_act(lake, NS, [add("m", "a")])
    report = settle(lake, NS)
    assert (report.dropped, report.accepted, report.refused) == (["a"], [], {})
    assert len(logged(lake)) == 1


def test_a_proposal_about_something_that_changed_meanwhile_is_refused_as_a_whole_with_the_reason(lake: Lake) -> None:
    write_user_act(lake, NS, [add("old", "a")])
    settle(lake, NS)
    write_user_act(lake, NS, [change("old", "user", "deleted", "forget")])
    rows = [add("new", "p", run="r", read_to=1), change("old", "p", "superseded", "supersede", run="r", read_to=1)]
    write_proposals(lake, NS, rows)
    report = settle(lake, NS)
    assert report.accepted == ["user"]
    assert "state of old changed" in report.refused["p"]
    assert [row["verdict"] for row in logged(lake) if row["act"] == "p"] == ["refused", "refused"]


def test_a_change_of_another_column_does_not_refuse_a_proposal(lake: Lake) -> None:
    write_user_act(lake, NS, [add("m", "a")])
    settle(lake, NS)
    write_proposals(
        lake, NS, [{"act": "x", "at": NOW, "decision": "downrank", "id": "m", "strength": 0.5, "read_to": 1}]
    )
    settle(lake, NS)
    write_proposals(lake, NS, [change("m", "y", read_to=1)])
    assert settle(lake, NS).accepted == ["y"]


def test_acts_of_one_proposer_may_build_on_each_other(lake: Lake) -> None:
    known = {"run": "r", "read_to": 0}
    first = [add("old", "a", **known), change("old", "a", "active", "activate", **known)]
    second = [add("new", "b", **known), change("old", "b", "superseded", "supersede", **known)]
    write_proposals(lake, NS, [*first, *second])
    assert settle(lake, NS).accepted == ["a", "b"]


def test_a_memory_is_not_made_active_without_a_look_at_those_that_another_run_made_active(lake: Lake) -> None:
    for run in ("r", "s"):
        rows = [add(f"by {run}", run, run=run, read_to=0), change(f"by {run}", run, "active", "activate")]
        write_proposals(lake, NS, [{**row, "run": run, "read_to": 0} for row in rows])
    first = settle(lake, NS)
    assert len(first.accepted) == 1
    ((loser, reason),) = first.refused.items()
    assert "another run made memories active" in reason
    rows = [add(f"by {loser}", "again"), change(f"by {loser}", "again", "active", "activate")]
    write_proposals(lake, NS, [{**row, "run": loser, "read_to": first.seq} for row in rows])
    assert settle(lake, NS).accepted == ["again"]


def test_a_user_wins_over_a_proposal_in_the_same_inbox(lake: Lake) -> None:
    write_user_act(lake, NS, [add("m", "a")])
    settle(lake, NS)
    write_proposals(lake, NS, [change("m", "p", read_to=1)])
    write_user_act(lake, NS, [change("m", "u", "deleted", "forget")])
    report = settle(lake, NS)
    assert report.accepted == ["u"]
    assert list(report.refused) == ["p"]


def test_a_memory_can_be_added_only_once(lake: Lake) -> None:
    write_user_act(lake, NS, [add("m", "a")])
    settle(lake, NS)
    write_proposals(lake, NS, [add("m", "b", read_to=1)])
    assert settle(lake, NS).refused == {"b": "m exists already"}


def test_a_decision_about_an_unknown_memory_is_refused(lake: Lake) -> None:
    write_user_act(lake, NS, [change("nobody", "a")])
    assert settle(lake, NS).refused == {"a": "nobody does not exist"}


def test_what_was_purged_can_not_come_back(lake: Lake) -> None:
    write_user_act(lake, NS, [add("m", "a")])
    write_user_act(lake, NS, [change("m", "b", "deleted", "purge")])
    settle(lake, NS)
    write_user_act(lake, NS, [add("m", "c")])
    write_user_act(lake, NS, [change("m", "d", "active", "restore")])
    assert set(settle(lake, NS).refused.values()) == {"m was purged"}


def test_a_damaged_inbox_file_is_reported_and_does_not_stop_the_others(lake: Lake) -> None:
    lake.put(f"ns={NS}/inbox/u-000.parquet", b"not parquet")
    write_user_act(lake, NS, [add("m", "a")])
    report = settle(lake, NS)
    assert report.accepted == ["a"]
    assert report.damaged == [f"ns={NS}/inbox/u-000.parquet"]
    assert inbox_paths(lake, NS) == report.damaged


def test_a_missing_log_file_is_an_error_that_names_it(lake: Lake) -> None:
    for i in range(3):
        write_user_act(lake, NS, [add(f"m{i}", f"a{i}")])
        settle(lake, NS)
    lake.delete([log_path(NS, 2)])
    with pytest.raises(LakeError, match="000000000002"):
        read_log(lake, NS)


def test_a_crash_after_the_log_file_leaves_leftovers_that_the_next_settle_recognises(lake: Lake) -> None:
    path = write_user_act(lake, NS, [add("m", "a")])
    data = lake.get(path)
    settle(lake, NS)
    lake.put(path, data)  # as if the settler had died before it could delete
    assert settle(lake, NS).dropped == ["a"]
    assert len(logged(lake)) == 1
    assert inbox_paths(lake, NS) == []


def test_many_settlers_at_once_give_every_act_exactly_one_place(lake: Lake) -> None:
    for i in range(60):
        write_user_act(lake, NS, [add(f"m{i}", f"a{i}")])
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: settle(lake, NS), range(8)))
    settle(lake, NS)
    rows = logged(lake)
    assert sorted(row["act"] for row in rows) == sorted(f"a{i}" for i in range(60))
    assert [row["seq"] for row in rows] == list(range(1, 61))


def test_the_log_can_be_read_from_any_place_on(lake: Lake) -> None:
    for i in range(7):
        write_user_act(lake, NS, [add(f"m{i}", f"a{i}"), add(f"n{i}", f"a{i}")])
        settle(lake, NS)
    whole = [row["seq"] for row in logged(lake)]
    for after in range(15):
        part = read_log(lake, NS, after, ["id"])
        assert part.column_names == ["seq", "id"]
        assert part.column("seq").to_pylist() == [seq for seq in whole if seq > after]


IDS = st.sampled_from(["x", "y", "z"])
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), IDS),
        st.tuples(st.just("change"), IDS, st.sampled_from(["state", "strength"]), st.booleans()),
        st.tuples(st.just("settle")),
    ),
    max_size=12,
)


def naive_settle(
    acts: Sequence[tuple[str, str, str | None, int | None]], log: list[tuple[str, str, str | None, bool]]
) -> None:
    """Ten obvious lines: an act is refused if it adds what is there, changes what is not, or read before a change.
    A change of what another act of the same settle adds comes after it."""
    ordered = sorted(acts, key=lambda item: item[3] is not None)
    for _, id, _, _ in list(ordered):
        first = next((item for item in ordered if item[1] == id), None)
        adds = next((item for item in ordered if item[1] == id and item[2] is None), None)
        if adds and first and first[2] is not None and not any(i == id and c is None and ok for _, i, c, ok in log):
            ordered.remove(adds)
            ordered.insert(ordered.index(first), adds)
    for act, id, column, read_to in ordered:
        there = any(i == id and c is None and ok for _, i, c, ok in log)
        if column is None:
            ok = not there
        else:
            late = (
                any(i == id and c in (column, None) and ok for _, i, c, ok in log[read_to:])
                if read_to is not None
                else False
            )
            ok = there and not late
        log.append((act, id, column, ok))


@given(ACTS)
@hypothesis_settings(max_examples=40, deadline=None)
def test_any_interleaving_of_acts_and_settles_agrees_with_a_naive_settle(
    tmp_path_factory: pytest.TempPathFactory, script: list[Any]
) -> None:
    lake = Lake.open(Settings.load(home=str(tmp_path_factory.mktemp("home"))))
    namespace = fresh_namespace()
    expected: list[tuple[str, str, str | None, bool]] = []
    waiting: list[tuple[str, str, str | None, int | None]] = []
    for number, step in enumerate([*script, ("settle",)]):
        act = f"a{number:03d}"
        read_to = len(expected)
        if step[0] == "settle":
            naive_settle(waiting, expected)
            waiting = []
            settle(lake, namespace)
        elif step[0] == "add":
            write_user_act(lake, namespace, [add(step[1], act)], act)
            waiting.append((act, step[1], None, None))
        else:
            _, id, column, is_user = step
            row: Row = {
                "act": act,
                "at": NOW,
                "decision": "archive",
                "id": id,
                column: "archived" if column == "state" else 0.5,
            }
            if is_user:
                write_user_act(lake, namespace, [row], act)
            else:
                # One file a proposal, named in order, so that the order of the inbox is the order of the script.
                lake.put_table(f"ns={namespace}/inbox/p-{act}.parquet", _table({**row, "read_to": read_to, "run": act}))
            waiting.append((act, id, column, None if is_user else read_to))
    found = [(row["act"], row["verdict"] == "accepted") for row in logged(lake, namespace)]
    assert found == [(act, ok) for act, _, _, ok in expected]


def _table(row: Row) -> Any:
    from hindlake.memory_store.schema import table_of

    return table_of([row], "log")


def test_every_column_of_state_counts_as_a_change(lake: Lake) -> None:
    values: dict[str, Any] = {
        "state": "active", "strength": 0.3, "confidence": 0.2, "valid_from": NOW, "valid_to": NOW, "superseded_by": "q",
    }  # fmt: skip
    assert set(values) == {column.name for column in STATE}
    for name, value in values.items():
        namespace = fresh_namespace()
        write_user_act(lake, namespace, [add("m", "a")])
        settle(lake, namespace)
        write_user_act(lake, namespace, [{"act": "u", "at": NOW, "decision": "archive", "id": "m", name: value}])
        write_proposals(
            lake, namespace, [{"act": "p", "at": NOW, "decision": "archive", "id": "m", name: value, "read_to": 1}]
        )
        assert list(settle(lake, namespace).refused) == ["p"], name


def test_a_long_log_is_judged_from_few_files_and_as_a_short_one_is(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hindlake.memory_store.history.log.KEY_BLOCK", 4)
    for i in range(11):
        write_user_act(lake, NS, [add(f"m{i}", f"a{i}")])
        settle(lake, NS)
    whole = read_log(lake, NS, 0, KEYS).select(KEYS)
    assert pa.concat_tables(read_keys(lake, NS)).equals(whole)
    blocks = lake.names(f"ns={NS}/log-keys")
    assert [block.rsplit("/", 1)[1] for block in blocks] == ["000000000004.parquet", "000000000008.parquet"]
    read: list[str] = []
    fetch = Lake.read_table
    monkeypatch.setattr(Lake, "read_table", lambda self, path, *more: read.append(path) or fetch(self, path, *more))
    write_user_act(lake, NS, [add("m0", "again"), change("m1", "again")])
    write_user_act(lake, NS, [add("m3", "a3")])
    write_user_act(lake, NS, [change("m2", "b")])
    report = settle(lake, NS)
    assert (report.refused, report.dropped, report.accepted) == ({"again": "m0 exists already"}, ["a3"], ["b"])
    assert len([path for path in read if "/log" in path]) <= 2 * (2 + 3) + 4
    monkeypatch.undo()


def test_keys_that_are_lost_are_made_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hindlake.memory_store.history.log.KEY_BLOCK", 2)
    for i in range(5):
        write_user_act(lake, NS, [add(f"m{i}", f"a{i}")])
        settle(lake, NS)
    list(read_keys(lake, NS))
    blocks = {path: lake.get(path) for path in lake.names(f"ns={NS}/log-keys")}
    lake.delete(blocks)
    list(read_keys(lake, NS))
    assert {path: lake.get(path) for path in lake.names(f"ns={NS}/log-keys")} == blocks


def test_a_change_settles_after_what_it_changes_whatever_their_names(lake: Lake) -> None:
    namespace = fresh_namespace()
    write_user_act(lake, namespace, [add("x", "zz")], "zz")
    change = {"act": "aa", "at": add("x", "zz")["at"], "decision": "forget", "id": "x", "state": "deleted"}
    write_user_act(lake, namespace, [change], "aa")
    report = settle(lake, namespace)
    assert (report.accepted, report.refused) == (["zz", "aa"], {})


def test_a_change_settles_after_what_it_changes_in_a_file_of_the_log_that_comes_later(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "SETTLE_FILES", 2)
    for number in range(4):
        write_user_act(lake, NS, [add(f"m{number}", f"z{number}")], f"z{number}")
        write_user_act(lake, NS, [change(f"m{number}", f"a{number}", "deleted", "forget")], f"a{number}")
    assert settle(lake, NS).refused == {}
    assert len(log_paths(lake, NS)) == 4


def test_a_run_is_not_refused_for_what_it_did_itself_in_a_portion_before(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_user_act(lake, NS, [add("keeper", "k"), add("other", "k"), *(add(f"m{n}", "k") for n in range(6))])
    settle(lake, NS)
    monkeypatch.setattr(log, "SETTLE_ROWS", 4)
    for number in range(6):
        rows = [
            change(f"m{number}", f"a{number}", "merged", "merge"),
            change("keeper", f"a{number}", "active", "merge"),
        ]
        write_proposals(lake, NS, [{**row, "run": "r", "read_to": 8} for row in rows])
    write_proposals(lake, NS, [{**change("keeper", "zz"), "run": "s", "read_to": 8}])
    report = settle(lake, NS)
    assert sorted(report.accepted) == [f"a{number}" for number in range(6)]
    assert report.refused == {"zz": "state of keeper changed after the proposer had read"}


@given(ACTS, st.integers(1, 3), st.integers(1, 3))
@hypothesis_settings(max_examples=8, deadline=None)
def test_settling_in_portions_gives_the_verdicts_of_settling_at_once(
    tmp_path_factory: pytest.TempPathFactory, script: list[Any], most_rows: int, most_files: int
) -> None:
    verdicts = []
    for rows, files in ((log.SETTLE_ROWS, log.SETTLE_FILES), (most_rows, most_files)):
        lake = Lake.open(Settings.load(home=str(tmp_path_factory.mktemp("home"))))
        write_user_act(lake, NS, [add(id, "first") for id in ("x", "y")], "first")
        settle(lake, NS)
        for number, step in enumerate(step for step in script if step[0] == "change"):
            _, id, column, _ = step
            row = {**change(id, f"a{number:03d}"), "run": "r" if number % 2 else "s", "read_to": 2}
            row |= {"state": None} if column != "state" else {}
            row |= {column: "archived" if column == "state" else 0.5}
            lake.put_table(f"ns={NS}/inbox/p-a{number:03d}.parquet", _table(row))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(log, "SETTLE_ROWS", rows)
            patch.setattr(log, "SETTLE_FILES", files)
            settle(lake, NS)
        verdicts.append([(row["seq"], row["act"], row["verdict"]) for row in logged(lake)])
    assert verdicts[0] == verdicts[1]
