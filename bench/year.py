"""How the hot set grows: memories and what a query costs, month by month, with and without the nightly jobs.

    python bench/year.py [--months 12] [--tasks 8] [--json]

Every day agents run some tasks for 20 users: what users say of themselves, in changing words and with changing values;
tools that fail in one of 30 ways, and what mended them. Once a week what came is reflected on by rules; then, with the
jobs, the steps of the weekly flow run, and of what the searches return an agent is shown the best. `hot` are memories
that a search can return, `stored` all rows of the store, `p50_ms` the median of 40 searches with an embedded
embedder (wordllama). Texts are made up and bounded in number, so repetitions are more frequent than in life.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from hindlake.flows.maintenance import WEEKLY, run_steps
from hindlake.flows.pipeline import run_reflect
from hindlake.memory_store.capture.events import Event
from hindlake.memory_store.capture.traces import write_events
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.store.generations import current, open_tables
from hindlake.sdk.memory import Memory

START = datetime(2026, 1, 5, 8, tzinfo=UTC)
WEEKS_OF_A_MONTH = 52 / 12
SAID = (
    "My budget is {n}.", "My budget is now {n}.", "I prefer window seats.", "I like {thing}.",
    "I no longer like {thing}.", "My favourite colour is {colour}.", "I live in {city}.", "I moved to {city}.",
    "Please send me e-mail, no phone calls.",
)  # fmt: skip
THINGS = ("tea", "coffee", "jazz", "chess", "hiking", "opera", "sushi", "cycling")
COLOURS = ("blue", "green", "red", "black")
CITIES = ("Oslo", "Lima", "Turin", "Kyoto", "Accra", "Quito")
TOOLS = ("find_stock", "book_seat", "send_parcel", "quote_price", "open_ticket", "pay_bill")
ERRORS = ("timeout", "429", "400", "401", "not_found")
QUERIES = (
    "what is the budget",
    "seat preference",
    "stock lookup times out",
    "where does the user live",
    "parcel failed",
)


def task(rng: np.random.Generator, name: str, at: datetime) -> list[Event]:
    """One task as an agent ran it."""
    user, tool, error = f"user-{rng.integers(20)}", str(rng.choice(TOOLS)), str(rng.choice(ERRORS))
    words = {
        "n": int(rng.integers(1, 40)) * 250, "thing": rng.choice(THINGS), "colour": rng.choice(COLOURS),
        "city": rng.choice(CITIES),
    }  # fmt: skip
    steps: list[dict[str, Any]] = [{"type": "task", "content": f"Help {user} with {tool}.", "task_type": tool}]
    if rng.random() < 0.5:
        steps.append({"type": "message", "role": "user", "content": str(rng.choice(SAID)).format(**words)})
    failed = rng.random() < 0.3
    if failed:
        message = f"{tool} needs the field {'abcdefgh'[rng.integers(5)]}_id"
        steps.append({"type": "tool_call", "tool": tool, "error_code": error, "error_message": message})
    if not failed or rng.random() < 0.6:
        steps.append({"type": "tool_call", "tool": tool, "result": "ok"})
    steps.append({"type": "outcome", "outcome": "failure" if steps[-1].get("error_code") else "success"})
    common = {"subject": user, "agent": "bench"}
    return [
        Event("default", name, f"{name}-{seq}", seq, at + timedelta(seconds=seq), **step, **common)
        for seq, step in enumerate(steps)
    ]


def searched(settings: Settings, clock: ManualClock) -> float:
    """Median milliseconds of a search; what it returns counts as put before an agent."""
    times = []
    with Memory(settings, clock=clock) as memory:
        for number in range(40):
            start = time.perf_counter()
            hits = memory.search(QUERIES[number % len(QUERIES)], subject=f"user-{number % 20}")
            times.append((time.perf_counter() - start) * 1e3)
            memory.used(hits[:3])
    return round(float(np.median(times)), 1)


def year(home: Path, months: int, tasks: int, jobs: bool) -> list[dict[str, Any]]:
    """What there is at the end of each month."""
    settings = Settings.load(home=str(home), embedder="wordllama")
    lake, clock, rng = Lake.open(settings), ManualClock(START), np.random.default_rng(5)
    table = []
    for week in range(round(months * WEEKS_OF_A_MONTH)):
        events: list[Event] = []
        for day in range(7):
            at = START + timedelta(days=7 * week + day)
            for number in range(tasks):
                events += task(rng, f"t{week}-{day}-{number}", at + timedelta(minutes=10 * number))
        write_events(lake, events)
        clock.time = START + timedelta(days=7 * week + 7)
        run_reflect(settings, clock, version="bench", reflector="rules", engine="loop")
        seconds = 0.0
        if jobs:
            start = time.perf_counter()
            report = run_steps(WEEKLY, settings, clock, version="bench", reflector="rules", engine="loop")
            seconds = time.perf_counter() - start
            if report.failed:
                raise SystemExit(f"{report.summary()}")
        month = int((week + 1) / WEEKS_OF_A_MONTH)
        if month > len(table):
            counts = open_tables(settings, current(lake)).counts("default")
            hot = sum(count for (_, state), count in counts.items() if state in ("active", "pending"))
            lessons = sum(count for (kind, state), count in counts.items() if kind != "episode" and state == "active")
            row = {"month": month, "hot": hot, "not_episodes": lessons, "stored": sum(counts.values())}
            table.append(row | {"p50_ms": searched(settings, clock), "jobs_s": round(seconds, 1)})
            print(f"  {'with' if jobs else 'without'} {table[-1]}", file=sys.stderr, flush=True)
        elif week % 2:
            searched(settings, clock)
    return table


def main() -> None:
    """Let the months pass twice, and print both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--months", type=int, default=12)
    parser.add_argument("--tasks", type=int, default=8, help="tasks a day")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = {}
    for name, jobs in (("without", False), ("with", True)):
        with tempfile.TemporaryDirectory() as folder:
            result[name] = year(Path(folder), arguments.months, arguments.tasks, jobs)
    if arguments.json:
        print(json.dumps(result))
        return
    names = ("hot", "not_episodes", "stored", "p50_ms")
    print(f"{'month':>5} " + " ".join(f"{side + ' ' + name:>21}" for side in result for name in names))
    for rows in zip(*result.values(), strict=True):
        print(f"{rows[0]['month']:>5} " + " ".join(f"{row[name]:>21}" for row in rows for name in names))


if __name__ == "__main__":
    main()
