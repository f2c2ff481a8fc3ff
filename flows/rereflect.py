"""The Prefect flow `rereflect`. What Prefect keeps of it are ids and counts, never the text of a memory."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from prefect import flow, task

from ..memory_store.clock import SystemClock
from .parameters import EngineName, Place, ReflectorName, settings_of
from .rereflecting import run_rereflect
from .shown import Shown, show_result


@task(name="reflect-on-history", retries=0)
def rereflect_task(
    home: str | None, reflector: ReflectorName, prompt: str, model: str, engine: EngineName
) -> dict[str, Any]:
    """Run the job once. A run that was killed, or stopped at its budget, is gone on with by the next."""
    report = run_rereflect(
        settings_of(home, prompt=prompt, name=model),
        SystemClock(),
        version=version("hindlake"),
        reflector=reflector,
        engine=engine,
        progress=Shown("rereflect-progress", "traces"),
    )
    return report.summary()


@flow(name="rereflect", retries=0, timeout_seconds=23 * 3600)
def rereflect(
    home: Place | None = None,
    reflector: ReflectorName = "auto",
    prompt: str = "",
    model: str = "",
    engine: EngineName = "auto",
) -> dict[str, Any]:
    """Reflect again on all of history, into a generation that no reader sees: on demand.

    Compare it with the one in use by `hindlake generations diff`, then use it or drop it. Returns its number, run id,
    counts and cost.

    Args:
        home: Folder or s3://bucket/prefix; empty: as the worker's settings say.
        reflector: rules need no model, openai is any compatible endpoint; auto takes openai once one is set.
        prompt: Version of the prompt; empty: as the worker's settings say.
        model: Name of the model; empty: as the worker's settings say.
        engine: loop works in the worker's process, ray on the cluster; auto decides by how much there is.
    """
    result = rereflect_task(home, reflector, prompt, model, engine)
    state = "complete" if result["complete"] else "not complete yet: run it again"
    note = f"generation {result['generation']}, {state}; `hindlake generations diff` compares it with the one in use"
    show_result("rereflect", [{**result["reflect"], "run_id": ""}], note)
    return result
