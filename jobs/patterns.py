"""The job `patterns`: recent traces together → what recurs over distinct tasks → experiences (R3, R6).

It reads raw traces and never earlier lessons. What it finds follows from the window alone, and each decision from what
the store says now, so that a run that was killed is simply run again, and a second run changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ..memory_store.capture.traces import read_traces
from ..memory_store.clock import Clock
from ..memory_store.embedders import embedder_named
from ..memory_store.errors import BudgetExceeded, ModelError
from ..memory_store.files.lake import Lake, namespace_path
from ..memory_store.history.inbox import Row
from ..memory_store.history.log import read_keys, settle
from ..memory_store.ids import derive_id
from ..memory_store.recall.predicates import Filter
from ..memory_store.records import runs
from ..memory_store.records.vectors import embed_rows
from ..memory_store.schema import table_of
from ..memory_store.settings import Settings
from ..memory_store.store.generations import ensure, fold_to_head, open_tables
from ..memory_store.telemetry.events import in_this_run
from .deciding.decide import ROUNDS, propose
from .deciding.resolve import normal_text
from .mining.decide import COLUMNS, RULES, Item, Verdict, decide_on, judged_id, needs_words
from .mining.look import Look
from .mining.mine import mine
from .mining.support import Pattern
from .mining.window import Window, look_shard, look_tasks, since_of, window
from .mining.words import TAG, candidate_of
from .reflecting.rules.checks import refusal_reason
from .shards import Engine, choose_engine, map_shards

if TYPE_CHECKING:
    from .mining.model import Judgement, PatternJudge

#: What every report counts, zero or not.
COUNTS = (
    "traces", "failed_traces", "tasks", "tasks_ever", "found", "added", "replaced", "raised", "lowered", "unchanged",
    "kept_out", "refused", "refused_before", "failed", "unasked", "unsettled",
)  # fmt: skip
#: Newest runs among which the last one of this job is looked for.
_RUNS = 500


@dataclass
class PatternReport:
    """What a run did. The counts add up:

    found = added + replaced + raised + lowered + unchanged + kept_out + refused + refused_before + failed + unasked
    + unsettled
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
    #: Whether the run stopped at its budget; the patterns that were not asked about are left to the next
    stopped: bool = False
    #: Namespaces that were left alone, since too few tasks had come
    not_due: list[str] = field(default_factory=list)
    #: The decisions, with `dry_run` only proposed to you
    decisions: list[Row] = field(default_factory=list)
    #: Namespaces that were left to another run, each with who that is
    busy: dict[str, str] = field(default_factory=dict)

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
            "not_due": self.not_due,
            "busy": sorted(self.busy),
        }


