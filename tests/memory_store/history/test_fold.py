"""The fold is the last accepted value of each column, whatever the order, the split, or the repetition."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from hindlake.memory_store.clock import END_OF_TIME
from hindlake.memory_store.history.fold import fold
from hindlake.memory_store.schema import STATE, arrow_schema, table_of

NOW = datetime(2026, 3, 1, tzinfo=UTC)
NAMES = [column.name for column in STATE]
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "state": st.sampled_from(["active", "archived", "deleted"]),
    "strength": st.sampled_from([0.0, 0.5, 1.0]),
    "confidence": st.sampled_from([0.1, 0.9]),
    "valid_from": st.sampled_from([NOW, NOW - timedelta(days=9)]),
    "valid_to": st.sampled_from([END_OF_TIME, NOW + timedelta(days=3)]),
    "superseded_by": st.sampled_from(["", "m1", "m2"]),
}
ROW = st.fixed_dictionaries(
    {"id": st.sampled_from(["m1", "m2", "m3"]), "verdict": st.sampled_from(["accepted", "accepted", "refused"])},
    optional=VALUES,
)


def log_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows as a log could hold them: a memory's first accepted row adds it."""
    added: set[str] = set()
    log = []
    for seq, row in enumerate(rows, 1):
        row = {**row, "seq": seq, "act": f"a{seq}", "at": NOW, "decision": "archive"}
        if row["verdict"] == "accepted" and row["id"] not in added:
            added.add(row["id"])
            row |= {"decision": "add", "kind": "fact", "text": f"text {row['id']}", "run": "r"}
        log.append(row)
    return log


def naive_fold(log: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    state: dict[str, dict[str, Any]] = {}
    for row in log:
        if row["verdict"] == "accepted":
            memory = state.setdefault(
                row["id"], dict.fromkeys(NAMES) | {"text": row.get("text"), "added_seq": row["seq"]}
            )
            memory |= {name: row[name] for name in NAMES if row.get(name) is not None} | {"seq": row["seq"]}
    return state


def as_dict(memories: Any) -> dict[str, dict[str, Any]]:
    names = [*NAMES, "text", "added_seq", "seq"]
    result = {}
    for row in memories.select(["id", *names]).to_pylist():
        result[row["id"]] = {name: row[name] for name in names}
    return result


def plain(state: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Text columns are never null in the store."""
    return {
        id: {name: "" if value is None and name in ("state", "superseded_by") else value for name, value in row.items()}
        for id, row in state.items()
    }


@given(st.lists(ROW, max_size=14))
@hypothesis_settings(max_examples=60, deadline=None)
def test_the_fold_agrees_with_a_naive_one(rows: list[dict[str, Any]]) -> None:
    log = log_of(rows)
    assert as_dict(fold("ns", table_of(log, "log"))) == plain(naive_fold(log))


@given(st.lists(ROW, max_size=12), st.integers(0, 12), st.integers(0, 3))
@hypothesis_settings(max_examples=60, deadline=None)
def test_folding_in_two_steps_with_rows_repeated_is_folding_once(
    rows: list[dict[str, Any]], split: int, again: int
) -> None:
    log = log_of(rows)
    base = fold("ns", table_of(log[:split], "log"))
    later = log[max(0, split - again) :]
    touched = {row["id"] for row in later}
    known = base.filter([id in touched for id in base.column("id").to_pylist()]) if base.num_rows else base
    after = as_dict(base) | as_dict(fold("ns", table_of(later, "log"), known))
    assert after == plain(naive_fold(log))


def test_a_change_to_a_memory_that_is_not_there_yet_waits_for_its_base() -> None:
    row = {
        "act": "a",
        "seq": 9,
        "at": NOW,
        "decision": "archive",
        "id": "m",
        "state": "archived",
        "verdict": "accepted",
    }
    assert fold("ns", table_of([row], "log")).num_rows == 0


def test_a_refused_candidate_is_no_memory() -> None:
    row = {"act": "a", "seq": 1, "at": NOW, "decision": "refuse", "id": "m", "text": "x", "verdict": "accepted"}
    assert fold("ns", table_of([row], "log")).num_rows == 0


def test_the_fold_keeps_the_whole_content_of_a_memory() -> None:
    row = {
        "act": "a", "seq": 1, "at": NOW, "decision": "add", "id": "m", "verdict": "accepted", "kind": "experience",
        "text": "先查库存", "entities": ["库存"], "vector": [0.5, -0.5], "importance": 0.7, "quality": 4, "run": "r",
        "evidence": [{"trace_id": "t", "event_id": "e", "quote": "缺货"}], "state": "active",
    }  # fmt: skip
    memories = fold("ns", table_of([row], "log"))
    assert memories.schema == arrow_schema("memories")
    (memory,) = memories.to_pylist()
    assert {name: memory[name] for name in row if name in memory and name != "seq"} == {
        name: value for name, value in row.items() if name in memory and name != "seq"
    }
    assert (memory["added_seq"], memory["added_at"], memory["namespace"]) == (1, NOW, "ns")
