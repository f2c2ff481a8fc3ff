"""The steps of each flow as plain functions: what the command line runs at once and Prefect runs on schedule."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ..jobs.collect import CollectReport, collect
from ..jobs.compact import CompactReport, compact
from ..jobs.passages import PassagesReport, passages
from ..jobs.patterns import PatternReport, patterns
from ..jobs.purge import Receipt, purge, sweep_due
from ..jobs.reflect import Announcement, ReflectReport, reflect
from ..jobs.reflecting.reflectors import Name, judge_of, reflector_of
from ..jobs.review import SAMPLE, ReviewReport, review
from ..jobs.shards import Engine
from ..jobs.undo import UndoReport, undo
from ..memory_store.clock import Clock
from ..memory_store.files.lake import Lake
from ..memory_store.records.requests import asked_for, taken_up
from ..memory_store.settings import Settings
from ..memory_store.store.generations import despite_a_switch
from ..memory_store.telemetry.observing import observing
from .leased import leased


@observing("collect")
def run_collect(settings: Settings, clock: Clock) -> CollectReport:
    """Bring what recorders on this machine have logged into the lake."""
    return collect(Lake.open(settings), settings, clock)


@observing("compact")
def run_compact(
    settings: Settings,
    clock: Clock,
    *,
    version: str,
    namespaces: Sequence[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> CompactReport:
    """Join small trace files into bigger ones, in the namespaces named, or in all."""
    lake = Lake.open(settings)
    return compact(lake, settings, clock, version=version, namespaces=namespaces, progress=progress)


@observing("passages")
def run_passages(
    settings: Settings,
    clock: Clock,
    *,
    namespaces: Sequence[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> PassagesReport:
    """Make the turns of finished tasks searchable, in the namespaces named, or in all."""
    lake = Lake.open(settings)
    return despite_a_switch(
        lake, lambda: passages(lake, settings, clock, namespaces=namespaces, progress=progress)
    )  # fmt: skip


@observing("reflect")
def run_reflect(
    settings: Settings,
    clock: Clock,
    *,
    version: str,
    namespaces: Sequence[str] | None = None,
    reflector: Name = "auto",
    engine: Engine = "auto",
    traces: Collection[str] | None = None,
    requested: bool = False,
    dry_run: bool = False,
    ask: bool = False,
    progress: Callable[[int, int], None] | None = None,
    announce: Callable[[Announcement], None] | None = None,
) -> ReflectReport:
    """Collect, then reflect on every trace that is ready, in the namespaces named, or in all; requests are taken up.

    `traces`: on these alone, whatever the gate says of them; that answers no request. `requested`: only in namespaces
    where a request is open.
    """
    run_collect(settings, clock)
    lake = Lake.open(settings)
    if requested:
        namespaces = asked_for(lake, lake.chosen(namespaces))
    with (
        leased(lake, settings, clock, "reflect", namespaces, dry_run=dry_run and not ask, progress=progress) as mine,
        taken_up(lake, () if dry_run or traces else mine.namespaces, clock) as requests,
    ):
        report = despite_a_switch(lake, lambda: reflect(
            lake, settings, clock, reflector_of(settings, reflector), version=version, namespaces=mine.namespaces,
            engine=engine, asked=frozenset(traces) if traces else None, dry_run=dry_run, ask=ask,
            progress=mine.progress, announce=announce,
        ))  # fmt: skip
        requests.done_by(report.run_id, stopped=report.stopped)
    report.busy.update(mine.busy)
    return report


@observing("patterns")
def run_patterns(
    settings: Settings,
    clock: Clock,
    *,
    version: str,
    namespaces: Sequence[str] | None = None,
    reflector: Name = "auto",
    engine: Engine = "auto",
    days: int | None = None,
    every: int = 0,
    dry_run: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> PatternReport:
    """Collect, then look at recent traces together, in the namespaces named, or in all."""
    run_collect(settings, clock)
    lake = Lake.open(settings)
    with leased(lake, settings, clock, "patterns", namespaces, dry_run=dry_run, progress=progress) as mine:
        report = despite_a_switch(lake, lambda: patterns(
            lake, settings, clock, judge_of(settings, reflector), version=version, namespaces=mine.namespaces,
            engine=engine, days=days, every=every, dry_run=dry_run, progress=mine.progress,
        ))  # fmt: skip
    report.busy.update(mine.busy)
    return report


@observing("undo")
def run_undo(
    settings: Settings,
    clock: Clock,
    run: str,
    *,
    version: str,
    namespaces: Sequence[str] | None = None,
    dry_run: bool = False,
) -> UndoReport:
    """Take back a run, in the namespaces named, or wherever it worked."""
    lake = Lake.open(settings)
    return undo(lake, settings, clock, run, version=version, namespaces=namespaces, dry_run=dry_run)


@observing("review")
def run_review(
    settings: Settings,
    clock: Clock,
    *,
    namespaces: Sequence[str] | None = None,
    month: str = "",
    size: int = SAMPLE,
) -> ReviewReport:
    """Draw the sample of last month, or of the month named, for people to judge, in the namespaces named, or in all."""
    return review(Lake.open(settings), clock, namespaces=namespaces, month=month, size=size)


@observing("purge")
def run_purge(
    settings: Settings,
    clock: Clock,
    *,
    ids: Sequence[str] = (),
    subject: str = "",
    trace: str = "",
    dry_run: bool = False,
    now: bool = False,
    progress: Callable[[str], None] = lambda step: None,
) -> Receipt:
    """Remove memories of the namespace of the settings for good; `progress` is told each step."""
    return purge(
        Lake.open(settings), settings, clock, settings.namespace, ids=ids, subject=subject, trace=trace,
        dry_run=dry_run, now=now, progress=progress,
    )  # fmt: skip


@observing("purge-sweep")
def run_purge_sweep(
    settings: Settings, clock: Clock, *, namespaces: Sequence[str] | None = None, now: bool = False
) -> list[Receipt]:
    """Finish every purge whose last sweep is due, in the namespaces named, or in all."""
    return sweep_due(Lake.open(settings), settings, clock, namespaces=namespaces, now=now)
