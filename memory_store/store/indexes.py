"""The indexes of a table: which it should have, made when they are missing, and how much of the table is in them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from operator import methodcaller
from typing import Any

from ..settings import IndexSettings
from .lance import Door

#: Columns that filters ask for a range of, or that are of one row each.
_TREES = ("key", "id", "valid_from", "valid_to")
#: Columns that filters ask for equality of. A tree would be read through for a value that most rows have.
_BITMAPS = ("namespace", "kind", "state", "outcome", "agent_role", "subject", "task_type", "tool", "error_code")
_LABELS = ("names", "tags")
#: Share of the rows that may wait for the indexes, and rows that always may.
_WAITING_SHARE = 0.1
_WAITING_LEAST = 256
#: Rows of one partition of the vector index, on average.
_PARTITION = 1_000


@dataclass(frozen=True)
class Coverage:
    """How much of a table one index has taken in; searches look at the other rows one by one."""

    column: str
    #: Such as IVF_SQ, FTS, BTREE
    kind: str
    rows: int
    waiting: int


def make_indexes(door: Door, name: str, settings: IndexSettings) -> None:
    """Make the indexes that a table of this size should have and lacks, and let all catch up with its rows.

    Doing it twice changes nothing.
    """
    rows = door.read(name, methodcaller("count_rows"))
    _make(door, name, door.read(name, lambda table: _wanted(table, rows, settings)))
    behind = max((one.waiting for one in door.read(name, coverage)), default=0)
    if behind > min(max(rows * _WAITING_SHARE, _WAITING_LEAST), settings.waiting_rows):
        door.write(name, lambda table: table.optimize())


def make_full_text(door: Door, name: str) -> None:
    """Make the index of words, which a table has from the first."""
    _make(door, name, {"words": _full_text()})


def coverage(table: Any) -> list[Coverage]:
    """What each index of a table has taken in."""
    found = []
    for index in table.list_indices():
        if (stats := table.index_stats(index.name)) is not None:
            found.append(Coverage(index.columns[0], stats.index_type, stats.num_indexed_rows, stats.num_unindexed_rows))
    return found


def _wanted(table: Any, rows: int, settings: IndexSettings) -> dict[str, Any]:
    from lancedb.index import Bitmap, BTree, IvfSq, LabelList

    schema = table.schema
    wanted: dict[str, Any] = {"words": _full_text()}
    if rows > settings.scan_rows:
        wanted |= {column: BTree() for column in _TREES}
        wanted |= {column: Bitmap() for column in _BITMAPS}
        wanted |= {column: LabelList() for column in _LABELS}
    if rows * schema.field("vector").type.list_size > settings.vector_numbers:
        partitions = max(min(rows // _PARTITION, math.isqrt(rows)), 1)
        wanted["vector"] = IvfSq(distance_type="cosine", num_partitions=partitions, sample_rate=64)
    return {column: config for column, config in wanted.items() if column in schema.names}


def _make(door: Door, name: str, wanted: Mapping[str, Any]) -> None:
    present = set()
    for index in door.read(name, lambda table: list(table.list_indices())):
        [column] = index.columns
        if column in _BITMAPS and index.index_type.upper() != "BITMAP":  # an older version made it
            door.write(name, methodcaller("drop_index", index.name))
        else:
            present.add(column)
    for column, config in wanted.items():
        if column not in present:
            door.write(name, methodcaller("create_index", column, config=config, replace=True))


def _full_text() -> Any:
    from lancedb.index import FTS

    return FTS(base_tokenizer="icu/split", with_position=True)
