"""Which traces the gate has looked at, and which still wait for it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from ..files.lake import Lake, namespace_path


def looked_at(lake: Lake, namespace: str, since: datetime | None = None) -> dict[str, bool]:
    """Every trace that has a gate row, and whether it was given to the reflector, by its last row.

    `since`: only rows that were written from then on.
    """
    found: dict[str, bool] = {}
    for rows in _rows(lake, namespace):
        kept = rows if since is None else rows.filter(pc.greater_equal(rows.column("at"), since))
        found.update(zip(kept.column("trace_id").to_pylist(), kept.column("reflected").to_pylist(), strict=True))
    return found


def over(events: pa.Table, now: datetime, abandoned: timedelta) -> set[str]:
    """Traces that have ended by a time: they have an outcome, or nothing has happened in them for so long.

    `events` has the columns trace_id, type and at.
    """
    ended = events.filter(
        pc.and_(pc.less_equal(events.column("at"), now), pc.equal(events.column("type"), "outcome"))
    ).column("trace_id")
    last = events.group_by("trace_id").aggregate([("at", "max")])
    silent = last.filter(pc.less_equal(last.column("at_max"), now - abandoned)).column("trace_id")
    return {*ended.to_pylist(), *silent.to_pylist()}


def _rows(lake: Lake, namespace: str) -> Iterator[pa.Table]:
    """Gate rows, a file at a time, in the order of writing."""
    paths = lake.names(namespace_path(namespace, "gate"))
    for _, rows in lake.read_tables(paths, ["trace_id", "reflected", "at"]):
        yield rows
