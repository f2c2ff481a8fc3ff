"""Samples of what was reflected, and what is done about the wrong ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hindlake.jobs.review import Period, draw, forget_wrong, review
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.errors import UsageError
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.inbox import write_user_act
from hindlake.memory_store.history.log import read_log, settle
from hindlake.memory_store.records.reflected import memories_of
from hindlake.memory_store.records.reviews import Verdict, write_verdicts
from review_home import MADE, NOW, keep, lesson

FEBRUARY = Period.month("2026-02")


def add(lake: Lake, *ids: str, at: datetime = MADE) -> None:
    keep(lake, *(lesson(id, at=at) for id in ids))


def judge(lake: Lake, id: str, verdict: str, reason: str = "") -> None:
    memories = memories_of(lake, "default", [id])
    write_verdicts(lake, "default", [(Verdict(id, verdict, reason), memories[id])], NOW)


def test_a_sample_is_the_same_on_every_machine_and_a_smaller_one_is_its_beginning(lake: Lake) -> None:
    add(lake, *(f"m{number}" for number in range(30)))
    drawn = draw(lake, "default", FEBRUARY, 10, MADE)
    assert len(set(drawn)) == 10
    assert drawn != sorted(drawn)
    assert draw(lake, "default", FEBRUARY, 4, MADE) == drawn[:4]
    assert draw(lake, "default", FEBRUARY, 100, MADE)[:10] == drawn
    other = Period.between(FEBRUARY.since, FEBRUARY.until)
    assert draw(lake, "default", other, 10, MADE) != drawn


def test_every_memory_of_a_month_is_equally_likely_whatever_its_place(lake: Lake) -> None:
    ids = [f"m{number:03}" for number in range(200)]
    add(lake, *ids)
    drawn = draw(lake, "default", FEBRUARY, 100, MADE)
    assert 30 < sum(id < "m100" for id in drawn) < 70


def test_the_sample_of_a_month_that_is_over_stays_as_it_was_drawn(lake: Lake) -> None:
    add(lake, "a", "b")
    assert sorted(draw(lake, "default", FEBRUARY, 5, NOW)) == ["a", "b"]
    add(lake, "late")
    assert sorted(draw(lake, "default", FEBRUARY, 5, NOW)) == ["a", "b"]


def test_the_sample_of_a_month_that_goes_on_takes_in_what_is_new(lake: Lake) -> None:
    add(lake, "a")
    assert draw(lake, "default", FEBRUARY, 5, MADE) == ["a"]
    add(lake, "b")
    assert sorted(draw(lake, "default", FEBRUARY, 5, MADE)) == ["a", "b"]


def test_only_what_a_reflector_made_of_traces_in_that_month_is_drawn(lake: Lake) -> None:
    keep(
        lake,
        lesson("mine"),
        lesson("first", at=FEBRUARY.since),
        lesson("next", at=FEBRUARY.until),
        lesson("before", at=FEBRUARY.since - timedelta(microseconds=1)),
        lesson("episode", kind="episode", reflector="episode@1"),
        lesson("merged", derived_from=["mine", "first"]),
        lesson("refused", decision="refuse"),
    )
    write_user_act(lake, "default", [{**lesson("told"), "run": None, "reflector": None, "read_to": None}], "told")
    settle(lake, "default")
    assert sorted(draw(lake, "default", FEBRUARY, 100, NOW)) == ["first", "mine"]


def test_the_job_draws_last_month_in_every_namespace_and_counts(lake: Lake) -> None:
    add(lake, "a", "b", "c")
    judge(lake, "b", "right")
    clock = ManualClock(NOW)
    first = review(lake, clock, size=2)
    assert (first.namespaces, first.drawn) == (1, 2)
    clock.advance(hours=1)
    assert review(lake, clock, size=2) == first
    assert review(lake, clock).judged == 1
    assert review(lake, clock, month="2026-01").drawn == 0


def test_a_month_or_a_span_that_is_none_is_named() -> None:
    for name in ("2026-13", "26-01", "february", "2026-00", "2026-02-01"):
        with pytest.raises(UsageError, match="2026-11"):
            Period.month(name)
    with pytest.raises(UsageError, match="nothing lies between"):
        Period.between(NOW, NOW)
    assert Period.before(datetime(2026, 1, 31, tzinfo=UTC)).name == "2025-12"


def test_what_was_judged_wrong_is_forgotten_once_and_may_be_restored(lake: Lake) -> None:
    add(lake, "good", "bad")
    judge(lake, "good", "right")
    judge(lake, "bad", "wrong", "the warehouse is optional")
    assert forget_wrong(lake, "default", NOW) == ["bad"]
    assert forget_wrong(lake, "default", NOW) == []  # still in the inbox
    settle(lake, "default")
    assert memories_of(lake, "default", ["bad"])["bad"]["state"] == "deleted"
    (act,) = [row for row in read_log(lake, "default").to_pylist() if row["decision"] == "forget"]
    assert (act["run"], act["reason"]) == (None, "judged wrong in a review: the warehouse is optional")
    row = {"act": "again", "at": NOW, "decision": "restore", "id": "bad", "state": "active"}
    write_user_act(lake, "default", [row], "again")
    settle(lake, "default")
    assert forget_wrong(lake, "default", NOW) == []
    assert memories_of(lake, "default", ["bad"])["bad"]["state"] == "active"


def test_a_memory_that_was_judged_right_after_all_is_not_forgotten(lake: Lake) -> None:
    add(lake, "m")
    judge(lake, "m", "wrong")
    judge(lake, "m", "right")
    assert forget_wrong(lake, "default", NOW) == []
