"""Cells: vectors that lie near one centre, by k-means, so that what is far off need not be looked at."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vectors = npt.NDArray[np.float32]
    Places = npt.NDArray[np.int64]

#: Rows that are compared with all centres at once.
_BLOCK = 1_024
#: Rows a cell that the centres are fitted on.
_SAMPLE = 48
_ROUNDS = 8


def cell_count(rows: int) -> int:
    """How many cells so many rows are cut into: about √n."""
    return max(2, round(math.sqrt(rows)))


def sample_of(rows: int) -> Places:
    """Places of the rows that the centres of so many are fitted on, in order, chosen by a fixed seed."""
    import numpy as np

    size = min(rows, cell_count(rows) * _SAMPLE)
    return np.sort(np.random.default_rng(20_260_301).choice(rows, size, replace=False))


def centres_of(sample: Vectors, count: int) -> Vectors:
    """Unit centres by k-means on a sample, [count, dim], begun from rows that are chosen by a fixed seed."""
    import numpy as np

    chance = np.random.default_rng(20_260_302)
    count = min(count, len(sample))
    centres: Vectors = sample[np.sort(chance.choice(len(sample), count, replace=False))].copy()
    for _ in range(_ROUNDS):
        nearest = nearest_cell(sample, centres)
        order = np.argsort(nearest, kind="stable")
        own, firsts = np.unique(nearest[order], return_index=True)
        sums = np.zeros_like(centres)
        sums[own] = np.add.reduceat(sample[order], firsts)
        norms = np.linalg.norm(sums, axis=1)
        fits = norms > 1e-6
        centres[fits] = sums[fits] / norms[fits, None]
    return centres


def nearest_cell(vectors: Vectors, centres: Vectors) -> Places:
    """The cell that each vector lies in, [rows]."""
    import numpy as np

    blocks = range(0, len(vectors), _BLOCK)
    found = [(vectors[at : at + _BLOCK] @ centres.T).argmax(axis=1) for at in blocks]
    return np.concatenate(found) if found else np.zeros(0, np.int64)
