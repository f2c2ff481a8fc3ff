"""What keeps memories in order, night by night and week by week: each step by itself, and all of them in their order.

A step finds its own work. So a step that failed is made up for by the next night, a night that was killed is finished
by starting it again, and a second run of the same night finds nothing to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from ..jobs.aliases import aliases
from ..jobs.collect import collect
from ..jobs.cool import cool
from ..jobs.credit import credit
from ..jobs.decay import decay
from ..jobs.decide import DecideReport
from ..jobs.dedup import dedup
from ..jobs.merge import merge
from ..jobs.promote import promote
from ..jobs.reflectors import Name, pair_judges
from ..jobs.resolve_pending import resolve_pending
from ..jobs.rules.attributes import holds_many
from ..jobs.settle import settle_and_fold
from ..jobs.shards import Engine
from ..memory_store.clock import Clock
from ..memory_store.errors import HindlakeError
from ..memory_store.lake import Lake
from ..memory_store.settings import Settings
from ..memory_store.switching import keep_up
from .leased import leased
from .pipeline import run_purge_sweep

#: The steps of a night, in order: what waits is settled and compared first, so that all others see it; what outcomes
#: and time say of memories comes before joining them, so that nothing is joined into what is about to go; what was
#: joined confirms together. Then generations that readers left are brought up to all that, and the oldest dropped.
#: Last, what was purged before is looked for once more.
NIGHTLY = ("settle", "resolve", "credit", "decay", "cool", "dedup", "promote", "aliases", "generations", "sweep")
#: Once a week what belongs together is composed as well, after what is said twice was joined.
WEEKLY = ("settle", "resolve", "credit", "decay", "cool", "dedup", "merge", "promote", "aliases", "generations", "sweep")

#: Steps that two runs may do at once: they cost nothing and decide nothing.
_SHARED = ("settle", "generations", "sweep")

#: Told what is done of a step: done, all.
Progress = Callable[[int, int], None]


@dataclass
class StepReport:
    """What one step of a night did."""

    step: str
    run_id: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    #: The decisions; of many steps together kept only with `dry_run`
    decisions: list[dict[str, Any]] = field(default_factory=list)
    #: Namespaces that were left to another run, each with who that is
    busy: dict[str, str] = field(default_factory=dict)
    #: Why it failed; empty if it did not
    error: str = ""

    def summary(self) -> dict[str, Any]:
        """The report as plain values: ids and counts, never the text of a memory."""
        found: dict[str, Any] = {"step": self.step, "run_id": self.run_id, "counts": dict(sorted(self.counts.items()))}
        found |= {"busy": sorted(self.busy)} if self.busy else {}
        return found | ({"error": self.error} if self.error else {})


@dataclass
class MaintenanceReport:
    """What all steps did."""

    steps: list[StepReport] = field(default_factory=list)

    @property
    def failed(self) -> list[str]:
        """Names of the steps that failed."""
        return [step.step for step in self.steps if step.error]

    def summary(self) -> dict[str, Any]:
        """The report as plain values: ids and counts, never the text of a memory."""
        return {"steps": [step.summary() for step in self.steps], "failed": self.failed}


class Step(Protocol):
    """A job as the command line and the flows call it."""

    def __call__(
        self,
        settings: Settings,
        clock: Clock,
        *,
        version: str,
        namespaces: Sequence[str] | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> DecideReport:
        """Run it once over the namespaces named, or over all."""
        ...


def run_dedup(
    settings: Settings,
    clock: Clock,
    *,
    version: str,
    namespaces: Sequence[str] | None = None,
    reflector: Name = "auto",
    engine: Engine = "auto",
    dry_run: bool = False,
    progress: Progress | None = None,
) -> DecideReport:
    """Join what is said twice, in the namespaces named, or in all. `reflector`: whether a model judges, as there."""
    return dedup(
        Lake.open(settings), settings, clock, version=version, namespaces=namespaces,
        judges=pair_judges(settings, reflector, ask=not dry_run), holds_many=holds_many, engine=engine, dry_run=dry_run,
        progress=progress,
    )  # fmt: skip


def run_merge(
    settings: Settings,
    clock: Clock,
    *,
    version: str,
    namespaces: Sequence[str] | None = None,
    reflector: Name = "auto",
    engine: Engine = "auto",
    dry_run: bool = False,
    progress: Progress | None = None,
) -> DecideReport:
    """Compose what complements each other, in the namespaces named, or in all. `reflector` as in `run_dedup`."""
    return merge(
        Lake.open(settings), settings, clock, version=version, namespaces=namespaces,
        judges=pair_judges(settings, reflector, ask=not dry_run), holds_many=holds_many, engine=engine, dry_run=dry_run,
        progress=progress,
    )  # fmt: skip


def run_resolve(
    settings: Settings,
    clock: Clock,
    *,
    version: str,
    namespaces: Sequence[str] | None = None,
    reflector: Name = "auto",
    dry_run: bool = False,
    progress: Progress | None = None,
) -> DecideReport:
    """Compare what is pending with what is there, in the namespaces named, or in all. `reflector` as in `run_dedup`."""
    return resolve_pending(
        Lake.open(settings), settings, clock, version=version, namespaces=namespaces,
        judges=pair_judges(settings, reflector, ask=not dry_run), holds_many=holds_many,
        dry_run=dry_run, progress=progress,
    )  # fmt: skip


def run_promote(
    settings: Settings,
    clock: Clock,
    *,
    version: str,
    namespaces: Sequence[str] | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> DecideReport:
    """Raise what enough traces confirm, in the namespaces named, or in all."""
    return promote(Lake.open(settings), settings, clock, version=version, namespaces=namespaces, dry_run=dry_run)


def _settle(
    settings: Settings,
    clock: Clock,
    *,
    version: str,
    namespaces: Sequence[str] | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> DecideReport:
    collect(Lake.open(settings), settings, clock)
    return settle_and_fold(Lake.open(settings), settings, clock, namespaces=namespaces, progress=progress)


def _generations(
    settings: Settings,
    clock: Clock,
    *,
    version: str,
    namespaces: Sequence[str] | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> DecideReport:
    """Fold the generations that readers left lately, and drop the others: of all namespaces, since they hold all."""
    done = keep_up(Lake.open(settings), settings, clock, dry_run=dry_run)
    counts = Counter(folded=len(done.folded), dropped=len(done.dropped), failed=len(done.failed))
    return DecideReport("", "generations", counts=+counts)


def _sweep(
    settings: Settings,
    clock: Clock,
    *,
    version: str,
    namespaces: Sequence[str] | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> DecideReport:
    """Finish the purges whose last sweep is due; it decides nothing, so that a dry run of it is nothing."""
    report = DecideReport("", "sweep")
    if not dry_run:
        for receipt in run_purge_sweep(settings, clock, namespaces=namespaces):
            report.counts["swept" if receipt.sweep_due is None else "unfinished"] += 1
    return report


def _plain(job: Callable[..., DecideReport]) -> Step:
    """A job that has no progress to tell of and asks no model."""

    def step(
        settings: Settings,
        clock: Clock,
        *,
        version: str,
        namespaces: Sequence[str] | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> DecideReport:
        return job(Lake.open(settings), settings, clock, version=version, namespaces=namespaces, dry_run=dry_run)

    return step


def _step(name: str, reflector: Name, engine: Engine) -> Step:
    steps: dict[str, Step] = {
        "settle": _settle,
        "resolve": partial(run_resolve, reflector=reflector),
        "credit": _plain(credit),
        "decay": _plain(decay),
        "cool": _plain(cool),
        "dedup": partial(run_dedup, reflector=reflector, engine=engine),
        "merge": partial(run_merge, reflector=reflector, engine=engine),
        "promote": run_promote,
        "aliases": _plain(aliases),
        "generations": _generations,
        "sweep": _sweep,
    }
    return steps[name]


def run_step(
    name: str,
    settings: Settings,
    clock: Clock,
    *,
    version: str,
    namespaces: Sequence[str] | None = None,
    reflector: Name = "auto",
    engine: Engine = "auto",
    dry_run: bool = False,
    progress: Progress | None = None,
) -> StepReport:
    """Run one step of `NIGHTLY` or `WEEKLY`, where no other run does. Raises what the step raises."""
    step = _step(name, reflector, engine)
    if name in _SHARED:
        report = step(settings, clock, version=version, namespaces=namespaces, dry_run=dry_run, progress=progress)
        return StepReport(name, report.run_id, report.counts, report.decisions)
    with leased(
        Lake.open(settings), settings, clock, name, namespaces, dry_run=dry_run, progress=progress
    ) as mine:  # fmt: skip
        report = step(
            settings, clock, version=version, namespaces=mine.namespaces, dry_run=dry_run, progress=mine.progress
        )  # fmt: skip
    return StepReport(name, report.run_id, report.counts, report.decisions, mine.busy)


def run_steps(
    names: Sequence[str],
    settings: Settings,
    clock: Clock,
    *,
    version: str,
    namespaces: Sequence[str] | None = None,
    reflector: Name = "auto",
    engine: Engine = "auto",
    dry_run: bool = False,
    started: Callable[[str], Progress | None] = lambda name: None,
) -> MaintenanceReport:
    """Run steps one after the other. One that fails is told in the report, and the next ones go on: none rests on it.

    `started` is told the name of each step, and gives what is told of its progress. With `dry_run` nothing is
    written, so each step shows what it would decide of the store as it is now.
    """
    report = MaintenanceReport()
    for name in names:
        try:
            step = run_step(
                name, settings, clock, version=version, namespaces=namespaces, reflector=reflector, engine=engine,
                dry_run=dry_run, progress=started(name),
            )  # fmt: skip
            step.decisions = step.decisions if dry_run else []
        except HindlakeError as error:
            step = StepReport(name, error=f"{type(error).__name__}: {error}")
        report.steps.append(step)
    return report
