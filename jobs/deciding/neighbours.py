"""Pairs of near vectors, without looking at all pairs: cells by k-means, dense blocks inside a cell.

Small groups are compared exactly. Big ones are cut into about √n cells; each vector lies in the two cells whose
centres are nearest to it, so that a pair is missed only if it shares neither. Cost grows like n·√n at worst in time,
and memory with one cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ...memory_store.resident.cells import cell_count, centres_of, sample_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vectors = npt.NDArray[np.float32]
    Places = npt.NDArray[np.int64]

#: Groups of up to this many rows are compared exactly.
EXACT_ROWS = 8_000
#: Nearest neighbours that a row has at most, so that a thousand alike rows don't give half a million pairs.
NEIGHBOURS = 20
#: Rows that are compared with a whole cell at once.
_BLOCK = 1_024


@dataclass(frozen=True)
class Pairs:
    """Pairs of rows, each once, `left` < `right`, in order."""

    left: Places
    right: Places
    cosine: Vectors

    def __len__(self) -> int:
        return len(self.left)


def near_pairs(
    vectors: Vectors,
    groups: Places,
    floor: float,
    *,
    changed: npt.NDArray[np.bool_] | None = None,
    neighbours: int = NEIGHBOURS,
    exact_rows: int = EXACT_ROWS,
) -> Pairs:
    """Pairs of rows of one group whose cosine is at least `floor`; of each row its nearest `neighbours`.

    `vectors` are unit vectors, shape (n, d); a row of NaN or zeros has no neighbours. Only rows with equal `groups`,
    shape (n,), are compared. With `changed`, shape (n,), only pairs that hold at least one of these rows. The same
    input gives the same pairs every time.
    """
    import numpy as np

    found: list[tuple[Any, Any, Any]] = []
    usable = _usable(vectors)
    order = np.argsort(groups, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        rows = rows[usable[rows]]
        asked = np.ones(len(rows), bool) if changed is None else changed[rows]
        if len(rows) < 2 or not asked.any():
            continue
        for cell in _cells(vectors, rows, exact_rows):
            found += _dense(vectors, rows[cell], asked[cell], floor, neighbours)
    return _unique(found)


def _usable(vectors: Vectors) -> npt.NDArray[np.bool_]:
    import numpy as np

    blocks = (vectors[at : at + _BLOCK] for at in range(0, len(vectors), _BLOCK))
    lengths = [np.einsum("ij,ij->i", block, block) for block in blocks]
    whole = np.concatenate(lengths) if lengths else np.zeros(0, np.float32)
    return np.asarray(np.isfinite(whole) & (whole > 0))


def _cells(vectors: Vectors, rows: Places, exact_rows: int) -> Iterator[Places]:
    """Places within `rows` that are compared with each other."""
    import numpy as np

    if len(rows) <= exact_rows:
        yield np.arange(len(rows))
        return
    centres = centres_of(vectors[rows[sample_of(len(rows))]], cell_count(len(rows)))
    cells = np.concatenate(
        [nearest_cells(vectors[rows[at : at + _BLOCK]], centres) for at in range(0, len(rows), _BLOCK)]
    )
    for members in members_of(cells, len(centres)):
        # A cell that all crowd into is cut: what it takes stays bounded, and its rows have another cell.
        for at in range(0, len(members), 4 * exact_rows):
            yield members[at : at + 4 * exact_rows]


def nearest_cells(vectors: Vectors, centres: Vectors) -> Places:
    """The two cells that each vector lies in, the nearest first, [rows, 2]."""
    import numpy as np

    near = vectors @ centres.T
    two = np.argpartition(-near, 1, axis=1)[:, :2]
    swapped = np.take_along_axis(near, two, axis=1)
    return np.where((swapped[:, 0] < swapped[:, 1])[:, None], two[:, ::-1], two)


def members_of(cells: Places, count: int) -> Iterator[Places]:
    """The rows of each of `count` cells, of rows that lie in the cells `cells`, [rows, …]."""
    import numpy as np

    flat, width = cells.ravel(), cells.shape[1]
    order = np.argsort(flat, kind="stable")
    for start, end in pairwise(np.searchsorted(flat[order], np.arange(count + 1))):
        yield order[start:end] // width


def _dense(
    vectors: Vectors, rows: Places, asked: npt.NDArray[np.bool_], floor: float, neighbours: int
) -> Iterator[tuple[Any, Any, Any]]:
    import numpy as np

    inside = vectors[rows]
    wanted = np.flatnonzero(asked)
    for start in range(0, len(wanted), _BLOCK):
        some = wanted[start : start + _BLOCK]
        near = inside[some] @ inside.T
        near[np.arange(len(some)), some] = -2.0
        if near.shape[1] > neighbours:
            best = np.argpartition(-near, neighbours - 1, axis=1)[:, :neighbours]
        else:
            best = np.broadcast_to(np.arange(near.shape[1]), near.shape)
        cosines = np.take_along_axis(near, best, axis=1)
        which, place = np.nonzero(cosines >= floor)
        left, right = rows[some[which]], rows[best[which, place]]
        yield np.minimum(left, right), np.maximum(left, right), cosines[which, place]


def _unique(found: list[tuple[Any, Any, Any]]) -> Pairs:
    import numpy as np

    if not found:
        empty = np.zeros(0, np.int64)
        return Pairs(empty, empty, np.zeros(0, np.float32))
    left, right, cosine = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((right, left))
    left, right, cosine = left[order], right[order], cosine[order]
    new = np.r_[True, (np.diff(left) != 0) | (np.diff(right) != 0)] if len(left) else np.zeros(0, bool)
    return Pairs(left[new], right[new], cosine[new])
