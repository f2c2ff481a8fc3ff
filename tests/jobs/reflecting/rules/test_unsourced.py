"""Figures that come from nowhere; and figures that have a source or follow from others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hindlake.jobs.reflecting.rules.unsourced import unsourced_of
from hindlake.memory_store.capture.events import Event, Trace, trace_of

START = datetime(2026, 5, 1, 9, tzinfo=UTC)
ASK = {"type": "message", "role": "user", "content": "What do a day and a year at the climbing hall cost?"}
BEGIN = {"type": "message", "role": "agent", "content": "I will look for the prices."}
ANSWER = "Here are the prices that I found: a day is 17.50 euros, a year 389 euros."


def says(words: str) -> dict[str, str]:
    return {"type": "message", "role": "agent", "content": words}


def looked(result: str) -> dict[str, str]:
    return {"type": "tool_call", "tool": "search", "arguments": "{}", "result": result}


def trace(*events: dict[str, str], outcome: str = "failure") -> Trace:
    end = {"type": "outcome", "outcome": outcome}
    return trace_of(
        [Event("acme", "t", f"t-{n}", n, START + timedelta(seconds=n), **e) for n, e in enumerate((*events, end))]  # type: ignore[arg-type]
    )


def test_figures_from_nowhere_are_quoted_where_they_first_stand() -> None:
    lesson = unsourced_of(trace(ASK, BEGIN, says(ANSWER), says(ANSWER)), "price a climbing hall", False)
    assert lesson is not None
    assert (lesson.rule, [event.event_id for event, _ in lesson.evidence]) == ("unsourced", ["t-2"])
    assert "17.50" in lesson.evidence[0][1] and "17.50" not in lesson.trigger + lesson.action + lesson.avoid


def test_chinese_figures_are_seen_too() -> None:
    said = says("查到的价格如下：单日票48元，年票1280元。")
    lesson = unsourced_of(trace(ASK, says("我先查一下价格"), said), "查攀岩馆的票价", True)
    assert lesson is not None and lesson.action.startswith("每个数值")


@pytest.mark.parametrize(
    "events",
    [
        (ASK, BEGIN, looked("day 17.5, year 389"), says(ANSWER)),
        ({**ASK, "content": "Is it 17.50 a day and 389 a year?"}, BEGIN, says(ANSWER)),
        (ASK, says(ANSWER)),  # the first message repeats what it was given
        (ASK, BEGIN, says("Here is what I found: a day is 18 euros.")),  # one figure
        (ASK, BEGIN, says("A day may be 17.50 euros and a year 389, let me look.")),  # not presented as found
        (ASK, BEGIN, says("Here is the code:\n```py\nday, year = 17.50, 389\n```")),
        (ASK, BEGIN, says("Here are the steps:\n10. look\n11. compare\n12. answer")),
        (ASK, BEGIN, looked("adult 41, child 23"), says("Here is the sum: 64 for both, 123 for three adults.")),
    ],
)
def test_figures_with_a_source_or_that_follow_are_passed_over(events: tuple[dict[str, str], ...]) -> None:
    assert unsourced_of(trace(*events), "price a climbing hall", False) is None


def test_a_run_that_succeeded_teaches_nothing_about_its_figures() -> None:
    assert unsourced_of(trace(ASK, BEGIN, says(ANSWER), outcome="success"), "price a hall", False) is None
