"""Failures inside one trace and what came of them: mended, gone at another try, got around, or never."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ....memory_store.capture.events import Event, Trace
from .calls import arguments_of, is_prose, is_thought, is_word, is_write, leaves, origin_of, same_call, shape_of
from .failures import TRANSIENT, Failure, cause_of, failures_of
from .generalise import instance_in
from .lessons import Lesson

#: After a failure the mend is looked for among this many calls.
_AHEAD = 12
#: Of failures that are alike only the first few are looked at, and only so many kinds in one trace.
_ALIKE, _KINDS = 5, 50
#: Most arguments that a lesson names, and most further tries that it quotes.
_NAMED, _TRIES = 2, 5
#: Lessons whose further evidence is more tries that failed: what the agent wrote before each belongs to it.
_IN_VAIN = ("repeated_in_vain", "unsolved")


def repairs_of(trace: Trace, situation: str, chinese: bool) -> list[Lesson]:
    """One lesson for each kind of failure (tool and class) of a trace, the mended ones first."""
    failures = [failure for failure in _innermost(trace) if _actor(failure.event)]
    failed = {failure.event.event_id for failure in failures}
    calls = trace.tool_calls
    lessons: dict[tuple[str, str, str], Lesson] = {}
    looked: Counter[tuple[str, str, str]] = Counter()
    places = [call.seq for call in calls]
    for failure in failures:
        key = (_actor(failure.event), failure.error_class, failure.said)
        looked[key] += 1
        if looked[key] > _ALIKE or len(looked) > _KINDS:
            continue
        after = calls[(place := bisect_right(places, failure.event.seq)) : place + _AHEAD]
        lesson = (
            _mended(trace, failure, after, failed, chinese)
            or _around(failure, after, failed, chinese)
            or _unsolved(failure, failures, after, chinese)
        )
        if lesson is not None and (key not in lessons or lesson.confidence > lessons[key].confidence):
            lessons[key] = _placed(lesson, failure, situation, trace)
    for call in calls:
        if call.retries and not call.error_code and call.event_id not in failed:
            lesson = _retried_inside(call, chinese)
            lessons.setdefault((call.tool, "retried", ""), _placed(lesson, None, situation, trace))
    return sorted(lessons.values(), key=lambda lesson: (-lesson.quality, -lesson.confidence))


def _innermost(trace: Trace) -> list[Failure]:
    """The failures of a trace; of a step that failed because a call inside it did, only the call."""
    failures = failures_of(trace)
    parents = {event.event_id: event.parent_event_id for event in trace.events}
    above: set[str] = set()
    for failure in failures:
        parent = failure.event.parent_event_id
        while parent and parent not in above:
            above.add(parent)
            parent = parents.get(parent, "")
    return [failure for failure in failures if failure.event.event_id not in above]


def _actor(event: Event) -> str:
    """What failed: the tool, or the step without its number."""
    return event.tool or re.sub(r"[\s#_-]*\d+$", "", event.name).strip() or event.agent


def _placed(lesson: Lesson, failure: Failure | None, situation: str, trace: Trace) -> Lesson:
    """The lesson with its situation, its class, and what the agent wrote that led to the failure."""
    if failure is None:
        return replace(lesson, situation=situation)
    evidence = list(lesson.evidence)
    tries = [failure.event, *(event for event, _ in lesson.evidence[1:] if lesson.rule in _IN_VAIN)]
    for event in tries:
        cause = cause_of(trace, event)
        if cause is not None and all(cause.event_id != quoted.event_id for quoted, _ in evidence):
            evidence.append((cause, cause.content.strip()[:160]))
    return replace(lesson, situation=situation, error_class=failure.error_class, evidence=tuple(evidence))


def _fails(failure: Failure, chinese: bool) -> str:
    """The situation: the tool, the class, and what it said."""
    actor, name = _actor(failure.event), failure.error_class
    if failure.event.type != "tool_call":
        actor = f"步骤 {actor}" if chinese else f"a step “{actor}”"
    if chinese:
        return f"{actor} 报“{failure.said}”（{name}）" if failure.said else f"{actor} 报错（{name}）"
    return f"{actor} fails with “{failure.said}” ({name})" if failure.said else f"{actor} fails ({name})"


def _mended(trace: Trace, failure: Failure, after: Sequence[Event], failed: set[str], chinese: bool) -> Lesson | None:
    """The same tool worked later: what was different?"""
    first = failure.event
    if first.type != "tool_call":
        return None
    fix = next(
        (call for call in after if call.tool == first.tool and call.event_id not in failed and _same_aim(first, call)),
        None,
    )
    if fix is None:
        return None
    tries = 1 + sum(call.tool == first.tool for call in after if call.seq < fix.seq) + 1
    evidence = ((first, failure.quote), (fix, (fix.result or fix.arguments)[:120]))
    if same_call(first, fix):
        between = [
            call for call in after if call.seq < fix.seq and call.tool != first.tool and not is_thought(call.tool)
        ]
        enabler = next(
            (call for call in reversed(between) if is_write(call.tool) and call.event_id not in failed), None
        )
        if enabler is not None and failure.error_class not in TRANSIENT:
            action = f"先调用 {enabler.tool}，再重试" if chinese else f"call {enabler.tool} first, then call it again"
            return Lesson(
                "fixed_by_step",
                _fails(failure, chinese),
                action,
                (*evidence, (enabler, enabler.arguments[:120])),
                tool=first.tool,
                quality=4,
                importance=0.7,
                confidence=0.7,
            )
        action = f"原样再试（第{tries}次成功）" if chinese else f"call it again unchanged; try {tries} worked"
        not_when = ""
        if is_write(first.tool):
            not_when = "无法确认上次是否已生效" if chinese else "the first call may have taken effect: look first"
        return Lesson(
            "retry_worked",
            _fails(failure, chinese),
            action,
            evidence,
            not_when=not_when,
            tool=first.tool,
            quality=4 if failure.error_class in TRANSIENT else 3,
            importance=0.6,
            confidence=0.7,
        )
    change = _change(trace, first, fix, chinese)
    if not change:
        return None
    same_again = sum(same_call(first, call) for call in after if call.seq < fix.seq)
    avoid = (
        ("原样重复" if chinese else "repeat it unchanged") if same_again or failure.error_class not in TRANSIENT else ""
    )
    return Lesson(
        "error_fixed",
        _fails(failure, chinese),
        change,
        evidence,
        avoid=avoid,
        tool=first.tool,
        quality=4,
        importance=0.7,
        confidence=0.8 if len(trace.tool_calls) < 40 else 0.7,
    )


def _same_aim(first: Event, second: Event) -> bool:
    """Whether a later call tries for the same thing: arguments in common, or nothing to compare."""
    one, other = arguments_of(first), arguments_of(second)
    if not one or not other:
        return True
    shared = set(leaves(one)) & set(leaves(other))
    return bool(shared) or len(one) == 1 or len(other) == 1 or bool(one.keys() ^ other.keys())


def _change(trace: Trace, first: Event, fix: Event, chinese: bool) -> str:
    """What differs between the failed and the working arguments, as something to do; empty if it can't be said."""
    before, after = arguments_of(first), arguments_of(fix)
    said: list[str] = []
    between = [event for event in trace.events if first.seq < event.seq < fix.seq]
    for name in (*(n for n in after if n not in before), *(n for n in before if n in after and before[n] != after[n])):
        said.append(_one_change(name, before.get(name), after[name], name in before, between, trace, first, chinese))
    gone = [name for name in before if name not in after]
    if gone and len(gone) <= _NAMED and before.keys() & after.keys():
        said.append(("去掉参数 " if chinese else "leave out ") + " ".join(gone))
    said = [item for item in said if item]
    if not said or len(said) > 4:
        return ""
    return ("；" if chinese else ", ").join(said[:_NAMED])


