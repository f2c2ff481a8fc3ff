"""The vector leg for many queries at once, which costs a fraction of asking one by one. A part of `tables`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from .predicates import Filter
from .tables import _PROBES, EXACT_MATCHES, MEMORIES, Candidate, Tables, _candidates, _has_vector_index

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

#: Queries that are sent together.
_QUERIES = 100


def vector_legs(
    tables: Tables, vectors: npt.NDArray[np.float32], filter: Filter, limit: int, columns: Sequence[str] = ()
) -> list[list[Candidate]]:
    """What `Tables.vector_leg` finds among the memories for each of some unit vectors, [queries, dim]."""
    import numpy as np

    found: list[list[Candidate]] = [[] for _ in vectors]
    asked = np.flatnonzero(np.isfinite(vectors).all(axis=1))
    condition = tables._condition(filter, MEMORIES)
    for start in range(0, len(asked), _QUERIES):
        some = asked[start : start + _QUERIES]
        search = partial(_search, vectors=vectors[some], condition=condition, limit=limit, columns=columns)
        rows = tables._read(MEMORIES, search)
        numbers = rows.column("query_index").to_pylist()
        scored = _candidates(rows.drop_columns(["query_index"]), 1 - rows.column("_distance").to_numpy())
        for number, one in zip(numbers, scored, strict=True):
            found[some[number]].append(one)
    return found


def _search(
    handle: Any, vectors: npt.NDArray[np.float32], condition: str, limit: int, columns: Sequence[str]
) -> pa.Table:
    import pyarrow as pa

    names = list(dict.fromkeys(["id", *columns]))
    query = handle.search(vectors, vector_column_name="vector", query_type="vector")
    query = query.distance_type("cosine").where(condition).select([*names, "_distance"]).limit(limit)
    if _has_vector_index(handle):
        matching = handle.count_rows(condition)
        probes = round(_PROBES * math.sqrt(handle.count_rows() / max(matching, 1)))
        exact = matching <= EXACT_MATCHES
        query = query.bypass_vector_index() if exact else query.nprobes(probes).refine_factor(2)
    rows = query.to_arrow()
    if "query_index" not in rows.column_names:  # of one query it says nothing
        rows = rows.append_column("query_index", pa.array([0] * rows.num_rows, pa.int32()))
    return rows.sort_by([("query_index", "ascending"), ("_distance", "ascending")])
