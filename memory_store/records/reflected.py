"""Memories that reflectors made from traces, as the log has them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from ..files.lake import Among, Lake
from ..history.inbox import Row
from ..history.log import log_paths
from ..schema import LOG, conform

_NARROW = ["id", "kind", "at", "run", "decision", "verdict", "reflector", "derived_from"]
_COLUMNS = [column.name for column in LOG if column.name != "vector"]


def is_reflected(row: Row) -> bool:
    """Whether a row of the log adds a memory that a reflector made from traces.

    A user's own act, an episode, and what was made from other memories are none.
    """
    is_own = bool(row["run"]) and bool(row["reflector"]) and not row["derived_from"]
    return is_own and row["decision"] == "add" and row["kind"] != "episode" and row["verdict"] != "refused"


def reflected_ids(lake: Lake, namespace: str, since: datetime, until: datetime) -> list[str]:
    """Ids of the memories that were written from `since` to before `until`, in the order of the log."""
    import pyarrow.compute as pc

    ids: dict[str, None] = {}
    for _, table in lake.read_tables(log_paths(lake, namespace), _NARROW):
        rows = conform(table, "log").select(_NARROW)
        in_time = pc.and_(pc.greater_equal(rows.column("at"), since), pc.less(rows.column("at"), until))
        added = rows.filter(pc.and_(in_time, pc.equal(rows.column("decision"), "add")))
        ids.update((row["id"], None) for row in added.to_pylist() if is_reflected(row))
    return list(ids)


def memories_of(lake: Lake, namespace: str, ids: Iterable[str]) -> dict[str, Row]:
    """The rows of the log that added these memories, by id, each with the state that it has by the log now.

    Ids that are no reflected memories are left out.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = sorted(set(ids))
    found: dict[str, Row] = {}
    states: dict[str, str] = {}
    for _, table in lake.read_tables(log_paths(lake, namespace), _COLUMNS, among=Among("id", wanted)):
        mine = table.filter(pc.is_in(table.column("id"), value_set=pa.array(wanted, pa.string())))
        for row in conform(mine, "log").to_pylist():
            if row["verdict"] == "refused":
                continue
            if is_reflected(row):
                found.setdefault(row["id"], row)
            if row["state"] is not None:
                states[row["id"]] = row["state"]
    return {id: {**row, "state": states.get(id, "")} for id, row in found.items()}
