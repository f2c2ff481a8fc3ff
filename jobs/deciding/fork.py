"""The log of a branch in which history is reflected on again: what the lake's log says, but for what reflections gave.

Rows of the lake's log keep their place. Those that rest on a reflection are refused in the branch: what reflecting has
added, what was made from that, and what a run decided about other memories in favour of it. What users did, episodes,
patterns and what jobs decided about the rest stays. What the lake's log gets later is brought over act by act.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...memory_store.files.lake import Lake, namespace_path
from ...memory_store.history.branch import BranchLake
from ...memory_store.history.inbox import Row, write_user_act
from ...memory_store.history.log import log_paths, read_keys, read_log, settle
from ...memory_store.ids import derive_id
from ...memory_store.records import runs
from ...memory_store.records.purged import without_content
from ...memory_store.schema import ADDING, conform

if TYPE_CHECKING:
    import pyarrow as pa

#: Jobs whose memories are what a reflection said.
REFLECTING = ("reflect", "rereflect")
_REASON = "reflected on again"
#: Rows of one file of acts that are brought over.
_ROWS = 20_000


def reflecting_runs(lake: Lake, namespace: str) -> set[str]:
    """Ids of the runs that reflected."""
    import msgspec

    paths = lake.names(namespace_path(namespace, "runs"))
    found = (msgspec.json.decode(lake.get(path), type=runs.Run) for path in paths)
    return {run.run_id for run in found if run.job in REFLECTING}


def replaced_ids(lake: Lake, namespace: str) -> set[str]:
    """Memories that reflecting has added, and what runs have made of them."""
    reflecting = reflecting_runs(lake, namespace)
    gone: set[str] = set()
    columns = ["decision", "verdict", "run", "id", "kind", "derived_from"]
    for _, read in lake.read_tables(log_paths(lake, namespace), columns):
        rows = conform(read, "log").select(columns)
        for decision, verdict, run, id, kind, parents in zip(
            *(rows.column(name).to_pylist() for name in columns), strict=True
        ):
            if decision != "add" or verdict != "accepted" or not run or kind == "episode":
                continue
            if run in reflecting or not gone.isdisjoint(parents or ()):
                gone.add(id)
    return gone


def fork_log(lake: Lake, branch: BranchLake, namespace: str) -> int:
    """Give a branch its log, and return the place in the lake's log at which it leaves it. Doing it twice is once."""
    settle(lake, namespace)
    reflecting, gone = reflecting_runs(lake, namespace), replaced_ids(lake, namespace)
    seq = 0
    for path, read in lake.read_tables(log_paths(lake, namespace)):
        rows = forked(conform(read, "log"), reflecting, gone)
        branch.create_table(path, rows)
        seq = int(rows.column("seq")[-1].as_py())
    return seq


def forked(rows: pa.Table, reflecting: set[str], gone: set[str]) -> pa.Table:
    """Rows of the log, those refused that rest on a reflection. Pure."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ids, runs_ = pa.array(sorted(gone), pa.string()), pa.array(sorted(reflecting), pa.string())
    by_run = pc.fill_null(pc.not_equal(rows.column("run"), ""), False)
    purge = pc.fill_null(pc.equal(rows.column("decision"), "purge"), False)
    about = pc.and_(pc.is_in(rows.column("id"), value_set=ids), pc.invert(purge))
    into = pc.and_(by_run, pc.is_in(rows.column("superseded_by"), value_set=ids))
    refusals = pc.and_(pc.equal(rows.column("decision"), "refuse"), pc.is_in(rows.column("run"), value_set=runs_))
    out = pc.or_(pc.or_(about, into), refusals)
    rows = without_content(rows, pc.or_(about, refusals))
    for name, value in (("verdict", "refused"), ("reason", _REASON)):
        at = rows.schema.get_field_index(name)
        values = pc.if_else(out, pa.scalar(value, pa.string()), rows.column(name))
        rows = rows.set_column(at, rows.schema.field(at), values)
    return rows


def bring_over(lake: Lake, branch: BranchLake, namespace: str, forked_at: int) -> int:
    """Give a branch what the lake's log got since it left, and return how many acts that were.

    What was decided there holds here too, where it speaks of memories that are here. An act that is here already is
    not brought again.
    """
    settle(lake, namespace)
    acts: set[str] = set()
    known: set[str] = set()
    for keys in read_keys(branch, namespace):
        rows = zip(*(keys.column(name).to_pylist() for name in ("act", "id", "decision", "verdict")), strict=True)
        for act, id, decision, verdict in rows:
            acts.add(act)
            if decision in ADDING and verdict == "accepted":
                known.add(id)
    brought: dict[str, list[Row]] = {}
    for row in [*_said_before(lake, namespace, forked_at, known), *read_log(lake, namespace, forked_at).to_pylist()]:
        if row["act"] in acts or row["verdict"] != "accepted" or row["decision"] in ("refuse", "cool"):
            continue
        adds = row["decision"] in ADDING
        if (adds and row["id"] in known) or (not adds and row["id"] not in known):
            continue
        if row["run"] and row["superseded_by"] and row["superseded_by"] not in known:
            continue
        known |= {row["id"]} if adds else set()
        # What was settled once is not judged again.
        brought.setdefault(row["act"], []).append({**row, "read_to": None, "seq": None, "verdict": None})
    for some in _files(brought):
        name = derive_id(namespace, "brought", *sorted({row["act"] for row in some}))
        write_user_act(branch, namespace, some, name)
    settle(branch, namespace)
    return len(brought)


def _said_before(lake: Lake, namespace: str, forked_at: int, known: set[str]) -> Iterator[Row]:
    """What users did, before the branch left, about memories that were added anew since: it holds for these too."""
    import pyarrow as pa
    import pyarrow.compute as pc

    anew = pa.array(sorted(replaced_ids(lake, namespace) & known), pa.string())
    for _, read in lake.read_tables(log_paths(lake, namespace) if len(anew) else []):
        rows = conform(read, "log")
        by_user = pc.equal(pc.fill_null(rows.column("run"), ""), "")
        mine = pc.and_(by_user, pc.is_in(rows.column("id"), value_set=anew))
        rows = rows.filter(pc.and_(mine, pc.less_equal(rows.column("seq"), forked_at)))
        for row in rows.to_pylist():
            # Another act: the one that said it lies in the branch's log, where it spoke of nothing.
            yield {**row, "act": derive_id(namespace, "act", "again", row["act"], row["id"])}


def _files(acts: dict[str, list[Row]]) -> Iterator[list[Row]]:
    waiting: list[Row] = []
    for rows in acts.values():
        waiting += rows
        if len(waiting) >= _ROWS:
            yield waiting
            waiting = []
    if waiting:
        yield waiting
