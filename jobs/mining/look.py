"""One trace as pattern mining sees it: its steps, its failures with what mended them, its arguments, its corrections.

Every sighting is language-free and general already; what is only this trace's own stands in the evidence alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from ...memory_store.capture.episodes import trace_language
from ...memory_store.capture.events import Event, Trace
from ...memory_store.text.entities import find_entities
from ..reflecting.candidates import Evidence
from ..reflecting.rendering import one_line
from ..reflecting.rules.calls import arguments_of, is_prose, is_thought, is_word, origin_of, shape_of
from ..reflecting.rules.corrections import corrections_of, is_correction
from ..reflecting.rules.failures import TRANSIENT, Failure, error_class, failure_of, failures_of
from ..reflecting.rules.generalise import content_words, generalise, instance_in
from ..reflecting.rules.lessons import Lesson
from ..reflecting.rules.reader import is_from_user
from ..reflecting.rules.repairs import repairs_of
from ..reflecting.rules.sentences import sentences_of

Sort = Literal["failure", "argument", "correction"]

#: Looked at in one trace: failures that are alike, kinds of failures, arguments of a call, steps.
_ALIKE, _KINDS, _ARGUMENTS, _STEPS = 5, 50, 12, 200
#: Changed arguments that tell a mend; of more, none is the one.
_CHANGED = 3
#: Characters of a quote.
_QUOTE = 160
#: Classes of errors that say little, so that the message may say another.
_BROAD = frozenset(("invalid_argument", "error", "exit_code", "server_error"))


@dataclass(frozen=True)
class Sighting:
    """Something that may recur, seen in one trace."""

    sort: Sort
    #: What recurs: for a failure tool, class and message; for an argument tool and name; for a correction the words
    signature: tuple[str, ...]
    #: What was seen of it here: how it was mended, which kind of value failed, …; empty: only that it was there
    what: tuple[str, ...]
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True)
class Look:
    """One trace, as pattern mining sees it."""

    trace_id: str
    #: What is counted: the task_id, else the trace itself
    task: str
    task_type: str
    agent_role: str
    outcome: str
    language: str
    #: When it ended
    at: datetime
    #: Tools that were called and worked, in order, each with its event; one that only thinks is left out
    steps: tuple[tuple[str, Evidence], ...]
    sightings: tuple[Sighting, ...]
    #: Names of people and places in what the user said: none may stand in a lesson
    names: tuple[str, ...]


def look_at(trace: Trace) -> Look:
    """What one trace shows. Pure; the same trace gives the same look."""
    language = trace_language(trace)
    failures = failures_of(trace)
    failed = {failure.event.event_id for failure in failures}
    steps = [call for call in trace.tool_calls if call.event_id not in failed and not is_thought(call.tool)]
    found = [
        *_failures(trace, failures, steps, language.startswith("zh")),
        *_arguments(trace, failures),
        *_corrections(trace),
    ]
    unique = {(item.sort, item.signature, item.what): item for item in reversed(found)}
    return Look(
        trace_id=trace.trace_id,
        task=trace.first("task_id") or trace.trace_id,
        task_type=trace.first("task_type"),
        agent_role=trace.first("agent_role"),
        outcome=trace.outcome,
        language=language,
        at=trace.ended_at,
        steps=tuple((one_line(call.tool), _shown(call)) for call in steps[:_STEPS] if one_line(call.tool)),
        sightings=tuple(reversed(unique.values())),
        names=_names(trace),
    )


def _failures(trace: Trace, failures: Sequence[Failure], steps: Sequence[Event], chinese: bool) -> list[Sighting]:
    """Each kind of failure, and how it was mended: by the rules of one trace, else by the next step that worked."""
    calls = [failure for failure in failures if failure.event.type == "tool_call"]
    lessons = {_signature(failure): lesson for lesson, failure in _lessons(trace, chinese)}
    found: list[Sighting] = []
    looked: Counter[tuple[str, ...]] = Counter()
    for failure in calls or failures:
        signature = _signature(failure)
        looked[signature] += 1
        if not signature[0] or looked[signature] > _ALIKE or len(looked) > _KINDS:
            continue
        first = Evidence(trace.trace_id, failure.event.event_id, failure.quote)
        found.append(Sighting("failure", signature, (), (first,)))
        lesson = lessons.get(signature)
        mends = _mends(trace, lesson) if lesson else []
        if not any(what[0] != "known" for what, _ in mends):
            mends += _next_step(trace, failure, steps)
        for what, event in mends:
            shown = (first,) if event is None else (first, _shown(event))
            found.append(Sighting("failure", signature, what, shown))
    return found


def _signature(failure: Failure) -> tuple[str, ...]:
    event = failure.event
    actor = event.tool or re.sub(r"[\s#_-]*\d+$", "", event.name).strip() or event.agent
    return one_line(actor), failure.error_class, failure.said


def _lessons(trace: Trace, chinese: bool) -> list[tuple[Lesson, Failure]]:
    """Lessons of the rules about failures, each with the failure that it rests on."""
    lessons = [(lesson, failure_of(lesson.evidence[0][0])) for lesson in repairs_of(trace, "", chinese)]
    return [(lesson, failure) for lesson, failure in lessons if failure is not None]


def _mends(trace: Trace, lesson: Lesson) -> list[tuple[tuple[str, ...], Event | None]]:
    """What a lesson says that helped, without its words, each with the event that shows it."""
    events = [event for event, _ in lesson.evidence]
    if lesson.rule == "error_fixed":
        return [(what, events[1]) for what in _changes(trace, events[0], events[1])]
    if lesson.rule == "fixed_by_step" and len(events) > 2:
        return [(("step", one_line(events[2].tool)), events[2])]
    if lesson.rule == "retry_worked" and len(events) > 1:
        return [(("retry",), events[1])]
    if lesson.rule == "other_tool":
        return [(("tool", one_line(events[1].tool)), events[1])]
    failure = failure_of(events[0])
    if lesson.action and failure is not None and _is_told_alike(failure):
        return [(("known", lesson.action), None)]
    return []


def _is_told_alike(failure: Failure) -> bool:
    """Whether code and message of an error mean the same; what helps against the one may not against the other."""
    own = failure.error_class
    told = error_class("", failure.message)
    return own == told or told == "error" or own not in _BROAD


def _changes(trace: Trace, first: Event, fix: Event) -> list[tuple[str, ...]]:
    """The arguments in which a working call differs from a failed one, each with where its value came from."""
    before, after = arguments_of(first), arguments_of(fix)
    between = [event for event in trace.events if first.seq < event.seq < fix.seq]
    changed = [name for name in after if name not in before or before[name] != after[name]]
    gone = [name for name in before if name not in after]
    if len(changed) + len(gone) > _CHANGED:
        return []
    said: list[tuple[str, ...]] = [("drop", one_line(name)) for name in gone if before.keys() & after.keys()]
    for name in changed:
        new, old = after[name], before.get(name)
        if is_prose(new):
            continue
        source = origin_of(new, between)
        kind, shape = kind_of(new), kind_of(old)
        if source is not None and source.role == "user":
            said.append(("ask", one_line(name)))
        elif source is not None and source.type == "tool_call" and source.tool != first.tool:
            said.append(("from", one_line(name), one_line(source.tool)))
        elif is_word(new) and not instance_in(str(new)):
            said.append(("set", one_line(name), str(new).lower() if isinstance(new, bool) else str(new)))
        elif name not in before:
            said.append(("pass", one_line(name)))
        elif kind != shape:
            said.append(("shape", one_line(name), kind, str(new) if kind.endswith("…") else ""))
        else:
            said.append(("other", one_line(name)))
    return said


def _next_step(trace: Trace, failure: Failure, steps: Sequence[Event]) -> list[tuple[tuple[str, ...], Event | None]]:
    """With which other tool a run that is not known to have failed went on after a failure."""
    following = next((call for call in steps if call.seq > failure.event.seq), None)
    if trace.outcome not in ("success", "unknown") or following is None or following.tool in ("", failure.event.tool):
        return []
    return [(("tool", one_line(following.tool)), following)]


def _arguments(trace: Trace, failures: Sequence[Failure]) -> list[Sighting]:
    """Of each argument of each call, how its value was written, and whether the call failed."""
    failed = {failure.event.event_id: failure for failure in failures}
    found: dict[tuple[str, ...], Sighting] = {}
    for call in trace.tool_calls:
        failure = failed.get(call.event_id)
        values = arguments_of(call)
        if not call.tool or not values or len(values) > _ARGUMENTS or len(found) > 10 * _KINDS:
            continue
        if failure is not None and failure.error_class in TRANSIENT:
            continue
        names = sorted(filter(None, map(one_line, values)))
        end = "worked" if failure is None else "failed"
        event = _shown(call) if failure is None else Evidence(trace.trace_id, call.event_id, failure.quote)
        whats = [(end, "given", *names)]
        for name, value in values.items():
            kind = kind_of(value)
            whats.append((end, "kind", one_line(name), kind, str(value) if kind.endswith("…") else ""))
        for what in whats:
            found.setdefault((call.tool, *what), Sighting("argument", (one_line(call.tool),), what, (event,)))
    return list(found.values())


#: An id that begins with words says what kind of thing it is: gift_card_1234.
_PREFIXED = re.compile(r"([a-z]{2,20}(?:[_-][a-z]{2,20}){0,2}[_-])\d+")


def kind_of(value: Any) -> str:
    """How a value is written; of an id that begins with words, the words.

    >>> kind_of("gift_card_3311"), kind_of("2026-05-20"), kind_of(["a"])
    ('gift_card_…', '9999-99-99', 'list')
    """
    match = _PREFIXED.fullmatch(value) if isinstance(value, str) else None
    return f"{match[1]}…" if match else shape_of(value)


def _corrections(trace: Trace) -> list[Sighting]:
    """What the user corrected: the words of the sentence that says it, and the last tool before it."""
    found: list[Sighting] = []
    for correction in corrections_of(trace):
        said = correction.event.content.replace("\u2019", "'").strip()
        if not said or (correction.event.type == "message" and not is_correction(said)):
            continue
        sentences = sentences_of(said[:600])
        sentence = next((one for one in sentences if is_correction(one)), "") or said[:200]
        general = generalise(sentence).strip(" .,!，。！")
        words = sorted(set(content_words(general)) - _OBJECTS)
        before = [call for call in trace.tool_calls if call.seq < correction.event.seq and not is_thought(call.tool)]
        tool = one_line(before[-1].tool) if before else ""
        if len(words) >= 2 and len(general) <= _QUOTE:
            quote = Evidence(trace.trace_id, correction.event.event_id, correction.event.content[:_QUOTE])
            found.append(Sighting("correction", tuple(words), (general, tool), (quote,)))
    return found


#: Words that object and don't say to what.
_OBJECTS = frozenset(
    str.split(
        "no not wrong incorrect again still said meant asked told never don't didn't doesn't isn't wasn't that's it's "
        "i'm stop wait right correct already forgot missed try redo over okay yes thanks thank there here "
        "不对 错了 不是 重新 还是 我说 我要 的是 应该"
    )
)


def _shown(call: Event) -> Evidence:
    quote = call.arguments or call.result or call.content or call.tool or call.name
    return Evidence(call.trace_id, call.event_id, quote[:_QUOTE])


def _names(trace: Trace) -> tuple[str, ...]:
    said = "\n".join(event.content for event in trace.events if is_from_user(event))
    names = {entity.text for entity in find_entities(said[:40_000], 100) if entity.kind == "name"}
    tools = {call.tool for call in trace.tool_calls}
    return tuple(sorted({*names, *filter(None, (trace.first("subject"),))} - tools))
