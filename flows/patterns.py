"""The Prefect flow `patterns`. What Prefect keeps of it are ids and counts, never the text of a memory."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated, Any

from prefect import flow, task
from pydantic import Field

from ..memory_store.clock import SystemClock
from .parameters import EngineName, Namespace, Place, ReflectorName, settings_of
from .pipeline import run_patterns
from .shown import Shown, show_result


@task(name="mine-recent-traces", retries=0)
def patterns_task(
    home: str | None, namespaces: list[str] | None, reflector: ReflectorName, engine: EngineName, every: int
) -> dict[str, Any]:
    """Run the job once. It looks at a window of raw traces, so a second run finds what the first one did."""
    report = run_patterns(
        settings_of(home),
        SystemClock(),
        version=version("hindlake"),
        namespaces=namespaces or None,
        reflector=reflector,
        engine=engine,
        every=every,
        progress=Shown("patterns-progress", "shards"),
    )
    return report.summary()


@flow(name="patterns", retries=0, timeout_seconds=6 * 3600)
def patterns(
    home: Place | None = None,
    namespaces: list[Namespace] | None = None,
    reflector: ReflectorName = "auto",
    engine: EngineName = "auto",
    every: Annotated[int, Field(ge=0)] = 0,
) -> dict[str, Any]:
    """Look at recent traces together for what recurs: daily, and in between where many tasks have come.

    Returns run id, counts and cost.

    Args:
        home: Folder or s3://bucket/prefix; empty: as the worker's settings say.
        namespaces: The namespaces to work in; empty: all.
        reflector: rules need no model, openai is any compatible endpoint; auto takes openai once one is set.
        engine: loop works in the worker's process, ray on the cluster; auto decides by how much there is.
        every: Work only where at least so many tasks have ended since the last time; 0: in any case.
    """
    result = patterns_task(home, namespaces, reflector, engine, every)
    not_due = len(result["not_due"])
    show_result("patterns", [result], f"{not_due} namespaces were not due" if not_due else "")
    return result
