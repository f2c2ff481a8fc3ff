"""Usage: what reads put before agents, summed up by day, computed anew and never counted onwards."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hindlake.memory_store.capture.reads import Read, new_read_id, write_reads
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.inbox import write_user_act
from hindlake.memory_store.history.log import settle
from hindlake.memory_store.records.usage import (
    CreditReader,
    first_read,
    heirs,
    inherited,
    read_credit,
    read_usage,
    shown,
    write_credit,
)
from hindlake.memory_store.schema import table_of

DAY = datetime(2026, 3, 1, 12, tzinfo=UTC)


def read(at: datetime, ids: str, trace: str = "t", id: str = "", injected: bool = False) -> Read:
    """A row of the read log; memories are letters."""
    return Read("acme", id or new_read_id(at), at, trace, ids=list(ids), injected=injected)


def usage(lake: Lake, *, write: bool = True) -> dict[tuple[str, str], int]:
    return {(row["id"], row["trace_id"]): row["reads"] for row in read_usage(lake, "acme", write=write).to_pylist()}


reads = st.lists(
    st.builds(
        lambda number, trace, ids, injected, minute: {
            "read_id": f"r{number}", "at": DAY + timedelta(minutes=minute), "trace_id": trace, "ids": ids,
            "injected": injected,
        },
        st.integers(0, 4), st.sampled_from(["", "t1", "t2"]), st.lists(st.sampled_from("abc"), unique=True),
        st.booleans(), st.integers(0, 100),
    ),
    max_size=12,
).filter(lambda rows: len({row["read_id"] for row in rows if not row["injected"]}) == sum(
    not row["injected"] for row in rows
))  # fmt: skip


@given(reads)
def test_a_memory_is_shown_by_what_was_injected_or_else_by_what_was_returned(rows: list[dict[str, Any]]) -> None:
    expected: dict[tuple[str, str], list[tuple[str, datetime]]] = defaultdict(list)
    for id in {row["read_id"] for row in rows}:
        mine = [row for row in rows if row["read_id"] == id]
        used = [row for row in mine if row["injected"]]
        asked = next((row["trace_id"] for row in mine if not row["injected"]), "")
        for row in used or mine:
            for memory in row["ids"]:
                expected[memory, row["trace_id"] or asked].append((id, row["at"]))
    assert {(row["id"], row["trace_id"]): (row["reads"], row["last_at"]) for row in shown(rows)} == {
        key: (len({id for id, _ in some}), max(at for _, at in some)) for key, some in expected.items()
    }


def test_computing_usage_twice_changes_nothing_and_reads_only_what_is_new(lake: Lake) -> None:
    write_reads(lake, [read(DAY, "ab"), read(DAY, "a"), read(DAY + timedelta(days=1), "a")], "s1")
    assert usage(lake, write=False) == {("a", "t"): 1, ("b", "t"): 1}
    assert lake.names("ns=acme/usage") == []
    first = read_usage(lake, "acme")
    files = lake.names("ns=acme/usage")
    assert len(files) == 2
    assert read_usage(lake, "acme").equals(first)
    assert lake.names("ns=acme/usage") == files
    assert sum(row["reads"] for row in first.to_pylist() if row["id"] == "a") == 3


def test_a_late_segment_makes_its_day_anew(lake: Lake) -> None:
    write_reads(lake, [read(DAY, "a")], "s1")
    usage(lake)
    write_reads(lake, [read(DAY, "a", "t2"), read(DAY, "a")], "s2")
    assert usage(lake) == {("a", "t"): 2, ("a", "t2"): 1}
    assert len(lake.names("ns=acme/usage")) == 1


def test_a_segment_that_is_rolled_again_is_counted_once(lake: Lake) -> None:
    rows = [read(DAY, "a")]
    write_reads(lake, rows, "s1")
    write_reads(lake, rows, "s1")
    assert usage(lake) == {("a", "t"): 1}


def test_the_read_log_begins_with_its_first_read(lake: Lake) -> None:
    assert first_read(lake, "acme") is None
    write_reads(lake, [read(DAY + timedelta(days=2), "a"), read(DAY + timedelta(hours=1), "a"), read(DAY, "a")], "s1")
    assert first_read(lake, "acme") == DAY


def test_what_was_merged_counts_as_what_stands_for_it_now(lake: Lake) -> None:
    """a → b → c; d was merged and restored; e and f were merged into each other."""
    for number, id in enumerate("abcdef"):
        add = {"decision": "add", "kind": "fact", "text": id, "state": "active"}
        write_user_act(lake, "acme", [{"act": f"1{number}", "at": DAY, "id": id, "reason": "", **add}], f"1{number}")
    merges = [("a", "b"), ("b", "c"), ("d", "a"), ("e", "f"), ("f", "e")]
    for number, (id, into) in enumerate(merges):
        row = {"act": f"2{number}", "at": DAY, "decision": "merge", "id": id, "state": "merged", "superseded_by": into}
        write_user_act(lake, "acme", [{**row, "reason": ""}], f"2{number}")
    back = {"act": "30", "at": DAY, "decision": "restore", "id": "d", "state": "active", "reason": ""}
    write_user_act(lake, "acme", [back], "30")
    settle(lake, "acme")
    into = heirs(lake, "acme")
    assert into == {"a": "c", "b": "c", "e": "f", "f": "e"}
    table = table_of([{"id": id, "trace_id": "t", "reads": 1, "last_at": DAY} for id in "abcd"], "usage")
    assert inherited(table, into).column("id").to_pylist() == ["c", "c", "c", "d"]


def test_the_newest_numbers_are_the_ones_that_readers_are_told(lake: Lake) -> None:
    def numbers(low: float | None) -> Any:
        rows = [{"id": id, "accesses": 1, "last_at": DAY, "low": low, "high": low} for id in ("b", "a", "ab")]
        return table_of(rows, "credit")

    reader = CreditReader(lake, "acme", 0)
    assert reader.uses(["a"]) == {}
    assert read_credit(lake, "acme").num_rows == 0
    for low in (None, 0.1, 0.2, 0.3):
        assert write_credit(lake, "acme", numbers(low))
        assert not write_credit(lake, "acme", numbers(low))
        told = reader.uses(["a", "ab", "nobody", ""])
        assert {id: use.low for id, use in told.items()} == {"a": low, "ab": low}
    assert len(lake.names("ns=acme/credit")) == 2
