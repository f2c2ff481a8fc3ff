"""The order of two changes: the first one closed what the second one needed open."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ....memory_store.capture.events import Event, Trace
from .calls import arguments_of, is_write, leaves
from .failures import Failure, failures_of
from .lessons import Lesson

#: Classes of errors with which a thing says that it can't be changed any more.
_CLOSED = frozenset(("not_permitted", "conflict", "already_exists", "invalid_argument"))
_STATE = re.compile(r"[\"'](?:status|stage|phase|状态)[\"']\s*[:：]\s*[\"']([^\"']{1,60})", re.I)
#: A value that names one thing: it has a digit, and four characters at least.
_ONE = re.compile(r"(?=.*\d)\S{4,}")


def order_of(trace: Trace, situation: str, chinese: bool) -> list[Lesson]:
    """A lesson for each change that failed because another one on the same thing had been made before.

    Only the first failure of two tools counts, and only if the failing tool never worked on that thing.
    """
    failures = failures_of(trace)
    failed = {failure.event.event_id for failure in failures}
    lessons: dict[tuple[str, str], Lesson] = {}
    for failure in failures:
        second = failure.event
        if second.type != "tool_call" or not is_write(second.tool) or failure.error_class not in _CLOSED:
            continue
        things = _things(second)
        done = [call for call in trace.tool_calls if is_write(call.tool) and call.event_id not in failed]
        if any(call.tool == second.tool and things & _things(call) for call in done):
            continue
        first = _last_before(second, [call for call in done if things & _things(call)])
        if first is not None and not _stayed_open(trace, first, things):
            lessons.setdefault((first.tool, second.tool), _lesson(first, second, failure, situation, chinese))
    return list(lessons.values())


def _last_before(second: Event, changes: Sequence[Event]) -> Event | None:
    return max((call for call in changes if call.seq < second.seq), key=lambda call: call.seq, default=None)


def _stayed_open(trace: Trace, first: Event, things: set[str]) -> bool:
    """Whether the thing was in the same state before and after the first change, as far as results tell."""
    after = _state(first.result)
    seen = [call for call in trace.tool_calls if call.seq < first.seq and things & _things(call)]
    before = [state for call in seen if (state := _state(call.result))]
    return bool(after) and bool(before) and before[-1] == after


def _state(result: str) -> str:
    match = _STATE.search(result)
    return match[1].casefold() if match else ""


def _things(call: Event) -> set[str]:
    return {text for text in leaves(arguments_of(call)) if _ONE.fullmatch(text)}


def _lesson(first: Event, second: Event, failure: Failure, situation: str, chinese: bool) -> Lesson:
    said = f"“{failure.said}”" if failure.said else failure.error_class
    if chinese:
        trigger = f"要 {first.tool}，同一对象可能还要 {second.tool}"
        action = f"调用 {first.tool} 前先问清两项，之后不能再 {second.tool}"
        why = f"做过 {first.tool} 之后，{second.tool} 报{said}"
    else:
        trigger = f"{first.tool} is asked for, and {second.tool} may be wanted for the same thing"
        action = f"settle both before you call {first.tool}: after it {second.tool} is refused"
        why = f"after {first.tool}, {second.tool} failed with {said}"
    return Lesson(
        "order",
        trigger,
        action,
        ((first, (first.arguments or first.tool)[:120]), (second, failure.quote)),
        why=why,
        situation=situation,
        tool=second.tool,
        error_class=failure.error_class,
        quality=4,
        importance=0.7,
        confidence=0.6,
    )
