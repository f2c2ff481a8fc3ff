"""A failed and a successful run of the same task: what did the one do that the other did not?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from ....memory_store.capture.events import Event, Trace
from .calls import arguments_of, is_handover, is_prose, is_thought, is_word, is_write, origin_of
from .failures import failures_of
from .generalise import instance_in
from .lessons import Lesson, asked

#: Most differences that one lesson names.
_NAMED = 2
_AGREES = re.compile(
    r"\b(?:yes|yeah|yep|sure|confirm\w*|go ahead|proceed|please do|sounds good|correct|ok|okay|do it)\b|是的|好的|"
    r"确认|可以|没问题|同意|就这样",
    re.I,
)


def contrast_of(failed: Trace, succeeded: Trace, situation: str, chinese: bool) -> Lesson | None:
    """What the successful run did differently, strongest difference first; None if calls don't tell them apart."""
    differences = [
        *_endings(failed, succeeded, chinese),
        *_writes(failed, succeeded, chinese),
        *_preparations(failed, succeeded, chinese),
        *_confirmation(failed, succeeded, chinese),
    ]
    if not differences or not situation:
        return None
    named = differences[:_NAMED]
    action = ("；" if chinese else ", and ").join(text for text, _, avoided in named if not avoided)
    avoid = ("或" if chinese else " or ").join(text for text, _, avoided in named if avoided)
    evidence = tuple({event.event_id: (event, quote) for _, pairs, _ in named for event, quote in pairs}.values())
    why = (
        "同一任务一次成功一次失败，差别在此"
        if chinese
        else "of two runs of this task, one failed and one succeeded; they differ in this"
    )
    trigger = asked(situation, chinese)
    tool = next((event.tool for event, _ in evidence if event.tool), "")
    return Lesson(
        "contrast",
        trigger,
        action,
        evidence,
        avoid=avoid,
        why=why,
        tool=tool,
        quality=4,
        importance=0.7,
        confidence=0.5,
    )


_Difference = tuple[str, tuple[tuple[Event, str], ...], bool]


def _done(trace: Trace) -> list[Event]:
    """The calls that worked and changed something, in order."""
    failed = {failure.event.event_id for failure in failures_of(trace)}
    return [call for call in trace.tool_calls if call.event_id not in failed and not is_thought(call.tool)]


def _shown(call: Event) -> tuple[Event, str]:
    return call, (call.arguments or call.tool)[:120]


def _endings(failed: Trace, succeeded: Trace, chinese: bool) -> list[_Difference]:
    """Which changes were made, and whether the task was handed over."""
    wrong, right = _done(failed), _done(succeeded)
    made_wrong = Counter(call.tool for call in wrong if is_write(call.tool) or is_handover(call.tool))
    made_right = Counter(call.tool for call in right if is_write(call.tool) or is_handover(call.tool))
    found: list[_Difference] = []
    last = _last_event(failed)
    for tool in made_right:
        if tool not in made_wrong:
            call = next(call for call in right if call.tool == tool)
            text = f"用 {tool} 完成" if chinese else f"finish with {tool}"
            if is_handover(tool):
                text = f"用 {tool} 转给人处理" if chinese else f"hand it over with {tool}"
            found.append((text, (_shown(call), *((last,) if last else ())), False))
    for tool in made_wrong:
        if tool not in made_right:
            call = next(call for call in wrong if call.tool == tool)
            found.append((f"调用 {tool}" if chinese else f"call {tool}", (_shown(call),), True))
    for tool, count in made_right.items():
        before = made_wrong.get(tool, 0)
        if 0 < before < count:
            call = [call for call in right if call.tool == tool][-1]
            text = (
                f"对每一项都调用 {tool}（成功{count}次，失败{before}次）"
                if chinese
                else (f"call {tool} for every item ({count} calls, the failed run made {before})")
            )
            found.append((text, (_shown(call),), False))
        elif before > count:
            call = [call for call in wrong if call.tool == tool][-1]
            text = f"调用 {tool} 超过{count}次" if chinese else f"call {tool} more than {count} time{'s' * (count > 1)}"
            found.append((text, (_shown(call),), True))
    return found


