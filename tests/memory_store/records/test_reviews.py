"""Verdicts: written once, the last one of a memory holds, and what the shares say."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake.memory_store.files.lake import Lake, namespace_path
from hindlake.memory_store.records.reviews import (
    DRAWN,
    VERDICTS,
    Share,
    Verdict,
    fix_sample,
    last_verdicts,
    read_reviews,
    read_sample,
    shares,
    write_verdicts,
)
from review_home import NOW, lesson

RIGHT, WRONG = Verdict("m1", "right"), Verdict("m1", "wrong", "too narrow", "When …, …")


def say(lake: Lake, *verdicts: Verdict, minutes: int = 0) -> int:
    pairs = [(verdict, lesson(verdict.memory_id)) for verdict in verdicts]
    return len(write_verdicts(lake, "default", pairs, NOW + timedelta(minutes=minutes)))


def holds(lake: Lake, id: str = "m1") -> str:
    return str(last_verdicts(read_reviews(lake, "default"))[id]["verdict"])


def test_the_same_verdict_twice_is_one(any_lake: Lake) -> None:
    assert [say(any_lake, WRONG), say(any_lake, WRONG, minutes=5)] == [1, 0]
    (row,) = read_reviews(any_lake, "default")
    assert (row["verdict"], row["reason"], row["better"]) == ("wrong", "too narrow", "When …, …")
    assert (row["kind"], row["reflector"], row["prompt"]) == (
        "experience", "openai:scripted@reflect.v1", "reflect.v1",
    )  # fmt: skip


def test_the_last_verdict_holds_and_one_may_come_back_to_the_first(lake: Lake) -> None:
    for minutes, verdict in enumerate((RIGHT, WRONG, RIGHT)):
        assert say(lake, verdict, minutes=minutes) == 1
        assert holds(lake) == verdict.verdict
    assert len(read_reviews(lake, "default")) == 3


def test_a_clock_that_is_behind_does_not_make_a_verdict_older_than_the_one_it_follows(lake: Lake) -> None:
    say(lake, RIGHT, minutes=0)
    say(lake, WRONG, minutes=-60)
    assert holds(lake) == "wrong"


def test_a_batch_that_says_two_things_of_one_memory_means_the_last_and_is_one_when_repeated(lake: Lake) -> None:
    assert [say(lake, RIGHT, WRONG), say(lake, RIGHT, WRONG)] == [1, 0]
    assert holds(lake) == "wrong"


def test_two_that_write_the_same_verdict_at_once_leave_one(lake: Lake) -> None:
    say(lake, WRONG)
    (path,) = lake.names(namespace_path("default", "reviews"))
    copy = lake.get(path)
    lake.put(namespace_path("default", "reviews", "copy.parquet"), copy)
    assert len(read_reviews(lake, "default")) == 1


def test_a_sample_is_fixed_once_and_an_empty_one_not_at_all(any_lake: Lake) -> None:
    assert fix_sample(any_lake, "default", "2026-02", 100, [], NOW) == []
    assert fix_sample(any_lake, "default", "2026-02", 100, [lesson("b"), lesson("a")], NOW) == ["b", "a"]
    assert fix_sample(any_lake, "default", "2026-02", 100, [lesson("c")], NOW) == ["b", "a"]
    assert read_sample(any_lake, "default", "2026-02", 50) == []
    assert {row["verdict"] for row in read_reviews(any_lake, "default")} == {DRAWN}
    assert last_verdicts(read_reviews(any_lake, "default")) == {}


def test_shares_are_told_by_kind_reflector_and_prompt() -> None:
    model, rules = {"reflector": "openai:m@reflect.v2", "prompt": "reflect.v2"}, {"reflector": "rules@1", "prompt": ""}
    rows = [
        {"kind": "fact", "verdict": "right", **model},
        {"kind": "fact", "verdict": "wrong", **rules},
        {"kind": "rule", "verdict": "unsure", **model},
    ]
    assert shares(rows) == {
        "all": {"all": Share(1, 1, 1)},
        "kind": {"fact": Share(1, 1, 0), "rule": Share(0, 0, 1)},
        "reflector": {"openai:m": Share(1, 0, 1), "rules@1": Share(0, 1, 0)},
        "prompt": {"reflect.v2": Share(1, 0, 1)},
    }
    assert Share(0, 0, 1).plain() == {"right": 0, "wrong": 0, "unsure": 1, "share": None, "bounds": None}


@given(st.lists(st.tuples(st.sampled_from(["fact", "rule"]), st.sampled_from(VERDICTS))))
def test_shares_add_up_and_lie_within_their_bounds(said: list[tuple[str, str]]) -> None:
    rows = [{"kind": kind, "verdict": verdict, "reflector": "rules@1", "prompt": ""} for kind, verdict in said]
    found = shares(rows)
    for verdict in VERDICTS:
        assert sum(getattr(share, verdict) for share in found["kind"].values()) == sum(v == verdict for _, v in said)
    for share in found["kind"].values():
        if share.share is None or share.bounds is None:
            assert share.right + share.wrong == 0
        else:
            assert share.bounds[0] <= share.share + 0.001
            assert share.share <= share.bounds[1] + 0.001


def test_more_verdicts_narrow_the_bounds() -> None:
    few, many = Share(8, 2, 0).bounds, Share(800, 200, 0).bounds
    assert few is not None and many is not None
    assert many == pytest.approx((0.774, 0.824), abs=0.001)
    assert few[1] - few[0] > many[1] - many[0]