def patterns(
    lake: Lake,
    settings: Settings,
    clock: Clock,
    judge: PatternJudge | None = None,
    *,
    version: str,
    namespaces: Sequence[str] | None = None,
    engine: Engine = "auto",
    days: int | None = None,
    every: int = 0,
    dry_run: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> PatternReport:
    """Mine the patterns of the last `days` days (`jobs.pattern_days` if None), in the namespaces named, or in all.

    Without a `judge` the words of the rules are the product. With `every`, a namespace is left alone until so many
    distinct tasks have come since the last run. `progress` is called with traces done and traces in all. With
    `dry_run` nothing is written but what a model says, and the decisions are in the report. Raises when the lake, the
    store, Ray or the model's endpoint fail; what was decided until then is kept.
    """
    report = PatternReport(runs.new_run_id())
    days = settings.jobs.pattern_days if days is None else days
    for namespace in lake.chosen(namespaces):
        run = _Run(lake, settings, clock, judge, namespace, report, version, days, engine)
        with runs.accounted(lake, run.record, clock, dry_run=dry_run):
            run.work(every, dry_run, progress or (lambda done, total: None))
    return report


class _Run:
    """One run over one namespace."""

    def __init__(
        self,
        lake: Lake,
        settings: Settings,
        clock: Clock,
        judge: PatternJudge | None,
        namespace: str,
        report: PatternReport,
        version: str,
        days: int,
        engine: Engine,
    ) -> None:
        self.lake, self.settings, self.clock, self.judge = lake, settings, clock, judge
        self.namespace, self.report, self.days, self.engine = namespace, report, days, engine
        generation = ensure(lake, settings, clock)
        self.embedder = embedder_named(generation.embedder, settings)
        self.tables = open_tables(settings, generation)
        self.counts: Counter[str] = Counter(dict.fromkeys(COUNTS, 0))
        self.record = runs.Run(
            run_id=report.run_id,
            job="patterns",
            namespace=namespace,
            version=version,
            started_at=clock.now(),
            parameters={"days": days, "tasks": settings.jobs.pattern_tasks},
            reflector=judge.name if judge else RULES,
            prompt_hash=judge.prompt_hash if judge else "",
        )
        #: Files that the traces of the window lie in
        self.paths: dict[str, frozenset[str]] = {}
        #: Why the model could not be asked at all
        self.failure = ""

    def work(self, every: int, dry_run: bool, progress: Callable[[int, int], None]) -> None:
        now = self.clock.now()
        abandoned = now - timedelta(hours=self.settings.gate.abandoned_hours)
        found = window(self.lake, self.namespace, since_of(now, self.days), abandoned)
        if every and found.tasks_ever - self._tasks_before() < every:
            self.report.not_due.append(self.namespace)
            return
        self.counts["tasks_ever"] = found.tasks_ever
        self.counts["traces"] = len(found.paths)
        self.paths = found.paths
        read_to = self._catch_up()
        self.record.read_to = read_to
        if not dry_run:
            runs.write_run(self.lake, self.record)
        looks = self._look(found, dry_run, progress)
        self.counts["tasks"] = len({look.task for look in looks})
        items = [_item(pattern) for pattern in mine(looks, self.settings.jobs.pattern_tasks)]
        self.counts["found"] = len(items)
        self._land(self._worded(items, dry_run), read_to, dry_run)
        self.report.counts.update(self.counts)
        if dry_run:
            return
        self._catch_up()
        self.tables.index()
        self.record.counts = dict(self.counts)
        self.record.engine, self.record.workers = self.report.engine, sorted(self.report.workers)
        self.record.ended_at = self.clock.now()
        self.record.status = "failed" if self.failure else "stopped" if self.report.stopped else "done"
        self.record.error = self.failure
        runs.write_run(self.lake, self.record)
        if self.failure:
            raise ModelError(self.failure)

    def _tasks_before(self) -> int:
        """Distinct tasks that the lake held at the last run that came to its end."""
        before = runs.last_runs(self.lake, self.namespace, _RUNS)
        return next(
            (run.counts.get("tasks_ever", 0) for run in before if run.job == "patterns" and run.status == "done"), 0
        )

    def _catch_up(self) -> int:
        settle(self.lake, self.namespace)
        return fold_to_head(self.lake, self.tables, self.namespace, self.embedder)

    def _look(self, found: Window, dry_run: bool, progress: Callable[[int, int], None]) -> list[Look]:
        """Every trace of the window as mining sees it; one that can't be looked at is a row with its reason."""
        tasks = look_tasks(self.settings, self.namespace, found)
        total = len(found.paths)
        self.report.engine = engine = choose_engine(self.settings, self.engine, total)
        looks: list[Look] = []
        failed: dict[str, str] = {}
        progress(0, total)
        for placed in map_shards(look_shard, tasks, self.settings, engine):
            self.report.workers.add(f"{placed.host}:{placed.pid}")
            self.counts.update(placed.losses)
            looks += placed.result.looks
            failed |= placed.result.failed
            progress(len(looks) + len(failed), total)
        self.counts["failed_traces"] = len(failed)
        rows = [_said(self.namespace, self.record, [id], RULES, error=why) for id, why in sorted(failed.items())]
        self._keep_said(rows, dry_run)
        return looks

    def _worded(self, items: list[Item], dry_run: bool) -> list[Item]:
        """The items that can be decided on: with a model, in its words; what it could not be asked about is counted."""
        if self.judge is None:
            return items
        name, stored = self.judge.name, self._stored()
        ids = {
            place: judged_id(self.namespace, item.pattern, name)
            for place, item in enumerate(items)
            if needs_words(self.namespace, item, stored, name)
        }
        before = self._refused_before(ids.values())
        asked = [place for place, id in ids.items() if id not in before]
        self.counts["refused_before"] += len(ids) - len(asked)
        done = {place: item for place, item in enumerate(items) if place not in ids}
        with ThreadPoolExecutor(max(1, self.judge.concurrency)) as pool:
            said = list(pool.map(in_this_run(lambda place: self._ask(items[place])), asked))
        rows: list[Row] = []
        for place, judgement in zip(asked, said, strict=True):
            if isinstance(judgement, ModelError):
                self.report.stopped |= isinstance(judgement, BudgetExceeded)
                if not isinstance(judgement, BudgetExceeded):
                    self.failure = self.failure or str(judgement)
                self.counts["unasked"] += 1
                continue
            traces = sorted({evidence.trace_id for evidence in items[place].candidate.evidence})
            rows.append(_said(self.namespace, self.record, traces, name, judgement))
            self._pay(judgement)
            if judgement.candidate is None:
                self.counts["failed"] += 1
                continue
            done[place] = replace(
                items[place],
                candidate=judgement.candidate,
                refusal=judgement.refusal,
                reflector=name,
                prompt_hash=self.judge.prompt_hash,
            )
        self._keep_said(rows, dry_run)
        return [done[place] for place in sorted(done)]

    def _ask(self, item: Item) -> Judgement | ModelError:
        assert self.judge is not None
        wanted = [look.trace_id for look in item.pattern.cited]
        paths = sorted({path for id in wanted for path in self.paths.get(id, ())})
        traces = {trace.trace_id: trace for trace in read_traces(self.lake, self.namespace, wanted, paths)}
        try:
            return self.judge.judge(item.pattern, item.candidate, [traces[id] for id in wanted if id in traces])
        except ModelError as error:
            return error

    def _pay(self, judgement: Judgement) -> None:
        for name in ("input_tokens", "output_tokens", "cost"):
            setattr(self.report, name, getattr(self.report, name) + getattr(judgement, name))

    def _land(self, items: list[Item], read_to: int, dry_run: bool) -> None:
        """Decide on every item by what the store says now, until the log has taken all."""
        for attempt in range(ROUNDS):
            if attempt:
                read_to = self._catch_up()
            verdicts = self._decide(items)
            acts = [self._act(verdict.rows, read_to) if verdict.rows else [] for verdict in verdicts]
            embed_rows(self.embedder, [row for rows in acts for row in rows if row["decision"] == "add"])
            self.report.decisions += [row for rows in acts for row in rows]
            late = {} if dry_run else propose(self.lake, self.namespace, [rows for rows in acts if rows], read_to)
            again = []
            for item, verdict, rows in zip(items, verdicts, acts, strict=True):
                if rows and rows[0]["act"] in late:
                    again.append(item)
                else:
                    self.counts[verdict.name] += 1
            items = again
            if not items:
                return
        self.counts["unsettled"] += len(items)

    def _decide(self, items: Sequence[Item]) -> list[Verdict]:
        stored, twins = self._stored(), self._twins()
        verdicts = []
        for item in items:
            verdict = decide_on(self.namespace, item, stored, twins, self.days)
            if verdict.name in ("added", "replaced"):
                twins[normal_text(item.candidate.text)] = verdict.rows[0]["id"]
            verdicts.append(verdict)
        before = self._refused_before({v.rows[0]["id"] for v in verdicts if v.name == "refused"})
        return [
            Verdict("refused_before") if verdict.name == "refused" and verdict.rows[0]["id"] in before else verdict
            for verdict in verdicts
        ]

    def _act(self, rows: Sequence[Row], read_to: int) -> list[Row]:
        about = [part for row in rows for part in (row["decision"], row["id"])]
        act = derive_id(self.namespace, "act", "patterns", *about, read_to)
        envelope = {"act": act, "at": self.clock.now(), "run": self.record.run_id, "read_to": read_to}
        return [{**row, **envelope} for row in rows]

    def _stored(self) -> list[Row]:
        where = Filter((self.namespace,), kinds=("experience",), states=None, all_tags=(TAG,))
        rows: list[Row] = self.tables.scan(where, COLUMNS).to_pylist()
        return rows

    def _twins(self) -> dict[str, str]:
        """Active experiences by what they say."""
        rows = self.tables.scan(Filter((self.namespace,), kinds=("experience",), states=("active",)), ("id", "text"))
        return {normal_text(row["text"]): row["id"] for row in rows.to_pylist()}

    def _refused_before(self, ids: Collection[str]) -> set[str]:
        """Which of these ids the log holds as refused."""
        if not ids:
            return set()
        wanted = pa.array(sorted(ids), pa.string())
        known: set[str] = set()
        for keys in read_keys(self.lake, self.namespace):
            keys = keys.filter(pc.is_in(keys.column("id"), value_set=wanted))
            known.update(keys.filter(pc.equal(keys.column("decision"), "refuse")).column("id").to_pylist())
        return known

    def _keep_said(self, rows: list[Row], dry_run: bool) -> None:
        if rows and not dry_run:
            name = derive_id(self.namespace, "patterns", self.record.run_id, *(row["reflection_id"] for row in rows))
            path = namespace_path(self.namespace, "reflections", f"{name}.parquet")
            self.lake.create_table(path, table_of(rows, "reflections"))


def _item(pattern: Pattern) -> Item:
    """A pattern in the words of the rules, refused for what the rules hold against any lesson."""
    candidate = candidate_of(pattern)
    return Item(pattern, candidate, pattern.refusal or refusal_reason(candidate, pattern.names))


def _said(
    namespace: str,
    record: runs.Run,
    traces: list[str],
    reflector: str,
    judgement: Judgement | None = None,
    error: str = "",
) -> Row:
    """The row of what was said about a pattern, or of why a trace could not be looked at."""
    row = {
        "namespace": namespace,
        "reflection_id": derive_id(namespace, "reflection", "patterns", record.run_id, reflector, *traces),
        "at": record.started_at,
        "run": record.run_id,
        "traces": traces,
        "reflector": reflector,
        "prompt_hash": record.prompt_hash,
        "reply": judgement.reply if judgement else "",
        "error": judgement.error if judgement else error,
    }
    for name in ("input_tokens", "output_tokens", "cost", "latency_us", "calls"):
        row[name] = getattr(judgement, name) if judgement else 0
    return row
