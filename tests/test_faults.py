"""Faults that memory systems are known for: docs/faults.md names tests of each, and what no module owns is here."""

from __future__ import annotations

import re
import tracemalloc
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from activating import activate
from hindlake.jobs.dedup import dedup
from hindlake.jobs.merge import merge
from hindlake.jobs.reflect import reflect
from hindlake.jobs.reflecting.rules_reflector import RulesReflector
from hindlake.jobs.resolve_pending import resolve_pending
from hindlake.memory_store.capture.events import Event
from hindlake.memory_store.capture.traces import write_events
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.errors import UnknownMemory
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from hindlake.sdk.memory import Memory
from hindlake.sdk.recorder import Recorder
from story_home import TODAY

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "faults.md"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"embedder": "wordllama"})


@pytest.fixture
def memory(settings: Settings) -> Memory:
    return Memory(settings, clock=ManualClock(TODAY))


def run(job: Any, settings: Settings, *more: Any) -> Any:
    return job(Lake.open(settings), settings, ManualClock(TODAY + timedelta(days=1)), *more, version="test")


def all_jobs(settings: Settings) -> None:
    for job in (resolve_pending, dedup, merge):
        run(job, settings)


# The page.


def test_every_fault_is_shown_by_tests_that_exist() -> None:
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    faults = [row for row in rows if row[0] not in ("fault", "---")]
    assert len(faults) >= 46
    files: dict[str, str] = {}
    for fault, _, shown_by in faults:
        named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", shown_by)
        assert named, f"no test shows: {fault}"
        for path, test in named:
            text = files.setdefault(path, (ROOT / "tests" / path).read_text(encoding="utf-8"))
            assert re.search(rf"^def {test}\(", text, re.MULTILINE), f"{path} has no {test}"


# Duplicates and merges.


def test_a_memory_that_was_recalled_is_not_learned_again(settings: Settings, memory: Memory) -> None:
    memory.remember("The budget is 8000.", subject="ann", attribute="budget", value="8000")
    told = memory.context("plan a trip within the budget", subject="ann").text
    assert "8000" in told
    for number in range(3):
        trace, at = f"t{number}", TODAY + timedelta(minutes=number)
        said = [("system", told), ("user", "Plan the trip."), ("agent", "The budget is 8000, so here is a plan.")]
        events = [Event("default", trace, f"{trace}-start", 0, at, "task", content="plan a trip", subject="ann")]
        events += [
            Event("default", trace, f"{trace}-{role}", place, at, "message", role=role, content=text)
            for place, (role, text) in enumerate(said, 1)
        ]
        found = Event("default", trace, f"{trace}-found", 4, at, "tool_call", tool="search_memory", result=told)
        end = Event("default", trace, f"{trace}-end", 5, at, "outcome", outcome="failure", content="no seats")
        write_events(Lake.open(settings), [*events, found, end])
    run(reflect, settings, RulesReflector())
    hits = memory.search("budget", subject="ann", kinds=["fact", "preference", "rule"], limit=50)
    assert [hit.text for hit in hits] == ["The budget is 8000."]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Jordan works in accounting.", "Jordan makes basketball shoes."),
        ("Jordan is a colleague from Leeds.", "Jordan is a shoe company from Oregon."),
        ("Mercury is the planet nearest to the sun.", "Mercury is a metal that is liquid."),
    ],
)
def test_two_things_of_one_name_stay_two(settings: Settings, memory: Memory, first: str, second: str) -> None:
    for text in (first, second):
        memory.remember(text, entities=[text.split()[0]])
    all_jobs(settings)
    assert {hit.text for hit in memory.search("", limit=50)} == {first, second}


@pytest.mark.parametrize("columns", [{}, {"attribute": "budget", "value": "5000"}])
def test_an_update_that_says_the_same_leaves_one_that_stands(
    settings: Settings, memory: Memory, columns: dict[str, str]
) -> None:
    old = memory.remember("The budget is 5000.", subject="ann", **columns)
    new = memory.update(old, "Budget: 5000")
    all_jobs(settings)
    assert [hit.id for hit in memory.search("", subject="ann")] == [new]
    assert memory.explain(old).memory["superseded_by"] == new


def test_rewordings_of_one_fact_are_one_memory(settings: Settings, memory: Memory) -> None:
    for number in range(60):
        memory.remember(("Likes green tea.", "likes green tea", "Likes green tea!")[number % 3], subject="ann")
    all_jobs(settings)
    assert len(memory.search("", subject="ann", limit=200)) == 1


# Storage and growth.


def test_a_recorder_that_logs_on_and_on_takes_no_more_memory(settings: Settings) -> None:
    with Recorder(settings) as recorder:

        def log(times: int) -> None:
            for number in range(times):
                with recorder.task("ship", task_type="ship") as task:
                    task.user(f"message {number}")
                    task.outcome("success")

        log(250)
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            log(250)
            assert tracemalloc.get_traced_memory()[0] - before < 150_000
        finally:
            tracemalloc.stop()


# Search.


def test_a_search_ranks_no_more_than_its_legs_supply(settings: Settings) -> None:
    few = settings.model_copy(update={"search": settings.search.model_copy(update={"candidates": 4, "floor": 0.0})})
    memory = Memory(few, clock=ManualClock(TODAY))
    for number in range(60):
        memory.remember(f"the order {number} was late")
    activate(few)
    assert 0 < len(memory.search("which order was late", limit=4)) <= 4
    looked_at = max(leg["rank"] for hit in memory.search("which order was late", limit=4) for leg in hit.legs.values())
    assert looked_at <= 4 * 4  # of four legs


# SDK, time, security.


def test_no_tenant_can_change_what_another_has(settings: Settings, memory: Memory) -> None:
    id = memory.remember("the lift is out of order")
    other = Memory(settings, namespace="other", clock=ManualClock(TODAY))
    other.remember("the lamp flickers")
    acts: list[Any] = [
        lambda: other.update(id, "the lift works"),
        lambda: other.forget(id),
        lambda: other.restore(id),
        lambda: other.explain(id),
    ]
    for act in acts:
        with pytest.raises(UnknownMemory):
            act()
    assert [hit.text for hit in memory.search("lift")] == ["the lift is out of order"]


def test_what_a_memory_replaced_passes_the_filter_itself_or_is_not_told(settings: Settings, memory: Memory) -> None:
    old = memory.remember("The door code is odd.", subject="ann", tags=["private"])
    memory.update(old, "The door has no code.", subject="bo", tags=["public"])
    kept = memory.remember("The gate opens at six.", subject="bo", tags=["public"])
    memory.update(kept, "The gate opens at seven.")
    activate(settings)
    for filters in ({}, {"tags": ["public"]}):
        told = memory.context("is there a code at the door or the gate", subject="bo", **filters).text
        assert "has no code" in told
        assert "opens at six" in told
        assert "is odd" not in told
