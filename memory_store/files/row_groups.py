"""Which row groups of a Parquet file may hold one of some values, by the statistics in its footer."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from .lake import Among


def row_groups(footer: pq.FileMetaData, among: Among | None) -> list[int]:
    """Row groups that may hold one of the wanted values; those without statistics may."""
    every = list(range(footer.num_row_groups))
    if among is None:
        return every
    leaves = [footer.schema.column(place).path for place in range(footer.num_columns)]
    if among.column not in leaves:
        return every
    place = leaves.index(among.column)
    kept = []
    for group in every:
        known = footer.row_group(group).column(place).statistics
        if known is not None and known.has_min_max:
            first = bisect_left(among.values, known.min)
            if first == len(among.values) or among.values[first] > known.max:
                continue
        kept.append(group)
    return kept
