"""The job `settle`: what waits in the inbox gets its place in the log, and the store catches up with the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..memory_store.clock import Clock
from ..memory_store.embedders import embedder_named
from ..memory_store.files.lake import Lake
from ..memory_store.history.log import settle
from ..memory_store.settings import Settings
from ..memory_store.store.generations import ensure, fold_to_head, open_tables
from .deciding.decide import DecideReport


def settle_and_fold(
    lake: Lake,
    settings: Settings,
    clock: Clock,
    *,
    namespaces: Sequence[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> DecideReport:
    """Settle and fold the namespaces named, or all. Counts acts that were `accepted`, `refused` or there before.

    It decides nothing, so it has no run of its own and no dry run. `progress` is called with namespaces done and
    namespaces in all. Raises when the lake or the store fail.
    """
    report = DecideReport("", "settle")
    chosen = lake.chosen(namespaces)
    for done, namespace in enumerate(chosen, 1):
        generation = ensure(lake, settings, clock)
        tables, embedder = open_tables(settings, generation), embedder_named(generation.embedder, settings)
        settled = settle(lake, namespace)
        report.counts.update(
            accepted=len(settled.accepted), refused=len(settled.refused), there_before=len(settled.dropped),
            damaged=len(settled.damaged),
        )  # fmt: skip
        fold_to_head(lake, tables, namespace, embedder)
        tables.index()
        if progress:
            progress(done, len(chosen))
    report.counts = +report.counts
    return report
