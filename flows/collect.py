"""The Prefect flow `collect`. What Prefect keeps of it are counts, never the text of an event."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from prefect import flow, task

from ..memory_store.clock import SystemClock
from .parameters import Namespace, Place, settings_of
from .pipeline import run_collect, run_compact, run_passages
from .shown import Shown, show_result


@task(name="collect-and-compact", retries=0)
def collect_task(home: str | None, namespaces: list[str] | None) -> dict[str, dict[str, int]]:
    """Run the jobs once. Each finds its own work, so a second run continues where a first one stopped."""
    settings, clock = settings_of(home), SystemClock()
    reports = {
        "collect": run_collect(settings, clock),
        "compact": run_compact(
            settings, clock, version=version("hindlake"), namespaces=namespaces or None,
            progress=Shown("collect-progress", "days of small files"),
        ),
        "passages": run_passages(settings, clock, namespaces=namespaces or None),
    }  # fmt: skip
    return {
        job: {name: value for name, value in vars(report).items() if isinstance(value, int)}
        for job, report in reports.items()
    }


@flow(name="collect", retries=0, timeout_seconds=2 * 3600)
def collect(home: Place | None = None, namespaces: list[Namespace] | None = None) -> dict[str, Any]:
    """Bring into the lake what recorders on this machine have logged, join small trace files, and make the turns of
    finished tasks searchable: hourly. Returns the counts of each job.

    Args:
        home: Folder or s3://bucket/prefix; empty: as the worker's settings say.
        namespaces: The namespaces to work in; empty: all.
    """
    result = collect_task(home, namespaces)
    note = f"{result['collect']['events']} events collected, {result['compact']['joined']} files joined"
    show_result("collect", [{"step": job, "counts": counts} for job, counts in result.items()], note)
    return result
