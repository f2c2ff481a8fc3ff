"""The flow `reindex` as a plain function: what the command line runs at once and Prefect runs on request."""

from __future__ import annotations

from collections.abc import Callable

from ..jobs.models.budget import Forecast
from ..jobs.reindex import LEAST_RECALL, Limits, ReindexReport, Started, reindex
from ..jobs.shards import Engine
from ..memory_store.clock import Clock
from ..memory_store.errors import UsageError
from ..memory_store.files.lake import Lake
from ..memory_store.settings import Settings
from ..memory_store.telemetry.observing import observing
from .leased import leased


@observing("reindex")
def run_reindex(
    settings: Settings,
    clock: Clock,
    embedder: str,
    *,
    version: str,
    limits: Limits | None = None,
    engine: Engine = "auto",
    queries: int = 50,
    least_recall: float = LEAST_RECALL,
    use: bool = True,
    dry_run: bool = False,
    started: Started = lambda phase: lambda done, total: None,
    announce: Callable[[Forecast], None] = lambda forecast: None,
) -> ReindexReport:
    """Embed everything with another model, and switch readers to it; see `jobs.reindex`.

    Raises `UsageError` while another re-index is at work.
    """
    lake = Lake.open(settings)
    with leased(lake, settings, clock, "reindex", None, dry_run=dry_run) as mine:
        if mine.busy:
            who = next(iter(mine.busy.values()))
            raise UsageError(
                f"another re-index is at work ({who}): wait for it, then run this one if you still want it"
            )

        def told(phase: str) -> Callable[[int, int], None]:
            progress = started(phase)

            def both(done: int, total: int) -> None:
                mine.progress(done, total)  # raises once another run has taken over
                progress(done, total)

            return both

        return reindex(
            lake, settings, clock, embedder, version=version, limits=limits, engine=engine, queries=queries,
            least_recall=least_recall, use=use, dry_run=dry_run, started=told, announce=announce,
        )  # fmt: skip
