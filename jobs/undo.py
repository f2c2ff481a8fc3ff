"""The job `undo`: takes back what a run decided, column by column, and keeps what was changed since (N2).

An undo is a run like any other, so it can be undone. Its rows say nothing new: they bring back what stood below. So
whoever undoes the last run and then the one before it gets what was there before both, in whatever order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..memory_store.clock import END_OF_TIME, Clock
from ..memory_store.errors import UsageError
from ..memory_store.files.lake import Lake
from ..memory_store.history.inbox import Row
from ..memory_store.history.log import read_log
from ..memory_store.records import runs
from ..memory_store.schema import ADDING, STATE
from ..memory_store.settings import Settings
from .deciding.decide import Decided, View, decide

if TYPE_CHECKING:
    import pyarrow as pa

JOB = "undo"
#: Parameter of a run of this job that names the run it took back.
UNDONE = "undone"

_STATE = tuple(column.name for column in STATE)
#: What a column is where nothing before the run has set it.
_UNSET: dict[str, Any] = {"superseded_by": "", "valid_to": END_OF_TIME, "strength": 1.0}
#: States of what something else has taken the place of.
_REPLACED = ("superseded", "merged")
#: Columns that a successor sets on what it takes the place of.
_LINK = ("state", "superseded_by", "valid_to")


@dataclass(frozen=True)
class Kept:
    """Columns of a memory that the run set and that stay as they are."""

    id: str
    columns: tuple[str, ...]
    #: Why
    reason: str


@dataclass
class UndoReport:
    """What an undo did, or with `dry_run` would do."""

    #: Id of the undo, a run itself
    run_id: str
    #: The run that was taken back
    undone: str
    #: `undo`: memories changed, of which `deleted` were added by the run, `reverted` were changed by it, `restored`
    #: had one of those as their successor and `derived` were made from one; `kept`: columns that were changed since;
    #: `unsettled`: memories that others kept changing meanwhile
    counts: Counter[str] = field(default_factory=Counter)
    decisions: list[Row] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    #: Memories made from what the run had added: they are pending, if they were active, and want to be looked at
    derived: list[str] = field(default_factory=list)
    #: Whether the run had not ended: what it decides from now on is not undone
    unfinished: bool = False

    def summary(self) -> dict[str, Any]:
        """The report as plain values: ids and counts, never the text of a memory."""
        return {
            "run_id": self.run_id,
            "undone": self.undone,
            "counts": dict(sorted(self.counts.items())),
            "kept": [{"id": item.id, "columns": list(item.columns), "reason": item.reason} for item in self.kept],
            "derived": self.derived,
            "unfinished": self.unfinished,
        }


def undo(
    lake: Lake,
    settings: Settings,
    clock: Clock,
    run: str,
    *,
    version: str,
    namespaces: Sequence[str] | None = None,
    dry_run: bool = False,
) -> UndoReport:
    """Take back a run in the namespaces named, or wherever it worked. A second undo finds nothing to do.

    Each column that the run set last gets the value that stood before; memories that it added become `deleted`; what
    they had taken the place of is restored; what was made from them becomes `pending`. What a later run or a user
    changed stays, and is listed. With `dry_run` nothing is written. Raises `UsageError` for a run that is not known.
    """
    chosen = lake.chosen(namespaces)
    records = [record for name in chosen if run and (record := runs.read_run(lake, name, run)) is not None]
    if not records:
        where = f"namespace {', '.join(chosen)}" if namespaces is not None else lake.url
        raise UsageError(f"no run {run!r} in {where}: `hindlake undo` without a run lists the last ones")
    kept: dict[str, list[Kept]] = {}
    derived: dict[str, list[str]] = {}

    def rule(view: View) -> Iterator[Decided]:
        rows, undoes = _history(view, run)
        plan = plan_undo(rows, run, undoes)
        kept[view.namespace], derived[view.namespace] = plan.kept, plan.derived
        yield Decided([[row] for row in plan.rows], plan.counts)

    done = decide(
        lake,
        settings,
        clock,
        rule,
        job=JOB,
        version=version,
        namespaces=[record.namespace for record in records],
        parameters={UNDONE: run},
        dry_run=dry_run,
    )
    return UndoReport(
        run_id=done.run_id,
        undone=run,
        counts=done.counts,
        decisions=done.decisions,
        kept=[item for some in kept.values() for item in some],
        derived=[id for some in derived.values() for id in some],
        unfinished=any(record.status == "running" for record in records),
    )


def _history(view: View, run: str) -> tuple[list[Row], dict[str, str]]:
    """Accepted rows about every memory that the undo of a run may touch, in order; which run each undo took back."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = ["id", "run", "decision", "verdict", "derived_from", *_STATE]
    log = read_log(view.lake, view.namespace, 0, columns)
    log = log.filter(
        pc.and_(pc.equal(log.column("verdict"), "accepted"), pc.not_equal(log.column("decision"), "refuse"))
    )
    mine = log.filter(pc.equal(pc.fill_null(log.column("run"), ""), run))
    added = mine.filter(pc.is_in(mine.column("decision"), value_set=pa.array(ADDING))).column("id").combine_chunks()
    linked = log.filter(pc.is_in(log.column("superseded_by"), value_set=added)).column("id")
    ids = pa.array({*mine.column("id").to_pylist(), *linked.to_pylist(), *_derived(log, added)}, pa.string())
    rows = log.filter(pc.is_in(log.column("id"), value_set=ids)).to_pylist()
    decided = {row["run"] for row in rows if row["decision"] == JOB}
    undoes = {
        record.run_id: str(record.parameters.get(UNDONE, ""))
        for record in runs.all_runs(view.lake, view.namespace)
        # One that found everything changed since has no row, and counts all the same.
        if record.job == JOB and (record.status == "done" or record.run_id in decided)
    }
    return rows, undoes


