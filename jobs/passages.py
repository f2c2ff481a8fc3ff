"""The job `passages`: the turns of finished tasks become passages that a search can find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from ..memory_store.clock import Clock, as_utc
from ..memory_store.embedders import embedder_named
from ..memory_store.files.lake import Lake
from ..memory_store.history.log import settle
from ..memory_store.settings import Settings
from ..memory_store.store.generations import ensure, fold_to_head, open_tables
from ..memory_store.store.passage_fold import fold_passages


@dataclass(frozen=True)
class PassagesReport:
    """What was done."""

    #: When the job ran, UTC
    at: datetime
    #: Namespaces that were looked at
    namespaces: int
    #: Passages that were written: new ones, and those whose episode or neighbours changed
    written: int


def passages(
    lake: Lake,
    settings: Settings,
    clock: Clock,
    *,
    namespaces: Sequence[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> PassagesReport:
    """Bring the passages of the namespaces named, or of all, up to the episodes in the log.

    `progress` is told how many events of those that are missing are done, for each namespace. Doing it twice, or
    being killed and done again, changes nothing. Raises when the lake, the store or the embedder fail.
    """
    generation = ensure(lake, settings, clock)
    embedder = embedder_named(generation.embedder, settings)
    tables = open_tables(settings, generation)
    chosen = lake.chosen(namespaces)
    written = 0
    for namespace in chosen:
        settle(lake, namespace)
        fold_to_head(lake, tables, namespace, embedder)
        written += fold_passages(lake, tables, namespace, embedder, progress)
    if written:
        tables.index()
    return PassagesReport(as_utc(clock.now()), len(chosen), written)
