"""Traces in the lake: events in hive-partitioned Parquet, by namespace and day."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from ..files.lake import Among, Lake, namespace_path
from ..ids import derive_id
from ..records.purged import blocked
from .events import Event, Trace, events_of, events_table, group_traces

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


def read_trace_files(lake: Lake, namespace: str, columns: list[str], day: str = "") -> Iterator[tuple[str, pa.Table]]:
    """Some columns of every file of events, while compaction may be going on: no event is missed, some come twice.

    With `day`, as 2026-03-01, only of what happened on that day. A file that was listed and is gone has been replaced
    by one that was written before; so what is gone makes this list again, and read what is new.
    """
    seen: set[str] = set()
    while True:
        listed = lake.names(namespace_path(namespace, "traces", f"day={day}")) if day else trace_paths(lake, namespace)
        fresh = [path for path in listed if path not in seen]
        seen.update(fresh)
        read = 0
        for path, rows in lake.read_tables(fresh, columns):
            read += 1
            yield path, rows
        if read == len(fresh):
            return


#: A column that `scan_events` can add: the file that an event lies in.
PATH = "path"


def scan_events(lake: Lake, namespace: str, columns: list[str], day: str = "") -> pa.Table:
    """Some columns of every event of a namespace, or of one of its days, each event once. `trace_id` and `event_id`
    are always there. The column `PATH` may be asked for too.
    """
    import pyarrow as pa

    from ..schema import arrow_schema

    wanted = list(dict.fromkeys(["trace_id", "event_id", *columns]))
    schema = pa.schema(
        [pa.field(PATH, pa.string()) if name == PATH else arrow_schema("events").field(name) for name in wanted]
    )
    stored = [name for name in wanted if name != PATH]
    tables = []
    for path, rows in read_trace_files(lake, namespace, stored, day):
        named = rows.append_column(PATH, pa.array([path] * rows.num_rows, pa.string())) if PATH in wanted else rows
        tables.append(
            pa.Table.from_arrays(
                [
                    named.column(field.name).cast(field.type)
                    if field.name in named.column_names
                    else pa.nulls(named.num_rows, field.type)
                    for field in schema
                ],
                schema=schema,
            )
        )
    return _each_once(pa.concat_tables(tables)) if tables else schema.empty_table()


def _each_once(rows: pa.Table) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    numbered = rows.append_column("_row", pa.array(range(rows.num_rows), pa.int64()))
    first = numbered.group_by("event_id").aggregate([("_row", "min")]).column("_row_min")
    if len(first) == rows.num_rows:
        return rows
    return rows.take(first.take(pc.sort_indices(first)))


def read_traces(
    lake: Lake, namespace: str, trace_ids: Iterable[str], paths: Sequence[str] | None = None
) -> list[Trace]:
    """Whole traces by id, ordered by start; ids that the lake does not hold are left out. Purged events are empty.

    `paths` are the files that the traces lie in, where the caller knows; a file that compaction has taken away
    meanwhile makes this look everywhere.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = pa.array(sorted(set(trace_ids)), pa.string())
    if paths is None:
        paths = [
            path
            for path, rows in read_trace_files(lake, namespace, ["trace_id"])
            if pc.any(pc.is_in(rows.column("trace_id"), value_set=wanted)).as_py()
        ]
    events: list[Event] = []
    read = 0
    for _, rows in lake.read_tables(list(paths), among=Among("trace_id", wanted.to_pylist())):
        read += 1
        events.extend(events_of(rows.filter(pc.is_in(rows.column("trace_id"), value_set=wanted))))
    if read < len(paths):
        return read_traces(lake, namespace, wanted.to_pylist())
    if gone := blocked(lake, namespace):
        events = [gone.hide(event) for event in events]
    return group_traces(events)
