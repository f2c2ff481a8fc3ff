"""The Prefect flow `reflect`. What Prefect keeps of it are ids and counts, never the text of a memory."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from prefect import flow, task

from ..memory_store.clock import SystemClock
from .parameters import EngineName, Namespace, Place, ReflectorName, TraceId, settings_of
from .pipeline import run_reflect
from .shown import Shown, show_result


@task(name="reflect-on-ready-traces", retries=0)
def reflect_task(
    home: str | None,
    namespaces: list[str] | None,
    reflector: ReflectorName,
    engine: EngineName,
    traces: list[str] | None,
    requested: bool,
) -> dict[str, Any]:
    """Run the job once. It finds its own work, so a second run continues where a first one stopped."""
    report = run_reflect(
        settings_of(home),
        SystemClock(),
        version=version("hindlake"),
        namespaces=namespaces or None,
        reflector=reflector,
        engine=engine,
        traces=traces,
        requested=requested,
        progress=Shown("reflect-progress", "traces"),
    )
    return report.summary()


@flow(name="reflect", retries=0, timeout_seconds=4 * 3600)
def reflect(
    home: Place | None = None,
    namespaces: list[Namespace] | None = None,
    reflector: ReflectorName = "auto",
    engine: EngineName = "auto",
    traces: list[TraceId] | None = None,
    requested: bool = False,
) -> dict[str, Any]:
    """Reflect on every trace that is ready: hourly, and on request. Returns run id, counts and cost.

    Args:
        home: Folder or s3://bucket/prefix; empty: as the worker's settings say.
        namespaces: The namespaces to work in; empty: all.
        reflector: rules need no model, openai is any compatible endpoint; auto takes openai once one is set.
        engine: loop works in the worker's process, ray on the cluster; auto decides by how much there is.
        traces: Only these traces, whatever the gate would say of them; those that were reflected on are left alone.
        requested: Only in namespaces where an agent has asked for it (`memory_reflect`); nothing where none has.
    """
    result = reflect_task(home, namespaces, reflector, engine, traces, requested)
    counts = result["counts"]
    note = f"{counts['reflected']} of {counts['traces']} traces reflected on, {counts['added']} memories added"
    show_result("reflect", [result], note)
    return result