def _writes(failed: Trace, succeeded: Trace, chinese: bool) -> list[_Difference]:
    """The same changing call with other arguments."""
    found: list[_Difference] = []
    wrong = [call for call in _done(failed) if is_write(call.tool)]
    right = [call for call in _done(succeeded) if is_write(call.tool)]
    for tool in dict.fromkeys(call.tool for call in right):
        one = [call for call in wrong if call.tool == tool]
        other = [call for call in right if call.tool == tool]
        if len(one) != len(other):
            continue
        for bad, good in zip(one, other, strict=True):
            before, after = arguments_of(bad), arguments_of(good)
            for name in after:
                if before.get(name) == after[name] and name in before:
                    continue
                if text := _argument(
                    name, before.get(name), after[name], name in before, failed, succeeded, good, chinese
                ):
                    found.append(
                        (f"{tool} 的 {text}" if chinese else f"{text} in {tool}", (_shown(bad), _shown(good)), False)
                    )
    return found


def _argument(
    name: str, old: object, new: object, was_there: bool, failed: Trace, succeeded: Trace, good: Event, chinese: bool
) -> str:
    if is_prose(new):
        return ""
    if is_word(new) and not instance_in(str(new)):
        value = str(new).lower() if isinstance(new, bool) else new
        return f"{name} 设为 {value}" if chinese else f"set {name} to {value}"
    if not was_there:
        return f"{name} 要带上" if chinese else f"pass {name}"
    if isinstance(new, list) and isinstance(old, list) and len(new) != len(old):
        if chinese:
            return f"{name} 写{'全' if len(new) > len(old) else '得更少'}（{len(new)}项，失败时{len(old)}项）"
        return f"put {len(new)} entries into {name} (the failed run put {len(old)})"
    if isinstance(new, int) and isinstance(old, int) and max(new, old) <= 20:
        return f"{name} 用 {new} 而不是 {old}" if chinese else f"work out {name} anew (it was {new}, not {old})"
    source = origin_of(new, [event for event in succeeded.events if event.seq < good.seq and event.type == "tool_call"])
    tools = {call.tool for call in failed.tool_calls}
    if source is not None and source.tool not in tools:
        return f"{name} 用 {source.tool} 查到的值" if chinese else f"take {name} from {source.tool}"
    return f"{name} 换成另一个候选" if chinese else f"choose another value for {name}"


def _preparations(failed: Trace, succeeded: Trace, chinese: bool) -> list[_Difference]:
    """What was looked up before the first change."""
    right = _done(succeeded)
    first = next((i for i, call in enumerate(right) if is_write(call.tool)), None)
    if first is None:
        return []
    asked = {call.tool for call in failed.tool_calls}
    found: list[_Difference] = []
    for call in right[:first]:
        if call.tool not in asked and call.tool not in {other.tool for _, pairs, _ in found for other, _ in pairs}:
            text = (
                f"在 {right[first].tool} 之前先调用 {call.tool}"
                if chinese
                else f"call {call.tool} before {right[first].tool}"
            )
            found.append((text, (_shown(call),), False))
    return found


def _confirmation(failed: Trace, succeeded: Trace, chinese: bool) -> list[_Difference]:
    """Whether the user agreed before the first change."""
    yes_right, yes_wrong = _agreed(succeeded), _agreed(failed)
    if yes_right is None or yes_wrong is not None or not any(is_write(call.tool) for call in failed.tool_calls):
        return []
    write = next(call for call in succeeded.tool_calls if is_write(call.tool))
    text = f"调用 {write.tool} 前先让用户确认" if chinese else f"get the user's yes before {write.tool}"
    return [(text, ((yes_right, yes_right.content[:120]), _shown(write)), False)]


def _agreed(trace: Trace) -> Event | None:
    """The user's last message before the first change, if it agrees."""
    last: Event | None = None
    for event in trace.events:
        if event.type == "tool_call" and is_write(event.tool):
            return last if last is not None and _AGREES.search(last.content[:200]) else None
        if event.type == "message" and event.role == "user":
            last = event
    return None


def _last_event(trace: Trace) -> tuple[Event, str] | None:
    """The last thing the agent of a failed run did or said."""
    said: Sequence[Event] = [
        e for e in trace.events if e.type == "tool_call" or (e.type == "message" and e.role == "agent")
    ]
    return (said[-1], (said[-1].content or said[-1].arguments or said[-1].tool)[:120]) if said else None
