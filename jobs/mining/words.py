"""The words of a pattern without a model: one line in the language of its traces, within R3's length, and its row."""

from __future__ import annotations

import re

from ...memory_store.text.entities import entities_of
from ..reflecting.candidates import Candidate
from ..reflecting.rules.calls import is_handover
from ..reflecting.rules.lessons import Lesson, line_of
from ..reflecting.rules.purpose import with_purpose
from .mine import ABSENT
from .orders import MANY
from .support import Pattern

#: Tag of every memory that this job makes; it counts itself how often it was shown.
TAG = "pattern"


def candidate_of(pattern: Pattern) -> Candidate:
    """The memory that a pattern becomes. Neither text nor quality says how often it was seen: that grows."""
    chinese = pattern.language.startswith("zh")
    lesson = _LESSONS[pattern.sort](pattern, chinese)
    text = line_of(lesson, chinese) if lesson.action or lesson.avoid else lesson.trigger
    worded = Candidate(
        kind="experience",
        text=text,
        evidence=pattern.evidence,
        valid_from=pattern.at,
        entities=entities_of(text),
        tags=(TAG, lesson.rule),
        trigger=lesson.trigger,
        action=lesson.action,
        avoid=lesson.avoid,
        why=lesson.why,
        not_when=lesson.not_when,
        task_type=pattern.task_type,
        tool=lesson.tool,
        outcome=pattern.outcome,
        error_code=lesson.error_class,
        agent_role=pattern.agent_role,
        language=pattern.language,
        quality=lesson.quality,
        importance=pattern.importance,
        confidence=pattern.confidence,
    )
    return with_purpose(worded)


def _failure(pattern: Pattern, chinese: bool) -> Lesson:
    tool, name, said = pattern.signature
    said = said if re.search(r"[^\W\d_]{2}", said) else ""
    if chinese:
        trigger = f"{tool} 报“{said}”（{name}）" if said else f"{tool} 报错（{name}）"
        why = "多个任务里这样解决" if pattern.held else "多个任务里反复出现，都没有解决"
    else:
        trigger = f"{tool} fails with “{said}” ({name})" if said else f"{tool} fails ({name})"
        why = "this mended it in several tasks" if pattern.held else "it came up in several tasks and was not mended"
    action = _mend(pattern.advice, tool, chinese) if pattern.advice else ""
    avoid = "原样重试" if chinese else "retry it unchanged"
    if not pattern.held or pattern.advice[0] == "retry":
        avoid = ""
    return Lesson(
        "recurring_failure", trigger, action, (), avoid=avoid, why=why, tool=tool, error_class=name,
        quality=4 if pattern.held else 3,
    )  # fmt: skip


def _mend(advice: tuple[str, ...], tool: str, chinese: bool) -> str:
    way, name, *more = (*advice, "")
    extra = more[0] if more else ""
    if way == "tool" and is_handover(name):
        return f"用 {name} 转给人处理" if chinese else f"hand the task over with {name}"
    said = {
        "ask": (f"ask the user for {name}, then call {tool} again", f"先问用户要 {name}，再调用 {tool}"),
        "from": (f"take {name} from {extra}", f"{name} 用 {extra} 查到的值"),
        "set": (f"set {name} to {extra}", f"{name} 设为 {extra}"),
        "shape": (f"give {name} as {shape_words(extra, False)}", f"{name} 写成{shape_words(extra, True)}"),
        "pass": (f"pass {name} too", f"带上参数 {name}"),
        "drop": (f"leave out {name}", f"去掉参数 {name}"),
        "step": (f"call {name} first, then call {tool} again", f"先调用 {name}，再调用 {tool}"),
        "tool": (f"go on with {name}", f"改用 {name}"),
        "retry": (f"call {tool} again unchanged", f"原样再调用 {tool}"),
        "other": (f"work out {name} anew and call {tool} again", f"重新确定 {name} 后再调用 {tool}"),
        "known": (name, name),
    }
    return said[way][chinese]


def _argument(pattern: Pattern, chinese: bool) -> Lesson:
    tool = pattern.signature[0]
    _, name, kind, better = pattern.advice
    if kind == ABSENT:
        action, avoid = (f"带上参数 {name}", "") if chinese else (f"pass {name}", f"leave out {name}")
    elif better == ABSENT:
        action, avoid = (f"不传 {name}", "") if chinese else (f"leave out {name}", "")
    else:
        before = _before(kind, better, chinese)
        action = (f"{name} 写成" if chinese else f"give {name} ") + (before or _as(better, chinese))
        avoid = "" if before else (f"写成{shape_words(kind, True)}" if chinese else f"give it {_as(kind, False)}")
    trigger = f"调用 {tool}" if chinese else f"{tool} is to be called"
    why = "多个任务里那样写都失败" if chinese else "the other way failed in several tasks"
    return Lesson("argument_kind", trigger, action, (), avoid=avoid, why=why, tool=tool, quality=4)


