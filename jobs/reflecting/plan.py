"""What there is to reflect on: ended traces that have no gate row, or that grew since they had one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from ...memory_store.capture.traces import PATH, scan_events
from ...memory_store.files.lake import Lake, namespace_path

if TYPE_CHECKING:
    import pyarrow as pa

#: Runs of one task that are compared at once; of more, the newest are taken.
GROUP_TRACES = 20


@dataclass(frozen=True)
class GroupPlan:
    """Runs of one task, by id, and where their events lie."""

    key: str
    fresh: tuple[str, ...]
    known: tuple[str, ...]
    paths: tuple[str, ...]


@dataclass
class _Seen:
    started_at: datetime
    last_at: datetime
    key: str = ""
    events: int = 0
    is_ended: bool = False
    paths: frozenset[str] = frozenset()


def plan(
    lake: Lake,
    namespace: str,
    now: datetime,
    abandoned: timedelta,
    among: Set[str] | None = None,
    asked: Set[str] | None = None,
) -> list[GroupPlan]:
    """Groups of traces with work to do, of those in `among` if it is given, in order of their first fresh trace.

    A trace is ready when someone said how it ended, or when nothing has happened in it for `abandoned`. If there are
    `asked` ones, they alone have work to do: ready or not, and also those that the gate let go by.
    """
    seen = _seen(scan_events(lake, namespace, ["type", "at", "task_id", PATH]))
    gated = gated_traces(lake, namespace, reflected=asked is not None)
    groups: dict[str, list[str]] = defaultdict(list)
    for trace_id, trace in sorted(seen.items(), key=lambda item: (item[1].started_at, item[0])):
        groups[trace.key or trace_id].append(trace_id)
    plans: list[GroupPlan] = []
    for key, trace_ids in groups.items():
        known = [trace_id for trace_id in trace_ids if gated.get(trace_id) == seen[trace_id].events]
        fresh = [
            trace_id
            for trace_id in trace_ids
            if gated.get(trace_id) != seen[trace_id].events
            and (among is None or trace_id in among)
            and (
                seen[trace_id].is_ended or seen[trace_id].last_at <= now - abandoned
                if asked is None
                else trace_id in asked
            )
        ]
        for start in range(0, len(fresh), GROUP_TRACES):
            some = fresh[start : start + GROUP_TRACES]
            beside = [*known, *fresh[:start]][-GROUP_TRACES:]
            paths = frozenset[str]().union(*(seen[trace_id].paths for trace_id in (*some, *beside)))
            plans.append(GroupPlan(key, tuple(some), tuple(beside), tuple(sorted(paths))))
    return sorted(plans, key=lambda group: (seen[group.fresh[0]].started_at, group.fresh[0]))


def _seen(events: pa.Table) -> dict[str, _Seen]:
    traces: dict[str, _Seen] = {}
    columns: list[list[Any]] = [events.column(name).to_pylist() for name in ("trace_id", "type", "at", "task_id", PATH)]
    for trace_id, type, at, task_id, path in zip(*columns, strict=True):
        trace = traces.get(trace_id)
        if trace is None:
            trace = traces[trace_id] = _Seen(at, at)
        trace.started_at = min(trace.started_at, at)
        trace.last_at = max(trace.last_at, at)
        trace.key = trace.key or task_id or ""
        trace.events += 1
        trace.is_ended = trace.is_ended or type == "outcome"
        trace.paths = trace.paths if path in trace.paths else trace.paths | {path}
    return traces


def gated_traces(lake: Lake, namespace: str, *, reflected: bool = False) -> dict[str, int]:
    """Events that each trace had when the gate looked at it, the most if it did so more than once.

    With `reflected` only where it let the trace through.
    """
    gated: dict[str, int] = {}
    names = ["trace_id", "events", "reflected"]
    for _, rows in lake.read_tables(lake.names(namespace_path(namespace, "gate")), names):
        columns: list[list[Any]] = [rows.column(name).to_pylist() for name in names]
        for trace_id, events, through in zip(*columns, strict=True):
            if through or not reflected:
                gated[trace_id] = max(gated.get(trace_id, 0), events)
    return gated


def shards(groups: list[GroupPlan], traces: int) -> list[list[GroupPlan]]:
    """Groups packed into shards of about `traces` fresh traces; a group is never split."""
    packed: list[list[GroupPlan]] = []
    room = 0
    for group in groups:
        if room < len(group.fresh):
            packed.append([])
            room = traces
        packed[-1].append(group)
        room -= len(group.fresh)
    return packed
