"""Ways round: the same thing asked twice, and several attempts at one, in runs that may have succeeded."""

from __future__ import annotations

import json
from collections import defaultdict

from ...memory_store.events import Event, Trace
from .calls import arguments_of, is_thought
from .failures import failures_of
from .lessons import Lesson

#: Calls of one tool in a row, each with other arguments, that count as several attempts.
ATTEMPTS = 3
#: An identical call this often is a loop.
_LOOP = 3


def is_detour(trace: Trace) -> bool:
    """Whether a run went round.

    A retry, an identical call made again, or `ATTEMPTS` attempts of one tool in a row of which one failed.
    """
    calls = [call for call in trace.tool_calls if not is_thought(call.tool)]
    if any(call.retries for call in calls) or _repeated(calls):
        return True
    failed = {failure.event.event_id for failure in failures_of(trace)}
    row = 0
    failed_in_row = False
    for i, call in enumerate(calls):
        same = i > 0 and calls[i - 1].tool == call.tool
        row = row + 1 if same else 1
        failed_in_row = (same and failed_in_row) or call.event_id in failed
        if row >= ATTEMPTS and failed_in_row:
            return True
    return False


def detours_of(trace: Trace, situation: str, chinese: bool) -> list[Lesson]:
    """A lesson for each tool that was asked the same thing `_LOOP` times or more and answered the same."""
    failed = {failure.event.event_id for failure in failures_of(trace)}
    lessons = []
    for calls in _repeated(
        [call for call in trace.tool_calls if call.event_id not in failed and not is_thought(call.tool)]
    ):
        answers = {call.result for call in calls}
        if len(calls) < _LOOP or len(answers) != 1:
            continue
        tool, count = calls[0].tool, len(calls)
        if chinese:
            trigger, action, avoid = (
                f"{tool} 已经返回过结果",
                "沿用第一次的结果，换别的参数或工具",
                f"用相同参数再调用（{count}次结果都一样）",
            )
        else:
            trigger = f"{tool} has answered once"
            action = "keep its answer, and change the arguments or the tool if it does not help"
            avoid = f"ask it the same again ({count} calls gave the same)"
        evidence = tuple((call, (call.arguments or call.tool)[:120]) for call in (calls[0], calls[-1]))
        lessons.append(
            Lesson(
                "loop",
                trigger,
                action,
                evidence,
                avoid=avoid,
                situation=situation,
                tool=tool,
                quality=3,
                importance=0.4,
                confidence=0.6,
            )
        )
    return lessons


def _repeated(calls: list[Event]) -> list[list[Event]]:
    """Groups of two or more calls that are the same."""
    groups: dict[str, list[Event]] = defaultdict(list)
    for call in calls:
        key = json.dumps([call.tool, arguments_of(call)], sort_keys=True, default=str)
        groups[key].append(call)
    return [group for group in groups.values() if len(group) > 1]
