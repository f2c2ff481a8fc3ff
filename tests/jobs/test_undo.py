"""Undo takes back what a run set last, keeps what was changed since, and can be undone itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake.jobs.deciding.decide import Decided, Rule, View, decide
from hindlake.jobs.undo import UndoReport, plan_undo, undo
from hindlake.memory_store.clock import END_OF_TIME, ManualClock
from hindlake.memory_store.errors import UsageError
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.inbox import write_user_act
from hindlake.memory_store.history.log import read_log
from hindlake.memory_store.records.runs import last_runs
from hindlake.memory_store.settings import Settings
from hindlake.sdk.memory import ANY_SUBJECT, Memory
from story_home import TODAY, store_rows

# The naive side: a log is a list of rows, and what a memory is, is the last value of each column.

MEMORIES = ("m1", "m2")
COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "state": st.sampled_from(["active", "archived", "superseded", "quarantined"]),
    "strength": st.sampled_from([0.0, 0.5, 1.0]),
    "superseded_by": st.sampled_from(["", "x1", "x2"]),
}
BASE = {"state": "active", "strength": 1.0, "superseded_by": "", "valid_to": END_OF_TIME, "confidence": 0.5}
CHANGE = st.fixed_dictionaries(
    {"run": st.sampled_from(["", "r1", "r2", "r3"]), "id": st.sampled_from(MEMORIES)}, optional=COLUMNS
)


def log_of(changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = [{"run": "", "id": id, "decision": "add", "derived_from": [], **BASE} for id in MEMORIES]
    rows += [{"decision": "archive", **change} for change in changes]
    return [{**row, "seq": seq} for seq, row in enumerate(rows, 1)]


def naive_fold(log: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    memories: dict[str, dict[str, Any]] = {}
    for row in log:
        memories.setdefault(row["id"], {}).update({name: row[name] for name in BASE if row.get(name) is not None})
    return memories


def naive_undo(log: list[dict[str, Any]], run: str) -> dict[str, dict[str, Any]]:
    """Where the last row that set a column is the run's, the last that is not; everything else as it is."""
    memories = naive_fold(log)
    for id, memory in memories.items():
        for name in memory:
            setters = [row for row in log if row["id"] == id and row.get(name) is not None]
            if setters[-1]["run"] == run:
                memory[name] = [row for row in setters if row["run"] != run][-1][name]
    return memories


def undone(log: list[dict[str, Any]], run: str, by: str, undoes: dict[str, str]) -> list[dict[str, Any]]:
    """The log after an undo."""
    plan = plan_undo(log, run, undoes)
    undoes[by] = run
    return [*log, *({**row, "run": by, "seq": len(log) + n} for n, row in enumerate(plan.rows, 1))]


@given(st.lists(CHANGE, max_size=10), st.sampled_from(["r1", "r2"]))
def test_an_undo_agrees_with_a_naive_one(changes: list[dict[str, Any]], run: str) -> None:
    log = log_of(changes)
    assert naive_fold(undone(log, run, "u", {})) == naive_undo(log, run)


@given(st.lists(CHANGE, max_size=10))
def test_an_undo_of_an_undo_is_as_if_nothing_had_happened(changes: list[dict[str, Any]]) -> None:
    log, undoes = log_of(changes), dict[str, str]()
    twice = undone(undone(log, "r1", "u1", undoes), "u1", "u2", undoes)
    assert naive_fold(twice) == naive_fold(log)
    assert naive_fold(undone(twice, "u2", "u3", undoes)) == naive_undo(log, "r1")


MERGES = st.lists(st.tuples(st.sampled_from(MEMORIES), st.sampled_from(["x1", "x3"])), max_size=4)


