"""What a reviewer is shown: a memory beside the events that it rests on, and verdicts as they come in a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from ..memory_store.capture.events import Event, Trace
from ..memory_store.capture.masking import Mask
from ..memory_store.capture.traces import read_traces
from ..memory_store.files.lake import Lake
from ..memory_store.history.inbox import Row
from ..memory_store.records.reviews import VERDICTS, Verdict, prompt_of
from ..memory_store.settings import Settings
from .reflecting.rendering import neutral

#: Columns of a memory that a reviewer is shown, where they say something.
FIELDS = (
    "subject", "attribute", "value", "about", "need", "offer", "trigger", "action", "avoid", "why", "not_when", "tool",
    "error_code", "task_type",
)  # fmt: skip
#: Memories whose traces are read at once.
_BATCH = 20
#: Evidence of one memory that is shown.
_EVIDENCE = 5
#: Characters of the event that is quoted, and of a neighbour.
_EVENT, _NEIGHBOUR = 700, 300
#: Longest reason or wording that is taken.
_LONGEST = 4_000


@dataclass(frozen=True)
class Said:
    """An event as a reviewer reads it."""

    #: Who, such as user, or the tool that was called
    who: str
    text: str
    at: datetime


@dataclass(frozen=True)
class Ground:
    """A place that a memory rests on, with its neighbours. What the lake no longer holds is None."""

    trace_id: str
    event_id: str
    quote: str
    #: What the trace was to do, and how it ended
    goal: str
    outcome: str
    before: Said | None
    event: Said | None
    after: Said | None


@dataclass(frozen=True)
class Item:
    """A memory of a sample, ready to be judged."""

    id: str
    kind: str
    text: str
    #: Other columns of the memory that say something, by name
    says: dict[str, str]
    state: str
    reflector: str
    prompt: str
    evidence: tuple[Ground, ...]

    def plain(self) -> dict[str, Any]:
        """The item as plain values, with times as text."""
        value = asdict(self)
        for ground in value["evidence"]:
            for place in ("before", "event", "after"):
                if ground[place]:
                    ground[place]["at"] = ground[place]["at"].isoformat()
        return value


@dataclass(frozen=True)
class BadLine:
    """A line of a file of verdicts that can't be used."""

    #: From 1
    line: int
    why: str


def items_of(lake: Lake, namespace: str, memories: Sequence[Row]) -> Iterator[Item]:
    """Memories (rows of the log) with their evidence, in order. One whose text was purged is left out.

    What events say is shortened and made harmless for a terminal.
    """
    kept = [memory for memory in memories if memory["text"]]
    for start in range(0, len(kept), _BATCH):
        some = kept[start : start + _BATCH]
        ids = {ground["trace_id"] for memory in some for ground in (memory["evidence"] or ())[:_EVIDENCE]}
        traces = {trace.trace_id: trace for trace in read_traces(lake, namespace, ids)}
        for memory in some:
            yield _item(memory, traces)


def verdicts_of(lines: Iterable[str], settings: Settings) -> tuple[list[Verdict], list[BadLine]]:
    """Verdicts from lines of JSON, and the lines that can't be used, each with its reason.

    A line is an object with `id`, `verdict`, and perhaps `reason` and `better`; what else it holds is passed over, and
    so is a line without a verdict. Secrets in what people write are masked as the recorder's settings say.
    """
    mask = mask_of(settings)
    verdicts: list[Verdict] = []
    bad: list[BadLine] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        made = _verdict(line, mask)
        if isinstance(made, str):
            bad.append(BadLine(number, made))
        elif made is not None:
            verdicts.append(made)
    return verdicts, bad


def mask_of(settings: Settings) -> Mask:
    """What masks the words of reviewers."""
    return Mask(settings.recorder.mask_secrets, settings.recorder.mask_personal)


def cleaned(text: str, mask: Mask) -> str:
    """The words of a reviewer as they are kept: on one line, masked, without what can't be stored."""
    line = " ".join(text.replace("\0", "").encode("utf-8", "ignore").decode().split())
    return mask.text(line)[0]


def _verdict(line: str, mask: Mask) -> Verdict | str | None:
    """The verdict of a line, None if it gives none, or why it can't be used."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"it is no JSON: {error}"
    if not isinstance(value, dict):
        return "it is no JSON object"
    said = {name: value.get(name) or "" for name in ("id", "verdict", "reason", "better")}
    for name, text in said.items():
        if not isinstance(text, str):
            return f"{name} is no text"
        if len(text) > _LONGEST:
            return f"{name} has {len(text):,} characters, {_LONGEST:,} at most"
    verdict = said["verdict"].strip().lower()
    if not verdict:
        return None
    if verdict not in VERDICTS:
        return f"there is no verdict {verdict[:40]!r}: take one of {', '.join(VERDICTS)}"
    if not said["id"].strip():
        return "it has no id"
    return Verdict(said["id"].strip(), verdict, cleaned(said["reason"], mask), cleaned(said["better"], mask))


def _item(memory: Row, traces: dict[str, Trace]) -> Item:
    reflector, prompt_hash = memory["reflector"] or "", memory["prompt_hash"] or ""
    return Item(
        id=memory["id"],
        kind=memory["kind"],
        text=neutral(memory["text"]),
        says={name: neutral(memory[name]) for name in FIELDS if memory.get(name)},
        state=memory["state"],
        reflector=reflector,
        prompt=prompt_of(reflector, prompt_hash),
        evidence=tuple(_ground(item, traces.get(item["trace_id"])) for item in (memory["evidence"] or ())[:_EVIDENCE]),
    )


def _ground(evidence: dict[str, str], trace: Trace | None) -> Ground:
    cited = evidence["event_id"]
    # A task's own words are its goal, which is shown beside.
    events = [e for e in trace.events if _text(e) and (e.type != "task" or e.event_id == cited)] if trace else []
    place = next((i for i, event in enumerate(events) if event.event_id == cited), None)
    before = after = event = None
    if place is not None:
        event = _said(events[place], _EVENT, evidence["quote"])
        before = _said(events[place - 1], _NEIGHBOUR) if place else None
        after = _said(events[place + 1], _NEIGHBOUR) if place + 1 < len(events) else None
    return Ground(
        trace_id=evidence["trace_id"],
        event_id=evidence["event_id"],
        quote=neutral(evidence["quote"]),
        goal=_window(trace.goal, "", _NEIGHBOUR) if trace else "",
        outcome=trace.outcome if trace else "",
        before=before,
        event=event,
        after=after,
    )


def _said(event: Event, most: int, quote: str = "") -> Said:
    who = event.tool or event.role or event.type if event.type == "tool_call" else event.role or event.type
    return Said(neutral(who), _window(_text(event), quote, most), event.at)


def _text(event: Event) -> str:
    """What an event says, all of it."""
    failed = " ".join(part for part in (event.error_code, event.error_message) if part)
    parts = (event.content, event.arguments, event.result, failed and f"failed: {failed}")
    said = "\n".join(part for part in parts if part)
    return said or (f"outcome {event.outcome}" if event.type == "outcome" else "")


def _window(text: str, quote: str, most: int) -> str:
    """A text of at most so many characters, around the quote if it holds one, harmless."""
    start = max(0, text.find(quote) - most // 3) if quote else 0
    if len(text) - start < most:
        start = max(0, len(text) - most)
    end = start + max(most, len(quote) + most // 3)
    return f"{'…' if start else ''}{neutral(text[start:end])}{'…' if end < len(text) else ''}"
