"""A trace as a format reads it, and how it becomes events: ids, order, times, cleaning."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from ..capture.events import Event
from ..capture.limits import cut, printable
from ..capture.masking import Mask
from ..capture.wire import encode
from ..ids import derive_id

#: The time of an event that has none.
UNTIMED = datetime(1, 1, 1, tzinfo=UTC)


class RecordError(ValueError):
    """A record of a known format from which no trace can be made; the message says why."""


def event(type: str, key: str = "", at: datetime | None = None, **fields: Any) -> Event:
    """An event of a draft: `key` is its name inside the trace, its ids come later; `fields` are columns."""
    return Event(namespace="", trace_id="", event_id=key, seq=0, at=at or UNTIMED, type=type, **fields)


@dataclass
class Draft:
    """One trace as it was read: events in order, each named inside the trace by its `event_id`."""

    #: What makes the trace this one: its own id, or its content
    identity: tuple[str, ...]
    #: Its events; `event_id` and `parent_event_id` are names inside the trace, empty: named by place
    events: list[Event]
    #: Where it was read
    where: str = ""
    #: What was odd about it, for the report
    notes: list[str] = field(default_factory=list)
    #: Identity of the trace that began this one; empty: none is known
    parent: tuple[str, ...] = ()
    #: Traces that this one began and whose records lay among its own
    begun: list[Draft] = field(default_factory=list)


@dataclass(frozen=True)
class Stamp:
    """What is the same for every event of one ingest."""

    namespace: str
    #: Time of the ingest, for events that have none
    now: datetime
    #: Defaults for what a record does not say
    subject: str = ""
    agent_role: str = ""
    task_type: str = ""
    #: Longest value that is kept whole, in bytes of UTF-8; 0: no limit
    max_value_bytes: int = 0
    #: What is masked; None: nothing
    mask: Mask | None = None


def trace_id_of(namespace: str, draft: Draft) -> str:
    """The id of a draft's trace: the same record gives the same id, wherever it was read."""
    return _trace_id(namespace, draft.identity)


def _trace_id(namespace: str, identity: tuple[str, ...]) -> str:
    return derive_id(namespace, "trace", *identity)


def finish(draft: Draft, stamp: Stamp, source: str) -> list[Event]:
    """The events of a draft, ready to be written: numbered, timed, masked, cut.

    An event without a time has that of the event before it, else of the first that has one; when no event of the
    trace has a time, all have the stamp's `now` and `time_source` is "ingest".
    """
    trace_id = trace_id_of(stamp.namespace, draft)
    parent = _trace_id(stamp.namespace, draft.parent) if draft.parent else ""
    known = next((one.at for one in draft.events if one.at != UNTIMED), None)
    time_source = "event" if known else "ingest"
    at = known or stamp.now
    ids: dict[str, str] = {}
    finished = []
    for seq, one in enumerate(draft.events):
        name = one.event_id or f"#{seq}"
        if name in ids:
            name = f"{name}#{seq}"
        ids[name] = derive_id(stamp.namespace, "event", trace_id, name)
        at = one.at if one.at != UNTIMED else at
        finished.append(
            msgspec.structs.replace(
                one, namespace=stamp.namespace, trace_id=trace_id, event_id=ids[name], seq=one.seq or seq, at=at,
                source=source, source_ref=draft.where, time_source=time_source,
                subject=one.subject or stamp.subject, agent_role=one.agent_role or stamp.agent_role,
                task_type=one.task_type or stamp.task_type, parent_trace_id=one.parent_trace_id or parent,
            )
        )  # fmt: skip
    for one in finished:
        if one.parent_event_id:
            one.parent_event_id = ids.get(one.parent_event_id) or derive_id(
                stamp.namespace, "event", trace_id, one.parent_event_id
            )
        _tidy(one, stamp)
    return finished


def _tidy(one: Event, stamp: Stamp) -> None:
    """Make an event fit to be kept. Nearly every event is, which its encoded form tells at once."""
    try:
        encoded = encode(one)
    except UnicodeEncodeError:
        printable(one)
        encoded = encode(one)
    mask = stamp.mask
    if stamp.max_value_bytes and len(encoded) > stamp.max_value_bytes:
        cut(one, stamp.max_value_bytes, mask.text if mask is not None else lambda head: (head, 0))
    if mask is not None and mask.suspects(encoded):
        mask.event(one)


def shared(events: Iterable[Event], **fields: str) -> None:
    """Set text columns on every event where they are empty, such as the subject of the whole trace."""
    for one in events:
        for name, value in fields.items():
            if value and not getattr(one, name):
                setattr(one, name, value)
