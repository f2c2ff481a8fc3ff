"""Predicates: what LanceDB returns for one is what the plain Python oracle says."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as trial
from hypothesis import strategies as st

from hindlake.memory_store.errors import SettingsError, UsageError
from hindlake.memory_store.recall.conditions import MOST_PARTS, All, Condition, Either, Is, Not, where
from hindlake.memory_store.recall.predicates import READABLE, Filter, matches, predicate
from hindlake.memory_store.resident.columns import Coder, covers
from hindlake.memory_store.schema import table_of
from hindlake.memory_store.text.names import name_key

NASTY = (
    "", "x", "x' OR 1=1 --", "x'; DROP TABLE memories; --", "'", "''", '"', '"x"', "\\", "\\'", "a\\", ";", "--",
    "/* x */", ") OR (true", "%", "_", "x\nOR 1=1", "\t", "\x00", "x\x00y", "null", "NULL", "true", "[", "]", "', '",
    "支付", "é", "e\u0301", "😀", "\ufffd", "timestamp '2026-01-01'", "$1", "?", "{x}", "X",
)  # fmt: skip
TIMES = [datetime(1, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 12, 0, 0, 1, tzinfo=UTC),
         datetime(2026, 3, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)]  # fmt: skip
TEXT_FIELDS = [f.name for f in fields(Filter) if f.type.startswith("tuple[str, ...]") and f.name != "namespaces"]
COLUMNS = ("kind", "state", "subject", "task_type", "tool", "outcome", "error_code", "agent_role", "said_by",
           "language", "attribute")  # fmt: skip


def rows() -> list[dict[str, Any]]:
    """Rows that hold every nasty value in every column somewhere, and every column unset somewhere."""
    some: list[dict[str, Any]] = []
    for number, value in enumerate(NASTY):
        other = NASTY[(number * 7 + 3) % len(NASTY)]
        row: dict[str, Any] = {
            "namespace": "acme" if number % 3 else "other",
            "id": value or "empty",
            "seq": number,
            "text": value,
            "entities": [value, other] if number % 5 else None,
            "tags": [other] if number % 4 else [],
            "valid_from": TIMES[number % 4] if number % 6 else None,
            "valid_to": TIMES[(number + 1) % 4] if number % 7 else None,
        }
        for place, column in enumerate(COLUMNS):
            if (number + place) % 9:
                row[column] = NASTY[(number + place * 5) % len(NASTY)]
        if number % 2:
            row["state"] = "active"
        some.append(row)
    return some


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A real LanceDB table of `rows()`, with the vector column left out."""
    db = lancedb.connect(tmp_path_factory.mktemp("lance"))
    made = table_of(rows(), "memories").drop_columns(["vector", "evidence"])
    names = [[name_key(name) for name in row.get("entities") or ()] for row in rows()]
    return db.create_table("memories", made.append_column("names", pa.array(names, pa.list_(pa.string()))))


words = st.sampled_from(NASTY) | st.text(max_size=6) | st.sampled_from(["active", "pending", "\ud800"])
tuples = st.lists(words, max_size=3).map(tuple)
times = st.none() | st.sampled_from(TIMES) | st.datetimes(timezones=st.just(timezone(timedelta(hours=9))))


tests = st.fixed_dictionaries(
    {},
    optional={name: words | tuples for name in (*COLUMNS[:-1], "entities", "tags")}
    | {"since": st.sampled_from(TIMES), "until": st.sampled_from(TIMES)},
).filter(bool)
conditions: st.SearchStrategy[Condition] = st.recursive(
    tests.map(lambda given: where(**given)),
    lambda inner: (
        st.tuples(inner, inner).map(lambda two: two[0] & two[1])
        | st.tuples(inner, inner).map(lambda two: two[0] | two[1])
        | inner.map(lambda one: ~one)
        | st.lists(inner, max_size=2).map(lambda some: All(tuple(some)))
        | st.lists(inner, max_size=2).map(lambda some: Either(tuple(some)))
    ),
    max_leaves=6,
)


