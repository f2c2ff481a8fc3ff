"""Episodes: every finished trace packed as one memory, without a model (R2)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from ..clock import END_OF_TIME
from ..history.inbox import Row
from ..ids import derive_id
from ..text.entities import entities_of, merge_entities
from ..text.language import language_of
from .events import Event, Trace

#: Most characters of an episode's text.
EPISODE_CHARACTERS = 1500
#: Most events that an episode quotes as evidence.
_EVIDENCE = 6
#: Most characters of a quote.
_QUOTE = 160
#: How much an episode matters by its outcome: what went wrong teaches more.
_IMPORTANCE = {"failure": 0.7, "partial": 0.6, "success": 0.5, "unknown": 0.4}


class _Words(NamedTuple):
    """The digest's own words, in the language of the trace."""

    task: str
    steps: str
    results: str
    feedback: str
    output: str
    outcome: str
    failed: str
    retries: str
    outcomes: dict[str, str]


_ENGLISH = _Words(
    "Task",
    "Steps",
    "Results",
    "Feedback",
    "Answer",
    "Outcome",
    "failed",
    "{} retries",
    {"success": "success", "failure": "failure", "partial": "partial", "unknown": "unknown"},
)
_CHINESE = _Words(
    "任务",
    "步骤",
    "结果",
    "反馈",
    "答复",
    "结局",
    "失败",
    "重试{}次",
    {"success": "成功", "failure": "失败", "partial": "部分成功", "unknown": "未知"},
)


def episode_rows(trace: Trace, at: datetime) -> list[Row]:
    """One row of the log that adds the episode of a trace: the same trace gives the same ids.

    `at` is the time of writing; the episode holds from the trace's own end.
    """
    language = trace_language(trace)
    said = [event for event in trace.events if event.type in ("message", "feedback") and event.role != "system"]
    named = [trace.goal, *(event.content for event in said if event.role == "user")]
    named += [f"{_values(call.arguments)} {call.error_message}" for call in trace.tool_calls]
    named += [event.content for event in said if event.role != "user"]
    return [
        {
            "act": derive_id(trace.namespace, "act", "episode", trace.trace_id),
            "at": at,
            "decision": "add",
            "id": derive_id(trace.namespace, "mem", "episode", trace.trace_id),
            "reason": "every finished trace is packed as an episode",
            "kind": "episode",
            "text": episode_text(trace, language),
            "subject": trace.first("subject"),
            "entities": list(merge_entities(entities_of(text) for text in named)),
            "task_type": trace.first("task_type"),
            "task_id": trace.first("task_id"),
            "agent_role": trace.first("agent_role"),
            "outcome": trace.outcome,
            "said_by": "agent",
            "language": language,
            "importance": _IMPORTANCE[trace.outcome],
            "evidence": _evidence(trace),
            "reflector": "episode@1",
            "state": "active",
            "strength": 1.0,
            "confidence": 1.0,
            "valid_from": trace.ended_at,
            "valid_to": END_OF_TIME,
        }
    ]


def trace_language(trace: Trace) -> str:
    """Language of a trace: what its events say, else what the user wrote, else what anyone wrote; may be empty."""
    if declared := trace.first("language"):
        return declared
    said = [event.content for event in trace.events if event.type == "message" and event.role == "user"]
    spoken = [event.content for event in trace.events if event.type in ("message", "task", "step")]
    return language_of("\n".join([trace.goal, *said])) or language_of("\n".join(spoken))


def episode_text(trace: Trace, language: str = "") -> str:
    """The digest: task, decision path, results, feedback, answer, outcome; at most `EPISODE_CHARACTERS`."""
    words = _CHINESE if language.startswith("zh") else _ENGLISH
    colon = "：" if words is _CHINESE else ": "
    last = next((e for e in reversed(trace.events) if e.type == "outcome"), None)
    outcome = words.outcomes[trace.outcome]
    if last is not None and last.content:
        outcome = f"{outcome}, {last.content}"
    answer = next(
        (e.content for e in reversed(trace.events) if e.type == "message" and e.role == "agent" and e.content.strip()),
        "",
    )
    feedback = "; ".join(e.content for e in trace.events if e.type == "feedback" and e.content.strip())
    parts = (
        (words.task, shorten(trace.goal, 320)),
        (words.steps, _path(trace, words, 420)),
        (words.results, shorten(_results(trace), 300)),
        (words.feedback, shorten(feedback, 120)),
        (words.output, shorten(answer, 200)),
        (words.outcome, shorten(outcome, 90)),
    )
    return "\n".join(f"{name}{colon}{text}" for name, text in parts if text)[:EPISODE_CHARACTERS]


