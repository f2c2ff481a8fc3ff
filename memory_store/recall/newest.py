"""The newest of what passes a filter: what a search without words lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..clock import as_utc
from ..store.tables import MEMORIES, PASSAGES, Tables
from .predicates import Filter
from .ranking import Ranked
from .search import Hit, read_hits, with_neighbours

#: A place in the list: the time since when a memory holds, and its id.
Place = tuple[datetime, str]


def newest(
    tables: Tables, where: Filter, fresh: Sequence[Mapping[str, Any]], limit: int, before: Place | None = None
) -> list[Hit]:
    """Memories, and passages if the filter's kinds name them, by the time since when they hold, newest first.

    `fresh`: rows that the store does not hold yet. `before`: only what comes after this place in the list.
    """
    stored = tables.scan(where, ["id", "valid_from"]).to_pylist()
    known = {row["id"] for row in stored}
    new = {row["id"]: row for row in fresh if row["id"] not in known and row["id"] not in where.not_ids}
    found = read_hits(tables, MEMORIES, where, _order([*stored, *new.values()], before), limit, new)
    found += _passages(tables, where, limit, before)
    return sorted(found, key=lambda hit: _place(hit.row), reverse=True)[:limit]


def _passages(tables: Tables, where: Filter, limit: int, before: Place | None) -> list[Hit]:
    if "passage" not in (where.kinds or ()) or not tables.has_passages():
        return []
    where = replace(where, kinds=("passage",))
    order = _order(tables.scan(where, ["id", "valid_from"], PASSAGES).to_pylist(), before)
    return with_neighbours(tables, read_hits(tables, PASSAGES, where, order, limit, {}))


def _order(rows: Sequence[Mapping[str, Any]], before: Place | None) -> list[Ranked]:
    places = sorted(map(_place, rows), reverse=True)
    return [Ranked(place[1], 0.0, 0.0, {}) for place in places if before is None or place < before]


def _place(row: Mapping[str, Any]) -> Place:
    return as_utc(row["valid_from"]), row["id"]
