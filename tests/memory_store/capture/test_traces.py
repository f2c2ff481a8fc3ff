"""Traces in the lake: one file a namespace and day, and writing the same events twice changes nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from hindlake.memory_store.capture.events import Event, events_table, group_traces
from hindlake.memory_store.capture.traces import PATH, read_traces, scan_events, trace_paths, write_events
from hindlake.memory_store.files.lake import Lake, parquet_bytes

T0 = datetime(2026, 3, 1, 23, 59, 58, tzinfo=UTC)


def events_over_midnight(namespace: str = "acme", traces: int = 3) -> list[Event]:
    """Four seconds of each trace, two on either side of midnight."""
    return [
        Event(namespace, f"t{t}", f"{namespace}-{t}-{n}", n, T0 + timedelta(seconds=n), "message", content=f"说 {n}")
        for t in range(traces)
        for n in range(4)
    ]


def test_events_lie_in_a_folder_of_their_day(any_lake: Lake) -> None:
    paths = write_events(any_lake, events_over_midnight(), segment="s1")
    assert paths == [
        "ns=acme/traces/day=2026-03-01/s1.parquet",
        "ns=acme/traces/day=2026-03-02/s1.parquet",
    ]
    assert trace_paths(any_lake, "acme") == paths


def test_writing_the_same_events_twice_changes_nothing(any_lake: Lake) -> None:
    events = events_over_midnight()
    assert write_events(any_lake, events) == write_events(any_lake, list(reversed(events)))
    assert len(trace_paths(any_lake, "acme")) == 2
    assert scan_events(any_lake, "acme", []).num_rows == len(events)


def test_a_trace_is_read_whole_over_files_and_days(any_lake: Lake) -> None:
    events = events_over_midnight()
    for one in events:  # a file an event
        write_events(any_lake, [one])
    write_events(any_lake, events[2:5])  # and some of them again in another
    traces = read_traces(any_lake, "acme", ["t2", "t0", "t2", "nobody"])
    assert traces == [trace for trace in group_traces(events) if trace.trace_id != "t1"]


def test_a_scan_has_each_event_once_in_the_order_of_files(lake: Lake) -> None:
    events = events_over_midnight()
    write_events(lake, events)
    write_events(lake, events[:5], segment="again")
    rows = scan_events(lake, "acme", ["content", "content", "score"])
    assert rows.column_names == ["trace_id", "event_id", "content", "score"]
    assert sorted(rows.column("event_id").to_pylist()) == sorted(event.event_id for event in events)


def test_a_namespace_sees_only_its_own(any_lake: Lake) -> None:
    write_events(any_lake, [*events_over_midnight("acme"), *events_over_midnight("acme-eu", traces=1)])
    assert {event.namespace for trace in read_traces(any_lake, "acme", ["t0"]) for event in trace.events} == {"acme"}
    assert scan_events(any_lake, "acme-eu", []).num_rows == 4
    assert any_lake.namespaces() == ["acme", "acme-eu"]


def test_an_empty_lake_has_no_events(any_lake: Lake) -> None:
    assert write_events(any_lake, []) == []
    assert read_traces(any_lake, "acme", ["t0"]) == []
    empty = scan_events(any_lake, "acme", ["at", "retries"])
    assert empty.num_rows == 0
    assert empty.schema.field("at").type == pa.timestamp("us", tz="UTC")


def test_files_of_two_versions_are_scanned_together(lake: Lake) -> None:
    events = events_over_midnight(traces=1)
    write_events(lake, events[:2])
    old = pa.table({"trace_id": ["t9"], "event_id": ["old"], "retries": pa.array([2], pa.int32())})
    lake.put_table("ns=acme/traces/day=2026-01-01/old.parquet", old)
    rows = scan_events(lake, "acme", ["retries", "content"]).to_pylist()
    assert {row["event_id"]: (row["retries"], row["content"]) for row in rows} == {
        "old": (2, None),
        "acme-0-0": (0, "说 0"),
        "acme-0-1": (0, "说 1"),
    }


def test_a_scan_can_say_which_file_an_event_lies_in(lake: Lake) -> None:
    paths = write_events(lake, events_over_midnight(traces=1))
    rows = scan_events(lake, "acme", [PATH, "seq"]).to_pylist()
    assert [(row["seq"], row["path"]) for row in rows] == [(n, paths[n // 2]) for n in range(4)]


def test_a_trace_is_found_though_its_files_were_compacted_meanwhile(lake: Lake) -> None:
    events = events_over_midnight(traces=1)
    old = write_events(lake, events)
    assert read_traces(lake, "acme", ["t0"], paths=old) == group_traces(events)
    lake.put("ns=acme/traces/day=2026-03-01/compacted.parquet", parquet_bytes(events_table(events)))
    lake.delete(old)
    assert read_traces(lake, "acme", ["t0"], paths=old) == group_traces(events)
