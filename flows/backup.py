"""The Prefect flow `backup`. What Prefect keeps of it are names and counts, never the text of a memory."""

from __future__ import annotations

from typing import Any

from prefect import flow, task

from ..memory_store.clock import SystemClock
from .parameters import Place, settings_of
from .safekeeping import run_backup
from .shown import Shown, show_result


@task(name="back-up", retries=0)
def backup_task(home: str | None, to: str) -> dict[str, Any]:
    """Make one backup. One that was stopped is finished by the next, which copies only what is missing."""
    report = run_backup(settings_of(home), SystemClock(), to, progress=Shown("backup-progress", "files"))
    return {name: value for name, value in report.summary().items() if isinstance(value, int | str)} | {
        "damaged": sorted(report.damaged)
    }


@flow(name="backup", retries=0, timeout_seconds=11 * 3600)
def backup(home: Place | None = None, to: Place | None = None) -> dict[str, Any]:
    """Back the lake up, read the backup back, and drop those that are too old: every night.

    It fails if there is no place for backups, and if what was written can't be restored. Returns the counts.

    Args:
        home: Folder or s3://bucket/prefix; empty: as the worker's settings say.
        to: Where backups lie, a folder or s3://bucket/prefix; empty: as the worker's settings say.
    """
    result = backup_task(home, to or "")
    counts = {name: value for name, value in result.items() if type(value) is int}
    note = f"{result['name']}: {result['copied']} of {result['files']} files copied"
    show_result("backup", [{"counts": {**counts, "damaged": len(result["damaged"])}}], note)
    return result
