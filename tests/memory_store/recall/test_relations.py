"""Relations are what memories say together; walking them never leaves the filter, nor one user's Bob for another's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake.memory_store.recall.predicates import Filter, matches
from hindlake.memory_store.recall.relations import HOT, Mentions, mentions_in, neighbours, relations
from hindlake.memory_store.schema import table_of
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.store.tables import Tables
from hindlake.memory_store.text.aliases import Alias, Classes
from hindlake.memory_store.text.names import name_key

START = datetime(2026, 3, 1, tzinfo=UTC)
THINGS = ("Ann", "Berlin", "支付API", "ORD-1", "ORD-2", "Room 101")


def memory(id: str, *entities: str, **columns: Any) -> dict[str, Any]:
    """A row of the store."""
    return {
        "id": id, "namespace": "acme", "state": "active", "kind": "fact", "subject": "", "entities": list(entities),
        "attribute": "", "value": "", "tool": "", "error_code": "", "valid_from": START, "seq": 1, "text": id,
        **columns,
    }  # fmt: skip


def among(rows: Sequence[dict[str, Any]], where: Filter | None = None) -> Mentions:
    """Mentions in a list."""
    asked = where or Filter(("acme",))

    def look(names: Sequence[str]) -> list[dict[str, Any]]:
        return [
            row
            for row in rows
            if matches(row, asked) and {name_key(name) for name in row["entities"]} & {name_key(name) for name in names}
        ]

    return look


mentioned = st.lists(st.lists(st.sampled_from(THINGS), max_size=4), max_size=8)


@given(mentioned)
def test_a_relation_counts_the_memories_that_mention_both(lists: list[list[str]]) -> None:
    rows = [memory(f"m{place}", *names) for place, names in enumerate(lists)]
    expected: dict[frozenset[str], set[str]] = defaultdict(set)
    for row in rows:
        for pair in combinations(set(row["entities"]), 2):
            expected[frozenset(pair)].add(row["id"])
    found = {frozenset((one.name, one.other)): one for one in relations(rows)}
    assert {pair: one.count for pair, one in found.items()} == {pair: len(ids) for pair, ids in expected.items()}
    assert all(set(one.memories) <= expected[pair] for pair, one in found.items())


@given(mentioned, st.sampled_from(THINGS))
def test_neighbours_are_what_one_and_two_steps_of_a_naive_walk_reach(lists: list[list[str]], start: str) -> None:
    rows = [memory(f"m{place}", *names) for place, names in enumerate(lists)]
    near = {name for names in lists if start in names for name in names} - {start}
    far = {name for names in lists if near & set(names) for name in names} - near - {start}
    found = neighbours(among(rows), [start], steps=2)
    assert {one.name for one in found if one.steps == 1} == near
    assert {one.name for one in found if one.steps == 2} == far
    assert [one.closeness for one in found] == sorted((one.closeness for one in found), reverse=True)
    assert all(0 < one.closeness <= 1 for one in found)


def test_a_memory_says_how_two_things_are_related() -> None:
    rows = [
        memory("a", "Acme", subject="user:1", attribute="employer", value="Acme"),
        memory("b", tool="pay", error_code="timeout"),
        memory("c", subject="user:1", attribute="budget", value="8000"),
    ]
    assert [(one.name, one.relation, one.other) for one in relations(rows)] == [
        ("pay", "fails with", "timeout"), ("user:1", "employer", "Acme"),
    ]  # fmt: skip


def test_names_of_one_thing_are_one_node() -> None:
    rows = [memory("a", "Bob", "Berlin"), memory("b", "Robert Smith", "Rome"), memory("c", "BERLIN", "Potsdam")]
    said = [Alias("x", "entity", "Bob", "Robert Smith", "", "active", START, "")]
    classes = Classes(said, name_key)
    found = neighbours(among(rows), ["bob"], classes, steps=2)
    assert {(one.name, one.steps) for one in found} == {("Berlin", 1), ("Rome", 1), ("Potsdam", 2)}
    assert next(one for one in found if one.steps == 2).through == "Berlin"


def test_two_users_bobs_are_never_walked_through_as_one() -> None:
    rows = [
        memory("a", "Acme", "Bob", subject="u1"), memory("b", "Bob", "Rome", subject="u2"),
        memory("c", "Bob", "Oslo", subject="u1"), memory("d", "Bob", "Paris"),
    ]  # fmt: skip
    found = {one.name: one.steps for one in neighbours(among(rows), ["Acme"], steps=2)}
    assert found == {"Bob": 1, "Oslo": 2, "Paris": 2}


def test_rooms_and_orders_are_what_they_are() -> None:
    rows = [memory("a", "Room 101", "Ann"), memory("b", "Room 102", "Bea"), memory("c", "ORD-1", "ORD-12")]
    assert [one.name for one in neighbours(among(rows), ["room 101"], steps=2)] == ["Ann"]
    assert neighbours(among(rows), ["ORD"], steps=2) == []


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    """A store of some memories of two namespaces and three subjects, and of one thing that all mention."""
    made = Tables.create(str(tmp_path / "store"), 4, Settings.load(home=str(tmp_path)))
    rows = [
        memory("a", "Ann", "支付API"), memory("b", "支付API", "ORD-1", subject="u1"),
        memory("c", "Ann", "Rome", subject="u2"),
        memory("d", "Ann", "Oslo", state="deleted"), memory("e", "Ann", "Bonn", namespace="other"),
    ]  # fmt: skip
    rows += [
        memory(f"h{place:04d}", "Everyone", f"Thing {place}", valid_from=START + timedelta(minutes=place))
        for place in range(HOT + 20)
    ]
    made.upsert(table_of(rows, "memories"))
    return made


def test_the_store_is_asked_under_the_filter_and_what_is_everywhere_is_capped(tables: Tables) -> None:
    bound = Filter(("acme",), subjects=("u1",))
    assert {one.name: one.steps for one in neighbours(mentions_in(tables, bound), ["ANN"], steps=2)} == {
        "支付API": 1, "ORD-1": 2,
    }  # fmt: skip
    fresh = [memory("f", "Ann", "Lima", subject="u1"), memory("g", "Ann", "Cuzco", subject="u2")]
    look = mentions_in(tables, bound, fresh=fresh)
    assert {one.name for one in neighbours(look, ["Ann"])} == {"支付API", "Lima"}
    newest = look(["everyone"])
    assert (len(newest), newest[0]["id"]) == (HOT, f"h{HOT + 19:04d}")
