"""The Prefect flow `collect`. What Prefect keeps of it are counts, never the text of an event."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from prefect import flow, task
from prefect.artifacts import create_table_artifact

from ..memory_store.clock import SystemClock
from ..memory_store.settings import Settings
from .pipeline import run_collect, run_compact, run_passages


@task(name="collect-and-compact", retries=0)
def collect_task(home: str | None, namespaces: list[str] | None) -> dict[str, dict[str, int]]:
    """Run the jobs once. Each finds its own work, so a second run continues where a first one stopped."""
    settings, clock = Settings.load(home=home), SystemClock()
    reports = {
        "collect": run_collect(settings, clock),
        "compact": run_compact(settings, clock, version=version("hindlake"), namespaces=namespaces),
        "passages": run_passages(settings, clock, namespaces=namespaces),
    }
    return {
        job: {name: value for name, value in vars(report).items() if isinstance(value, int)}
        for job, report in reports.items()
    }


@flow(name="collect")
def collect(home: str | None = None, namespaces: list[str] | None = None) -> dict[str, Any]:
    """Bring into the lake what recorders on this machine have logged, join small trace files, and make the turns of
    finished tasks searchable: hourly.

    `home` and `namespaces` are those of the worker's settings, and all, unless given. Returns the counts of each job.
    """
    result = collect_task(home, namespaces)
    create_table_artifact(
        key="collect-counts",
        table=[
            {"job": job, "what": name, "count": count}
            for job, counts in result.items()
            for name, count in counts.items()
        ],
        description=f"{result['collect']['events']} events collected, {result['compact']['joined']} files joined",
    )
    return result
