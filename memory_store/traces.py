"""Traces in the lake: events in hive-partitioned Parquet, by namespace and day."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from .events import Event, Trace, events_of, events_table, group_traces
from .ids import derive_id
from .lake import Lake, namespace_path

if TYPE_CHECKING:
    import pyarrow as pa


def write_events(lake: Lake, events: Sequence[Event], segment: str = "") -> list[str]:
    """Write events as one file a namespace and day, and return the paths.

    The files are named for `segment`, or for the ids of their events, and created if absent: writing the same
    events again changes nothing.
    """
    paths = []
    ordered = sorted(events, key=lambda e: (e.namespace, e.at.date(), e.trace_id, e.seq))
    for (namespace, day), group in groupby(ordered, key=lambda e: (e.namespace, e.at.date())):
        some = list(group)
        name = segment or derive_id(namespace, "segment", *(event.event_id for event in some))
        path = namespace_path(namespace, "traces", f"day={day.isoformat()}", f"{name}.parquet")
        lake.create_table(path, events_table(some))
        paths.append(path)
    return paths


def trace_paths(lake: Lake, namespace: str) -> list[str]:
    """Every file of events of a namespace."""
    return lake.names(namespace_path(namespace, "traces"))


def scan_events(lake: Lake, namespace: str, columns: list[str]) -> pa.Table:
    """Some columns of every event of a namespace, each event once. `trace_id` and `event_id` are always there."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from .schema import arrow_schema

    wanted = list(dict.fromkeys(["trace_id", "event_id", *columns]))
    schema = pa.schema([arrow_schema("events").field(name) for name in wanted])
    tables = [rows for _, rows in lake.read_tables(trace_paths(lake, namespace), wanted)]
    if not tables:
        return schema.empty_table()
    rows = pa.concat_tables(tables, promote_options="default")
    rows = pa.Table.from_arrays(
        [
            rows.column(field.name).cast(field.type)
            if field.name in rows.column_names
            else pa.nulls(rows.num_rows, field.type)
            for field in schema
        ],
        schema=schema,
    )
    numbered = rows.append_column("_row", pa.array(range(rows.num_rows), pa.int64()))
    first = numbered.group_by("event_id").aggregate([("_row", "min")]).column("_row_min")
    if len(first) == rows.num_rows:
        return rows
    return rows.take(first.take(pc.sort_indices(first)))


def read_traces(lake: Lake, namespace: str, trace_ids: Iterable[str]) -> list[Trace]:
    """Whole traces by id, ordered by start; ids that the lake does not hold are left out."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = pa.array(sorted(set(trace_ids)), pa.string())
    events: list[Event] = []
    paths = trace_paths(lake, namespace)
    hits = [
        path
        for path, rows in lake.read_tables(paths, ["trace_id"])
        if pc.any(pc.is_in(rows.column("trace_id"), value_set=wanted)).as_py()
    ]
    for _, rows in lake.read_tables(hits):
        events.extend(events_of(rows.filter(pc.is_in(rows.column("trace_id"), value_set=wanted))))
    return group_traces(events)