@given(st.lists(CHANGE, max_size=8), MERGES)
def test_an_undo_of_an_undo_leaves_the_merges_that_came_between(
    changes: list[dict[str, Any]], merges: list[tuple[str, str]]
) -> None:
    def merged(log: list[dict[str, Any]]) -> list[dict[str, Any]]:
        rows = [
            {"run": "m", "id": id, "decision": "merge", "state": "merged", "superseded_by": into, "seq": len(log) + n}
            for n, (id, into) in enumerate(merges, 1)
        ]
        return [*log, *rows]

    log, undoes = log_of(changes), dict[str, str]()
    once = undone(log, "r1", "u1", undoes)
    twice = undone(merged(once), "u1", "u2", undoes)
    assert naive_fold(twice) == naive_fold(merged(log))
    # … the merges can be taken back too, and the run once more.
    without = undone(twice, "m", "u3", undoes)
    assert naive_fold(without) == naive_fold(log)
    assert naive_fold(undone(without, "r1", "u4", undoes)) == naive_undo(log, "r1")


@given(st.lists(CHANGE, max_size=8), st.permutations(["r1", "r2", "r3"]))
def test_runs_can_be_taken_back_in_any_order(changes: list[dict[str, Any]], order: list[str]) -> None:
    log, undoes = log_of(changes), dict[str, str]()
    for number, run in enumerate(order):
        log = undone(log, run, f"u{number}", undoes)
    assert naive_fold(log) == naive_fold(log_of([change for change in changes if not change["run"]]))


@given(st.lists(CHANGE, max_size=10), st.sampled_from(["r1", "r2"]))
def test_a_second_undo_of_a_run_changes_nothing(changes: list[dict[str, Any]], run: str) -> None:
    undoes = dict[str, str]()
    once = undone(log_of(changes), run, "u1", undoes)
    assert undone(once, run, "u2", undoes) == once


@given(st.lists(CHANGE, max_size=8), st.permutations(["r1", "r2", "r3"]))
def test_runs_are_taken_back_from_the_last_to_the_first_as_if_they_had_never_been(
    changes: list[dict[str, Any]], order: list[str]
) -> None:
    changes = sorted(changes, key=lambda change: order.index(change["run"]) if change["run"] else -1)
    log, undoes = log_of(changes), dict[str, str]()
    for number, run in enumerate(reversed(order)):
        log = undone(log, run, f"u{number}", undoes)
    assert naive_fold(log) == naive_fold(log_of([change for change in changes if not change["run"]]))


# The real side.


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(TODAY)


@pytest.fixture
def memory(settings: Settings, clock: ManualClock) -> Memory:
    memory = Memory(settings, clock=clock)
    for number, text in enumerate(("the kettle leaks", "the lamp flickers", "the door squeaks")):
        memory.remember(text, subject="house", key=f"k{number}")
    return memory


def run(settings: Settings, clock: ManualClock, rule: Rule, job: str = "tidy") -> str:
    return decide(Lake.open(settings), settings, clock, rule, job=job, version="test").run_id


def take_back(settings: Settings, clock: ManualClock, name: str, **options: Any) -> UndoReport:
    return undo(Lake.open(settings), settings, clock, name, version="test", **options)


def setting(word: str, decision: str, **columns: Any) -> Rule:
    """A rule that decides on the memories whose text has a word."""

    def rule(view: View) -> Iterator[Decided]:
        for row in view.memories(["id", "text", *columns], states=None).to_pylist():
            if word in row["text"] and any(row[name] != value for name, value in columns.items()):
                yield Decided([[{"decision": decision, "id": row["id"], "reason": "test", **columns}]])

    return rule


def adding(id: str, text: str, replaces: str = "", derived_from: str = "") -> Rule:
    """A rule that adds a memory, which takes the place of another."""

    def rule(view: View) -> Iterator[Decided]:
        if not view.memories(["id"], states=None, ids=(id,)).num_rows:
            made_from = [derived_from] if derived_from else []
            new = {"decision": "add", "id": id, "kind": "fact", "text": text, "subject": "house", "evidence": []}
            new |= {**BASE, "valid_from": TODAY, "derived_from": made_from, "reason": "seen"}
            old = {"state": "superseded", "superseded_by": id, "valid_to": TODAY, "reason": "newer"}
            yield Decided([[new, *([{"decision": "supersede", "id": replaces, **old}] if replaces else [])]])

    return rule


