"""A process of the model's kill test: it reflects on made-up traces, several at once, until done or killed.

It prints one JSON line at its end: how many lessons it has, and what its budget says. Usage:

    reflect_worker.py HOME URL TRACES
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from hindlake.jobs.reflecting.candidates import TraceGroup
from hindlake.jobs.reflecting.model_reflector import ModelReflector
from hindlake.memory_store.capture.events import Event, Trace
from hindlake.memory_store.settings import ModelSettings, Settings

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def group_of(number: int) -> TraceGroup:
    """One failed run, unlike any other."""
    trace_id = f"t{number}"
    rows: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": f"Please do task {number}."},
        {"type": "tool_call", "tool": "find_stock", "error_code": "400", "error_message": "warehouse is required"},
        {"type": "outcome", "outcome": "failure"},
    ]
    events = tuple(Event("default", trace_id, f"{trace_id}-{seq}", seq, NOW, **row) for seq, row in enumerate(rows))
    return TraceGroup(trace_id, (Trace("default", trace_id, events),))


def main(home: str, url: str, traces: str) -> None:
    """Reflect on all of them."""
    model = ModelSettings(base_url=url, calls="off", concurrency=4, budget_tokens=0)
    reflector = ModelReflector(Settings.load(home=home, model=model))
    with ThreadPoolExecutor(8) as pool:
        reflections = list(pool.map(lambda n: reflector.reflect(group_of(n)), range(int(traces))))
    budget = reflector.budget
    said = {
        "lessons": sum(len(reflection.candidates) for reflection in reflections),
        "calls": budget.calls,
        "repeated": budget.repeated_calls,
        "cost": budget.cost,
    }
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
