"""The job `reflect`: ended traces → gate → reflector → candidates → resolve → decisions in the log.

Work is found by what is missing, a trace without a gate row; gate rows are written last. A run that is killed at any
point and started again proposes the same acts, which the log recognises.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from typing import Any

from ..memory_store.clock import Clock
from ..memory_store.embedders import embedder_named
from ..memory_store.errors import ModelError
from ..memory_store.files.lake import Lake, namespace_path
from ..memory_store.history.inbox import Row
from ..memory_store.ids import derive_id
from ..memory_store.records import runs
from ..memory_store.records.batches import batches_out
from ..memory_store.schema import table_of
from ..memory_store.settings import Settings
from ..memory_store.store.generations import ensure, open_tables
from ..memory_store.telemetry.spending import spend
from .comparing.pair_judge import RunJudge
from .deciding.propose import Proposer
from .models.batch_desk import BatchDesk, keys_out
from .models.budget import Forecast, Usage
from .models.paid import PaidReflector
from .models.questions import Question
from .reflecting.candidates import Reflector
from .reflecting.plan import GroupPlan, plan, shards
from .reflecting.reflect_shard import ShardResult, ShardTask, forecast_shard, reflect_shard
from .reflecting.rules.attributes import holds_many
from .shards import Crew, Engine, choose_engine, crew

#: What every report counts, zero or not.
COUNTS = (
    "traces", "reflected", "skipped", "failed", "candidates", "added", "merged", "superseded", "known", "refused",
    "superseding", "episodes", "pending", "activated", "pending_merged", "pending_superseded", "unsettled", "waiting",
    "calls", "failed_calls", "repeated_calls", "asked", "collected", "judged", "unjudged",
)  # fmt: skip


@dataclass
class ReflectReport:
    """What a run did. The counts add up:

    traces = reflected + skipped + failed + waiting
    candidates = added + merged + superseded + known, and refused are those that were proposed and not kept
    pending = activated + pending_merged + pending_superseded, but for what is still unsettled

    Judged are pairs of memories that the model compared, unjudged those left to the rule though it might have been
    asked: it failed, or the budget had nothing left. Traces wait for answers that come with a batch. Calls are those
    to the model, failed and repeated ones among them, and those of the batches that were collected; asked are the
    questions sent in batches.
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
    #: What was forecast before the first call; zero for a reflector that asks no model
    forecast: Forecast = field(default_factory=Forecast)
    #: What was forecast for the batches that the run collected, when they were sent
    collected: Forecast = field(default_factory=Forecast)
    #: Whether the reflector asks a model
    is_paid: bool = False
    #: Whether the run stopped at its budget; what is left is done by the next
    stopped: bool = False
    #: The decisions, with `dry_run` only proposed to you
    decisions: list[Row] = field(default_factory=list)
    #: Namespaces that were left to another run, each with who that is
    busy: dict[str, str] = field(default_factory=dict)

    @property
    def saved(self) -> float:
        """Share of the traces for which the gate saved a call to the model, of those that wait for nothing."""
        decided = self.counts["traces"] - self.counts["waiting"]
        return self.counts["skipped"] / decided if decided else 0.0

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
            "forecast": asdict(self.forecast),
            "forecast_of_collected": asdict(self.collected),
            "saved": round(self.saved, 4),
            "is_paid": self.is_paid,
            "stopped": self.stopped,
            "busy": sorted(self.busy),
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
    ask: bool = False,
    among: Mapping[str, Set[str]] | None = None,
    asked: Set[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
    announce: Callable[[Announcement], None] | None = None,
) -> ReflectReport:
    """Reflect on every trace that is ready, in the namespaces named, or in all.

    `among`: only these traces of each namespace, which were reflected on before and have their episodes. `asked`: only
    these, whatever the gate says of them; those that were reflected on are left alone.

    `progress` is called with traces done and traces in all, `announce` with what a namespace will cost, before the
    first call. With `dry_run` nothing is written but replies that were paid for, and the decisions are in the report;
    a model is called in a dry run only with `ask`, else what it was not asked yet counts as waiting.

    In batch mode the run collects the batches that are over, sends what is new, and returns at once.

    Raises `UsageError` for a namespace that is not there, and when the lake, the store, Ray or the model's endpoint
    fail; what was done until then is kept. A trace that fails is a row with its reason, and the next run tries it
    again.
    """
    report = ReflectReport(runs.new_run_id(), is_paid=isinstance(reflector, PaidReflector))
    chosen = lake.chosen(namespaces)
    desks: dict[str, BatchDesk] = {}
    if isinstance(reflector, PaidReflector) and not dry_run:
        desks = _desks(lake, reflector, chosen, report.run_id, clock)
    for namespace in chosen:
        run = _Run(lake, settings, clock, reflector, namespace, report, version, engine, desks.get(namespace))
        run.among, run.asked = None if among is None else among.get(namespace, frozenset()), asked
        with runs.accounted(lake, run.record, clock, dry_run=dry_run):
            run.work(dry_run, ask, progress or (lambda done, total: None), announce or (lambda said: None))
    return report


