"""The steps of a night or a week as Prefect tasks. Each is tried again by the next night, so no task retries."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from prefect import task

from ..memory_store.clock import SystemClock
from ..memory_store.errors import HindlakeError
from .maintenance import run_step
from .parameters import EngineName, ReflectorName, settings_of
from .shown import Shown, show_result


@task(name="maintain", task_run_name="{step}", retries=0)
def step_task(
    step: str, home: str | None, namespaces: list[str] | None, reflector: ReflectorName, engine: EngineName
) -> dict[str, Any]:
    """Run one step once. It finds its own work, so a second run continues where a first one stopped."""
    report = run_step(
        step,
        settings_of(home),
        SystemClock(),
        version=version("hindlake"),
        namespaces=namespaces or None,
        reflector=reflector,
        engine=engine,
        progress=Shown(f"{step}-progress", step),
    )
    return report.summary()


def run_as_tasks(
    name: str,
    steps: Sequence[str],
    home: str | None,
    namespaces: list[str] | None,
    reflector: ReflectorName,
    engine: EngineName,
) -> dict[str, Any]:
    """Run steps one after the other, show what they did, and raise if one of them failed."""
    done: list[dict[str, Any]] = []
    for step in steps:
        state = step_task(step, home, namespaces, reflector, engine, return_state=True)
        if state.is_completed():
            done.append(state.result())
        else:
            done.append({"step": step, "run_id": "", "counts": {}, "error": "see its task"})
    failed = [one["step"] for one in done if "error" in one]
    note = f"{len(done) - len(failed)} steps done, {len(failed)} failed{': ' if failed else ''}{', '.join(failed)}"
    show_result(name, done, note)
    if failed:
        raise HindlakeError(f"{', '.join(failed)} failed: see the task; the next run makes up for it")
    return {"steps": done}
