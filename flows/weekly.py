"""The Prefect flow `weekly`. What Prefect keeps of it are ids and counts, never the text of a memory."""

from __future__ import annotations

from typing import Any, Literal

from prefect import flow

from .maintenance import WEEKLY
from .steps import run_as_tasks


@flow(name="weekly")
def weekly(
    home: str | None = None,
    namespaces: list[str] | None = None,
    reflector: Literal["auto", "rules", "openai"] = "auto",
    engine: Literal["auto", "loop", "ray"] = "auto",
) -> dict[str, Any]:
    """The steps of the night, and merge; one task a step; see `maintenance.WEEKLY`.

    `home` and `namespaces` are those of the worker's settings, and all, unless given. Returns run ids and counts of
    each step. A step that fails does not stop the next ones; the flow fails at its end.
    """
    return run_as_tasks("weekly", WEEKLY, home, namespaces, reflector, engine)
