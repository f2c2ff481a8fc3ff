"""The job compact: fewer files, the same events, at every instant."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from hindlake.jobs import compact as job
from hindlake.jobs.compact import JOINED, CompactReport, compact, worth_joining
from hindlake.memory_store.capture.events import Event, events_of, events_table, group_traces
from hindlake.memory_store.capture.traces import read_trace_files, read_traces, scan_events, trace_paths, write_events
from hindlake.memory_store.clock import ManualClock, SystemClock
from hindlake.memory_store.errors import UsageError
from hindlake.memory_store.files.lake import Among, Entry, Lake, parquet_bytes
from hindlake.memory_store.settings import Settings

DAY = datetime(2026, 3, 1, 8, tzinfo=UTC)
WORKER = Path(__file__).parents[1] / "processes" / "compact_worker.py"


def event(number: int, trace: str = "", namespace: str = "acme", day: int = 0) -> Event:
    at = DAY + timedelta(days=day, seconds=number)
    return Event(namespace, trace or f"t{number % 7}", f"e{number}", number, at, "message", content=f"说 {number}")


def small_files(lake: Lake, files: int, each: int = 3, first: int = 0, **more: Any) -> list[Event]:
    events = [event(first + number, **more) for number in range(files * each)]
    for number in range(files):
        write_events(lake, events[number * each : (number + 1) * each], segment=f"s{first + number:05}")
    return events


def at_once(settings: Settings, **jobs: int) -> Settings:
    """The same settings without waiting times."""
    changes = {"compact_min_age_minutes": 0, "compact_grace_minutes": 0} | jobs
    return settings.model_copy(update={"jobs": settings.jobs.model_copy(update=changes)})


def run(lake: Lake, settings: Settings, clock: Any = None, **more: Any) -> CompactReport:
    report = compact(lake, settings, clock or SystemClock(), version="test", **more)
    parts = ("joined", "deleted", "kept", "young", "big", "alone", "damaged", "gone")
    assert report.files == sum(getattr(report, part) for part in parts), report
    assert report.damaged == len(report.damaged_paths)
    return report


def stored(lake: Lake, namespace: str = "acme") -> Counter[str]:
    """Every event id, as often as it lies in a file."""
    return Counter(
        id for _, rows in read_trace_files(lake, namespace, ["event_id"]) for id in rows.column("event_id").to_pylist()
    )


def everything(lake: Lake, namespace: str = "acme") -> list[Any]:
    """Every trace, whole."""
    ids = scan_events(lake, namespace, []).column("trace_id").to_pylist()
    return read_traces(lake, namespace, ids)


def settled(lake: Lake, settings: Settings) -> int:
    """Run until nothing more happens; how often that took."""
    for count in range(1, 20):
        report = run(lake, settings)
        if not report.written and not report.deleted:
            return count
    raise AssertionError("it never comes to rest")


def test_small_files_become_one_and_go_when_the_grace_is_over(any_lake: Lake, any_settings: Settings) -> None:
    events = small_files(any_lake, 6)
    later = ManualClock(datetime.now(UTC) + timedelta(minutes=11))
    first = run(any_lake, any_settings, later)
    assert (first.files, first.joined, first.written, first.events, first.doubled) == (6, 6, 1, 18, 0)
    assert len(trace_paths(any_lake, "acme")) == 7
    later.advance(minutes=5)
    second = run(any_lake, any_settings, later)
    assert (second.files, second.kept, second.alone, second.written, second.deleted) == (7, 6, 1, 0, 0)
    later.advance(hours=1)
    third = run(any_lake, any_settings, later)
    assert (third.deleted, third.alone, third.written) == (6, 1, 0)
    [path] = trace_paths(any_lake, "acme")
    assert JOINED in path
    assert everything(any_lake) == group_traces(events)
    assert stored(any_lake) == Counter(event.event_id for event in events)
    last = run(any_lake, any_settings, later)
    assert replace(last, at=DAY) == replace(last, at=DAY, files=1, alone=1, joined=0, written=0, deleted=0)
    assert trace_paths(any_lake, "acme") == [path]


def test_young_files_are_left_alone(lake: Lake, settings: Settings) -> None:
    small_files(lake, 3)
    report = run(lake, settings, ManualClock(datetime.now(UTC)))
    assert (report.young, report.written) == (3, 0)


def test_days_and_namespaces_stay_apart(lake: Lake, settings: Settings) -> None:
    small_files(lake, 3)
    small_files(lake, 3, first=100, day=1)
    small_files(lake, 3, namespace="other")
    assert run(lake, at_once(settings), namespaces=["acme"]).written == 2
    assert len(trace_paths(lake, "other")) == 3
    seen: list[tuple[int, int]] = []
    settled(lake, at_once(settings))
    run(lake, at_once(settings), progress=lambda done, days: seen.append((done, days)))
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert [path.split("/")[2] for path in trace_paths(lake, "acme")] == ["day=2026-03-01", "day=2026-03-02"]
    assert set(stored(lake, "other").values()) == {1}


def test_an_event_of_two_small_files_is_written_once(lake: Lake, settings: Settings) -> None:
    events = small_files(lake, 2)
    write_events(lake, events, segment="again")
    report = run(lake, at_once(settings))
    assert (report.events, report.doubled) == (12, 6)
    settled(lake, at_once(settings))
    assert stored(lake) == Counter(event.event_id for event in events)


def test_rows_are_ordered_by_trace_and_place_in_groups_that_a_reader_passes_over(
    any_lake: Lake, any_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(3)
    events = [
        Event("acme", f"t{n % 50:02}", f"e{n}", n, DAY, "message", content=draw.randbytes(2000).hex())
        for n in range(2000)
    ]
    for start in range(0, 2000, 500):
        write_events(any_lake, events[start : start + 500])
    monkeypatch.setattr(job, "_GROUP_BYTES", 400_000)
    settled(any_lake, at_once(any_settings))
    [path] = trace_paths(any_lake, "acme")
    rows = any_lake.read_table(path)
    order = list(zip(rows.column("trace_id").to_pylist(), rows.column("seq").to_pylist(), strict=True))
    assert order == sorted(order)
    assert any_lake.footer(path).num_row_groups > 15
    some = any_lake.read_table(path, among=Among("trace_id", ["t20", "t21"]))
    assert 80 <= some.num_rows < 700
    assert any_lake.read_table(path, among=Among("trace_id", ["nobody", "u"])).num_rows == 0
    assert read_traces(any_lake, "acme", ["t20"]) == group_traces(e for e in events if e.trace_id == "t20")


def test_a_segment_that_is_rolled_again_after_it_was_joined_changes_nothing(lake: Lake, settings: Settings) -> None:
    """A collector that was killed between rolling a segment and removing it does so."""
    events = small_files(lake, 3)
    settled(lake, at_once(settings))
    before = trace_paths(lake, "acme")
    small_files(lake, 2)
    assert everything(lake) == group_traces(events)
    report = run(lake, at_once(settings))
    assert (report.deleted, report.written) == (2, 0)
    assert trace_paths(lake, "acme") == before


def test_a_file_with_a_replaced_name_and_other_content_is_not_taken_for_the_old_one(
    lake: Lake, settings: Settings
) -> None:
    small_files(lake, 3)
    settled(lake, at_once(settings))
    lake.put_table("ns=acme/traces/day=2026-03-01/s00001.parquet", events_table([event(n) for n in range(900, 950)]))
    settled(lake, at_once(settings))
    assert set(stored(lake)) == {f"e{n}" for n in (*range(9), *range(900, 950))}


def flipped(lake: Lake, path: str) -> bytes:
    """A file with one wrong bit in the values of `event_id`."""
    data = bytearray(lake.get(path))
    chunk = lake.footer(path).row_group(0).column(2)
    data[(chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size - 2] ^= 1
    return bytes(data)


@pytest.mark.parametrize("data", [b"", b"no parquet at all", "cut", "flipped"])
def test_a_damaged_small_file_is_named_and_left_alone(lake: Lake, settings: Settings, data: bytes | str) -> None:
    events = small_files(lake, 4)
    path = "ns=acme/traces/day=2026-03-01/s00002.parquet"
    whole = lake.get(path)
    half = len(whole) // 2
    if data == "cut":
        data = whole[:half]
    elif data == "flipped":
        data = flipped(lake, path)
    assert isinstance(data, bytes)
    lake.put(path, data)
    report = run(lake, at_once(settings))
    assert (report.damaged_paths, report.joined) == ((path,), 3)
    settled(lake, at_once(settings))
    assert lake.get(path) == data
    assert [one for one in trace_paths(lake, "acme") if JOINED not in one] == [path]
    lake.put(path, whole)
    settled(lake, at_once(settings))
    assert everything(lake) == group_traces(events)


def test_a_bigger_file_that_was_damaged_replaces_nothing(lake: Lake, settings: Settings) -> None:
    """It is read back before the small ones are deleted."""
    events = small_files(lake, 4)
    run(lake, at_once(settings))
    [path] = [one for one in trace_paths(lake, "acme") if JOINED in one]
    lake.put(path, flipped(lake, path))
    report = run(lake, at_once(settings))
    assert report.damaged_paths == (path,)
    assert report.deleted == 0
    lake.delete([path])
    assert everything(lake) == group_traces(events)
    settled(lake, at_once(settings))
    assert everything(lake) == group_traces(events)


def test_what_is_no_event_is_left_where_it_is(lake: Lake, settings: Settings) -> None:
    small_files(lake, 2)
    other = {
        "ns=acme/traces/day=2026-03-01/a.parquet": pa.table({"x": [1, 2]}),
        "ns=acme/traces/day=2026-03-01/b.parquet": pa.table({"event_id": pa.array(["b", None])}),
        "ns=acme/traces/day=2026-03-01/c.parquet": pa.table({"event_id": ["c"], "seq": ["no number"]}),
    }
    for path, rows in other.items():
        lake.put_table(path, rows)
    lake.put("ns=acme/traces/day=2026-03-01/_SUCCESS", b"")
    run(lake, at_once(settings))
    assert run(lake, at_once(settings)).damaged_paths == tuple(other)
    assert all(lake.exists(path) for path in other)
    assert lake.exists("ns=acme/traces/day=2026-03-01/_SUCCESS")


def test_columns_of_older_and_newer_versions_are_kept(lake: Lake, settings: Settings) -> None:
    folder = "ns=acme/traces/day=2026-03-01"
    old = pa.table({"trace_id": ["t"], "event_id": ["old"], "seq": pa.array([1], pa.int32())})
    new = events_table([event(1)]).append_column("mood", pa.array(["fine"]))
    unlike = events_table([event(2)]).append_column("mood", pa.array([7]))
    for name, rows in {"a": old, "b": new, "c": unlike}.items():
        lake.put_table(f"{folder}/{name}.parquet", rows)
    small_files(lake, 1)
    report = run(lake, at_once(settings))
    assert report.damaged_paths == (f"{folder}/c.parquet",)
    [joined] = [path for path in trace_paths(lake, "acme") if JOINED in path]
    rows = {row["event_id"]: row for row in lake.read_table(joined).to_pylist()}
    assert (rows["old"]["seq"], rows["old"]["content"]) == (1, None)
    assert (rows["e1"]["mood"], rows["e0"]["mood"]) == ("fine", None)


def sizes(*values: int) -> list[Entry]:
    return [Entry(f"p{place}", value, DAY) for place, value in enumerate(values)]


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ((), ()),
        ((5,), ()),
        ((1, 30), ()),
        ((5, 5), (5, 5)),
        ((30, 1, 1, 2), (1, 1, 2)),
        ((4, 1, 4, 4), (4, 1, 4, 4)),
    ],
)
def test_a_file_is_joined_when_the_smaller_ones_add_up_to_it(given: tuple[int, ...], chosen: tuple[int, ...]) -> None:
    assert tuple(entry.bytes for entry in worth_joining(sizes(*given))) == chosen


@given(st.lists(st.integers(1, 10**9), max_size=60))
def test_few_files_are_left_and_none_of_them_half_of_another(values: list[int]) -> None:
    left = sorted(set(sizes(*values)) - set(worth_joining(sizes(*values))), key=lambda entry: entry.bytes)
    assert len(left) <= 32
    assert all(sum(one.bytes for one in left[:place]) < entry.bytes for place, entry in enumerate(left))


def test_a_day_that_fills_up_hour_by_hour_keeps_few_files_and_writes_a_byte_a_few_times(
    lake: Lake, settings: Settings
) -> None:
    written = 0
    for hour in range(40):
        small_files(lake, 1, each=50, first=hour * 50)
        written += run(lake, at_once(settings)).events
    settled(lake, at_once(settings))
    assert len(trace_paths(lake, "acme")) < 10
    assert written < 2000 * 8


def test_a_big_file_stays_as_it_is(lake: Lake, settings: Settings) -> None:
    draw = random.Random(1)
    big = [Event("acme", "t", f"b{n}", n, DAY, "message", content=draw.randbytes(60_000).hex()) for n in range(10)]
    write_events(lake, big, segment="big")
    small_files(lake, 3)
    report = run(lake, at_once(settings, compact_target_mb=1))
    assert (report.big, report.joined) == (1, 3)


def test_what_memory_has_no_room_for_is_joined_in_parts_and_not_again(
    lake: Lake, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "_MEMORY_BYTES", 3000)
    monkeypatch.setattr(job, "_MOST_FILES", 7)
    events = small_files(lake, 20)
    assert run(lake, at_once(settings)).written > 3
    settled(lake, at_once(settings))
    assert 1 < len(trace_paths(lake, "acme")) < 14
    assert stored(lake) == Counter(event.event_id for event in events)


@given(
    files=st.lists(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 1)), max_size=12), max_size=8),
    rounds=st.integers(1, 3),
    most=st.integers(2, 8),
)
@effort(max_examples=20)
def test_any_files_with_any_doubles_hold_the_same_events_afterwards(
    files: list[list[tuple[int, int]]], rounds: int, most: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "_MOST_FILES", most)
        settings = at_once(Settings.load(home=folder))
        lake = Lake.open(settings)
        every: dict[str, Event] = {}
        for place, numbers in enumerate(files):
            some = [event(number, day=number % 2) for number, _ in numbers]
            every |= {one.event_id: one for one in some}
            write_events(lake, some, segment=f"s{place}")
            if place % rounds == 0:
                run(lake, settings)
        assert everything(lake) == group_traces(every.values())
        settled(lake, settings)
        assert everything(lake) == group_traces(every.values())


class _Killed(BaseException):
    """What ends a run in the middle."""


@contextmanager
def killed_at(lake: Lake, change: int) -> Iterator[list[str]]:
    """Let the lake take this many changes; the next one never happens, nor does any other."""
    store, taken, lock = lake._store, list[str](), threading.Lock()

    class Dying:
        def __getattr__(self, name: str) -> Any:
            real = getattr(store, name)
            if name not in ("put", "create", "delete"):
                return real

            def act(*arguments: Any) -> Any:
                with lock:
                    if len(taken) == change:
                        raise _Killed
                    taken.append(name)
                return real(*arguments)

            return act

    lake._store = Dying()  # type: ignore[assignment]
    try:
        yield taken
    finally:
        lake._store = store


def test_a_run_that_ends_before_any_of_its_changes_is_finished_by_the_next(tmp_path: Path) -> None:
    """Every prefix of the changes that the job makes to the lake, over two levels of joining."""
    change, died = 0, True
    while died:
        settings = at_once(Settings.load(home=str(tmp_path / str(change))))
        lake = Lake.open(settings)
        events = small_files(lake, 3)
        write_events(lake, events[2:5], segment="again")
        died = False
        with killed_at(lake, change):
            try:
                run(lake, settings)
                events += small_files(Lake.open(settings), 3, first=100)
                settled(lake, settings)
            except _Killed:
                died = True
        assert everything(lake) == group_traces(events)
        settled(lake, settings)
        assert stored(lake) == Counter(event.event_id for event in events)
        change += 1
    assert change > 8


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_killed_processes_lose_and_double_nothing(home: Path) -> None:
    settings = at_once(Settings.load(home=str(home)))
    lake = Lake.open(settings)
    draw = random.Random(11)
    events: list[Event] = []
    for life in range(4):
        events += small_files(lake, 30, first=life * 1000)
        with subprocess.Popen([sys.executable, str(WORKER), str(home)], stdout=subprocess.PIPE) as worker:
            assert worker.stdout
            assert worker.stdout.readline() == b"ready\n"
            time.sleep(draw.random() * 0.4)
            worker.kill()
        assert everything(lake) == group_traces(events)
    settled(lake, settings)
    assert stored(lake) == Counter(event.event_id for event in events)
    assert len(trace_paths(lake, "acme")) < 12


@pytest.mark.parametrize("read", [lambda lake: scan_events(lake, "acme", ["seq"]).num_rows, lambda lake: len(
    read_traces(lake, "acme", ["t"])[0].events)], ids=["scan", "look up"])  # fmt: skip
def test_a_reader_misses_nothing_when_all_that_it_listed_is_gone_before_it_reads(
    any_lake: Lake, any_settings: Settings, read: Any
) -> None:
    """Right after its listing everything is joined and deleted, and once more after the next."""
    small_files(any_lake, 5, trace="t")
    store, other, listings = any_lake._store, Lake.open(any_settings), list[str]()

    class Overtaken:
        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        def names(self, prefix: str, after: str) -> list[str]:
            found = store.names(prefix, after)
            listings.append(prefix)
            if len(listings) < 3:
                small_files(other, 10 * len(listings), first=1000 * len(listings), trace="other")
                settled(other, at_once(any_settings))
            return found

    any_lake._store = Overtaken()  # type: ignore[assignment]
    assert read(any_lake) >= 15  # the events of the first five files
    assert len(listings) > 2


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_readers_and_writers_miss_nothing_while_files_vanish_under_them(any_lake: Lake, any_settings: Settings) -> None:
    """Without any grace, two compacting threads beside a writer and two readers."""
    settings = at_once(any_settings)
    lasting: list[Event] = small_files(any_lake, 12)
    stop = threading.Event()
    problems: list[str] = []
    looks = Counter[str]()

    def guard(name: str, work: Any) -> threading.Thread:
        def loop() -> None:
            own = Lake.open(any_settings)
            try:
                while not stop.is_set():
                    work(own)
                    looks[name] += 1
            except BaseException as error:
                problems.append(f"{name}: {error!r}")
                raise

        return threading.Thread(target=loop)

    def scan(own: Lake) -> None:
        known = {one.event_id for one in list(lasting)}
        ids = scan_events(own, "acme", []).column("event_id").to_pylist()
        if len(ids) != len(set(ids)) or known - set(ids):
            problems.append(f"a scan missed {known - set(ids)}")

    def look_up(own: Lake) -> None:
        known = {one.event_id for one in list(lasting) if one.trace_id == "t3"}
        paths = trace_paths(own, "acme")
        [trace] = read_traces(own, "acme", ["t3"], paths=paths)
        if missing := known - {one.event_id for one in trace.events}:
            problems.append(f"a look-up missed {missing}")

    def join(own: Lake) -> None:
        compact(own, settings, SystemClock(), version="test")

    threads = [guard("scan", scan), guard("look", look_up), guard("join", join), guard("join too", join)]
    for thread in threads:
        thread.start()
    for number in range(1, 16):
        lasting += small_files(any_lake, 8, first=number * 1000)
    while min(looks[name] for name in ("scan", "look", "join")) < 3 and not problems:
        time.sleep(0.01)
    stop.set()
    for thread in threads:
        thread.join()
    assert problems == []
    settled(any_lake, settings)
    assert set(stored(any_lake)) == {one.event_id for one in lasting}
    assert everything(any_lake) == group_traces(lasting)


def test_two_runs_at_once_may_write_an_event_twice_and_readers_see_it_once(lake: Lake, settings: Settings) -> None:
    """They listed different files; what they wrote is joined once it is worth it."""
    events = small_files(lake, 3)
    folder = "ns=acme/traces/day=2026-03-01"
    lake.put(f"{folder}/joined-by-another.parquet", parquet_bytes(events_table(events)))
    settled(lake, at_once(settings))
    rows = pa.concat_tables([rows for _, rows in read_trace_files(lake, "acme", list(Event.__struct_fields__))])
    assert group_traces(events_of(rows)) == group_traces(events)
    assert everything(lake) == group_traces(events)


def test_nothing_to_do_in_a_lake_without_traces(any_lake: Lake, any_settings: Settings) -> None:
    assert run(any_lake, any_settings).files == 0
    with pytest.raises(UsageError, match="has no namespace nobody: it has none yet"):
        run(any_lake, any_settings, namespaces=["nobody"])
