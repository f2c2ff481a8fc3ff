"""Ways round: the same asked twice, several attempts at one, another tool where one found nothing."""

from __future__ import annotations

import json
import re
from collections import defaultdict

from ....memory_store.capture.events import Event, Trace
from .calls import arguments_of, is_thought
from .failures import failures_of
from .lessons import Lesson

#: Calls of one tool in a row, each with other arguments, that count as several attempts.
ATTEMPTS = 3
#: An identical call this often is a loop.
_LOOP = 3
#: Another tool that found what one did not is looked for among this many calls after it.
_NEXT = 3
_NOTHING = re.compile(
    r"(?:no|0|zero) (?:results?|matches|items?|records?|rows?)(?: found)?\.?|not found|无结果|没有(?:找到)?结果", re.I
)


def is_detour(trace: Trace) -> bool:
    """Whether a run went round.

    A retry, an identical call made again, another tool where one found nothing, or `ATTEMPTS` attempts of one tool
    in a row of which one failed.
    """
    calls = [call for call in trace.tool_calls if not is_thought(call.tool)]
    if any(call.retries for call in calls) or _repeated(calls) or _found_elsewhere(trace):
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


def ways_round(trace: Trace, situation: str, chinese: bool) -> list[Lesson]:
    """A lesson where a tool found nothing, another one did with the same values, and the run succeeded."""
    if trace.outcome != "success":
        return []
    lessons: dict[tuple[str, str], Lesson] = {}
    for empty, found in _found_elsewhere(trace):
        if chinese:
            trigger, action = f"{empty.tool} 没有查到结果", f"改用 {found.tool}"
        else:
            trigger, action = f"{empty.tool} finds nothing", f"go on with {found.tool}"
        evidence = ((empty, empty.result.strip()[:120] or empty.tool), (found, found.result.strip()[:120]))
        lessons[empty.tool, found.tool] = Lesson(
            "way_round",
            trigger,
            action,
            evidence,
            situation=situation,
            tool=empty.tool,
            quality=3,
            importance=0.5,
            confidence=0.6,
        )
    return list(lessons.values())


def _found_elsewhere(trace: Trace) -> list[tuple[Event, Event]]:
    """Calls that found nothing, each with the call of another tool soon after it that shares a value and did."""
    failed = {failure.event.event_id for failure in failures_of(trace)}
    calls = [call for call in trace.tool_calls if not is_thought(call.tool) and call.event_id not in failed]
    pairs = []
    for place, call in enumerate(calls):
        if not _is_empty(call.result):
            continue
        values = _values(call)
        for other in calls[place + 1 : place + 1 + _NEXT]:
            if other.tool != call.tool and not _is_empty(other.result) and values & _values(other):
                pairs.append((call, other))
                break
    return pairs


def _values(call: Event) -> set[str]:
    return {str(value) for value in arguments_of(call).values() if isinstance(value, str | int) and value != ""}


def _is_empty(answer: str) -> bool:
    """Whether an answer says that there is nothing: an empty list or object, or a phrase that says so."""
    text = answer.strip()
    if _NOTHING.fullmatch(text):
        return True
    try:
        value = json.loads(text)
    except ValueError:
        return False
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    return value in ([], {})


def _repeated(calls: list[Event]) -> list[list[Event]]:
    """Groups of two or more calls that are the same."""
    groups: dict[str, list[Event]] = defaultdict(list)
    for call in calls:
        key = json.dumps([call.tool, arguments_of(call)], sort_keys=True, default=str)
        groups[key].append(call)
    return [group for group in groups.values() if len(group) > 1]
