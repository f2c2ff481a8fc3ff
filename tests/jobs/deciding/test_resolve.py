"""Resolve joins only what is sure, and what a subject said last is what holds, in whatever order it arrives."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hindlake.jobs.deciding.resolve import normal_text, resolve
from hindlake.memory_store.clock import END_OF_TIME

START = datetime(2026, 1, 1, tzinfo=UTC)


def memory(id: str, text: str = "", day: int = 0, **columns: Any) -> dict[str, Any]:
    return {
        "id": id, "seq": 1, "kind": "preference", "subject": "user:1", "text": text or id, "attribute": "", "value": "",
        "state": "pending", "valid_from": START + timedelta(days=day), "valid_to": END_OF_TIME, "superseded_by": "",
        "decision": "add", **columns,
    }  # fmt: skip


def budget(id: str, value: str, day: int, **columns: Any) -> dict[str, Any]:
    return memory(id, f"budget {value}", day, **{"attribute": "budget", "value": value, **columns})


def decide(
    candidates: list[dict[str, Any]],
    known: list[dict[str, Any]] | None = None,
    pending: list[dict[str, Any]] | None = None,
) -> dict[str, list[dict[str, Any]]]:
    return resolve(candidates, pending or [], known or [], holds_many=lambda attribute: attribute == "allergy")


def after(candidates: list[dict[str, Any]], known: list[dict[str, Any]] | None = None) -> dict[str, dict[str, Any]]:
    """The state of every memory once the decisions are applied."""
    state = {row["id"]: dict(row) for row in known or []}
    for rows in decide(candidates, known).values():
        for row in rows:
            state.setdefault(row["id"], {}).update({k: v for k, v in row.items() if k != "decision"})
    return state


def test_a_new_value_of_an_attribute_supersedes_the_old_one_and_closes_it() -> None:
    old = budget("old", "5000", 0, state="active")
    state = after([budget("new", "8000", 5)], [old])
    assert (state["old"]["state"], state["old"]["superseded_by"]) == ("superseded", "new")
    assert state["old"]["valid_to"] == state["new"]["valid_from"]
    assert (state["new"]["state"], state["new"]["valid_to"]) == ("active", END_OF_TIME)


def test_the_time_of_the_statement_decides_which_is_newer_not_the_time_of_the_write() -> None:
    state = after([budget("late arrival", "5000", 0)], [budget("known", "8000", 5, state="active")])
    assert (state["late arrival"]["state"], state["late arrival"]["superseded_by"]) == ("superseded", "known")
    assert state["known"]["state"] == "active"


def test_a_statement_that_arrives_between_two_others_takes_its_place_in_the_chain() -> None:
    known = [
        budget("first", "1", 0, state="superseded", superseded_by="third", valid_to=START + timedelta(days=9)),
        budget("third", "3", 9, state="active"),
    ]
    state = after([budget("second", "2", 4)], known)
    assert [state[id]["superseded_by"] for id in ("first", "second", "third")] == ["second", "third", ""]
    assert state["first"]["valid_to"] == state["second"]["valid_from"]
    assert state["second"]["valid_to"] == state["third"]["valid_from"]


def test_an_old_value_that_is_said_again_later_holds_again() -> None:
    known = [
        budget("first", "5000", 0, state="superseded", superseded_by="second", valid_to=START + timedelta(days=3)),
        budget("second", "8000", 3, state="active"),
    ]
    state = after([budget("again", "5000", 6)], known)
    assert (state["again"]["state"], state["second"]["superseded_by"]) == ("active", "again")


def test_the_same_value_in_other_words_is_merged_into_the_one_that_is_there() -> None:
    state = after([budget("again", "5,000", 2)], [budget("there", "5000", 0, state="active")])
    assert (state["again"]["state"], state["again"]["superseded_by"]) == ("merged", "there")
    assert state["there"]["state"] == "active"


def test_another_subject_or_attribute_is_left_alone() -> None:
    known = [budget("a", "5000", 0, state="active"), memory("b", attribute="seat", value="aisle", state="active")]
    state = after([budget("c", "8000", 5, subject="user:2"), budget("d", "9000", 5, attribute="rent")], known)
    assert {row["state"] for row in state.values()} == {"active"}


def test_an_attribute_that_holds_many_values_supersedes_none() -> None:
    known = [memory("nuts", attribute="allergy", value="nuts", state="active")]
    state = after([memory("milk", attribute="allergy", value="milk", day=3)], known)
    assert {row["state"] for row in state.values()} == {"active"}


def test_memories_without_an_attribute_that_differ_in_a_number_stay_two() -> None:
    state = after([memory("a", "Room 101 is free", kind="fact"), memory("b", "Room 102 is free", kind="fact")])
    assert {row["state"] for row in state.values()} == {"active"}


def test_two_equal_candidates_in_one_batch_are_stored_once_and_neither_vanishes() -> None:
    state = after([memory("a", "Likes tea"), memory("b", "likes  tea!", day=1)])
    assert (state["a"]["state"], state["b"]["state"], state["b"]["superseded_by"]) == ("active", "merged", "a")


def test_equal_words_of_another_kind_or_subject_are_not_merged() -> None:
    state = after([memory("a", "x"), memory("b", "x", kind="rule"), memory("c", "x", subject="user:2")])
    assert {row["state"] for row in state.values()} == {"active"}


def test_a_pending_memory_is_activated_or_joined_without_being_added_again() -> None:
    decided = decide([], [budget("old", "5000", 0, state="active")], [budget("p", "8000", 4), memory("q", "Likes tea")])
    assert [(row["decision"], row["id"]) for row in decided["p"]] == [("supersede", "old"), ("activate", "p")]
    assert [(row["decision"], row["id"]) for row in decided["q"]] == [("activate", "q")]


@given(st.lists(st.tuples(st.sampled_from("123"), st.integers(0, 5)), min_size=1, max_size=4))
def test_the_order_of_arrival_does_not_matter(said: list[tuple[str, int]]) -> None:
    rows = [budget(f"m{place}", value, day) for place, (value, day) in enumerate(said)]
    results = []
    for order in permutations(rows):
        results.append({id: (row["state"], row["superseded_by"]) for id, row in after(list(order)).items()})
    assert all(result == results[0] for result in results)


@given(
    st.lists(st.tuples(st.sampled_from("123"), st.integers(0, 9)), min_size=1, max_size=8), st.permutations("abcdefgh")
)
@example([("1", 0), ("1", 1), ("1", 1), ("2", 0), ("2", 1)], list("abcdefgh"))
def test_what_holds_at_any_time_is_what_was_said_last_before_it(said: list[tuple[str, int]], ids: list[str]) -> None:
    known: dict[str, dict[str, Any]] = {}
    for place, (value, day) in enumerate(said):
        known = after([budget(ids[place], value, day)], list(known.values()))
    for day in range(10):
        at = START + timedelta(days=day, hours=1)
        live = [row for row in known.values() if row["state"] != "merged"]
        holding = [row["value"] for row in live if row["valid_from"] <= at < row["valid_to"]]
        told = [(d, place, v) for place, (v, d) in enumerate(said) if d <= day]
        assert len(holding) == (1 if told else 0)
        days = [d for d, _, _ in told]
        if told and days.count(max(days)) == 1:
            assert holding == [max(told)[2]]


def test_signs_that_change_a_meaning_are_kept_in_comparison() -> None:
    pairs = [
        ("costs 5 €", "costs 5 $"),
        ("-3 degrees", "3 degrees"),
        ("100%", "100"),
        ("a < b", "a > b"),
        ("1.5", "15"),
    ]
    for one, other in pairs:
        assert normal_text(one) != normal_text(other), (one, other)
    for one, other in [
        ("Likes tea.", "likes tea"),
        ("costs .5.", "costs .5"),
        ("He left. She stayed.", "he left she stayed"),
    ]:
        assert normal_text(one) == normal_text(other), (one, other)


@pytest.mark.parametrize("day", [0, 4])
def test_what_a_user_put_in_the_place_of_a_value_never_goes_back_under_it(day: int) -> None:
    known = [
        budget("old", "5000", 2, state="superseded", superseded_by="new", valid_to=START + timedelta(days=day)),
        budget("older", "4000", 1, state="superseded", superseded_by="old", valid_to=START + timedelta(days=2)),
    ]
    for value in ("5000", "8000"):
        decided = decide([], known, [budget("new", value, day, state="pending")])
        assert [(row["id"], row["decision"]) for row in decided["new"]] == [("new", "activate")]
