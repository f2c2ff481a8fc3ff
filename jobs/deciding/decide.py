"""What every job that decides about memories has in common: read the store, propose, look at the verdicts, try again.

The job itself is a rule: a pure function from what the store says to acts. It finds its work by what the store says
now, so a run that is killed and started again goes on where it stopped, and a second run finds nothing to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ...memory_store.clock import Clock
from ...memory_store.embedders import Embedder, embedder_named
from ...memory_store.files.lake import Lake
from ...memory_store.history.inbox import Row, write_proposals
from ...memory_store.history.log import read_log, settle
from ...memory_store.ids import derive_id
from ...memory_store.recall.predicates import Filter
from ...memory_store.records import runs
from ...memory_store.settings import Settings
from ...memory_store.store.generations import ensure, fold_to_head, open_tables
from ...memory_store.store.tables import Tables

if TYPE_CHECKING:
    import pyarrow as pa

#: How often acts that were refused because something changed meanwhile are decided anew.
ROUNDS = 4
#: Rows of one file of proposals.
FILE_ROWS = 20_000


@dataclass(frozen=True)
class View:
    """What a rule may look at: one namespace, as the log had it at `read_to`."""

    lake: Lake
    settings: Settings
    tables: Tables
    embedder: Embedder
    namespace: str
    now: datetime
    #: Place in the log up to which the store is folded
    read_to: int

    def memories(self, columns: Sequence[str], **where: Any) -> pa.Table:
        """Memories of the namespace that pass a filter (fields of `Filter`; `states=None`: in any state)."""
        return self.tables.scan(Filter(namespaces=(self.namespace,), **where), columns)


@dataclass
class Decided:
    """What a rule decided about some of the memories."""

    #: Each act is a list of rows: `decision`, `id`, `reason`, and the columns that it sets. It holds as a whole.
    acts: list[list[Row]] = field(default_factory=list)
    #: What was looked at and left alone, by reason, for the report
    counts: Counter[str] = field(default_factory=Counter)


Rule = Callable[[View], Iterable[Decided]]


@dataclass
class DecideReport:
    """What a run did, over all its namespaces.

    `counts` holds what the rule counted, for each decision the acts that the log took (an act is counted by its first
    row), and `unsettled`, acts that were still refused after the last round.
    """

    run_id: str
    job: str
    counts: Counter[str] = field(default_factory=Counter)
    #: The decisions, with `dry_run` only proposed to you
    decisions: list[Row] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """The report as plain values: ids and counts, never the text of a memory."""
        return {"run_id": self.run_id, "job": self.job, "counts": dict(sorted(self.counts.items()))}


def decide(
    lake: Lake,
    settings: Settings,
    clock: Clock,
    rule: Rule,
    *,
    job: str,
    version: str,
    namespaces: Sequence[str] | None = None,
    parameters: dict[str, str | int | float | bool] | None = None,
    dry_run: bool = False,
    run_id: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> DecideReport:
    """Apply a rule in the namespaces named, or in all, and put what it decides into the log.

    `progress` is called with namespaces done and namespaces in all. With `dry_run` nothing is written, and the
    decisions are in the report. Raises `UsageError` for a namespace that is not there, and when the lake or the store
    fail; what was decided until then is kept.
    """
    report = DecideReport(run_id or runs.new_run_id(), job)
    chosen = lake.chosen(namespaces)
    for done, namespace in enumerate(chosen):
        if progress:
            progress(done, len(chosen))
        record = runs.Run(
            run_id=report.run_id,
            job=job,
            namespace=namespace,
            version=version,
            started_at=clock.now(),
            parameters=parameters or {},
        )
        with runs.accounted(lake, record, clock, dry_run=dry_run):
            counts = _decide_one(lake, settings, clock, rule, record, dry_run, report.decisions)
            report.counts.update(counts)
            if not dry_run:
                record.counts = dict(counts)
                record.status, record.ended_at = "done", clock.now()
                runs.write_run(lake, record)
    if progress:
        progress(len(chosen), len(chosen))
    return report


def _decide_one(
    lake: Lake, settings: Settings, clock: Clock, rule: Rule, record: runs.Run, dry_run: bool, decisions: list[Row]
) -> Counter[str]:
    generation = ensure(lake, settings, clock)
    embedder = embedder_named(generation.embedder, settings)
    tables = open_tables(settings, generation)
    namespace = record.namespace
    counts: Counter[str] = Counter()
    for attempt in range(ROUNDS):
        settle(lake, namespace)
        read_to = fold_to_head(lake, tables, namespace, embedder)
        record.read_to = record.read_to or read_to
        if not dry_run and attempt == 0:
            runs.write_run(lake, record)
        view = View(lake, settings, tables, embedder, namespace, clock.now(), read_to)
        refused = 0
        for acts in _portions(view, record, rule, clock, counts if attempt == 0 else Counter()):
            decisions += [row for rows in acts for row in rows]
            verdicts = {} if dry_run else propose(lake, namespace, acts, read_to)
            taken = [rows for rows in acts if rows[0]["act"] not in verdicts]
            counts.update(rows[0]["decision"] for rows in taken)
            refused += len(acts) - len(taken)
        if not refused:
            break
    else:
        counts["unsettled"] += refused
    if not dry_run:
        fold_to_head(lake, tables, namespace, embedder)
        tables.index()
    return counts


def _portions(
    view: View, record: runs.Run, rule: Rule, clock: Clock, counts: Counter[str]
) -> Iterator[list[list[Row]]]:
    """The acts of a rule, about `FILE_ROWS` rows at a time, since proposing looks at the whole log; what it counts is
    counted. What was decided together is proposed together: its acts may build on each other.
    """
    acts: list[list[Row]] = []
    size = 0
    for decided in rule(view):
        counts.update(decided.counts)
        some = [_act(view, record, rows, clock.now()) for rows in decided.acts if rows]
        acts += some
        size += sum(len(rows) for rows in some)
        if size >= FILE_ROWS:
            yield acts
            acts, size = [], 0
    yield acts


def _act(view: View, record: runs.Run, rows: list[Row], at: datetime) -> list[Row]:
    """Rows as one act, named for what it is about and for what was known: decided anew, it is a new act."""
    about = [part for row in rows for part in (row["decision"], row["id"])]
    act = derive_id(view.namespace, "act", record.job, *about, view.read_to)
    return [{**row, "act": act, "at": at, "run": record.run_id, "read_to": view.read_to} for row in rows]


def propose(lake: Lake, namespace: str, acts: Sequence[list[Row]], read_to: int) -> dict[str, str]:
    """Put acts into the inbox, settle them, and return why each of those that were refused was, by act."""
    if not acts:
        return {}
    some: list[Row] = []
    for rows in acts:
        if some and len(some) + len(rows) > FILE_ROWS:
            write_proposals(lake, namespace, some)
            some = []
        some += rows
    write_proposals(lake, namespace, some)
    settled = settle(lake, namespace)
    mine = {rows[0]["act"] for rows in acts}
    if mine <= settled.refused.keys() | set(settled.accepted):
        return {act: reason for act, reason in settled.refused.items() if act in mine}
    # Another process settled some of them.
    logged = read_log(lake, namespace, read_to, ["act", "verdict", "reason"])
    return {
        row["act"]: row["reason"] for row in logged.to_pylist() if row["verdict"] == "refused" and row["act"] in mine
    }