def taken_back(run: str, undoes: Mapping[str, str]) -> frozenset[str]:
    """The runs that stand no more once a run is undone: that one, and those that an undo which still stands took back.

    `undoes`: undo run → the run it took back, in the order in which they ran.
    """
    gone = {run}
    for undo, undone in reversed(list(undoes.items())):
        if undo not in gone:
            gone.add(undone)
    return frozenset(gone)


def _derived(log: pa.Table, added: pa.Array) -> list[str]:
    """Ids of memories that were made from one of those."""
    import pyarrow.compute as pc

    lists = log.column("derived_from").combine_chunks()
    hits = pc.filter(pc.list_parent_indices(lists), pc.is_in(pc.list_flatten(lists), value_set=added))
    found: list[str] = log.column("id").take(hits).to_pylist()
    return found


@dataclass(frozen=True)
class Entry:
    """One row's word on one column of one memory."""

    seq: int
    #: Empty: a user
    run: str
    value: Any
    #: The runs without which this row brings back what stood below; empty: it is no undo's
    undoes: frozenset[str] = frozenset()


def standing(entries: Sequence[Entry], without: frozenset[str] = frozenset()) -> Entry | None:
    """The entry whose value holds, if some runs had never been; None if nothing is left.

    The row of an undo that brings a value back stands for the entry that had set it.
    """
    for place in range(len(entries) - 1, -1, -1):
        entry = entries[place]
        if entry.run and entry.run in without:
            continue
        if entry.undoes:
            below = standing(entries[:place], entry.undoes)
            if below is not None and below.value == entry.value:
                return standing(entries[:place], without | entry.undoes)
        return entry
    return None


@dataclass
class Plan:
    """What an undo proposes."""

    #: One row a memory
    rows: list[Row] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    derived: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def plan_undo(rows: Sequence[Row], run: str, undoes: Mapping[str, str]) -> Plan:
    """What takes a run back. `rows`: accepted rows of the log, `undoes`: undo → the run it took back, both in order."""
    without = taken_back(run, undoes)
    before: dict[str, str] = {}
    targets: dict[str, frozenset[str]] = {}
    for undo_run, undone in undoes.items():
        targets[undo_run] = taken_back(undone, before)
        before[undo_run] = undone
    memories: dict[str, _Memory] = defaultdict(_Memory)
    plan = Plan()
    purged = {row["id"] for row in rows if row["decision"] == "purge"}
    for row in rows:
        if row["id"] not in purged:
            memories[row["id"]].take(row, targets)
    plan.kept += [Kept(id, (), "was purged since: nothing brings it back") for id in sorted(purged)]
    changes: dict[str, tuple[Row, str, str]] = {}
    gone = {id for id, memory in memories.items() if memory.added_by == run and _delete(id, memory, run, changes, plan)}
    for id, memory in memories.items():
        if memory.added_by == run:
            continue
        if values := _revert(id, memory, run, without, plan):
            changes[id] = values, "reverted", f"before run {run}"
        if values := memory.unlinked(gone, changes[id][0] if id in changes else {}, without):
            old = changes.get(id, ({}, "", ""))
            changes[id] = {**old[0], **values}, "restored", f"what took its place was added by run {run}"
        state = (changes[id][0] if id in changes else {}).get("state") or memory.value("state")
        if gone.intersection(memory.derived_from) and state != "deleted":
            plan.derived.append(id)
            if state == "active":
                old = changes.get(id, ({}, "", ""))
                changes[id] = {**old[0], "state": "pending"}, "derived", f"was made from what run {run} added"
    for id, (values, what, reason) in changes.items():
        plan.rows.append({"decision": JOB, "id": id, "reason": reason, **values})
        plan.counts[what] += 1
    plan.counts["kept"] = sum(len(item.columns) for item in plan.kept)
    return plan