def _one_change(
    name: str, old: Any, new: Any, was_there: bool, between: Sequence[Event], trace: Trace, first: Event, chinese: bool
) -> str:
    source = origin_of(new, between)
    if source is not None and source.type == "tool_call" and source.tool != first.tool:
        return f"{name} 用 {source.tool} 查到的值" if chinese else f"take {name} from {source.tool}"
    if source is not None and source.type == "message" and source.role == "user":
        return f"先问用户要 {name}" if chinese else f"ask the user for {name}"
    if is_prose(new):
        return ""
    if was_there and shape_of(old) != shape_of(new) and (shape := _shape_name(new)):
        return f"{name} 写成{shape}" if chinese else f"write {name} as {shape}"
    if is_word(new) and not instance_in(str(new)):
        value = str(new).lower() if isinstance(new, bool) else new
        return f"{name} 设为 {value}" if chinese else f"set {name} to {value}"
    if not was_there:
        return f"带上参数 {name}" if chinese else f"pass {name} too"
    if isinstance(new, list) and isinstance(old, list) and len(new) != len(old):
        more = len(new) > len(old)
        if chinese:
            return f"{name} 里{'补全' if more else '减少'}条目"
        return f"put {'more' if more else 'fewer'} entries into {name}"
    seen = origin_of(new, [event for event in trace.events if event.seq < first.seq and event.type == "tool_call"])
    if seen is not None and seen.tool != first.tool:
        return f"换用 {seen.tool} 给出的另一个 {name}" if chinese else f"use another value for {name}, from {seen.tool}"
    return f"换一个 {name}" if chinese else f"use another value for {name}"


