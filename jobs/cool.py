"""The job `cool`: what has been archived or deleted for a while leaves the store for cold storage (R16, R18).

Nothing is destroyed: the log keeps every decision, the rows lie whole in the lake, and a restore brings them back.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from ..memory_store.clock import Clock
from ..memory_store.embedders import embedder_named
from ..memory_store.files.lake import Lake
from ..memory_store.history.cold import COLD, COOL, quiet_to, write_archive
from ..memory_store.history.inbox import write_proposals
from ..memory_store.history.log import settle
from ..memory_store.ids import derive_id
from ..memory_store.recall.predicates import Filter
from ..memory_store.records import runs
from ..memory_store.settings import Settings
from ..memory_store.store.generations import ensure, fold_to_head, open_tables
from .deciding.decide import DecideReport

if TYPE_CHECKING:
    from ..memory_store.store.tables import Tables

#: Memories of one file of the archive.
FILE_ROWS = 20_000


def cool(
    lake: Lake,
    settings: Settings,
    clock: Clock,
    *,
    version: str,
    namespaces: Sequence[str] | None = None,
    dry_run: bool = False,
) -> DecideReport:
    """Take memories that have been archived or deleted for `retention.cold_days` out of the store.

    Counts them as `cooled`. Killed anywhere and run again, it goes on where it stopped; a second run finds nothing
    to do. With `dry_run` nothing is written. Raises when the lake or the store fail.
    """
    report = DecideReport(runs.new_run_id(), "cool")
    for namespace in lake.chosen(namespaces):
        run = runs.Run(
            run_id=report.run_id, job="cool", namespace=namespace, version=version, started_at=clock.now(),
            parameters={"cold_days": settings.retention.cold_days},
        )  # fmt: skip
        cooled = _cool_one(lake, settings, clock, run, dry_run)
        report.counts["cooled"] += cooled
        if cooled and not dry_run:
            run.counts, run.status, run.ended_at = {"cooled": cooled}, "done", clock.now()
            runs.write_run(lake, run)
    report.counts = +report.counts
    return report


def _cool_one(lake: Lake, settings: Settings, clock: Clock, run: runs.Run, dry_run: bool) -> int:
    generation = ensure(lake, settings, clock)
    tables, embedder = open_tables(settings, generation), embedder_named(generation.embedder, settings)
    namespace = run.namespace
    settle(lake, namespace)
    run.read_to = fold_to_head(lake, tables, namespace, embedder)
    place = quiet_to(lake, namespace, clock.now() - timedelta(days=settings.retention.cold_days))
    ids = _cold(tables, namespace, place)
    if not ids or dry_run:
        return len(ids)
    for start in range(0, len(ids), FILE_ROWS):
        rows = tables.rows(namespace, ids[start : start + FILE_ROWS])
        write_archive(lake, namespace, place, rows)
    row = {
        "act": derive_id(namespace, "act", COOL, place),
        "at": clock.now(),
        "run": run.run_id,
        "decision": COOL,
        "id": derive_id(namespace, COOL, place),
        "read_to": place,
        "reason": f"archived or deleted, and unchanged for {settings.retention.cold_days} days",
    }
    write_proposals(lake, namespace, [row])
    settle(lake, namespace)
    fold_to_head(lake, tables, namespace, embedder)
    return len(ids)


def _cold(tables: Tables, namespace: str, place: int) -> list[str]:
    """Ids of memories in the store that are away and that nothing has changed after a place in the log."""
    rows = tables.scan(Filter((namespace,), states=COLD), ["id", "seq"])
    pairs = zip(rows.column("id").to_pylist(), rows.column("seq").to_pylist(), strict=True)
    return sorted(id for id, seq in pairs if seq <= place)