@st.composite
def filters(draw: st.DrawFn) -> Filter:
    """A filter with some of its fields set."""
    chosen = draw(st.lists(st.sampled_from(TEXT_FIELDS), max_size=3, unique=True))
    values: dict[str, Any] = {name: draw(tuples) for name in chosen}
    values.setdefault("states", draw(st.none() | st.just(READABLE)))
    values["namespaces"] = draw(st.sampled_from([("acme",), ("other",), ("acme", "other"), ("none",)]))
    for name in draw(st.lists(st.sampled_from(["since", "until", "valid_at"]), max_size=2, unique=True)):
        values[name] = draw(times)
    if draw(st.integers(0, 3)) == 0:
        values["entity_groups"] = draw(st.lists(tuples, max_size=2).map(tuple))
    if draw(st.booleans()):
        values["where"] = draw(conditions)
    return Filter(**values)


@trial(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(filter=filters())
@example(filter=Filter(("acme",), states=None, tools=("x' OR 1=1 --",)))
@example(filter=Filter(("acme",), states=None, entities=("'] OR true OR array_has_any(entities, ['",)))
@example(filter=Filter(("acme",), states=None, all_tags=("\\", "'")))
@example(filter=Filter(("acme",), states=None, ids=("\ud800", "\x00")))
@example(filter=Filter(("acme",), states=None, where=~where(tool="x' OR 1=1 --", tags="\\")))
@example(filter=Filter(("acme",), states=None, where=~(where(entities=()) | where(tool=()) | where(since=TIMES[2]))))
def test_lancedb_returns_exactly_the_rows_that_match_in_python(table: Any, filter: Filter) -> None:
    """Whatever values a filter holds, the store and the oracle agree."""
    got = table.search().where(predicate(filter)).select(["id"]).to_arrow().column("id").to_pylist()
    assert sorted(got) == sorted(row["id"] for row in rows() if matches(row, filter))


@trial(max_examples=200, deadline=None)
@given(filter=filters())
@example(filter=Filter(("acme",), states=None, tools=("", "\ud800")))
@example(filter=Filter(("acme",), states=None, where=~(where(entities=()) | where(tool=()) | where(since=TIMES[2]))))
def test_arrays_pass_exactly_the_rows_that_match_in_python(table: Any, filter: Filter) -> None:
    """The same oracle for the columns that lie in memory; ids are left to the caller."""
    plain = replace(filter, ids=None, not_ids=(), superseded_by=None)
    coder = Coder()
    for batch in table.to_arrow().to_batches(max_chunksize=7):
        coder.add(batch)
    got = coder.columns().passing(plain)
    assert got.tolist() == [matches(row, plain) for row in rows()]
    assert covers(replace(filter, ids=None, superseded_by=None))
    assert covers(filter) is (filter.ids is None and filter.superseded_by is None)


@trial(max_examples=150, deadline=None)
@given(condition=conditions, number=st.integers(0, len(NASTY) - 1))
def test_a_condition_holds_as_the_naive_reading_of_it_does(condition: Condition, number: int) -> None:
    """The oracle's own oracle: sets and Python's and, or, not."""
    row = rows()[number]

    def naive(part: Condition) -> bool:
        if isinstance(part, All):
            return all([naive(one) for one in part.every])
        if isinstance(part, Either):
            return any([naive(one) for one in part.some])
        if isinstance(part, Not):
            return not naive(part.without)
        if not isinstance(part, Is):
            return row["valid_from"] is not None and row["valid_from"] >= part.time  # type: ignore[attr-defined]
        wanted = {value.replace("\ud800", "\ufffd") for value in part.values}
        if part.column == "entities":
            return bool({name_key(v) for v in part.values} & {name_key(v) for v in row["entities"] or ()})
        if part.column == "tags":
            return bool(wanted & set(row["tags"] or ()))
        return (row.get(part.column) or "") in wanted

    at_all = {"namespaces": (row["namespace"],), "states": None}
    assert matches(row, Filter(**at_all, where=condition)) is naive(condition)
    assert matches(row, Filter(**at_all, where=~condition)) is not naive(condition)


@pytest.mark.parametrize(
    "make",
    [
        lambda: where(),
        lambda: where(tool=1),
        lambda: where(tags=["a", None]),
        lambda: where(since="2026-01-01"),
        lambda: where(tool="a") & "b",
        lambda: where(tool="a") and where(tool="b"),
        lambda: Filter(("acme",), where="tool = 'a'"),
        lambda: Filter(("acme",), where=All(("x",))),
        lambda: Filter(("acme",), where=All((where(tool="a"),) * MOST_PARTS)),
        lambda: predicate(Filter(("acme",), where=Is("1=1 OR tool", ("a",)))),
        lambda: matches({"namespace": "acme"}, Filter(("acme",), states=None, where=Is("no_column", ("a",)))),
    ],
)
def test_a_condition_that_can_not_be_meant_is_refused(make: Callable[[], object]) -> None:
    """Nothing to look at, no text, no condition, Python's own and, too long, a column that is none."""
    with pytest.raises(UsageError):
        make()


def test_every_value_finds_itself_and_nothing_else(table: Any) -> None:
    """A literal stands for its own characters only."""
    for value in (row["id"] for row in rows()):
        condition = predicate(Filter(("acme", "other"), states=None, ids=(value,)))
        assert table.search().where(condition).select(["id"]).to_arrow().column("id").to_pylist() == [value]


def test_facts_of_another_subject_are_never_returned() -> None:
    """A subject sees what is shared and what is about it."""
    filter = Filter(("acme",), subjects=("ann",))
    shared, ann, bob = ({"namespace": "acme", "state": "active", "subject": s} for s in (None, "ann", "bob"))
    assert [matches(row, filter) for row in (shared, ann, bob)] == [True, True, False]
    assert [matches(row, Filter(("acme",), subjects=())) for row in (shared, ann, bob)] == [True, False, False]


def test_superseded_and_deleted_memories_are_left_out_unless_asked_for() -> None:
    """The default states are those that hold."""
    deleted = {"namespace": "acme", "state": "deleted"}
    assert not matches(deleted, Filter(("acme",)))
    assert matches(deleted, Filter(("acme",), states=None))


@pytest.mark.parametrize(
    "wrong",
    [
        {"namespaces": ()},
        {"namespaces": ("a' OR 1=1",)},
        {"namespaces": "acme"},
        {"namespaces": ("acme",), "tools": "refund"},
        {"namespaces": ("acme",), "tools": (1,)},
        {"namespaces": ("acme",), "since": "2026-01-01"},
    ],
)
def test_a_filter_that_can_not_be_meant_is_refused(wrong: dict[str, Any]) -> None:
    """No namespace, a lone string for a tuple, a string for a time."""
    with pytest.raises((UsageError, SettingsError), match=r"give|name"):
        Filter(**wrong)


def test_the_store_filters_in_three_files_and_by_predicates_alone() -> None:
    """What they filter by is of the type `Predicate`, which only predicates.py makes: the type checker sees to it."""
    room = Path(__file__).parents[3] / "memory_store"
    sources = {path.relative_to(room).as_posix(): path.read_text(encoding="utf-8") for path in room.rglob("*.py")}
    used = {(name, what) for name, source in sources.items() for what in re.findall(r"\.where\(([^)]*)\)", source)}
    files = ("store/tables.py", "recall/asking.py", "resident/files.py")
    assert used == {(name, "condition") for name in files}
    assert [name for name, source in sources.items() if "Predicate(" in source] == ["recall/predicates.py"]
