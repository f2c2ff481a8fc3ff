"""The vector leg for many queries at once, which costs a fraction of asking one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..store.tables import Tables
from .asking import Candidate
from .predicates import Filter

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

#: Queries that are sent together.
_QUERIES = 100


def vector_legs(
    tables: Tables, vectors: npt.NDArray[np.float32], filter: Filter, limit: int, columns: Sequence[str] = ()
) -> list[list[Candidate]]:
    """What `Tables.vector_leg` finds among the memories for each of some unit vectors, [queries, dim]."""
    import numpy as np

    found: list[list[Candidate]] = [[] for _ in vectors]
    asked = np.flatnonzero(np.isfinite(vectors).all(axis=1))
    for start in range(0, len(asked), _QUERIES):
        some = asked[start : start + _QUERIES]
        for number, candidates in zip(some, tables.near_many(vectors[some], filter, limit, columns), strict=True):
            found[number] = candidates
    return found
