"""The job `resolve`: what was written and is still pending meets what is there (R10).

`reflect` does the same to what it finds pending; this job does it where there is nothing to reflect on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..memory_store.clock import Clock
from ..memory_store.embedders import embedder_named
from ..memory_store.files.lake import Lake
from ..memory_store.records import runs
from ..memory_store.settings import Settings
from ..memory_store.store.generations import ensure, open_tables
from .deciding.decide import DecideReport
from .deciding.meet import JudgeOf, no_judge
from .deciding.propose import Proposer

#: Pending memories that are decided on together; a run that is killed keeps what it decided before.
BATCH = 1_000


def resolve_pending(
    lake: Lake,
    settings: Settings,
    clock: Clock,
    *,
    version: str,
    namespaces: Sequence[str] | None = None,
    judges: JudgeOf = no_judge,
    holds_many: Callable[[str], bool] = lambda attribute: False,
    dry_run: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> DecideReport:
    """Decide on every pending memory, in the namespaces named, or in all.

    pending = activated + pending_merged + pending_superseded + unsettled. `progress` is called with memories done and
    memories in all of a namespace. With `dry_run` nothing is written, and the decisions are in the report. Raises when
    the lake or the store fail; what was decided until then is kept.
    """
    report = DecideReport(runs.new_run_id(), "resolve")
    for namespace in lake.chosen(namespaces):
        run = runs.Run(
            run_id=report.run_id, job="resolve", namespace=namespace, version=version, started_at=clock.now()
        )  # fmt: skip
        with runs.accounted(lake, run, clock, dry_run=dry_run):
            generation = ensure(lake, settings, clock)
            tables, embedder = open_tables(settings, generation), embedder_named(generation.embedder, settings)
            proposer = Proposer(lake, tables, embedder, namespace, run.run_id, clock, judges(namespace))
            proposer.catch_up()
            pending = sorted(proposer.pending(), key=lambda row: (row["valid_from"], row["id"]))
            if not pending:
                continue
            run.read_to = proposer.read_to
            if not dry_run:
                runs.write_run(lake, run)
            # Shown together, since nothing that is only shown is there for the next ones to meet.
            size = len(pending) if dry_run else BATCH
            for start in range(0, len(pending), size):
                outcome = proposer.propose(
                    [], pending[start : start + size], [], holds_many=holds_many, dry_run=dry_run
                )  # fmt: skip
                report.counts.update(outcome.counts)
                report.decisions += outcome.rows
                if progress:
                    progress(min(start + size, len(pending)), len(pending))
            if dry_run:
                continue
            proposer.catch_up()
            tables.index()
            run.counts = {name: count for name, count in report.counts.items() if count}
            run.status, run.ended_at = "done", clock.now()
            runs.write_run(lake, run)
    report.counts = +report.counts
    return report
