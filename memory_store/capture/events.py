"""Events and traces in memory: what the recorder writes, ingest loads and reflectors read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

if TYPE_CHECKING:
    import pyarrow as pa

Outcome = Literal["success", "failure", "partial", "unknown"]
OUTCOMES: tuple[str, ...] = ("success", "failure", "partial", "unknown")
EVENT_TYPES: tuple[str, ...] = ("task", "message", "tool_call", "step", "feedback", "outcome")


class Cut(msgspec.Struct, frozen=True, gc=False):
    """A value that was too long to keep whole."""

    #: Column that was cut
    field: str
    #: Its length in bytes before
    bytes: int
    #: SHA-256 of the whole value, in hexadecimal
    sha256: str


class Event(msgspec.Struct, array_like=True, gc=False):
    """One step of a trace: a row of the table `events`, whose schema says what each field means.

    Text is never None: empty means there is none.
    """

    namespace: str
    trace_id: str
    event_id: str
    seq: int
    at: datetime
    type: str
    role: str = ""
    name: str = ""
    content: str = ""
    tool: str = ""
    call_id: str = ""
    arguments: str = ""
    result: str = ""
    error_code: str = ""
    error_message: str = ""
    retries: int = 0
    latency_us: int | None = None
    outcome: str = ""
    score: float | None = None
    subject: str = ""
    agent: str = ""
    agent_role: str = ""
    task_type: str = ""
    task_id: str = ""
    conversation_id: str = ""
    parent_trace_id: str = ""
    parent_event_id: str = ""
    model: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    language: str = ""
    source: str = ""
    source_ref: str = ""
    time_source: str = "event"
    attributes: str = ""
    cuts: list[Cut] = []
    masked: int = 0


@dataclass(frozen=True)
class Trace:
    """One task as an agent ran it: its events in order, none twice."""

    namespace: str
    trace_id: str
    events: tuple[Event, ...]

    def first(self, field: str) -> str:
        """The first value of a text column that is not empty, over all events; empty if there is none."""
        return next((value for event in self.events if (value := getattr(event, field))), "")

    @property
    def outcome(self) -> Outcome:
        """How it ended: the last outcome that was logged, "unknown" if none was."""
        return cast(Outcome, next((e.outcome for e in reversed(self.events) if e.outcome), "unknown"))

    @property
    def is_ended(self) -> bool:
        """Whether someone said how it ended."""
        return any(event.type == "outcome" for event in self.events)

    @property
    def started_at(self) -> datetime:
        """Time of its first event."""
        return self.events[0].at

    @property
    def ended_at(self) -> datetime:
        """Time of its last event."""
        return max(event.at for event in self.events)

    @property
    def goal(self) -> str:
        """What was to be done: the task's own words, else the first thing that the user said."""
        for event in self.events:
            if event.type == "task" and event.content:
                return event.content
        return next((e.content for e in self.events if e.type == "message" and e.role == "user" and e.content), "")

    @property
    def tool_calls(self) -> tuple[Event, ...]:
        """Its tool calls, in order."""
        return tuple(event for event in self.events if event.type == "tool_call")


def trace_of(events: Sequence[Event]) -> Trace:
    """Events of one trace, in any order, some perhaps twice, as a trace."""
    unique = {event.event_id: event for event in events}
    ordered = sorted(unique.values(), key=lambda event: (event.seq, event.at, event.event_id))
    return Trace(ordered[0].namespace, ordered[0].trace_id, tuple(ordered))


def group_traces(events: Iterable[Event]) -> list[Trace]:
    """Events of many traces as traces, ordered by start and id."""
    by_trace: dict[tuple[str, str], list[Event]] = {}
    for event in events:
        by_trace.setdefault((event.namespace, event.trace_id), []).append(event)
    return sorted((trace_of(some) for some in by_trace.values()), key=lambda t: (t.started_at, t.trace_id))


def events_table(events: Sequence[Event]) -> pa.Table:
    """Events as a table with the schema `events`."""
    import pyarrow as pa

    from ..schema import arrow_schema

    schema = arrow_schema("events")
    columns = [_column([*map(attrgetter(field.name), events)], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _column(values: list[Any], type: pa.DataType) -> pa.Array:
    """Values of one field as an Arrow array. Most fields of a segment hold one value, which is told fast."""
    import pyarrow as pa

    if values and not isinstance(values[0], (float, list)) and values.count(values[0]) == len(values):
        return pa.repeat(pa.scalar(values[0], type), len(values))
    if values and isinstance(values[0], list):
        values = [[msgspec.structs.asdict(cut) for cut in cuts] for cuts in values] if any(values) else values
    return pa.array(values, type)


def events_of(rows: pa.Table) -> list[Event]:
    """The events of a table; columns that a file of an older version lacks take their default."""
    from ..schema import conform

    defaults = {
        field.name: field.default for field in msgspec.structs.fields(Event) if field.default is not msgspec.NODEFAULT
    }
    result = []
    for row in conform(rows, "events").to_pylist():
        kept = {name: value for name, value in row.items() if value is not None or name not in defaults}
        kept["cuts"] = [Cut(**cut) for cut in row["cuts"] or ()]
        result.append(Event(**kept))
    return result