def _shape_name(value: Any) -> str:
    shape = shape_of(value)
    if shape in ("number", "list", "object", "yes or no"):
        return {"number": "a number", "list": "a list", "object": "an object", "yes or no": "true or false"}[shape]
    if re.fullmatch(r"9999-99-99(?:[aT ]99:99(?::99)?Z?)?", shape):
        return "YYYY-MM-DD"
    if re.fullmatch(r"99?/99?/9999", shape):
        return "a date with slashes"
    if shape.isdigit():
        return "digits only"
    return ""


def _around(failure: Failure, after: Sequence[Event], failed: set[str], chinese: bool) -> Lesson | None:
    """Another tool was called with the same values and worked, and the failing one was left alone."""
    first = failure.event
    if first.type != "tool_call" or any(call.tool == first.tool and call.event_id not in failed for call in after):
        return None
    values = {text for text in leaves(arguments_of(first)) if len(text) >= 3}
    for call in after[:4]:
        if call.tool in ("", first.tool) or call.event_id in failed or is_thought(call.tool):
            continue
        if values & set(leaves(arguments_of(call))) and is_write(call.tool) == is_write(first.tool):
            action = f"改用 {call.tool}" if chinese else f"use {call.tool} instead"
            return Lesson(
                "other_tool",
                _fails(failure, chinese),
                action,
                ((first, failure.quote), (call, call.arguments[:120])),
                tool=first.tool,
                quality=4,
                importance=0.6,
                confidence=0.6,
            )
    return None


def _unsolved(failure: Failure, failures: Sequence[Failure], after: Sequence[Event], chinese: bool) -> Lesson | None:
    """It was never mended: what was tried in vain, and what is known to help against such an error."""
    first = failure.event
    actor = _actor(first)
    again = [other for other in failures if _actor(other.event) == actor and other.event.seq > first.seq][:50]
    same = [other for other in again if first.arguments and same_call(other.event, first)]
    evidence = ((first, failure.quote), *((other.event, other.quote) for other in again[:_TRIES]))
    if same:
        count = len(same) + 1
        avoid = f"原样重复（{count}次都失败）" if chinese else f"repeat it unchanged: {count} tries failed alike"
        action = _way_out(failure.error_class, chinese)
        return Lesson(
            "repeated_in_vain",
            _fails(failure, chinese),
            action,
            evidence,
            avoid=avoid,
            tool=first.tool,
            quality=3,
            importance=0.6,
            confidence=0.6,
        )
    if failure.said or not again:
        action = _way_out(failure.error_class, chinese)
        return (
            Lesson(
                "unsolved",
                _fails(failure, chinese),
                action,
                evidence,
                tool=first.tool,
                quality=3 if action else 2,
                importance=0.5,
                confidence=0.4,
            )
            if action
            else None
        )
    return None


