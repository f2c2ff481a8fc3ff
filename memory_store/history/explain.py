"""Why a memory is there: its text, the events that it rests on, the run, and every decision about it so far."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..capture.traces import read_traces
from ..clock import as_utc
from ..errors import UnknownMemory
from ..files.lake import Lake
from ..records.runs import Run, read_run
from ..schema import ADDING, CONTENT, LOG, STATE, conform
from .inbox import inbox_paths
from .log import read_log
from .moments import Moment, seq_at

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS = [column.name for column in LOG if column.name != "vector"]
_CONTENT = [column.name for column in CONTENT if column.name not in ("vector", "evidence")]
_STATE = [column.name for column in STATE]


@dataclass(frozen=True)
class QuotedEvent:
    """An event that a memory rests on."""

    trace_id: str
    event_id: str
    #: The span that says it, verbatim
    quote: str
    #: When it happened; None if the lake no longer holds the event
    at: datetime | None
    #: message, tool_call, …
    type: str
    #: user, agent or tool
    role: str
    tool: str
    error_code: str
    #: Place in the trace
    seq: int | None


@dataclass(frozen=True)
class LoggedDecision:
    """A row of the log, or of the inbox, that is about the memory."""

    #: Place in the log; None while it waits in the inbox
    seq: int | None
    at: datetime
    decision: str
    #: accepted, refused, or waiting
    verdict: str
    reason: str
    run: str
    #: What it set
    sets: dict[str, Any]


@dataclass(frozen=True)
class Explanation:
    """Everything that is known about why a memory is there."""

    id: str
    #: Its columns, as the log has them now
    memory: dict[str, Any]
    evidence: tuple[QuotedEvent, ...]
    #: The run that proposed it; None for a user's own act
    run: Run | None
    decisions: tuple[LoggedDecision, ...]
    #: Memories that it took the place of, or that were merged into it
    replaces: tuple[str, ...]


def explain(
    lake: Lake, namespace: str, id: str, as_of: Moment | None = None, *, with_events: bool = True
) -> Explanation:
    """Explain a memory, or a candidate that was refused, from the lake alone; with `as_of`, as it was then.

    Without `with_events` nothing is read of the traces, and `evidence` is empty. Of a memory that was purged since,
    what it said is left out. Raises `UnknownMemory`.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    waiting = [conform(rows, "log") for _, rows in lake.read_tables(inbox_paths(lake, namespace, user_only=True))]
    log = read_log(lake, namespace, 0, _COLUMNS)
    rows = pa.concat_tables([log.select(_COLUMNS), *(table.select(_COLUMNS) for table in waiting)])
    mine = rows.filter(pc.equal(rows.column("id"), id)).to_pylist()
    if not mine:
        raise UnknownMemory(f"no memory {id} in namespace {namespace}: `hindlake search` shows ids; -n names another")
    is_purged = any(row["decision"] == "purge" and row["verdict"] != "refused" for row in mine)
    if as_of is not None:
        rows = _until(rows, log, as_of)
        mine = rows.filter(pc.equal(rows.column("id"), id)).to_pylist()
        if not mine:
            raise UnknownMemory(f"memory {id} was not known then: it came later")
    mine.sort(key=lambda row: row["decision"] not in ADDING)  # in the inbox, acts lie in the order of their names
    if is_purged:
        mine = [{**row, **dict.fromkeys(_CONTENT), "evidence": None, "reason": ""} for row in mine]
    decisions = _decisions(mine)
    first = next((row for row in mine if row["decision"] in (*ADDING, "refuse")), mine[0])
    memory = {name: first[name] for name in _CONTENT}
    for row in mine:
        if row["verdict"] != "refused":
            memory.update({name: row[name] for name in _STATE if row[name] is not None})
    if first["decision"] == "refuse":
        memory["state"] = "refused"
    return Explanation(
        id=id,
        memory=memory,
        evidence=_quoted(lake, namespace, first["evidence"] or []) if with_events else (),
        run=read_run(lake, namespace, first["run"]) if first["run"] else None,
        decisions=decisions,
        replaces=_replaced(rows, id),
    )


def _until(rows: pa.Table, log: pa.Table, as_of: Moment) -> pa.Table:
    """Rows of the log up to a moment, and of the inbox what was written by then."""
    import pyarrow as pa
    import pyarrow.compute as pc

    seq = as_of if isinstance(as_of, int) else seq_at(log, as_of)
    is_known = pc.less_equal(rows.column("seq"), seq)
    if not isinstance(as_of, int):
        by_then = pc.less_equal(rows.column("at"), pa.scalar(as_utc(as_of), rows.schema.field("at").type))
        is_known = pc.if_else(pc.is_null(rows.column("seq")), by_then, is_known)
    return rows.filter(is_known)


def _decisions(rows: list[dict[str, Any]]) -> tuple[LoggedDecision, ...]:
    seen: set[tuple[str, str]] = set()
    decisions = []
    for row in rows:
        if row["seq"] is None and (row["act"], row["decision"]) in seen:
            continue  # a leftover of the inbox that is in the log already
        seen.add((row["act"], row["decision"]))
        sets = {name: row[name] for name in _STATE if row[name] is not None}
        verdict = row["verdict"] or "waiting"
        decisions.append(
            LoggedDecision(row["seq"], row["at"], row["decision"], verdict, row["reason"] or "", row["run"] or "", sets)
        )
    return tuple(decisions)


def _quoted(lake: Lake, namespace: str, evidence: list[dict[str, str]]) -> tuple[QuotedEvent, ...]:
    traces = read_traces(lake, namespace, {item["trace_id"] for item in evidence})
    events = {event.event_id: event for trace in traces for event in trace.events}
    quoted = []
    for item in evidence:
        event = events.get(item["event_id"])
        quoted.append(
            QuotedEvent(
                trace_id=item["trace_id"],
                event_id=item["event_id"],
                quote=item["quote"],
                at=event.at if event else None,
                type=event.type if event else "",
                role=event.role if event else "",
                tool=event.tool if event else "",
                error_code=event.error_code if event else "",
                seq=event.seq if event else None,
            )
        )
    return tuple(quoted)


def _replaced(rows: pa.Table, id: str) -> tuple[str, ...]:
    import pyarrow.compute as pc

    stands = pc.not_equal(pc.fill_null(rows.column("verdict"), "waiting"), "refused")
    hits = rows.filter(pc.and_kleene(pc.equal(rows.column("superseded_by"), id), stands))
    return tuple(dict.fromkeys(hits.column("id").to_pylist()))
