"""Rows of the store as jobs work on them: dicts, and the vectors apart in one matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..memory_store.inbox import Row

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa


def rows_and_vectors(table: pa.Table, dim: int) -> tuple[list[Row], npt.NDArray[np.float32]]:
    """Memories by id, and their vectors, [rows, dim], NaN where there is none."""
    import numpy as np

    table = table.sort_by("id")
    lists = table.column("vector").combine_chunks()
    vectors = np.full((table.num_rows, dim), np.nan, np.float32)
    valid = lists.is_valid().to_numpy(zero_copy_only=False)
    if valid.any():
        vectors[valid] = lists.drop_null().flatten().to_numpy(zero_copy_only=False).reshape(-1, dim)
    return table.drop_columns(["vector"]).to_pylist(), vectors
