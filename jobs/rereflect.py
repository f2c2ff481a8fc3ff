"""The job `rereflect`: history is reflected on again, in a branch, and compared before anyone sees it (N4).

1. The log is forked: what reflections gave is left out (`fork`), the rest and all that comes later holds in both.
2. The traces that had been reflected on by then are reflected on again, by whatever reflector, into the branch. A run
   that was killed, or stopped at its budget, is gone on with by the next.
3. A generation shows the branch, beside the one in use.
4. Adopted, the difference becomes one run in the log, in one file: readers see all of it or nothing. So it is undone as
   any run is, and a rebuild knows nothing of branches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pyarrow as pa

from ..memory_store.clock import Clock
from ..memory_store.embedders import embedder_named
from ..memory_store.errors import UsageError
from ..memory_store.files.lake import Lake, namespace_path
from ..memory_store.history.branch import Branch, BranchLake, branches, write_branch
from ..memory_store.history.inbox import write_proposals
from ..memory_store.history.log import read_keys, settle
from ..memory_store.recall.predicates import Filter
from ..memory_store.records import runs
from ..memory_store.schema import ADDING
from ..memory_store.settings import Settings
from ..memory_store.store.generations import catch_up, ensure, fold_to_head, make, open_tables
from ..memory_store.store.registry import Known, claim, find, mark_ready, switch, usable
from ..memory_store.store.switching import discard
from ..memory_store.telemetry.spending import Ledger
from .deciding.adopt import COLUMNS, adopted
from .deciding.fork import bring_over, fork_log, replaced_ids
from .reflecting.plan import gated_traces

#: How often what was changed by others meanwhile is decided anew.
_ROUNDS = 5


@dataclass(frozen=True)
class Prepared:
    """What is to be reflected on again, and where."""

    branch: Branch
    #: The lake as the branch has it
    lake: BranchLake
    #: Traces by namespace
    among: dict[str, set[str]]


@dataclass
class AdoptReport:
    """What became of a branch."""

    #: The run that the log knows it as
    run_id: str
    #: Memories `added`, `archived` and `changed`, and `unsettled`, which others kept changing meanwhile
    counts: Counter[str] = field(default_factory=Counter)


def prepare(lake: Lake, settings: Settings, clock: Clock, reflector: str) -> Prepared:
    """A branch in which all that was reflected on is reflected on again, in all namespaces; `reflect` does that.

    A branch of a reflector of the same name that was begun and not adopted is gone on with. Raises `UsageError` where
    nothing was reflected on yet.
    """
    mine = [one for one in branches(lake) if one.reflector == reflector]
    if mine and usable(lake, settings, replace(find(lake, mine[-1].generation), state="ready")):
        discard(lake, settings, mine.pop().generation)  # a purge came in between: what it took must not come back
    known = mine[-1] if mine else _begin(lake, settings, clock, reflector)
    branch = BranchLake(lake, known.branch)
    for namespace, seq in known.forked_at.items():
        bring_over(lake, branch, namespace, seq)
    return Prepared(known, branch, {name: _among(lake, known.branch, name) for name in known.forked_at})


def finish(lake: Lake, settings: Settings, prepared: Prepared, *, complete: bool) -> None:
    """Bring the branch, and the generation that shows it, up to the lake's log; `complete`: nothing is left to reflect
    on, so that it can be adopted.
    """
    known = prepared.branch
    for namespace, seq in known.forked_at.items():
        bring_over(lake, prepared.lake, namespace, seq)
    one = find(lake, known.generation)
    catch_up(prepared.lake, open_tables(settings, one.claim), embedder_named(one.claim.embedder, settings))
    if complete:
        mark_ready(lake, one.claim)


def keep_costs(lake: Lake, prepared: Prepared, version: str, clock: Clock) -> None:
    """Keep in the lake what reflecting again has used until now, whether or not the branch is ever adopted."""
    known = prepared.branch
    for namespace in known.forked_at:
        record = _record(lake, prepared.lake, known, namespace, version, clock)
        if record.spent:
            record.status, record.ended_at = "done", clock.now()
            runs.write_run(lake, record)


def branch_of(lake: Lake, number: int) -> tuple[Known, Branch | None]:
    """A generation, and the branch that it shows, if it shows one. Raises `UsageError`."""
    one = find(lake, number)
    if not one.claim.branch:
        return one, None
    found = [branch for branch in branches(lake) if branch.branch == one.claim.branch]
    if not found:
        raise UsageError(f"generation {number} shows a re-reflection that was adopted or dropped: run it again")
    return one, found[0]


def side(lake: Lake, number: int) -> tuple[Known, Lake]:
    """A generation, and the lake that it shows: to be compared with another. Raises `UsageError`."""
    one, branch = branch_of(lake, number)
    return one, lake if branch is None else BranchLake(lake, branch.branch)


def adopt(lake: Lake, settings: Settings, clock: Clock, number: int, *, version: str) -> AdoptReport:
    """Make what a branch shows the truth: a run in the log, folded into the generation in use. Twice is once.

    Raises `UsageError` for a generation that shows no branch, or one whose traces were not all reflected on.
    """
    one, known = branch_of(lake, number)
    if known is None:
        raise UsageError(f"generation {number} shows no re-reflection")
    if one.state != "ready":
        raise UsageError(f"the re-reflection of generation {number} is not complete: run `hindlake rereflect` again")
    if why := usable(lake, settings, one):
        raise UsageError(f"{why.partition(':')[0]}: drop it (`hindlake generations drop {number}`) and reflect again")
    branch, report = BranchLake(lake, known.branch), AdoptReport(known.branch)
    generation = ensure(lake, settings, clock)
    embedder = embedder_named(generation.embedder, settings)
    tables, theirs = open_tables(settings, generation), open_tables(settings, one.claim)
    shown = embedder_named(one.claim.embedder, settings)
    for namespace in sorted(known.forked_at):
        record = _record(lake, branch, known, namespace, version, clock)
        runs.write_run(lake, record)
        for path in branch.names(namespace_path(namespace, "reflections")):
            lake.put(path, branch.get(path))
        replaced, counts = replaced_ids(lake, namespace), Counter[str]()
        for _ in range(_ROUNDS):
            settle(lake, namespace)
            read_to = fold_to_head(lake, tables, namespace, embedder)
            bring_over(lake, branch, namespace, known.forked_at[namespace])
            fold_to_head(branch, theirs, namespace, shown)
            where = Filter((namespace,), states=None)
            acts = adopted(
                namespace, {row["id"]: row for row in tables.scan(where, COLUMNS).to_pylist()},
                theirs.scan(where, COLUMNS).to_pylist(), replaced, _added(lake, namespace),
                run_id=known.branch, read_to=read_to, at=clock.now(),
            )  # fmt: skip
            counts = counts or _counts(acts)
            if not acts:
                break
            write_proposals(lake, namespace, [row for act in acts for row in act])
            settle(lake, namespace)
        else:
            report.counts["unsettled"] += len(acts)
        record.status, record.ended_at, record.counts = "done", clock.now(), record.counts | counts
        runs.write_run(lake, record)
        report.counts.update(counts)
        fold_to_head(lake, tables, namespace, embedder)
    tables.index()
    discard(lake, settings, number)
    return report


def _begin(lake: Lake, settings: Settings, clock: Clock, reflector: str) -> Branch:
    """Fork the logs, and make the generation that shows them. Its file is written last: what lacks it is not there."""
    generation = ensure(lake, settings, clock)
    embedder = embedder_named(generation.embedder, settings)
    name = runs.new_run_id()
    branch = BranchLake(lake, name)
    forked: dict[str, int] = {}
    for namespace in lake.namespaces():
        ids = sorted(gated_traces(lake, namespace))
        if ids:
            lake.put_table(_among_path(namespace, name), pa.table({"trace_id": pa.array(ids, pa.string())}))
            forked[namespace] = fork_log(lake, branch, namespace)
    if not forked:
        raise UsageError("nothing was reflected on yet: run `hindlake run reflect`")
    claimed = claim(lake, clock, embedder.name, embedder.dim, f"rereflect by {reflector}", name)
    make(branch, settings, claimed, embedder)
    switch(branch, clock, claimed, 0)
    known = Branch(branch=name, reflector=reflector, made_at=clock.now(), forked_at=forked, generation=claimed.number)
    write_branch(lake, known)
    return known


def _among_path(namespace: str, branch: str) -> str:
    return namespace_path(namespace, "branches", branch, "among.parquet")


def _among(lake: Lake, branch: str, namespace: str) -> set[str]:
    """The traces that are reflected on again."""
    return set(lake.read_table(_among_path(namespace, branch)).column("trace_id").to_pylist())


def _added(lake: Lake, namespace: str) -> set[str]:
    """Every memory that the log has added."""
    found: set[str] = set()
    for keys in read_keys(lake, namespace):
        rows = zip(*(keys.column(name).to_pylist() for name in ("id", "decision", "verdict")), strict=True)
        found.update(id for id, decision, verdict in rows if decision in ADDING and verdict == "accepted")
    return found


def _counts(acts: Sequence[Sequence[dict[str, Any]]]) -> Counter[str]:
    names = {"add": "added", "archive": "archived"}
    return Counter(names.get(act[0]["decision"], "changed") for act in acts)


def _record(lake: Lake, branch: BranchLake, known: Branch, namespace: str, version: str, clock: Clock) -> runs.Run:
    """The run as which the log knows a branch: what the runs in it used, together."""
    record = runs.Run(
        run_id=known.branch, job="rereflect", namespace=namespace, version=version, started_at=known.made_at,
        reflector=known.reflector, read_to=known.forked_at[namespace],
    )  # fmt: skip
    ledger = Ledger()
    for path in branch.names(namespace_path(namespace, "runs")):
        one = msgspec.json.decode(branch.get(path), type=runs.Run)
        ledger.add(runs.parts_of(one))
        record.prompt_hash = record.prompt_hash or one.prompt_hash
        for name in ("traces", "reflected", "calls", "failed_calls"):
            record.counts[name] = record.counts.get(name, 0) + one.counts.get(name, 0)
    runs.note_spent(record, ledger.parts)
    return record
