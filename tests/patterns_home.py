"""Homes in which a failure recurs over tasks, and the job patterns run over them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from json import dumps
from typing import Any

from hindlake.jobs.patterns import PatternReport, patterns
from hindlake.memory_store.capture.events import Event
from hindlake.memory_store.capture.traces import write_events
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from story_home import store_rows

NOW = datetime(2026, 3, 10, tzinfo=UTC)
FAILED = {"tool": "crane", "error_code": "SLIP_UNKNOWN", "error_message": "the slip number is unknown here"}


def log(settings: Settings, names: Sequence[str], then: str = "hoist", **more: Any) -> None:
    """One trace a name, as `events_of` tells it."""
    write_events(Lake.open(settings), [event for name in names for event in events_of(name, then, **more)])


def events_of(
    name: str,
    then: str = "hoist",
    *,
    at: datetime = NOW - timedelta(days=2),
    namespace: str = "default",
    kind: str = "mooring",
    task: str = "",
) -> list[Event]:
    """A trace: the crane fails, and the run goes on with another tool and succeeds."""
    rows: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": "Lift the boat out of the water before the storm"},
        {"type": "tool_call", **FAILED},
        {"type": "tool_call", "tool": then, "arguments": dumps({"boat": f"b-{name}"}), "result": "done"},
        {"type": "outcome", "outcome": "success"},
    ]
    return [
        Event(namespace, name, f"{name}-{seq}", seq, at + timedelta(seconds=seq), task_type=kind, task_id=task, **row)
        for seq, row in enumerate(rows)
    ]


def run(settings: Settings, **options: Any) -> PatternReport:
    clock = options.pop("clock", ManualClock(NOW))
    report = patterns(Lake.open(settings), settings, clock, options.pop("judge", None), version="test", **options)
    check_counts(report)
    return report


def check_counts(report: PatternReport) -> None:
    counts = report.counts
    ends = (
        "added", "replaced", "raised", "lowered", "unchanged", "kept_out", "refused", "refused_before", "failed",
        "unasked", "unsettled",
    )  # fmt: skip
    assert counts["found"] == sum(counts[name] for name in ends)


def ends(report: PatternReport) -> dict[str, int]:
    """The counts that are not zero, but for what was looked at."""
    apart = ("traces", "tasks", "tasks_ever", "found")
    return {name: count for name, count in report.counts.items() if count and name not in apart}


def lessons(settings: Settings, state: str = "active") -> list[dict[str, Any]]:
    return [row for row in store_rows(settings) if row["kind"] == "experience" and row["state"] == state]