@dataclass(frozen=True)
class Announcement:
    """What a run is about to do in a namespace, said before the first call."""

    namespace: str
    #: Traces that are ready
    traces: int
    forecast: Forecast
    #: Whether it is more than the budget has left; the run does what fits
    exceeds: bool


def _desks(
    lake: Lake, reflector: PaidReflector, namespaces: Sequence[str], run_id: str, clock: Clock
) -> dict[str, BatchDesk]:
    """A desk for each namespace, all of them collected, so that the ceiling counts what is out anywhere.

    Without batch mode, only where batches are out that were sent before; if their provider can't be asked now, a later
    run asks.
    """
    desks: dict[str, BatchDesk] = {}
    for namespace in namespaces:
        if reflector.is_batched or batches_out(lake, namespace):
            desks[namespace] = reflector.desk(lake, namespace, run_id, clock)
            with nullcontext() if reflector.is_batched else suppress(ModelError):
                desks[namespace].collect()
    return desks


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
        desk: BatchDesk | None,
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
        self.desk = desk
        #: The traces to reflect on again; None: those that were not yet
        self.among: Set[str] | None = None
        #: The traces that were asked for
        self.asked: Set[str] | None = None
        #: Who works on shards
        self.workers = Crew(settings, "loop")
        #: What judges pairs that no guard decides; None where no model is asked
        self.judge: RunJudge | None = None
        #: Whether workers have shares of the budget, so that this process can't see what they spend
        self.is_shared = False
        #: Why the model could not be asked at all
        self.failure = ""

    def work(
        self,
        dry_run: bool,
        ask: bool,
        progress: Callable[[int, int], None],
        announce: Callable[[Announcement], None],
    ) -> None:
        spend(self.desk.spent if self.desk else {})
        generation = ensure(self.lake, self.settings, self.clock)
        embedder = embedder_named(generation.embedder, self.settings)
        tables = open_tables(self.settings, generation)
        reflector = self._prepared(dry_run, ask)
        self.judge = RunJudge(reflector, self.namespace) if isinstance(reflector, PaidReflector) else None
        proposer = Proposer(self.lake, tables, embedder, self.namespace, self.report.run_id, self.clock, self.judge)
        proposer.catch_up()
        now = self.clock.now()
        self.record.counts = dict.fromkeys(COUNTS, 0)
        abandoned = timedelta(hours=self.settings.gate.abandoned_hours)
        groups = plan(self.lake, self.namespace, now, abandoned, self.among, self.asked)
        pending = proposer.pending()
        if not groups and not pending and not (self.desk and self.desk.counts):
            return
        self.record.read_to = proposer.read_to
        if not dry_run:
            runs.write_run(self.lake, self.record)
        waiting: list[Row] = pending
        self.report.engine = choose_engine(self.settings, self.engine, sum(len(group.fresh) for group in groups))
        with crew(self.settings, self.report.engine if groups else "loop") as self.workers:
            if isinstance(reflector, PaidReflector):
                self._forecast(reflector, groups, embedder.name, announce)
            for result in self._reflect(reflector, groups, embedder.name, progress):
                self._take(result, proposer, waiting, dry_run)
                waiting = []
        if waiting:
            self._take(ShardResult(), proposer, waiting, dry_run)
        if dry_run:
            return
        self._send()
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
            result.candidates, pending, [*result.episodes, *result.refusals], holds_many=holds_many, dry_run=dry_run
        )  # fmt: skip
        self.failure = self.failure or result.failure
        counts = Counter(result.counts)
        counts.update(outcome.counts)
        usage = result.usage
        if self.judge is not None:
            used, judged = self.judge.taken()
            usage += used
            counts.update(judged)
        if self.is_shared and isinstance(self.reflector, PaidReflector):
            self.reflector.budget.add(usage)
        self.report.decisions += outcome.rows
        self.report.counts.update(counts)
        self._use(usage)
        if dry_run:
            return
        self._write("reflections", result.reflections)
        self._write("gate", result.gate)
        record = self.record
        record.counts |= {name: record.counts[name] + count for name, count in counts.items()}
        for row in result.reflections:
            record.prompt_hash = record.prompt_hash or row["prompt_hash"]
        record.engine, record.workers = self.report.engine, sorted(self.report.workers)
        runs.write_run(self.lake, record)
        if self.desk and result.questions:
            self._submit(self.desk, result.questions)

    def _prepared(self, dry_run: bool, ask: bool) -> Reflector:
        """The reflector as this run uses it: without calls in a dry run and in batch mode."""
        reflector = self.reflector
        if not isinstance(reflector, PaidReflector):
            return reflector
        if self.desk and reflector.is_batched:
            return reflector.kept_only(self.desk.out, self.desk.failed)
        if dry_run and (reflector.is_batched or not ask):
            return reflector.kept_only(keys_out(self.lake, self.namespace, self.settings.model.base_url))
        return reflector

    def _forecast(
        self,
        reflector: PaidReflector,
        groups: list[GroupPlan],
        embedder: str,
        announce: Callable[[Announcement], None],
    ) -> None:
        """Say what is going to be used, before the first call."""
        total = sum(len(group.fresh) for group in groups)
        silent = reflector if reflector is not self.reflector else reflector.kept_only()
        tasks = self._tasks(silent, groups, embedder)
        forecast = sum((one.result for one in self.workers.map(forecast_shard, tasks)), Forecast())
        self.report.forecast += forecast
        self.record.parameters |= {
            "forecast_calls": forecast.calls, "forecast_tokens": forecast.tokens, "forecast_cost": forecast.cost,
        }  # fmt: skip
        announce(Announcement(self.namespace, total, forecast, reflector.budget.exceeded_by(forecast)))

    def _submit(self, desk: BatchDesk, questions: list[Question]) -> None:
        """Put questions into the next batch. That the provider takes none fails the run, after all else was kept."""
        try:
            desk.submit(questions)
        except ModelError as error:
            self.failure = self.failure or str(error)

    def _send(self) -> None:
        """Send the last batch, and count what batches used and asked."""
        desk = self.desk
        if desk is None:
            return
        try:
            desk.flush()
        except ModelError as error:
            self.failure = self.failure or str(error)
        self.failure = self.failure or desk.failure
        self.report.stopped |= desk.stopped
        self.report.collected += desk.forecast
        self._use(desk.usage)
        self.record.counts |= {name: self.record.counts[name] + count for name, count in desk.counts.items()}
        self.report.counts.update(desk.counts)

    def _use(self, usage: Usage) -> None:
        """Add what calls to the model used to the report, and count them in the run."""
        counts = {name: getattr(usage, name) for name in ("calls", "failed_calls", "repeated_calls")}
        self.report.counts.update(counts)
        self.record.counts |= {name: self.record.counts[name] + count for name, count in counts.items()}
        for name in ("input_tokens", "output_tokens", "cost"):
            setattr(self.report, name, getattr(self.report, name) + getattr(usage, name))

    def _tasks(self, reflector: Reflector, groups: list[GroupPlan], embedder: str) -> list[ShardTask]:
        now, run_id = self.clock.now(), self.report.run_id
        first, asked = self.among is None, self.asked is not None
        return [
            ShardTask(self.settings, self.namespace, tuple(some), reflector, embedder, now, run_id, first, asked)
            for some in shards(groups, self.settings.jobs.shard_traces)
        ]

    def _reflect(
        self, reflector: Reflector, groups: list[GroupPlan], embedder: str, progress: Callable[[int, int], None]
    ) -> Iterator[ShardResult]:
        total = sum(len(group.fresh) for group in groups)
        tasks = self._tasks(reflector, groups, embedder)
        judge, at_once = self.judge, 0
        if self.workers.engine == "ray" and tasks and judge is not None and reflector is self.reflector:
            # Workers can't see what others spend and ask: each has its share of the ceiling and of calls in flight.
            at_once, calls = self.workers.calls(reflector.concurrency, own=1)
            share, parts = judge.reflector.share, len(tasks) + 1
            tasks = [replace(task, reflector=share(parts, calls)) for task in tasks]
            judge.reflector, self.is_shared = share(parts, 1), True
        done = 0
        progress(0, total)
        for placed in self.workers.map(reflect_shard, tasks, at_once):
            self.report.workers.add(f"{placed.host}:{placed.pid}")
            self.report.counts.update(placed.losses)
            self.report.stopped |= placed.result.stopped
            yield placed.result
            done += len(placed.result.gate)
            progress(done, total)
            if placed.result.failure or (placed.result.stopped and self.workers.engine == "loop"):
                return

    def _write(self, table: str, rows: list[Row]) -> None:
        if rows:
            names = [row.get("trace_id") or row["reflection_id"] for row in rows]
            name = derive_id(self.namespace, table, self.report.run_id, *names)
            self.lake.create_table(namespace_path(self.namespace, table, f"{name}.parquet"), table_of(rows, table))
