"""What language models and paid embedders cost, by what the runs of the lake say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from ..files.lake import Lake, namespace_path
from ..ids import time_of
from .runs import Run, read_run

#: Counts of a run that are calls to an endpoint.
_CALLS = ("calls", "failed_calls", "repeated_calls")


@dataclass
class Cost:
    """What some runs used."""

    runs: int = 0
    #: Calls to the endpoint, failed ones included
    calls: int = 0
    failed_calls: int = 0
    #: Calls that were paid for before and made again after a kill
    repeated_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    #: Micro-dollars
    cost: int = 0
    #: Runs that stopped at their budget
    stopped: int = 0

    def add(self, run: Run) -> None:
        """Count a run in."""
        self.runs += 1
        for name in _CALLS:
            setattr(self, name, getattr(self, name) + run.counts.get(name, 0))
        self.input_tokens += run.input_tokens
        self.output_tokens += run.output_tokens
        self.cost += run.cost
        self.stopped += run.status == "stopped"


@dataclass
class Costs:
    """What was used in a period, whole and in parts."""

    whole: Cost = field(default_factory=Cost)
    by_job: dict[str, Cost] = field(default_factory=dict)
    #: By day, UTC, as 2026-03-01
    by_day: dict[str, Cost] = field(default_factory=dict)
    by_namespace: dict[str, Cost] = field(default_factory=dict)


def costs(lake: Lake, namespaces: Iterable[str], since: datetime, until: datetime) -> Costs:
    """What the runs that began from `since` to before `until` used. Runs that called no endpoint are left out."""
    found = Costs()
    for namespace in namespaces:
        for run in _runs(lake, namespace, since, until):
            if not (run.input_tokens or run.output_tokens or run.cost or run.counts.get("calls")):
                continue
            found.whole.add(run)
            parts = (
                (found.by_job, run.job),
                (found.by_day, f"{run.started_at:%Y-%m-%d}"),
                (found.by_namespace, namespace),
            )
            for part, name in parts:
                part.setdefault(name, Cost()).add(run)
    return found


def _runs(lake: Lake, namespace: str, since: datetime, until: datetime) -> Iterator[Run]:
    for path in lake.names(namespace_path(namespace, "runs")):
        run_id = path.rsplit("/", 1)[1].removesuffix(".json")
        if since.timestamp() <= time_of(run_id) / 1000 < until.timestamp() and (
            run := read_run(lake, namespace, run_id)
        ):
            yield run