class _Memory:
    """What the log says of one memory, column by column."""

    def __init__(self) -> None:
        self.entries: dict[str, list[Entry]] = defaultdict(list)
        self.added_by: str | None = None
        self.derived_from: list[str] = []
        #: Successor that a row named, by the row's place
        self.links: dict[int, str] = {}

    def take(self, row: Row, targets: Mapping[str, frozenset[str]]) -> None:
        by = row.get("run") or ""
        if row["decision"] in ADDING and self.added_by is None:  # an alias may be said again
            self.added_by, self.derived_from = by, list(row.get("derived_from") or ())
        if row.get("superseded_by"):
            self.links[row["seq"]] = row["superseded_by"]
        if row["decision"] == "restore" and not by and row["state"] in _REPLACED:
            self._back_to(row["state"], row["seq"])
            return
        target = targets.get(by, frozenset()) if row["decision"] == JOB else frozenset()
        for name in _STATE:
            if row.get(name) is not None:
                self.entries[name].append(Entry(row["seq"], by, row[name], target))

    def _back_to(self, state: str, seq: int) -> None:
        """A user brought it back to what it was before it went: whoever had said so then says so again."""
        entries = self.entries["state"]
        while entries and entries[-1].value != state:
            entries.pop()
        said = entries[-1] if entries else Entry(seq, "", state)
        entries.append(replace(said, seq=seq))

    def value(self, column: str) -> Any:
        """What the fold says."""
        entries = self.entries[column]
        return entries[-1].value if entries else None

    def unlinked(self, gone: set[str], changes: Row, without: frozenset[str]) -> Row:
        """What the memory was before a successor that is gone took its place; nothing if none has."""
        successor = changes.get("superseded_by", self.value("superseded_by"))
        state = changes.get("state", self.value("state"))
        if successor not in gone or state not in _REPLACED:
            return {}
        by_gone = {seq for seq, named in self.links.items() if named in gone}
        values: Row = {}
        for name in _LINK:
            entries = [entry for entry in self.entries[name] if entry.seq not in by_gone]
            before = standing(entries, without)
            values[name] = before.value if before is not None else _UNSET.get(name)
        return {
            name: value
            for name, value in values.items()
            if value is not None and value != changes.get(name, self.value(name))
        }


def _delete(id: str, memory: _Memory, run: str, changes: dict[str, tuple[Row, str, str]], plan: Plan) -> bool:
    """Delete what the run added; False where a user has said since that it stays."""
    entries = memory.entries["state"]
    now = standing(entries)
    if now is None or now.value == "deleted":
        return True
    if not now.run and now.value in ("active", "pending"):
        plan.kept.append(Kept(id, ("state",), "a user brought it back after the run"))
        return False
    changes[id] = {"state": "deleted"}, "deleted", f"added by run {run}"
    return True


def _revert(id: str, memory: _Memory, run: str, without: frozenset[str], plan: Plan) -> Row:
    """The values before the run, of the columns that it set last; what was taken back too stands before nothing."""
    values: Row = {}
    later: dict[str, list[str]] = defaultdict(list)
    for name, entries in memory.entries.items():
        last = max((entry.seq for entry in entries if entry.run == run), default=0)
        if not last:
            continue
        now, before = standing(entries), standing(entries, without)
        if now is not None and before is not None and now.seq == before.seq:
            if now.seq > last:
                later["changed since by " + (f"run {now.run}" if now.run else "a user")].append(name)
            continue
        value = before.value if before is not None else _UNSET.get(name)
        if value is None:
            later["had no value before the run"].append(name)
        else:
            values[name] = value  # though it may be the same: what the run said stands no more
    plan.kept += [Kept(id, tuple(columns), reason) for reason, columns in later.items()]
    return values
