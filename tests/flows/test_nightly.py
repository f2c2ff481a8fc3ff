"""The steps of a night, as a worker would run them, without a server."""

from __future__ import annotations

from typing import Any

import pytest

from hindlake.flows import maintenance
from hindlake.flows.maintenance import NIGHTLY, WEEKLY, run_steps
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.errors import StoreError
from hindlake.memory_store.settings import Settings
from hindlake.sdk.memory import Memory
from story_home import TODAY


def test_what_prefect_keeps_of_each_step_are_ids_and_counts(settings: Settings) -> None:
    from hindlake.flows.steps import step_task

    with Memory(settings) as memory:
        memory.remember("The crane is green.", subject="ann")
        memory.remember("the crane is green", subject="ann")
    told = [step_task.fn(step, settings.home, None, "rules", "loop") for step in WEEKLY]
    assert [one["step"] for one in told] == list(WEEKLY)
    assert told[1]["counts"] == {"activated": 1, "pending": 2, "pending_merged": 1}
    assert all(type(count) is int for one in told for count in one["counts"].values())
    assert "crane" not in str(told)


def test_a_step_that_fails_is_told_and_the_next_ones_go_on(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with Memory(settings, clock=ManualClock(TODAY)) as memory:
        memory.remember("The crane is green.", subject="ann")

    def fails(*_: object, **__: object) -> Any:
        raise StoreError("the disk is full: free some space")

    monkeypatch.setattr(maintenance, "credit", fails)
    started: list[str] = []
    report = run_steps(
        NIGHTLY, settings, ManualClock(TODAY), version="test", started=lambda name: started.append(name)
    )  # fmt: skip
    assert started == [step.step for step in report.steps] == list(NIGHTLY)
    assert report.failed == ["credit"]
    assert report.summary()["steps"][2]["error"] == "StoreError: the disk is full: free some space"
    counts = {step.step: step.counts for step in report.steps}
    assert (counts["resolve"]["activated"], counts["promote"]["unconfirmed"]) == (1, 1)


def test_a_second_night_finds_nothing_to_do(settings: Settings) -> None:
    with Memory(settings, clock=ManualClock(TODAY)) as memory:
        for text in ("Likes green tea.", "likes green tea", "Lives in Oslo."):
            memory.remember(text, subject="ann")
    nights = [run_steps(WEEKLY, settings, ManualClock(TODAY), version="test") for _ in range(2)]
    decisions = {"accepted", "activated", "pending", "pending_merged", "merge", "add", "promote", "archive"}
    assert decisions & {name for step in nights[0].steps for name in step.counts}
    assert not decisions & {name for step in nights[1].steps for name in step.counts}


def test_a_dry_run_shows_what_a_run_then_does(settings: Settings) -> None:
    with Memory(settings, clock=ManualClock(TODAY)) as memory:
        for text in ("Likes green tea.", "likes green tea"):
            memory.remember(text, subject="ann")
    shown = run_steps(("resolve",), settings, ManualClock(TODAY), version="test", dry_run=True)
    done = run_steps(("resolve",), settings, ManualClock(TODAY), version="test")
    assert shown.steps[0].counts == done.steps[0].counts
    assert {row["decision"] for row in shown.steps[0].decisions} == {"activate", "merge"}
    assert done.steps[0].decisions == []