def texts(memory: Memory) -> set[str]:
    return {hit.text for hit in memory.search("", subject=ANY_SUBJECT, limit=20)}


def id_of(memory: Memory, word: str) -> str:
    return next(hit.id for hit in memory.search("", subject=ANY_SUBJECT, limit=20) if word in hit.text)


def test_a_week_old_run_is_taken_back_and_what_later_runs_did_stays(
    settings: Settings, clock: ManualClock, memory: Memory
) -> None:
    lamp, door = id_of(memory, "lamp"), id_of(memory, "door")
    old = run(settings, clock, setting("the", "archive", state="archived", strength=0.5))
    clock.advance(days=3)
    later = run(settings, clock, setting("lamp", "quarantine", state="quarantined"))
    clock.advance(days=4)
    memory.restore(door)
    report = take_back(settings, clock, old)
    assert report.counts == {"undo": 3, "reverted": 3, "kept": 2}
    assert {(item.id, item.columns, item.reason) for item in report.kept} == {
        (lamp, ("state",), f"changed since by run {later}"),
        (door, ("state",), "changed since by a user"),
    }
    assert texts(memory) == {"the kettle leaks", "the door squeaks"}
    now = memory.explain(lamp).memory
    assert (now["state"], now["strength"]) == ("quarantined", 1.0)


def test_a_dry_run_shows_the_same_and_writes_nothing(settings: Settings, clock: ManualClock, memory: Memory) -> None:
    old = run(settings, clock, setting("the", "archive", state="archived"))
    before = read_log(Lake.open(settings), "default")
    shown = take_back(settings, clock, old, dry_run=True)
    assert read_log(Lake.open(settings), "default").equals(before)
    done = take_back(settings, clock, old)
    assert [row["id"] for row in shown.decisions] == [row["id"] for row in done.decisions]
    assert shown.counts == done.counts == {"undo": 3, "reverted": 3, "kept": 0}


def test_what_a_run_added_goes_and_what_it_replaced_or_begot_is_seen_to(
    settings: Settings, clock: ManualClock, memory: Memory
) -> None:
    kettle, lamp = id_of(memory, "kettle"), id_of(memory, "lamp")
    first = run(settings, clock, adding("new", "the kettle is mended", replaces=kettle))
    run(settings, clock, setting("lamp", "supersede", state="superseded", superseded_by="new", valid_to=TODAY))
    run(settings, clock, adding("child", "all is well in the kitchen", derived_from="new"))
    report = take_back(settings, clock, first)
    assert report.counts == {"undo": 4, "deleted": 1, "reverted": 1, "restored": 1, "derived": 1, "kept": 0}
    assert report.derived == ["child"]
    assert texts(memory) == {
        "the kettle leaks", "the lamp flickers", "the door squeaks", "all is well in the kitchen"
    }  # fmt: skip
    assert memory.explain("child").memory["state"] == "pending"
    found = memory.explain(lamp).memory
    assert (found["state"], found["superseded_by"], found["valid_to"]) == ("pending", "", END_OF_TIME)
    # … and all of it comes back.
    take_back(settings, clock, report.run_id)
    assert texts(memory) == {"the kettle is mended", "the door squeaks", "all is well in the kitchen"}
    assert memory.explain("child").memory["state"] == "active"


def test_what_a_user_brought_back_outlives_the_undo_of_the_run_that_added_it(
    settings: Settings, clock: ManualClock, memory: Memory
) -> None:
    added = run(settings, clock, adding("new", "the roof is tight"))
    memory.forget("new")
    memory.restore("new")
    report = take_back(settings, clock, added)
    assert (report.counts["undo"], report.kept[0].reason) == (0, "a user brought it back after the run")
    assert "the roof is tight" in texts(memory)