def shorten(text: str, characters: int) -> str:
    """A text on one line, cut with an ellipsis; characters that can't be stored are dropped.

    >>> shorten("two  words\\nand more", 12)
    'two words a…'
    """
    text = text[: characters * 8].encode("utf-8", "ignore").decode().replace("\0", "")
    text = " ".join(text.split())
    return text if len(text) <= characters else text[: characters - 1].rstrip() + "…"


def _path(trace: Trace, words: _Words, characters: int) -> str:
    """Tools and steps in order; equal neighbours are counted, errors and retries said; a long middle is left out."""
    steps: list[tuple[str, int]] = []
    for event in trace.events:
        if label := _label(event, words):
            if steps and steps[-1][0] == label:
                steps[-1] = (label, steps[-1][1] + 1)
            else:
                steps.append((label, 1))
    labels = [label if count == 1 else f"{label} ×{count}" for label, count in steps]
    joined = " → ".join(labels)
    if len(joined) <= characters:
        return joined
    keep = [i < 3 or i >= len(labels) - 3 or f"({words.failed}" in label for i, label in enumerate(labels)]
    shown: list[str] = []
    for label, kept in zip(labels, keep, strict=True):
        if kept:
            shown.append(shorten(label, 80))
        elif shown[-1] != "…":
            shown.append("…")
    return shorten(" → ".join(shown), characters)


def _label(event: Event, words: _Words) -> str:
    if event.type == "step":
        return event.name or event.agent or event.agent_role
    if event.type != "tool_call":
        return ""
    notes = []
    if event.error_code:
        notes.append(f"{words.failed} {shorten(event.error_code, 40)}")
    if event.retries:
        notes.append(words.retries.format(event.retries))
    name = event.tool or "tool"
    return f"{name} ({', '.join(notes)})" if notes else name


def _results(trace: Trace) -> str:
    """What the failing calls said (the first two) and what the last good one returned."""
    failing = [call for call in trace.tool_calls if call.error_code][:2]
    good = [call for call in trace.tool_calls if not call.error_code and call.result][-1:]
    shown = sorted(failing + good, key=lambda call: call.seq)
    return "; ".join(f"{c.tool}: {shorten(c.error_message or _plain(c.result), 110)}" for c in shown)


_BRACKETS = re.compile(r"[{}\[\]\"]")


def _plain(result: str) -> str:
    """JSON without its punctuation, which costs room and says nothing."""
    if result[:1] not in ("{", "["):
        return result
    try:
        return _BRACKETS.sub("", json.dumps(json.loads(result[:20_000]), ensure_ascii=False))
    except ValueError:
        return result


_KEY = re.compile(r'"[^"]{0,80}"\s*:')


def _values(arguments: str) -> str:
    """Arguments without their names, which are the tool's words and not things of the task."""
    return _BRACKETS.sub(" ", _KEY.sub(" ", arguments))


def _evidence(trace: Trace) -> list[dict[str, str]]:
    """The first and last event that say something, and what failed or was complained about between them."""
    telling = [event for event in trace.events if event.role != "system" and _quote(event)]
    chosen: Sequence[Event] = [
        event
        for i, event in enumerate(telling)
        if i in (0, len(telling) - 1) or event.error_code or event.type == "feedback"
    ]
    if len(chosen) > _EVIDENCE:
        chosen = [*chosen[: _EVIDENCE - 1], chosen[-1]]
    return [{"trace_id": e.trace_id, "event_id": e.event_id, "quote": _quote(e)} for e in chosen]


def _quote(event: Event) -> str:
    """A span of the event, verbatim."""
    text = event.content or event.error_message or event.result or event.outcome
    return text[:_QUOTE].encode("utf-8", "ignore").decode().replace("\0", "").strip()
