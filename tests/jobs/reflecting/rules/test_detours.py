"""A way round is a lesson where it led somewhere, and nothing where it is chance."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hindlake.jobs.reflecting.rules.detours import is_detour, ways_round
from hindlake.memory_store.capture.events import Event, Trace, trace_of

START = datetime(2026, 3, 1, tzinfo=UTC)


def trace(*calls: tuple[str, dict[str, Any], Any], outcome: str = "success") -> Trace:
    events = [
        Event(
            "ns", "t", f"e{n}", n, START + timedelta(seconds=n), "tool_call", tool=tool,
            arguments=json.dumps(arguments), result=result if isinstance(result, str) else json.dumps(result),
        )
        for n, (tool, arguments, result) in enumerate(calls)
    ]  # fmt: skip
    return trace_of([*events, Event("ns", "t", "end", 99, START + timedelta(seconds=99), "outcome", outcome=outcome)])


EMPTY = ("search_direct", {"from": "OSL", "to": "OPO"}, [])
FOUND = ("search_onestop", {"from": "OSL", "to": "OPO"}, [{"via": "FRA"}])


def test_another_tool_that_found_what_one_did_not_is_a_lesson_with_both_calls_as_evidence() -> None:
    (lesson,) = ways_round(trace(EMPTY, FOUND), "find a flight", chinese=False)
    assert (lesson.trigger, lesson.action) == ("search_direct finds nothing", "go on with search_onestop")
    assert [event.event_id for event, _ in lesson.evidence] == ["e0", "e1"]
    (chinese,) = ways_round(trace(EMPTY, FOUND), "找航班", chinese=True)
    assert "search_onestop" in chinese.action
    assert is_detour(trace(EMPTY, FOUND))


@pytest.mark.parametrize("nothing", ["[]", "{}", '{"flights": []}', "no results found", "没有找到结果"])
def test_nothing_has_many_forms(nothing: str) -> None:
    assert ways_round(trace((EMPTY[0], EMPTY[1], nothing), FOUND), "x", chinese=False)


@pytest.mark.parametrize(
    "run",
    [
        trace(EMPTY, FOUND, outcome="failure"),
        trace(EMPTY, ("get_weather", {"city": "Oslo"}, {"sky": "clear"})),
        trace(EMPTY, ("search_direct", {"from": "OSL", "to": "LIS"}, [1])),
        trace(EMPTY, ("search_onestop", {"from": "OSL"}, [])),
        trace((EMPTY[0], EMPTY[1], '{"count": 0, "flights": [1]}'), FOUND),
        trace(FOUND, EMPTY),
    ],
)
def test_chance_is_no_lesson(run: Trace) -> None:
    assert ways_round(run, "x", chinese=False) == []
