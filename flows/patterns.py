"""The Prefect flow `patterns`. What Prefect keeps of it are ids and counts, never the text of a memory."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Literal

from prefect import flow, task
from prefect.artifacts import create_table_artifact

from ..memory_store.clock import SystemClock
from ..memory_store.settings import Settings
from .pipeline import run_patterns


@task(name="mine-recent-traces", retries=0)
def patterns_task(
    home: str | None,
    namespaces: list[str] | None,
    reflector: Literal["auto", "rules", "openai"],
    engine: Literal["auto", "loop", "ray"],
    every: int,
) -> dict[str, Any]:
    """Run the job once. It looks at a window of raw traces, so a second run finds what the first one did."""
    report = run_patterns(
        Settings.load(home=home),
        SystemClock(),
        version=version("hindlake"),
        namespaces=namespaces,
        reflector=reflector,
        engine=engine,
        every=every,
    )
    return report.summary()


@flow(name="patterns")
def patterns(
    home: str | None = None,
    namespaces: list[str] | None = None,
    reflector: Literal["auto", "rules", "openai"] = "auto",
    engine: Literal["auto", "loop", "ray"] = "auto",
    every: int = 0,
) -> dict[str, Any]:
    """Look at recent traces together for what recurs: daily, and with `every` where so many tasks have come.

    `home` and `namespaces` are those of the worker's settings, and all, unless given. Returns run id and counts.
    """
    result = patterns_task(home, namespaces, reflector, engine, every)
    create_table_artifact(
        key="patterns-counts",
        table=[{"what": name, "count": count} for name, count in sorted(result["counts"].items())],
        description=f"run {result['run_id']}, {result['engine']}, cost {result['cost']} micro-dollars",
    )
    return result
