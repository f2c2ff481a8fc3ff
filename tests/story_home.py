"""A home that holds the demo's week of traces, and what a store made of it looks like."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hindlake.cli.story import Story
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.log import read_log
from hindlake.memory_store.recall.predicates import Filter
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.store.generations import current, open_tables
from hindlake.sdk.recorder import Recorder

#: The day on which the story ends.
TODAY = datetime(2026, 3, 9, tzinfo=UTC)


def log_story(settings: Settings) -> None:
    """Log the week through the recorder."""
    clock = ManualClock(TODAY)
    recorder = Recorder(settings, agent_role="executor", clock=clock)
    Story(recorder, clock, TODAY).tell()
    recorder.close()


def store_rows(settings: Settings, namespace: str = "default") -> list[dict[str, Any]]:
    """Every memory of the store but for run and recorded time, by id."""
    tables = open_tables(settings, current(Lake.open(settings)))
    rows = tables.scan(Filter((namespace,), states=None)).to_pylist()
    return sorted(
        ({name: value for name, value in row.items() if name not in ("run", "added_at")} for row in rows),
        key=lambda row: row["id"],
    )


def log_rows(settings: Settings, namespace: str = "default") -> list[dict[str, Any]]:
    """Every row of the log but for run and recorded time, in order."""
    rows = read_log(Lake.open(settings), namespace).to_pylist()
    return [{name: value for name, value in row.items() if name not in ("run", "at", "vector")} for row in rows]
