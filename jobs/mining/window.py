"""Which traces patterns are mined from, and what one worker does with a shard of them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from ...memory_store.capture.traces import PATH, read_traces, scan_events
from ...memory_store.files.lake import Lake
from ...memory_store.settings import Settings
from .look import Look, look_at

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Window:
    """Traces of a namespace that ended lately, by task type."""

    #: Ids of traces by task type, each type's in order of their ids
    traces: dict[str, tuple[str, ...]]
    #: Files that each trace lies in
    paths: dict[str, frozenset[str]]
    #: Distinct tasks that the lake holds, lately ended or not
    tasks_ever: int


@dataclass
class _Seen:
    last_at: datetime
    task: str = ""
    task_type: str = ""
    is_ended: bool = False
    paths: frozenset[str] = frozenset()


def window(lake: Lake, namespace: str, since: datetime | None, abandoned_before: datetime) -> Window:
    """Traces whose last event lies after `since` (None: all) and that someone ended, or that were abandoned before.

    A trace that still goes on is left to the next run.
    """
    seen = _seen(scan_events(lake, namespace, ["type", "at", "task_id", "task_type", PATH]))
    chosen = {
        trace_id: trace
        for trace_id, trace in sorted(seen.items())
        if (since is None or trace.last_at >= since) and (trace.is_ended or trace.last_at <= abandoned_before)
    }
    traces: dict[str, list[str]] = defaultdict(list)
    for trace_id, trace in chosen.items():
        traces[trace.task_type].append(trace_id)
    return Window(
        {task_type: tuple(ids) for task_type, ids in sorted(traces.items())},
        {trace_id: trace.paths for trace_id, trace in chosen.items()},
        len({trace.task or trace_id for trace_id, trace in seen.items()}),
    )


def _seen(events: pa.Table) -> dict[str, _Seen]:
    traces: dict[str, _Seen] = {}
    names = ("trace_id", "type", "at", "task_id", "task_type", PATH)
    columns: list[list[Any]] = [events.column(name).to_pylist() for name in names]
    for trace_id, type, at, task, task_type, path in zip(*columns, strict=True):
        trace = traces.setdefault(trace_id, _Seen(at))
        trace.last_at = max(trace.last_at, at)
        trace.task = trace.task or task or ""
        trace.task_type = trace.task_type or task_type or ""
        trace.is_ended = trace.is_ended or type == "outcome"
        trace.paths = trace.paths if path in trace.paths else trace.paths | {path}
    return traces


@dataclass(frozen=True)
class LookTask:
    """Everything that a worker needs to know: some traces of one namespace and task type."""

    settings: Settings
    namespace: str
    trace_ids: tuple[str, ...]
    paths: tuple[str, ...]


@dataclass
class LookResult:
    """What a shard gave."""

    looks: list[Look] = field(default_factory=list)
    #: Traces that could not be looked at, and why
    failed: dict[str, str] = field(default_factory=dict)


def look_tasks(settings: Settings, namespace: str, found: Window) -> list[LookTask]:
    """The window as shards of at most `jobs.shard_traces` traces of one task type."""
    size = settings.jobs.shard_traces
    some = [ids[start : start + size] for ids in found.traces.values() for start in range(0, len(ids), size)]
    return [
        LookTask(settings, namespace, ids, tuple(sorted(frozenset[str]().union(*(found.paths[id] for id in ids)))))
        for ids in some
    ]


def look_shard(task: LookTask) -> LookResult:
    """Look at every trace of a shard, in whatever process this is."""
    result = LookResult()
    for trace in read_traces(Lake.open(task.settings), task.namespace, task.trace_ids, task.paths):
        try:
            result.looks.append(look_at(trace))
        except Exception as error:  # the boundary where one trace's failure becomes a row
            result.failed[trace.trace_id] = f"{type(error).__name__}: {error}"
    return result


def since_of(now: datetime, days: int) -> datetime | None:
    """The beginning of a window of so many days; None for 0, which is all there is."""
    return now - timedelta(days=days) if days else None
