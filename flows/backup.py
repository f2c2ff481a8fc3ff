"""The Prefect flow `backup`. What Prefect keeps of it are names and counts, never the text of a memory."""

from __future__ import annotations

from typing import Any

from prefect import flow, task
from prefect.artifacts import create_table_artifact

from ..memory_store.clock import SystemClock
from ..memory_store.settings import Settings
from .safekeeping import run_backup


@task(name="back-up", retries=0)
def backup_task(home: str | None, to: str) -> dict[str, Any]:
    """Make one backup. One that was stopped is finished by the next, which copies only what is missing."""
    report = run_backup(Settings.load(home=home), SystemClock(), to)
    return {name: value for name, value in report.summary().items() if isinstance(value, int | str)} | {
        "damaged": sorted(report.damaged)
    }


@flow(name="backup")
def backup(home: str | None = None, to: str = "") -> dict[str, Any]:
    """Back the lake up, read the backup back, and drop those that are too old: every night.

    `home` and `to` are those of the worker's settings unless given. Returns the counts of the report. It fails if
    there is no place for backups, and if what was written can't be restored.
    """
    result = backup_task(home, to)
    counts = [{"what": name, "count": value} for name, value in result.items() if type(value) is int]
    create_table_artifact(
        key="backup-counts",
        table=counts,
        description=f"{result['name']}: {result['copied']} of {result['files']} files copied",
    )
    return result
