"""What the log says of memories that were sent away, and of those that were brought back."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from ..files.lake import Lake
from .log import log_paths, read_log

#: Decisions that bring a memory back, or take back what sent it away.
_BACK = ("restore", "undo")


def restored_at(lake: Lake, namespace: str, ids: Iterable[str]) -> dict[str, datetime]:
    """When each of some memories was last brought back, those that never were left out.

    Jobs that send memories away begin to count anew from there. Without it, what a user restores today would be sent
    away again tonight, for the same reason as before.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = pa.array(sorted(set(ids)), pa.string())
    if not len(wanted):
        return {}
    found = [pa.table({"id": pa.array([], pa.string()), "at": pa.array([], pa.timestamp("us", "UTC"))})]
    for _, log in lake.read_tables(log_paths(lake, namespace), ["id", "at", "decision", "verdict"]):
        rows = log.filter(
            pc.and_(
                pc.and_(pc.equal(log.column("verdict"), "accepted"), pc.is_in(log.column("id"), value_set=wanted)),
                pc.is_in(log.column("decision"), value_set=pa.array(_BACK)),
            )
        )
        found.append(rows.select(["id", "at"]))
    last = pa.concat_tables(found).group_by("id").aggregate([("at", "max")])
    return dict(zip(last.column("id").to_pylist(), last.column("at_max").to_pylist(), strict=True))


def quarantined(lake: Lake, namespace: str) -> dict[str, str]:
    """The memories that are quarantined now, with the reason."""
    import pyarrow as pa
    import pyarrow.compute as pc

    log = read_log(lake, namespace, 0, ["id", "decision", "verdict", "state", "reason"])
    log = log.filter(pc.and_(pc.equal(log.column("verdict"), "accepted"), pc.is_valid(log.column("state"))))
    ever = pc.unique(log.filter(pc.equal(log.column("state"), "quarantined")).column("id"))
    last: dict[str, dict[str, str]] = {}
    for row in log.filter(pc.is_in(log.column("id"), value_set=pa.array(ever))).to_pylist():
        last[row["id"]] = row
    return {id: row["reason"] or "" for id, row in sorted(last.items()) if row["state"] == "quarantined"}
