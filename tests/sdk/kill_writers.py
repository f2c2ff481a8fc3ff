"""Writers that are killed at random points, and what became of what they were told is kept.

    python kill_writers.py HOME KILLS SEED

Several processes log at once, roll, and die by `kill -9`; a collector that is killed too runs beside them. At the end
one collector is left alone, and the raw rows of the Parquet files are counted: no reader's de-duplication helps.
Prints one JSON object: kills, acknowledged, lost, doubled.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from hindlake.jobs.collect import collect
from hindlake.memory_store.clock import SystemClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from hindlake.sdk.recorder import Recorder

WRITERS = 4


def write(settings: Settings, seed: int, pipe: int) -> None:
    """Log from two threads until killed; say each event that is kept, after the recorder did."""
    chance = random.Random(seed)
    recorder = Recorder(settings)
    recorder._spool._limit = chance.choice([1_000, 20_000, 4_000_000])
    task = recorder.task("until the end")

    def log(thread: int) -> None:
        for number in range(1_000_000):
            name = f"{os.getpid()}-{seed}-{thread}-{number}"
            if task.user(name, attributes={"filler": "x" * chance.randrange(400)}):
                os.write(pipe, f"{name}\n".encode())
            if chance.random() < 0.2:
                time.sleep(chance.random() * 0.004)

    threading.Thread(target=log, args=(1,), daemon=True).start()
    threading.Thread(target=lambda: [recorder.flush(0.01) for _ in range(100_000)], daemon=True).start()
    log(0)


def collect_for_ever(settings: Settings) -> None:
    """The job, over and over."""
    while True:
        collect(Lake.open(settings), settings, SystemClock())


def forked(act: object, *args: object) -> int:
    """Run a function in a child; its process id."""
    pid = os.fork()
    if pid == 0:
        try:
            act(*args)  # type: ignore[operator]
        finally:
            os._exit(1)
    return pid


def main(home: str, kills: int, seed: int) -> dict[str, int]:
    """Kill, collect, count."""
    settings = Settings.load(home=home)
    chance = random.Random(seed)
    reading, writing = os.pipe()
    said: list[bytes] = []

    def read() -> None:
        while chunk := os.read(reading, 1 << 16):
            said.append(chunk)

    reader = threading.Thread(target=read)
    reader.start()
    running: list[int] = []
    for number in range(kills):
        while len(running) < WRITERS:
            running.append(forked(write, settings, seed + number * WRITERS + len(running), writing))
            if len(running) == 1:
                running.append(forked(collect_for_ever, settings))
        time.sleep(chance.random() * 0.12)
        victim = running.pop(chance.randrange(len(running)))
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
    for pid in running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    os.close(writing)
    reader.join()
    acknowledged = b"".join(said).decode().split()

    report = collect(Lake.open(settings), settings, SystemClock())
    again = collect(Lake.open(settings), settings, SystemClock())
    assert (report.held, report.damaged, report.waiting, again.segments) == (0, 0, 0, 0), (report, again)
    rows: Counter[str] = Counter()
    ids: Counter[str] = Counter()
    for path in Path(home).glob("lake/ns=*/traces/day=*/*.parquet"):
        table = pq.read_table(path, columns=["content", "event_id", "type"], partitioning=None)
        ids.update(table.column("event_id").to_pylist())
        rows.update(table.column("content").to_pylist())
    return {
        "kills": kills,
        "acknowledged": len(acknowledged),
        "lost": sum(1 for name in acknowledged if rows[name] == 0),
        "doubled": sum(1 for count in ids.values() if count > 1) + sum(1 for name in acknowledged if rows[name] > 1),
        "rows": sum(ids.values()),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
