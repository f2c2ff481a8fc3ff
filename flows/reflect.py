"""The Prefect flow `reflect`. What Prefect keeps of it are ids and counts, never the text of a memory."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Literal

from prefect import flow, task
from prefect.artifacts import create_table_artifact

from ..memory_store.clock import SystemClock
from ..memory_store.settings import Settings
from .pipeline import run_reflect


@task(name="reflect-on-ready-traces", retries=0)
def reflect_task(
    home: str | None,
    namespaces: list[str] | None,
    reflector: Literal["auto", "rules", "openai"],
    engine: Literal["auto", "loop", "ray"],
) -> dict[str, Any]:
    """Run the job once. It finds its own work, so a second run continues where a first one stopped."""
    report = run_reflect(
        Settings.load(home=home),
        SystemClock(),
        version=version("hindlake"),
        namespaces=namespaces,
        reflector=reflector,
        engine=engine,
    )
    return report.summary()


@flow(name="reflect")
def reflect(
    home: str | None = None,
    namespaces: list[str] | None = None,
    reflector: Literal["auto", "rules", "openai"] = "auto",
    engine: Literal["auto", "loop", "ray"] = "auto",
) -> dict[str, Any]:
    """Reflect on every trace that is ready: hourly, and on request.

    `home` and `namespaces` are those of the worker's settings, and all, unless given. Returns run id and counts.
    """
    result = reflect_task(home, namespaces, reflector, engine)
    create_table_artifact(
        key="reflect-counts",
        table=[{"what": name, "count": count} for name, count in sorted(result["counts"].items())],
        description=f"run {result['run_id']}, {result['engine']}, cost {result['cost']} micro-dollars",
    )
    return result
