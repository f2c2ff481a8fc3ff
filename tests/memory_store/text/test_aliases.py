"""Aliases: which names stand for one thing is the closure of the decisions that hold, whatever happened in between."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as trial
from hypothesis import strategies as st

from hindlake.memory_store.errors import UsageError
from hindlake.memory_store.recall.conditions import where
from hindlake.memory_store.recall.predicates import Filter, matches
from hindlake.memory_store.text.aliases import Alias, Classes, NameBook, alias_id, alias_row, aliases_of
from hindlake.memory_store.text.names import name_key

START = datetime(2026, 3, 1, tzinfo=UTC)
NAMES = ("Bob", "Robert", "Robert Smith", "R. S.", "小王", "王小明", "Rob")
PAIRS = st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)).filter(lambda pair: pair[0] != pair[1])


def alias(name: str, of: str, place: int = 0, subject: str = "", state: str = "active", sort: Any = "entity") -> Alias:
    """An alias that was decided so many minutes after the start."""
    id = f"a{place:04d}"
    return Alias(id, sort, name, of, subject, state, START + timedelta(minutes=place), "")


def naive(pairs: list[tuple[str, str]]) -> dict[str, set[str]]:
    """Names by name, by walking every pair again and again; of one name the last meaning counts."""
    meaning = dict(pairs)
    classes = {name: {name} for name in NAMES}
    for _ in NAMES:
        for name, of in meaning.items():
            together = classes[name] | classes[of]
            for one in together:
                classes[one] = classes[one] | together
    return classes


@given(st.lists(PAIRS, max_size=12))
def test_the_names_of_a_thing_are_the_closure_of_the_pairs(pairs: list[tuple[str, str]]) -> None:
    classes = Classes([alias(*pair, place) for place, pair in enumerate(pairs)], name_key)
    expected = naive(pairs)
    for name in NAMES:
        assert set(classes.names(name)) == {name_key(one) for one in expected[name]}
        assert classes.names(name)[0] == name_key(name)
        assert name_key(classes.usual(name)) == classes.key(name)
        assert {classes.key(one) for one in expected[name]} == {classes.key(name)}


@given(st.lists(PAIRS, min_size=1, max_size=8), st.data())
def test_what_was_taken_back_is_as_if_it_had_never_been_said(pairs: list[tuple[str, str]], data: st.DataObject) -> None:
    gone = data.draw(st.sets(st.integers(0, len(pairs) - 1)))
    said = [alias(*pair, place, state="deleted" if place in gone else "active") for place, pair in enumerate(pairs)]
    book = NameBook(data.draw(st.permutations(said)))
    left = [pair for place, pair in enumerate(pairs) if place not in gone]
    assert all(set(book.entities().names(name)) == set(map(name_key, naive(left)[name])) for name in NAMES)


def test_a_circle_has_one_usual_name_and_it_is_what_was_said_last() -> None:
    circle = Classes([alias("Bob", "Robert", 1), alias("Robert", "Rob", 2), alias("Rob", "Bob", 3)], name_key)
    assert {circle.usual(name) for name in ("Bob", "Robert", "Rob")} == {"Bob"}
    assert set(circle.names("rob")) == {"bob", "robert", "rob"}


def test_an_alias_of_one_subject_joins_no_other_subjects_names() -> None:
    book = NameBook([alias("Bob", "Robert Smith", 1, "u1"), alias("Bob", "Bob Jones", 2, "u2"), alias("R", "Rob", 3)])
    assert book.entities("u1").usual("bob") == "Robert Smith"
    assert book.entities("u2").usual("bob") == "Bob Jones"
    assert book.entities("").names("Bob") == ("bob",)
    asked = Filter(("acme",), subjects=("u1",), entities=("Bob",))
    assert book.expand(asked).entities == ("Bob", "bob", "robert smith")
    for other in (Filter(("acme",), entities=("Bob",)), Filter(("acme",), subjects=("u1", "u2"), entities=("Bob",))):
        assert book.expand(other).entities == ("Bob", "bob")


def test_what_holds_for_a_subject_comes_before_what_holds_for_all() -> None:
    book = NameBook([alias("Bob", "Robert Smith", 1, "u1"), alias("Bob", "Bob Jones", 2)])
    assert book.entities("u1").usual("Bob") == "Robert Smith"
    assert book.entities("u9").usual("Bob") == "Bob Jones"


def test_several_namespaces_share_no_names() -> None:
    book = NameBook([alias("Bob", "Robert Smith")])
    asked = Filter(("acme", "other"), entities=("Bob",))
    assert book.expand(asked) is asked


rows = st.fixed_dictionaries(
    {"entities": st.lists(st.sampled_from(NAMES), max_size=3), "task_type": st.sampled_from(["", *NAMES])}
)


@trial(max_examples=150)
@given(st.lists(PAIRS, max_size=6), st.lists(PAIRS, max_size=4), rows, st.data())
def test_a_filter_finds_what_mentions_any_name_of_what_it_names(
    pairs: list[tuple[str, str]], types: list[tuple[str, str]], row: dict[str, Any], data: st.DataObject
) -> None:
    """The expanded filter on names as written does what the plain one does on usual names; twice changes nothing."""
    said = [alias(*pair, place) for place, pair in enumerate(pairs)]
    said += [alias(*pair, 90 + place, sort="task_type") for place, pair in enumerate(types)]
    book = NameBook(said)
    some = st.lists(st.sampled_from(NAMES), max_size=2).map(tuple)
    asked = Filter(
        ("acme",), states=None, entities=data.draw(st.none() | some), all_entities=data.draw(some),
        not_entities=data.draw(some), task_types=data.draw(st.none() | some), not_task_types=data.draw(some),
        where=data.draw(st.none() | st.just(where(entities="Bob") | ~where(task_type="Rob"))),
    )  # fmt: skip
    expanded = book.expand(asked)
    things, kinds = naive(pairs), naive(types)
    row = {"namespace": "acme", **row}

    def any_of(names: tuple[str, ...], classes: dict[str, set[str]], present: list[str]) -> bool:
        return any(not classes[name].isdisjoint(present) for name in names)

    mentioned, kind = row["entities"], [row["task_type"]]
    expected = asked.entities is None or any_of(asked.entities, things, mentioned)
    expected &= all(any_of((name,), things, mentioned) for name in asked.all_entities)
    expected &= not any_of(asked.not_entities, things, mentioned)
    expected &= asked.task_types is None or any_of(asked.task_types, kinds, kind)
    expected &= not any_of(asked.not_task_types, kinds, kind)
    if asked.where is not None:
        expected &= any_of(("Bob",), things, mentioned) or not any_of(("Rob",), kinds, kind)
    assert matches(row, expanded) == expected
    assert matches(row, book.expand(expanded)) == expected


def test_an_alias_needs_two_names_that_are_not_one_already() -> None:
    for name, of in (("Bob", "bob"), ("", "Bob"), ("Bob", "  "), ("Dr. Anna Lee", "anna  lee")):
        with pytest.raises(UsageError):
            alias_row("acme", "entity", name, of, at=START)
    assert alias_row("acme", "task_type", "Book", "book", at=START)["value"] == "book"


def test_the_same_names_give_the_same_alias_and_other_ones_another() -> None:
    ids = [
        alias_id("acme", "entity", "Bob", "Robert"), alias_id("acme", "entity", "ＢＯＢ", "robert"),
        alias_id("acme", "entity", "Robert", "Bob"), alias_id("acme", "task_type", "Bob", "Robert"),
        alias_id("acme", "entity", "Bob", "Robert", "u1"), alias_id("other", "entity", "Bob", "Robert"),
    ]  # fmt: skip
    assert ids[0] == ids[1] and len(set(ids)) == 5


def test_what_was_purged_is_no_alias() -> None:
    row = {**dict.fromkeys(("evidence", "derived_from", "run")), "valid_from": START, "subject": "", "state": "deleted"}
    assert aliases_of([{**row, "id": "a", "kind": "", "attribute": "", "about": "", "value": ""}]) == []


def test_a_query_says_a_name_in_full_or_not_at_all() -> None:
    classes = Classes([alias("Bob", "Robert Smith"), alias("小王", "王小明", 1)], name_key)
    assert classes.said("what did bob say") == {"bob", "robert smith"}
    assert classes.said("小王喜欢什么") == {"小王", "王小明"}
    assert classes.said("bobby") == frozenset()
