"""The Prefect flow `nightly`. What Prefect keeps of it are ids and counts, never the text of a memory."""

from __future__ import annotations

from typing import Any, Literal

from prefect import flow

from .maintenance import NIGHTLY
from .steps import run_as_tasks


@flow(name="nightly")
def nightly(
    home: str | None = None,
    namespaces: list[str] | None = None,
    reflector: Literal["auto", "rules", "openai"] = "auto",
    engine: Literal["auto", "loop", "ray"] = "auto",
) -> dict[str, Any]:
    """All that memories need every night, one task a step; see `maintenance.NIGHTLY`.

    `home` and `namespaces` are those of the worker's settings, and all, unless given. Returns run ids and counts of
    each step. A step that fails does not stop the next ones; the flow fails at its end.
    """
    return run_as_tasks("nightly", NIGHTLY, home, namespaces, reflector, engine)
