"""What language models and paid embedders cost, by what the runs of the lake say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from ..files.lake import Lake, namespace_path
from ..ids import time_of
from ..telemetry.spending import USED
from .runs import Run, Spent, read_run


@dataclass
class Cost:
    """What some runs used."""

    runs: int = 0
    #: Calls to the endpoint, failed ones included
    calls: int = 0
    failed_calls: int = 0
    #: Calls whose tokens are estimated, because no answer said how many
    estimated_calls: int = 0
    #: Calls that were paid for before and made again after a kill
    repeated_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    #: Micro-dollars
    cost: int = 0
    #: Runs that stopped at their budget
    stopped: int = 0

    def add(self, run: Run, spent: Iterable[Spent]) -> None:
        """Count in what a run has used, or a part of it."""
        self.runs += 1
        self.stopped += run.status == "stopped"
        for one in spent:
            for name in USED:
                setattr(self, name, getattr(self, name) + getattr(one, name))


@dataclass
class Costs:
    """What was used in a period, whole and in parts. Each of the parts adds up to the whole, but for runs, which may
    have several purposes and models.
    """

    whole: Cost = field(default_factory=Cost)
    by_job: dict[str, Cost] = field(default_factory=dict)
    #: By what was asked for: reflect · judge (pairs of memories) · patterns · embed
    by_purpose: dict[str, Cost] = field(default_factory=dict)
    #: By name of the model
    by_model: dict[str, Cost] = field(default_factory=dict)
    #: By day, UTC, as 2026-03-01
    by_day: dict[str, Cost] = field(default_factory=dict)
    by_namespace: dict[str, Cost] = field(default_factory=dict)
    #: By id of the run; a run over several namespaces is one
    by_run: dict[str, Cost] = field(default_factory=dict)


def costs(lake: Lake, namespaces: Iterable[str], since: datetime, until: datetime) -> Costs:
    """What the runs that began from `since` to before `until` used. Runs that called no endpoint are left out."""
    found = Costs()
    for namespace in namespaces:
        for run in _runs(lake, namespace, since, until):
            if not run.spent:
                continue
            found.whole.add(run, run.spent)
            wholes = (
                (found.by_job, run.job),
                (found.by_day, f"{run.started_at:%Y-%m-%d}"),
                (found.by_namespace, namespace),
                (found.by_run, run.run_id),
            )
            for parts, name in wholes:
                parts.setdefault(name, Cost()).add(run, run.spent)
            for one in {spent.purpose for spent in run.spent}:
                some = (spent for spent in run.spent if spent.purpose == one)
                found.by_purpose.setdefault(one, Cost()).add(run, some)
            for one in {spent.model for spent in run.spent}:
                some = (spent for spent in run.spent if spent.model == one)
                found.by_model.setdefault(one, Cost()).add(run, some)
    return found


def _runs(lake: Lake, namespace: str, since: datetime, until: datetime) -> Iterator[Run]:
    for path in lake.names(namespace_path(namespace, "runs")):
        run_id = path.rsplit("/", 1)[1].removesuffix(".json")
        if since.timestamp() <= time_of(run_id) / 1000 < until.timestamp() and (
            run := read_run(lake, namespace, run_id)
        ):
            yield run
