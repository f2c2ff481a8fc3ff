"""What keeps memories in order, night by night and week by week: each step by itself, and all of them in their order.

A step finds its own work. So a step that failed is made up for by the next night, a night that was killed is finished
by starting it again, and a second run of the same night finds nothing to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..jobs.aliases import aliases
from ..jobs.collect import collect
from ..jobs.cool import cool
from ..jobs.credit import credit
from ..jobs.decay import decay
from ..jobs.deciding.decide import DecideReport
from ..jobs.dedup import dedup
from ..jobs.merge import merge
from ..jobs.models.budget import Budget, Usage
from ..jobs.promote import promote
from ..jobs.reflecting.reflectors import Name, pair_judges
from ..jobs.reflecting.rules.attributes import holds_many
from ..jobs.resolve_pending import resolve_pending
from ..jobs.settle import settle_and_fold
from ..jobs.shards import Engine
from ..memory_store.clock import Clock
from ..memory_store.errors import HindlakeError
from ..memory_store.files.lake import Lake
from ..memory_store.settings import Settings
from ..memory_store.store.generations import despite_a_switch
from ..memory_store.store.switching import keep_up
from ..memory_store.telemetry.observing import observed
from .leased import leased
from .pipeline import run_purge_sweep

#: The steps of a night, in order: what waits is settled and compared first, so that all others see it; what outcomes
#: and time say of memories comes before joining them, so that nothing is joined into what is about to go; what was
#: joined confirms together. Then generations that readers left are brought up to all that, and the oldest dropped.
#: Last, what was purged before is looked for once more.
NIGHTLY = ("settle", "resolve", "credit", "decay", "cool", "dedup", "promote", "aliases", "generations", "sweep")
#: Once a week what belongs together is composed as well, after what is said twice was joined.
_JOINED = NIGHTLY.index("dedup") + 1
WEEKLY = (*NIGHTLY[:_JOINED], "merge", *NIGHTLY[_JOINED:])

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
    #: What a model that judged pairs has used
    usage: Usage = field(default_factory=Usage)
    #: Namespaces that were left to another run, each with who that is
    busy: dict[str, str] = field(default_factory=dict)
    #: Why it failed; empty if it did not
    error: str = ""

    def summary(self) -> dict[str, Any]:
        """The report as plain values: ids, counts and cost, never the text of a memory."""
        found: dict[str, Any] = {"step": self.step, "run_id": self.run_id, "counts": dict(sorted(self.counts.items()))}
        found |= {name: count for name, count in asdict(self.usage).items() if count}
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


@dataclass(frozen=True)
class _Call:
    """How a step is run."""

    lake: Lake
    settings: Settings
    clock: Clock
    version: str
    namespaces: Sequence[str] | None
    reflector: Name
    engine: Engine
    dry_run: bool
    progress: Progress | None
    #: What a model may use, and has used
    budget: Budget

    def decides(self, job: Callable[..., DecideReport], **more: Any) -> DecideReport:
        """Run a job that decides."""
        return job(
            self.lake, self.settings, self.clock, version=self.version, namespaces=self.namespaces,
            dry_run=self.dry_run, **more,
        )  # fmt: skip

    def compares(self, job: Callable[..., DecideReport], **more: Any) -> DecideReport:
        """Run a job that compares memories, and may ask a model about pairs that no rule decides."""
        judges = pair_judges(self.settings, self.reflector, ask=not self.dry_run, budget=self.budget)
        return self.decides(job, judges=judges, holds_many=holds_many, progress=self.progress, **more)


def _settle(call: _Call) -> DecideReport:
    collect(call.lake, call.settings, call.clock)
    return settle_and_fold(
        call.lake, call.settings, call.clock, namespaces=call.namespaces, progress=call.progress
    )  # fmt: skip


def _generations(call: _Call) -> DecideReport:
    """Fold the generations that readers left lately, and drop the others: of all namespaces, since they hold all."""
    done = keep_up(call.lake, call.settings, call.clock, dry_run=call.dry_run)
    counts = Counter(folded=len(done.folded), dropped=len(done.dropped), failed=len(done.failed))
    return DecideReport("", "generations", counts=+counts)


def _sweep(call: _Call) -> DecideReport:
    """Finish the purges whose last sweep is due; it decides nothing, so that a dry run of it is nothing."""
    report = DecideReport("", "sweep")
    if not call.dry_run:
        for receipt in run_purge_sweep(call.settings, call.clock, namespaces=call.namespaces):
            report.counts["swept" if receipt.sweep_due is None else "unfinished"] += 1
    return report


_STEPS: dict[str, Callable[[_Call], DecideReport]] = {
    "settle": _settle,
    "resolve": lambda call: call.compares(resolve_pending),
    "credit": lambda call: call.decides(credit),
    "decay": lambda call: call.decides(decay),
    "cool": lambda call: call.decides(cool),
    "dedup": lambda call: call.compares(dedup, engine=call.engine),
    "merge": lambda call: call.compares(merge, engine=call.engine),
    "promote": lambda call: call.decides(promote),
    "aliases": lambda call: call.decides(aliases),
    "generations": _generations,
    "sweep": _sweep,
}


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
    call = _Call(
        Lake.open(settings), settings, clock, version, namespaces, reflector, engine, dry_run, progress,
        Budget.of(settings.model),
    )  # fmt: skip
    with observed(settings, name, namespaces, is_dry=dry_run) as seen:
        if name in _SHARED:
            report = despite_a_switch(call.lake, lambda: _STEPS[name](call))
            step = StepReport(name, report.run_id, report.counts, report.decisions)
        else:
            with leased(call.lake, settings, clock, name, namespaces, dry_run=dry_run, progress=progress) as mine:
                own = replace(call, namespaces=mine.namespaces, progress=mine.progress)
                report = despite_a_switch(call.lake, lambda: _STEPS[name](own))
            step = StepReport(name, report.run_id, report.counts, report.decisions, call.budget.usage, mine.busy)
        seen.take(step)
    return step


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
    with observed(settings, "weekly" if "merge" in names else "nightly", namespaces, is_dry=dry_run) as seen:
        for name in names:
            try:
                step = run_step(
                    name, settings, clock, version=version, namespaces=namespaces, reflector=reflector,
                    engine=engine, dry_run=dry_run, progress=started(name),
                )  # fmt: skip
                step.decisions = step.decisions if dry_run else []
            except HindlakeError as error:
                step = StepReport(name, error=f"{type(error).__name__}: {error}")
            report.steps.append(step)
        seen.take(report)
    return report
