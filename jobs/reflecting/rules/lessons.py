"""A lesson in parts, and the line that is put before an agent, within R3's length."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ....memory_store.capture.events import Event, Trace
from ....memory_store.text.entities import entities_of
from ....memory_store.text.language import is_cjk
from ..candidates import Candidate, Evidence

#: R3: the longest line in English words, and in Chinese, Japanese or Korean characters.
MOST_WORDS = 60
MOST_CHARACTERS = 100


@dataclass(frozen=True)
class Lesson:
    """What a rule found, before it is worded as a candidate."""

    #: The rule that found it; a tag of the memory
    rule: str
    #: The situation in which it applies
    trigger: str
    #: What to do then
    action: str
    #: Where in the trace it shows: event and quoted span
    evidence: tuple[tuple[Event, str], ...]
    avoid: str = ""
    why: str = ""
    not_when: str = ""
    #: What the task asked for, as a kind
    situation: str = ""
    tool: str = ""
    error_class: str = ""
    quality: int = 3
    importance: float = 0.5
    confidence: float = 0.5
    tags: tuple[str, ...] = field(default=())


#: A phrase that opens with one of these is no wish to do something.
NO_VERB = frozenset(
    str.split(
        "the a an some any this that these those there it what how why which when where my our if "
        "for in on at of by with based according as to from given is are and or no not there's"
    )
)


def asked(situation: str, chinese: bool) -> str:
    """A situation as the trigger of a lesson.

    >>> asked("cancel a booking", False), asked("the parcel is late", False)
    ('asked to cancel a booking', 'the user says “the parcel is late”')
    """
    if chinese:
        return f"任务是“{situation}”"
    return f"the user says “{situation}”" if situation.split()[0].lower() in NO_VERB else f"asked to {situation}"


def fits(text: str) -> bool:
    """Whether a line is within R3's length."""
    if is_cjk(text):
        return len(text) <= MOST_CHARACTERS
    return len(text.split()) <= MOST_WORDS and len(text) <= 8 * MOST_WORDS


def line_of(lesson: Lesson, chinese: bool) -> str:
    """The lesson as one line; reason, limits, situation and what to avoid go, in this order, until it fits."""
    shorter = (
        lesson,
        replace(lesson, why=""),
        replace(lesson, why="", not_when=""),
        replace(lesson, why="", not_when="", situation=""),
        replace(lesson, why="", not_when="", situation="", avoid="" if lesson.action else lesson.avoid),
    )
    lines = [_chinese(item) if chinese else _english(item) for item in shorter]
    return next((line for line in lines if fits(line)), lines[-1])


def candidate_of(lesson: Lesson, trace: Trace, language: str) -> Candidate:
    """The candidate that a lesson of a trace becomes; its trigger names the situation, its subject is nobody."""
    chinese = language.startswith("zh")
    text = line_of(lesson, chinese)
    trigger = lesson.trigger
    if lesson.situation:
        trigger += f"（任务：{lesson.situation}）" if chinese else f" (task: {lesson.situation})"
    return Candidate(
        kind="experience",
        text=text,
        evidence=tuple(Evidence(event.trace_id, event.event_id, quote) for event, quote in lesson.evidence),
        valid_from=max(event.at for event, _ in lesson.evidence),
        entities=entities_of(text),
        tags=(lesson.rule, *lesson.tags),
        trigger=trigger,
        action=lesson.action,
        avoid=lesson.avoid,
        why=lesson.why,
        not_when=lesson.not_when,
        task_type=trace.first("task_type"),
        task_id=trace.first("task_id"),
        tool=lesson.tool,
        outcome=trace.outcome,
        error_code=lesson.error_class,
        agent_role=trace.first("agent_role"),
        said_by="reflection",
        language=language,
        quality=lesson.quality,
        importance=lesson.importance,
        confidence=lesson.confidence,
    )


def _english(lesson: Lesson) -> str:
    head = f"When {lesson.trigger}"
    if lesson.situation:
        head += f" (task: {lesson.situation})"
    parts = [f"{head}: {lesson.action}" if lesson.action else f"{head}: don't {lesson.avoid}"]
    if lesson.action and lesson.avoid:
        parts.append(f"Don't {lesson.avoid}")
    if lesson.why:
        parts.append(f"Why: {lesson.why}")
    if lesson.not_when:
        parts.append(f"Not when {lesson.not_when}")
    return ". ".join(part.rstrip(". ") for part in parts) + "."


def _chinese(lesson: Lesson) -> str:
    head = f"{lesson.trigger}时"
    if lesson.situation:
        head += f"（任务：{lesson.situation}）"
    parts = [f"{head}：{lesson.action}" if lesson.action else f"{head}：不要{lesson.avoid}"]
    if lesson.action and lesson.avoid:
        parts.append(f"不要{lesson.avoid}")
    if lesson.why:
        parts.append(f"因为{lesson.why}")
    if lesson.not_when:
        parts.append(f"但{lesson.not_when}时不适用")
    return "；".join(part.rstrip("。；") for part in parts) + "。"
