"""How small trace files are joined: `python bench/compact.py [--files 10000] [--events 20] [--readers 2] [--json]`.

Files of made-up events are written into a lake in a new folder, one day, and compacted while reader processes scan the
whole lake over and over; a scan that does not hold every event once is counted in `missed` or `doubled`. There is no
grace here, so that small files vanish under the readers; then it is run until nothing more happens.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import resource
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from multiprocessing.sharedctypes import Synchronized
from typing import Any

from hindlake.jobs.compact import CompactReport, compact
from hindlake.memory_store.capture.events import Event
from hindlake.memory_store.capture.traces import read_traces, scan_events, trace_paths, write_events
from hindlake.memory_store.clock import SystemClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings

NAMESPACE = "acme"
DAY = datetime(2026, 3, 1, 8, tzinfo=UTC)
TEXT = "the parcel order city train ticket seat late again budget refund address street number paid open"
WORDS = TEXT.split()
COLUMNS = ["type", "at", "task_id"]


def made_up(draw: random.Random, files: int, events: int) -> Iterator[list[Event]]:
    """Events of each file: tasks of ten steps, a message and a tool call by turns."""
    for file in range(files):
        some = []
        for n in range(events):
            trace, seq = f"t{file * events + n - n % 10:08x}", n % 10
            at = DAY + timedelta(milliseconds=file * 1000 + n)
            event = Event(NAMESPACE, trace, f"e{file:06x}{n:04x}", seq, at, "message", task_id=trace, source="recorder")
            if seq % 2:
                event.type, event.tool, event.latency_us = "tool_call", "find", draw.randrange(10**6)
                event.arguments = json.dumps({"q": " ".join(draw.choices(WORDS, k=4))})
                event.result = " ".join(draw.choices(WORDS, k=60))
            else:
                event.role, event.content = "user", " ".join(draw.choices(WORDS, k=40))
            some.append(event)
        yield some


def read_on(home: str, expected: int, stop: Any, counts: list[Synchronized[int]]) -> None:
    """Scan until told to stop: scans, events missed, events doubled."""
    lake = Lake.open(Settings.load(home=home))
    while not stop.is_set():
        ids = scan_events(lake, NAMESPACE, COLUMNS).column("event_id").to_pylist()
        for count, more in zip(counts, (1, max(0, expected - len(set(ids))), len(ids) - len(set(ids))), strict=True):
            with count.get_lock():
                count.value += more


def scanned(lake: Lake) -> float:
    began = time.perf_counter()
    scan_events(lake, NAMESPACE, COLUMNS)
    return time.perf_counter() - began


def looked_up(lake: Lake, trace_id: str) -> float:
    began = time.perf_counter()
    assert read_traces(lake, NAMESPACE, [trace_id])
    return time.perf_counter() - began


def size(lake: Lake) -> float:
    return sum(entry.bytes for entry in lake.entries(f"ns={NAMESPACE}/traces")) / 1e6


def measure(home: str, files: int, events: int, readers: int) -> dict[str, Any]:
    settings = Settings.load(home=home, jobs={"compact_min_age_minutes": 0, "compact_grace_minutes": 0})
    lake = Lake.open(settings)
    for number, some in enumerate(made_up(random.Random(7), files, events)):
        write_events(lake, some, segment=f"s{number:06}")
    load = os.getloadavg()[0]
    result: dict[str, Any] = {
        "files_before": len(trace_paths(lake, NAMESPACE)), "events": files * events, "mb_before": round(size(lake), 1),
        "scan_before_s": round(scanned(lake), 2), "one_trace_before_s": round(looked_up(lake, "t00000000"), 2),
    }  # fmt: skip
    spawn = multiprocessing.get_context("spawn")
    stop, counts = spawn.Event(), [spawn.Value("q", 0) for _ in range(3)]
    watching = [spawn.Process(target=read_on, args=(home, files * events, stop, counts)) for _ in range(readers)]
    for process in watching:
        process.start()
    while readers and not counts[0].value:
        time.sleep(0.05)
    runs: list[tuple[float, float, CompactReport]] = []
    while not runs or runs[-1][2].written or runs[-1][2].deleted:
        began, worked = time.perf_counter(), time.process_time()
        report = compact(lake, settings, SystemClock(), version="bench")
        runs.append((time.perf_counter() - began, time.process_time() - worked, report))
    stop.set()
    for process in watching:
        process.join()
        assert process.exitcode == 0
    joined = sum(report.joined for *_, report in runs)
    seconds = sum(wall for wall, *_ in runs)
    read = sum(report.bytes_read for *_, report in runs) / 1e6
    return {
        **result, "files_after": len(trace_paths(lake, NAMESPACE)), "mb_after": round(size(lake), 1),
        "scan_after_s": round(scanned(lake), 2), "one_trace_after_s": round(looked_up(lake, "t00000000"), 2),
        "runs": len(runs), "joined": joined, "seconds": round(seconds, 2), "first_run_s": round(runs[0][0], 2),
        "cpu_s": round(sum(cpu for _, cpu, _ in runs), 2), "mb_s": round(read / seconds, 2),
        "files_s": round(joined / seconds), "readers": readers, "scans_meanwhile": counts[0].value,
        "missed": counts[1].value, "doubled": counts[2].value, "load": round(load, 1),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=20)
    parser.add_argument("--readers", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = measure(f"{folder}/home", arguments.files, arguments.events, arguments.readers)
    if arguments.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:<18} {value}")


if __name__ == "__main__":
    main()
