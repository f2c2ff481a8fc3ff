"""The Prefect flow `nightly`. What Prefect keeps of it are ids and counts, never the text of a memory."""

from __future__ import annotations

from typing import Any

from prefect import flow

from .maintenance import NIGHTLY
from .parameters import EngineName, Namespace, Place, ReflectorName
from .steps import run_as_tasks


@flow(name="nightly", retries=0, timeout_seconds=8 * 3600)
def nightly(
    home: Place | None = None,
    namespaces: list[Namespace] | None = None,
    reflector: ReflectorName = "auto",
    engine: EngineName = "auto",
) -> dict[str, Any]:
    """All that memories need every night, one task a step; see `maintenance.NIGHTLY`.

    A step that fails does not stop the next ones; the flow fails at its end. Returns run ids and counts of each step.

    Args:
        home: Folder or s3://bucket/prefix; empty: as the worker's settings say.
        namespaces: The namespaces to work in; empty: all.
        reflector: Who judges pairs that no rule decides: rules is no one, openai the model; auto: if one is set.
        engine: loop works in the worker's process, ray on the cluster; auto decides by how much there is.
    """
    return run_as_tasks("nightly", NIGHTLY, home, namespaces, reflector, engine)