def _as(kind: str, chinese: bool) -> str:
    return shape_words(kind, chinese) if chinese else f"as {shape_words(kind, chinese)}"


def _before(kind: str, better: str, chinese: bool) -> str:
    """What stands before the one way and not before the other: "#W12" and "W12"; empty if that is not all."""
    if better.endswith(kind) and not re.search(r"\w", mark := better.removesuffix(kind)):
        return f"以“{mark}”开头" if chinese else f"with “{mark}” before it"
    if kind.endswith(better) and not re.search(r"\w", mark := kind.removesuffix(better)):
        return f"不带开头的“{mark}”" if chinese else f"without “{mark}” before it"
    return ""


_SHAPES = {
    "number": ("a number", "数字"),
    "list": ("a list", "列表"),
    "object": ("an object", "对象"),
    "yes or no": ("true or false", "布尔值"),
    "nothing": ("null", "空值"),
    "text": ("a longer text", "较长文字"),
    "a": ("one word", "一个词"),
    "9999-99-99": ("YYYY-MM-DD", "YYYY-MM-DD"),
}


def shape_words(kind: str, chinese: bool) -> str:
    """How a value is written, in words.

    >>> shape_words("9999-99-99", False), shape_words("a-999", False), shape_words("gift_card_…", False)
    ('YYYY-MM-DD', 'letters “-” 3 digits', 'an id that begins with “gift_card_”')
    """
    if kind in _SHAPES:
        return _SHAPES[kind][chinese]
    if kind.endswith("…"):
        mark = kind.removesuffix("…")
        return f"以“{mark}”开头的编号" if chinese else f"an id that begins with “{mark}”"
    words = []
    for part in re.findall(r"9+|a|[^9a]+", kind):
        if part == "a":
            words.append("字母" if chinese else "letters")
        elif part[0] == "9":
            words.append(f"{len(part)}位数字" if chinese else f"{len(part)} digit{'s' * (len(part) > 1)}")
        elif part.strip():
            words.append(f"“{part.strip()}”")
    return " ".join(words) or ("文字" if chinese else "text")


def _order(pattern: Pattern, chinese: bool) -> Lesson:
    end, *steps = pattern.advice
    said = [_step(step, chinese) for step in steps]
    kind = pattern.task_type
    if chinese:
        trigger = f"{kind or '这类'}任务要用到 {steps[-1].removesuffix(MANY)}"
        line = "再".join(f"调用 {step}，" for step in said).rstrip("，")
        action, avoid = (f"先{line}", "") if end == "success" else ("", f"先{line}")
        why = "多个任务里按此顺序" + ("成功得多" if end == "success" else "失败得多")
    else:
        trigger = f"a task{f' of type {kind}' * bool(kind)} needs {steps[-1].removesuffix(MANY)}"
        line = ", then ".join(said)
        action, avoid = (f"call {line}", "") if end == "success" else ("", f"call {line}")
        end_word = "succeeded" if end == "success" else "failed"
        why = f"over several tasks, runs in this order {end_word} far more often"
    tool = steps[-1].removesuffix(MANY)
    return Lesson("call_order", trigger, action, (), avoid=avoid, why=why, tool=tool, quality=4)


def _step(step: str, chinese: bool) -> str:
    if not step.endswith(MANY):
        return step
    tool = step.removesuffix(MANY)
    return f"{tool}（连续三次以上）" if chinese else f"{tool} three times or more in a row"


def _correction(pattern: Pattern, chinese: bool) -> Lesson:
    _, said, tool = pattern.advice
    kind = pattern.task_type
    if chinese:
        trigger = f"{kind}任务里用过 {tool}" if tool else f"{kind or '这类'}任务"
        action, why = f"先按这点去做：“{said}”", "多个任务里用户都这样纠正"
    else:
        trigger = f"a task{f' of type {kind}' * bool(kind)}" + (f" has come to {tool}" if tool else " begins")
        action, why = f"heed before you answer: “{said}”", "users had to correct this in several tasks"
    return Lesson("recurring_correction", trigger, action, (), why=why, tool=tool, quality=4)


_LESSONS = {"failure": _failure, "argument": _argument, "order": _order, "correction": _correction}