_WAYS_OUT = {
    "missing_argument": ("ask the user for what is missing before you call it", "先向用户问清缺少的参数再调用"),
    "unknown_argument": (
        "pass only the arguments that its signature names, each by its name",
        "只传它签名里有的参数，并写明参数名",
    ),
    "invalid_argument": (
        "check each argument against what an earlier call returned",
        "逐个参数与之前查到的结果核对后再调用",
    ),
    "not_found": ("look the id up with a search or list call before you use it", "先用查询类工具查到编号再使用"),
    "insufficient_funds": (
        "compare the balance with the total first, and split the payment or ask for another one",
        "先比较余额和总额，不够就拆分支付或请用户换支付方式",
    ),
    "unavailable_item": ("read the availability first and offer what is left", "先查余量，再给用户可选的"),
    "permission_denied": ("stop and tell the user which permission is missing", "停下并告诉用户缺少什么权限"),
    "unauthenticated": ("sign in or renew the credential before the next call", "先登录或更新凭证再调用"),
    "not_permitted": (
        "check the rule for this case before you promise it, and offer what is allowed",
        "先查清这种情况是否允许，再答复用户",
    ),
    "already_exists": ("read the current state first and change what is there", "先查当前状态，再修改已有的"),
    "undefined_name": (
        "define or import the name in the same step, and call only tools that are listed",
        "在同一步里先定义或导入，并且只调用列出的工具",
    ),
    "missing_module": ("use what is installed, or install it first", "用已安装的模块，或先安装"),
    "file_not_found": ("list the folder first and use the path that it shows", "先列目录，再用里面的路径"),
    "syntax_error": ("send one small, complete block and no prose in it", "只发一段完整的代码，不夹杂文字"),
    "parse_error": (
        "print a small part of the raw answer first, and read it as what it is",
        "先看一小段原始返回，再按实际格式解析",
    ),
    "type_error": ("print the type of what came back before you use it", "先看返回值的类型再使用"),
    "out_of_range": ("check the length or the keys before you index", "取值前先检查长度或键"),
    "timeout": ("ask for less in one call and try once more later", "减少单次请求的数据量，稍后再试一次"),
    "rate_limited": ("wait before the next call and make fewer", "等一会儿再调用，并减少次数"),
    "connection": ("try once more after a pause, then use another source", "稍等再试一次，不行就换来源"),
    "server_error": ("try once more after a pause, then tell the user", "稍等再试一次，不行就告诉用户"),
    "too_large": ("split the input and send it in parts", "把输入拆开分次发送"),
}


def _way_out(error_class: str, chinese: bool) -> str:
    """What is known to help against a class of errors, when the trace itself shows no way; empty if nothing is."""
    ways = _WAYS_OUT.get(error_class)
    return ways[chinese] if ways else ""


def _retried_inside(call: Event, chinese: bool) -> Lesson:
    tries = call.retries + 1
    trigger = f"调用 {call.tool} 第一次失败" if chinese else f"{call.tool} fails at first"
    action = f"再试，第{tries}次成功" if chinese else f"call it again; try {tries} worked"
    return Lesson(
        "retry_worked",
        trigger,
        action,
        ((call, (call.result or call.arguments or call.tool)[:120]),),
        tool=call.tool,
        quality=3,
        importance=0.5,
        confidence=0.6,
    )
