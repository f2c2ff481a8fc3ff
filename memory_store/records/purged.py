"""What was purged: which memories and which events, so that nothing brings them back (N10).

`ns=<ns>/purged/<id>.json` is a purge: ids, and what it takes to finish it. It holds no text. Until its last sweep it
holds keyed hashes of the pieces of the texts, by which a late writer's copy is recognised.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from ..capture.events import Event
from ..files.lake import Lake, namespace_path
from ..schema import CONTENT, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

#: Columns of the log that say what a memory is, or why something was decided about it.
SAYING = (*(column.name for column in CONTENT), "reason")
#: Fields of an event that stay when it is emptied: what it was, not what it said.
EVENT_SHELL = (
    "namespace", "trace_id", "event_id", "seq", "at", "type", "role", "retries", "latency_us", "outcome", "agent",
    "agent_role", "task_type", "task_id", "conversation_id", "parent_trace_id", "parent_event_id", "model",
    "input_tokens", "output_tokens", "language", "source", "time_source",
)  # fmt: skip
#: What a text is replaced by where a row stays.
REMOVED = "[purged]"


class Purge(msgspec.Struct, kw_only=True):
    """One purge."""

    purge_id: str
    namespace: str
    asked_at: datetime
    #: Memories that are purged
    ids: list[str]
    #: Events that are blocked, as trace and event
    events: list[tuple[str, str]]
    #: Of the memories, those that were not named, and why they went too
    also: dict[str, str] = {}
    #: Memories that came back, because what they had been merged into was purged
    restored: list[str] = []
    #: Traces that are blocked as a whole
    traces: list[str] = []
    #: Keyed hashes of the pieces of the texts, by their length in characters; empty after the last sweep
    pieces: dict[str, list[int]] = {}
    #: Vectors of the texts in the vector cache, by the hash that they are kept under
    vectors: list[str] = []
    #: Generations of the store that were there
    generations: list[str] = []
    #: When the last sweep was done
    swept_at: datetime | None = None


class Blocked:
    """The events and memories of a namespace that were purged."""

    def __init__(self, purges: Iterable[Purge]) -> None:
        some = list(purges)
        #: Memories
        self.ids = {id for purge in some for id in purge.ids}
        self._events = {event for purge in some for event in purge.events}
        self._traces = {trace for purge in some for trace in purge.traces}
        self._touched = self._traces | {trace for trace, _ in self._events}

    def __bool__(self) -> bool:
        return bool(self.ids or self._events or self._traces)

    def event(self, trace_id: str, event_id: str) -> bool:
        """Whether an event is blocked."""
        return trace_id in self._traces or (trace_id, event_id) in self._events

    def trace(self, trace_id: str) -> bool:
        """Whether an event of a trace, or all of it, is blocked."""
        return trace_id in self._touched

    def rests_on_it_alone(self, evidence: Iterable[dict[str, str]] | None) -> bool:
        """Whether there is evidence, all of it blocked."""
        items = list(evidence or ())
        return bool(items) and all(self.event(item["trace_id"], item["event_id"]) for item in items)

    def hide(self, event: Event) -> Event:
        """The event as a reader may see it: one that is blocked says nothing any more."""
        return emptied(event) if self.event(event.trace_id, event.event_id) else event


def emptied(event: Event) -> Event:
    """What is left of an event that was purged: its place, and what kind of step it was."""
    return Event(**{name: getattr(event, name) for name in EVENT_SHELL})


def write_purge(lake: Lake, purge: Purge) -> None:
    """Keep a purge; written again, further on, it replaces what was kept."""
    lake.put(_path(purge.namespace, f"{purge.purge_id}.json"), msgspec.json.encode(purge))


def purges(lake: Lake, namespace: str) -> list[Purge]:
    """Every purge of a namespace, oldest first."""
    paths = [path for path in lake.names(namespace_path(namespace, "purged")) if not path.endswith(".receipt.json")]
    return [msgspec.json.decode(lake.get(path), type=Purge) for path in paths]


def blocked(lake: Lake, namespace: str) -> Blocked:
    """The events and memories of a namespace that were purged."""
    return Blocked(purges(lake, namespace))


def write_receipt(lake: Lake, namespace: str, purge_id: str, receipt: dict[str, Any]) -> None:
    """Keep what a purge did; written again, further on, it replaces what was kept."""
    lake.put(receipt_path(namespace, purge_id), msgspec.json.format(msgspec.json.encode(receipt)))


def receipt_path(namespace: str, purge_id: str) -> str:
    """Where the receipt of a purge lies."""
    return _path(namespace, f"{purge_id}.receipt.json")


def without_content(rows: pa.Table, is_purged: pa.Array) -> pa.Table:
    """Rows of the log, or of any table with its columns, that say nothing where the mask is true."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name in SAYING:
        if name in rows.column_names:
            place = rows.schema.get_field_index(name)
            field = rows.schema.field(place)
            rows = rows.set_column(place, field, pc.if_else(is_purged, pa.scalar(None, field.type), rows.column(name)))
    return rows


def without_events(rows: pa.Table, is_purged: pa.Array) -> pa.Table:
    """Rows of the table `events` that are empty shells where the mask is true; columns that it does not know too."""
    import pyarrow as pa
    import pyarrow.compute as pc

    known = arrow_schema("events")
    for place, field in enumerate(rows.schema):
        if field.name in EVENT_SHELL:
            continue
        is_text = field.name in known.names and field.type == pa.string()
        empty = pa.scalar("" if is_text else None, field.type)
        rows = rows.set_column(place, field, pc.if_else(is_purged, empty, rows.column(field.name)))
    return rows


def _path(namespace: str, name: str) -> str:
    return namespace_path(namespace, "purged", name)