def test_a_rebuild_after_an_undo_gives_the_same_store(settings: Settings, clock: ManualClock, memory: Memory) -> None:
    from hindlake.memory_store.store.generations import build

    take_back(settings, clock, run(settings, clock, setting("lamp", "archive", state="archived")))
    before = store_rows(settings)
    build(Lake.open(settings), settings, clock)
    assert store_rows(settings) == before


def test_a_run_that_is_not_known_is_named(settings: Settings, clock: ManualClock, memory: Memory) -> None:
    for name in ("nobody", ""):
        with pytest.raises(UsageError, match="lists the last ones"):
            take_back(settings, clock, name)


def test_what_was_purged_since_is_named_and_left_alone(settings: Settings, clock: ManualClock, memory: Memory) -> None:
    lamp = id_of(memory, "lamp")
    old = run(settings, clock, setting("the", "archive", state="archived"))
    row = {"act": "p", "at": clock.now(), "decision": "purge", "id": lamp, "state": "deleted"}
    write_user_act(Lake.open(settings), "default", [row])
    report = take_back(settings, clock, old)
    assert (report.counts["reverted"], report.counts["unsettled"]) == (2, 0)
    assert [(item.id, item.reason) for item in report.kept] == [(lamp, "was purged since: nothing brings it back")]


def test_an_undo_is_a_run_that_says_what_it_took_back(settings: Settings, clock: ManualClock, memory: Memory) -> None:
    old = run(settings, clock, setting("lamp", "archive", state="archived"))
    report = take_back(settings, clock, old)
    newest = last_runs(Lake.open(settings), "default")[0]
    assert (newest.run_id, newest.job, newest.parameters) == (report.run_id, "undo", {"undone": old})


def test_a_memory_that_is_not_away_can_not_be_restored(memory: Memory) -> None:
    with pytest.raises(UsageError, match="is pending"):
        memory.restore(id_of(memory, "lamp"))


def test_what_was_brought_back_under_its_successor_stands_by_itself_once_that_run_is_undone(
    settings: Settings, clock: ManualClock, memory: Memory
) -> None:
    (kettle,) = [hit.id for hit in memory.search("kettle", subject="house") if "kettle" in hit.text]
    name = run(settings, clock, adding("n1", "the kettle is new", replaces=kettle))
    memory.forget(kettle)
    assert memory.restore(kettle) == "superseded"
    undone = take_back(settings, clock, name)
    assert memory.explain(kettle).memory["state"] == "pending"
    assert texts(memory) == {"the kettle leaks", "the lamp flickers", "the door squeaks"}
    take_back(settings, clock, undone.run_id)
    assert memory.explain(kettle).memory["superseded_by"] == "n1"
    assert memory.explain(kettle).memory["state"] == "superseded"


def test_what_had_a_successor_when_it_was_forgotten_has_it_still(memory: Memory) -> None:
    old = id_of(memory, "lamp")
    memory.update(old, "the lamp is mended")
    memory.forget(old)
    assert memory.restore(old) == "superseded"
    assert "the lamp flickers" not in texts(memory)


def test_an_undo_that_is_undone_after_a_merge_brings_back_what_the_merge_did_not_touch(
    settings: Settings, clock: ManualClock, memory: Memory
) -> None:
    lamp, door = id_of(memory, "lamp"), id_of(memory, "door")
    old = run(settings, clock, setting("the", "archive", state="archived", strength=0.5))
    undone = take_back(settings, clock, old)
    clock.advance(days=1)
    later = run(settings, clock, setting("lamp", "merge", state="merged", superseded_by=door))
    clock.advance(days=1)
    report = take_back(settings, clock, undone.run_id)
    assert [(item.id, item.columns, item.reason) for item in report.kept] == [
        (lamp, ("state",), f"changed since by run {later}")
    ]
    found = memory.explain(lamp).memory
    assert (found["state"], found["superseded_by"], found["strength"]) == ("merged", door, 0.5)
    assert memory.explain(door).memory["state"] == "archived"
    assert texts(memory) == set()
