"""The job `reflect`: ended traces → gate → reflector → candidates → resolve → decisions in the log.

Work is found by what is missing, a trace without a gate row; gate rows are written last. A run that is killed at any
point and started again proposes the same acts, which the log recognises.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from ..memory_store import runs
from ..memory_store.clock import Clock
from ..memory_store.embedders import embedder_named
from ..memory_store.errors import ModelError
from ..memory_store.generations import ensure, open_tables
from ..memory_store.ids import derive_id
from ..memory_store.inbox import Row
from ..memory_store.lake import Lake, namespace_path
from ..memory_store.schema import table_of
from ..memory_store.settings import Settings
from .candidates import Reflector
from .plan import GroupPlan, plan, shards
from .propose import Proposer
from .reflect_shard import ShardResult, ShardTask, reflect_shard
from .rules.attributes import holds_many
from .shards import Engine, choose_engine, map_shards

#: What every report counts, zero or not.
COUNTS = (
    "traces", "reflected", "skipped", "failed", "candidates", "added", "merged", "superseded", "known", "refused",
    "superseding", "episodes", "pending", "activated", "pending_merged", "pending_superseded", "unsettled",
)  # fmt: skip


@dataclass
class ReflectReport:
    """What a run did. The counts add up:

    traces = reflected + skipped + failed
    candidates = added + merged + superseded + known, and refused are those that were proposed and not kept
    pending = activated + pending_merged + pending_superseded, but for what is still unsettled
    """

    run_id: str
    counts: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(COUNTS, 0)))
    #: loop or ray
    engine: str = "loop"
    #: Worker processes, as host:pid
    workers: set[str] = field(default_factory=set)
    input_tokens: int = 0
    output_tokens: int = 0
    #: Micro-dollars
    cost: int = 0
    #: Whether the run stopped at its budget; what is left is done by the next
    stopped: bool = False
    #: The decisions, with `dry_run` only proposed to you
    decisions: list[Row] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """The report as plain values: ids, counts and cost, never the text of a memory."""
        return {
            "run_id": self.run_id,
            "counts": dict(self.counts),
            "engine": self.engine,
            "workers": sorted(self.workers),
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost": self.cost,
            "stopped": self.stopped,
        }


def reflect(
    lake: Lake,
    settings: Settings,
    clock: Clock,
    reflector: Reflector,
    *,
    version: str,
    namespaces: Sequence[str] | None = None,
    engine: Engine = "auto",
    dry_run: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> ReflectReport:
    """Reflect on every trace that is ready, in the namespaces named, or in all.

    `progress` is called with traces done and traces in all. With `dry_run` nothing is written, and the decisions are
    in the report. Raises when the lake, the store, Ray or the model's endpoint fail; what was done until then is kept.
    A trace that fails is a row with its reason, and the next run tries it again.
    """
    report = ReflectReport(runs.new_run_id())
    for namespace in lake.namespaces() if namespaces is None else namespaces:
        run = _Run(lake, settings, clock, reflector, namespace, report, version, engine)
        run.work(dry_run, progress or (lambda done, total: None))
    return report


class _Run:
    """One run over one namespace."""

    def __init__(
        self,
        lake: Lake,
        settings: Settings,
        clock: Clock,
        reflector: Reflector,
        namespace: str,
        report: ReflectReport,
        version: str,
        engine: Engine,
    ) -> None:
        self.lake, self.settings, self.clock = lake, settings, clock
        self.reflector, self.namespace, self.report = reflector, namespace, report
        self.record = runs.Run(
            run_id=report.run_id,
            job="reflect",
            namespace=namespace,
            version=version,
            started_at=clock.now(),
            parameters={"engine": engine},
            reflector=reflector.name,
        )
        self.engine = engine
        #: Why the model could not be asked at all
        self.failure = ""

    def work(self, dry_run: bool, progress: Callable[[int, int], None]) -> None:
        generation = ensure(self.lake, self.settings, self.clock)
        embedder = embedder_named(generation.embedder, self.settings)
        tables = open_tables(self.settings, generation)
        proposer = Proposer(self.lake, tables, embedder, self.namespace, self.report.run_id, self.clock)
        proposer.catch_up()
        now = self.clock.now()
        self.record.counts = dict.fromkeys(COUNTS, 0)
        groups = plan(self.lake, self.namespace, now, timedelta(hours=self.settings.gate.abandoned_hours))
        pending = proposer.pending()
        if not groups and not pending:
            return
        self.record.read_to = proposer.read_to
        if not dry_run:
            runs.write_run(self.lake, self.record)
        waiting: list[Row] = pending
        for result in self._reflect(groups, embedder.name, progress):
            self._take(result, proposer, waiting, dry_run)
            waiting = []
        if waiting:
            self._take(ShardResult(), proposer, waiting, dry_run)
        if dry_run:
            return
        proposer.catch_up()
        tables.index()
        self.record.ended_at = self.clock.now()
        self.record.status = "failed" if self.failure else "stopped" if self.report.stopped else "done"
        self.record.error = self.failure
        runs.write_run(self.lake, self.record)
        if self.failure:
            raise ModelError(self.failure)

    def _take(self, result: ShardResult, proposer: Proposer, pending: list[Row], dry_run: bool) -> None:
        """Decide on what one shard gave, then keep what was said, and last the gate rows that say it is done."""
        outcome = proposer.propose(
            result.candidates,
            pending,
            [*result.episodes, *result.refusals],
            holds_many=holds_many,
            dry_run=dry_run,
        )
        self.failure = self.failure or result.failure
        counts = Counter(result.counts)
        counts.update(outcome.counts)
        self.report.decisions += outcome.rows
        self.report.counts.update(counts)
        if dry_run:
            return
        self._write("reflections", result.reflections)
        self._write("gate", result.gate)
        record = self.record
        record.counts |= {name: record.counts[name] + count for name, count in counts.items()}
        for row in result.reflections:
            record.prompt_hash = record.prompt_hash or row["prompt_hash"]
            for name in ("input_tokens", "output_tokens", "cost"):
                setattr(record, name, getattr(record, name) + row[name])
                setattr(self.report, name, getattr(self.report, name) + row[name])
        record.engine, record.workers = self.report.engine, sorted(self.report.workers)
        runs.write_run(self.lake, record)

    def _reflect(
        self, groups: list[GroupPlan], embedder: str, progress: Callable[[int, int], None]
    ) -> Iterator[ShardResult]:
        total = sum(len(group.fresh) for group in groups)
        engine = choose_engine(self.settings, self.engine, total)
        self.report.engine = engine
        now, run_id = self.clock.now(), self.report.run_id
        packed = shards(groups, self.settings.jobs.shard_traces)
        # Workers can't see what the others spend, so each has its share of the ceiling.
        reflector = self.reflector.share(len(packed)) if engine == "ray" and packed else self.reflector
        tasks = [
            ShardTask(self.settings, self.namespace, tuple(some), reflector, embedder, now, run_id) for some in packed
        ]
        done = 0
        progress(0, total)
        for placed in map_shards(reflect_shard, tasks, self.settings, engine):
            self.report.workers.add(f"{placed.host}:{placed.pid}")
            self.report.stopped |= placed.result.stopped
            yield placed.result
            done += len(placed.result.gate)
            progress(done, total)
            if placed.result.failure or (placed.result.stopped and engine == "loop"):
                return

    def _write(self, table: str, rows: list[Row]) -> None:
        if rows:
            names = [row.get("trace_id") or row["reflection_id"] for row in rows]
            name = derive_id(self.namespace, table, self.report.run_id, *names)
            self.lake.create_table(namespace_path(self.namespace, table, f"{name}.parquet"), table_of(rows, table))
