"""The steps of a night or a week as Prefect tasks. Each is tried again by the next night, so no task retries."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Literal

from prefect import task
from prefect.artifacts import create_table_artifact

from ..memory_store.clock import SystemClock
from ..memory_store.errors import HindlakeError
from ..memory_store.settings import Settings
from .maintenance import run_step


@task(name="maintain", task_run_name="{step}", retries=0)
def step_task(
    step: str,
    home: str | None,
    namespaces: list[str] | None,
    reflector: Literal["auto", "rules", "openai"],
    engine: Literal["auto", "loop", "ray"],
) -> dict[str, Any]:
    """Run one step once. It finds its own work, so a second run continues where a first one stopped."""
    report = run_step(
        step,
        Settings.load(home=home),
        SystemClock(),
        version=version("hindlake"),
        namespaces=namespaces,
        reflector=reflector,
        engine=engine,
    )
    return report.summary()


def run_as_tasks(
    name: str,
    steps: Sequence[str],
    home: str | None,
    namespaces: list[str] | None,
    reflector: Literal["auto", "rules", "openai"],
    engine: Literal["auto", "loop", "ray"],
) -> dict[str, Any]:
    """Run steps one after the other, keep their counts as an artifact, and raise if one of them failed."""
    done: list[dict[str, Any]] = []
    failed: list[str] = []
    for step in steps:
        state = step_task(step, home, namespaces, reflector, engine, return_state=True)
        if state.is_completed():
            done.append(state.result())
        else:
            failed.append(step)
    create_table_artifact(
        key=f"{name}-counts",
        table=[
            {"step": one["step"], "run": one["run_id"], "what": what, "count": count}
            for one in done
            for what, count in one["counts"].items()
        ],
        description=f"{len(done)} steps done, {len(failed)} failed{': ' if failed else ''}{', '.join(failed)}",
    )
    if failed:
        raise HindlakeError(f"{', '.join(failed)} failed: see the task; the next run makes up for it")
    return {"steps": done}
