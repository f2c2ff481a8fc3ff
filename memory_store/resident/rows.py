"""The rows of a table laid out for searching: files beside the table that processes map into memory and share.

LanceDB stays what is true. What lies at one address of a table never changes, so rows that were copied once are right
for every version of it; which of them a version still has is asked of that version (`following`). Vectors lie cell by
cell (`cells`), so that the nearest are found by looking at few of them, whole and unrounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ..recall.predicates import Filter
from ..store.stored import PACKED
from .columns import Coder, Columns, load_columns

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Vectors = npt.NDArray[np.float32]
    Places = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

#: Numbers of vectors that one leg looks at, if they lie together: some milliseconds.
_NUMBERS = 5_000_000
#: What a vector that lies alone costs, beside one among others that are looked at.
_ALONE = 3
#: Vectors that are brought together at once.
_BLOCK = 1_024
#: Filters whose matches are remembered.
_FILTERS = 32


class Meta(msgspec.Struct, frozen=True):
    """What a copy is of."""

    #: Changes with the layout of the files
    format: int
    #: Version of the table that was copied
    version: int
    rows: int
    #: Rows that have a vector
    vectors: int
    dim: int


@dataclass(frozen=True)
class Found:
    """What a leg found: addresses of rows and scores, best first."""

    addresses: Places
    scores: Vectors


@dataclass(frozen=True)
class Rows:
    """Some rows of a table, in any order; their vectors cell by cell."""

    addresses: npt.NDArray[np.uint64]
    #: The rows in the order of their addresses
    by_address: npt.NDArray[np.int32]
    columns: Columns
    #: The rows in one piece each, one after the other, and where each ends
    packed: Any
    packed_ends: Places
    #: Vectors, [vectors, dim], and their lengths
    vectors: Vectors
    norms: Vectors
    #: The row that each vector is of
    row_of: npt.NDArray[np.int32]
    #: Where each cell begins, and the end of the last: [cells + 1]
    starts: Places
    centres: Vectors
    _passing: dict[Filter, Mask] = field(default_factory=dict)

    @cached_property
    def ordered(self) -> npt.NDArray[np.uint64]:
        """The addresses in order."""
        return self.addresses[self.by_address]

    @cached_property
    def vector_of(self) -> npt.NDArray[np.int32]:
        """Where the vector of each row lies; -1: it has none."""
        import numpy as np

        places = np.full(len(self.addresses), -1, np.int32)
        places[self.row_of] = np.arange(len(self.row_of), dtype=np.int32)
        return places

    def passing(self, filter: Filter) -> Mask:
        """Which rows pass a filter; the last ones are remembered."""
        if (known := self._passing.get(filter)) is None:
            known = self.columns.passing(filter)
            for old in list(self._passing)[: max(len(self._passing) + 1 - _FILTERS, 0)]:
                self._passing.pop(old, None)
            self._passing[filter] = known
        return known

    def pieces(self, places: npt.NDArray[np.integer[Any]]) -> Iterator[Any]:
        """Some rows, in one piece each."""
        ends, starts = self.packed_ends[places], self.packed_ends[places - 1]
        starts[places == 0] = 0
        return (self.packed[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True))


@dataclass(frozen=True)
class Chosen:
    """The vectors that a search may find: those of the rows that pass its filter and that its version has."""

    rows: Rows
    #: Where they lie, in order
    places: npt.NDArray[np.int32]
    #: Where those of each cell begin among them: [cells + 1]
    bounds: Places

    @classmethod
    def of(cls, rows: Rows, mask: Mask) -> Chosen:
        """The vectors of some rows."""
        import numpy as np

        places = np.flatnonzero(mask[rows.row_of]).astype(np.int32)
        return cls(rows, places, np.searchsorted(places, rows.starts))

    def nearest(self, vector: Vectors, limit: int, exact: bool) -> Found:
        """The nearest to a vector by cosine: of few of all, of many of those in the cells that are nearest to it."""
        import numpy as np

        inside, sizes = np.diff(self.bounds), np.diff(self.rows.starts)
        cost = np.minimum(sizes, inside * _ALONE) * len(vector)
        cells = np.flatnonzero(inside)
        if not exact and cost.sum() > _NUMBERS:
            order = np.argsort(-np.vecdot(self.rows.centres, vector))
            order = order[inside[order] > 0]
            looked = np.cumsum(cost[order]) <= _NUMBERS
            # However big cells are: as many as hold what is wanted, and one.
            looked |= np.cumsum(inside[order]) - inside[order] < limit
            cells = np.sort(order[looked])
        together = inside[cells] * _ALONE >= sizes[cells]
        places, scores = [], []
        for some, values in (*self._together(vector, cells[together]), *self._alone(vector, cells[~together])):
            places.append(some)
            scores.append(values)
        if not places:
            return Found(np.zeros(0, np.int64), np.zeros(0, np.float32))
        found, values = np.concatenate(places), np.concatenate(scores)
        values = values / (self.rows.norms[found] * np.float32(np.linalg.norm(vector)))
        if len(values) > limit:
            best = np.argpartition(-values, limit - 1)[:limit]
            found, values = found[best], values[best]
        order = np.argsort(-values, kind="stable")
        return Found(self.rows.addresses[self.rows.row_of[found[order]]].astype(np.int64), values[order])

    def _together(self, vector: Vectors, cells: Places) -> list[tuple[Any, Any]]:
        """Whole cells, neighbours in one go; what was not asked for is left out after."""
        import numpy as np

        found = []
        for run in np.split(cells, np.flatnonzero(np.diff(cells) != 1) + 1) if len(cells) else ():
            start, end = int(self.rows.starts[run[0]]), int(self.rows.starts[run[-1] + 1])
            places = self.places[self.bounds[run[0]] : self.bounds[run[-1] + 1]]
            values = np.vecdot(self.rows.vectors[start:end], vector)
            found.append((places, values if len(places) == end - start else values[places - start]))
        return found

    def _alone(self, vector: Vectors, cells: Places) -> list[tuple[Any, Any]]:
        """Vectors one by one, brought together a block at a time."""
        import numpy as np

        if not len(cells):
            return []
        parts = [self.places[self.bounds[cell] : self.bounds[cell + 1]] for cell in cells.tolist()]
        places = np.concatenate(parts)
        blocks = [places[at : at + _BLOCK] for at in range(0, len(places), _BLOCK)]
        return [(some, np.vecdot(self.rows.vectors[some], vector)) for some in blocks]


def rows_of(table: pa.Table, dim: int) -> Rows:
    """Rows of an Arrow table that has `_rowid`, `vector`, `packed` and the columns of filters, in one cell."""
    import numpy as np

    coder = Coder()
    coder.add(table)
    matrix, has = matrix_of(table.column("vector"), dim)
    pieces = table.column(PACKED).to_pylist()
    addresses = table.column("_rowid").to_numpy()
    return Rows(
        addresses,
        np.argsort(addresses).astype(np.int32),
        coder.columns(),
        memoryview(b"".join(pieces)),
        np.cumsum([len(piece) for piece in pieces], dtype=np.int64),
        matrix,
        lengths_of(matrix),
        np.flatnonzero(has).astype(np.int32),
        np.array([0, len(matrix)], np.int64),
        np.zeros((1, dim), np.float32),
    )


def matrix_of(column: Any, dim: int) -> tuple[Vectors, Mask]:
    """The vectors of a column that has some, [vectors, dim], and which rows have one."""
    import numpy as np

    lists = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    # flatten leaves out the rows that are null
    flat = lists.flatten().to_numpy(zero_copy_only=False).reshape(-1, dim)
    return np.ascontiguousarray(flat, np.float32), lists.is_valid().to_numpy(zero_copy_only=False)


def lengths_of(matrix: Vectors) -> Vectors:
    """The length of each vector."""
    import numpy as np

    return np.asarray(np.sqrt(np.vecdot(matrix, matrix)), np.float32)


def load_rows(folder: Path) -> Rows:
    """Rows that `resident_files` wrote, mapped into memory. Raises `OSError` where they are gone or not whole."""
    import numpy as np

    meta = meta_of(folder)

    def mapped(name: str) -> Any:
        return np.load(folder / f"{name}.npy", mmap_mode="r").view(np.ndarray)

    flat = np.memmap(folder / "vectors", np.float32, "r").view(np.ndarray)
    vectors = flat[: meta.vectors * meta.dim].reshape(meta.vectors, meta.dim)
    packed: Any = np.memmap(folder / "packed", np.uint8, "r").view(np.ndarray)
    return Rows(
        mapped("addresses"), mapped("by_address"), load_columns(folder, meta.rows), memoryview(packed),
        mapped("packed_ends"), vectors, mapped("norms"), mapped("row_of"), mapped("starts"), mapped("centres"),
    )  # fmt: skip


def meta_of(folder: Path) -> Meta:
    """What a copy is of. Raises `OSError` if it is gone."""
    return msgspec.json.decode((folder / "meta.json").read_bytes(), type=Meta)
