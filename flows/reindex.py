"""The Prefect flow `reindex`. What Prefect keeps of it are ids and counts, never the text of a memory."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Literal

from prefect import flow
from prefect.artifacts import create_table_artifact

from ..jobs.reindex import Limits
from ..memory_store.clock import SystemClock
from ..memory_store.errors import HindlakeError
from ..memory_store.settings import Settings
from .reindexing import run_reindex


@flow(name="reindex")
def reindex(
    embedder: str,
    home: str | None = None,
    engine: Literal["auto", "loop", "ray"] = "auto",
    use: bool = True,
    budget_tokens: int | None = None,
    per_minute: float = 0,
) -> dict[str, Any]:
    """Embed everything with another model, as the setting `embedder` names it, and switch readers to it.

    `home` is that of the worker's settings unless given. The flow fails when readers were not switched though `use`
    asked for it; a run that stopped at its budget is gone on with by the next.
    """
    settings = Settings.load(home=home)
    limits = Limits.of(settings, tokens=budget_tokens, per_minute=per_minute)
    report = run_reindex(
        settings, SystemClock(), embedder, version=version("hindlake"), limits=limits, engine=engine, use=use
    )
    summary = report.summary()
    create_table_artifact(
        key="reindex-counts",
        table=[{"what": what, "count": count} for what, count in summary["counts"].items()],
        description=f"generation {report.generation}, {'in use' if report.switched else report.reason}",
    )
    if use and not report.switched:
        raise HindlakeError(report.reason)
    return summary
