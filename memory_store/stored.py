"""Rows as the tables of a generation keep them: checked, vectors of one length, with key and words.

Beside the columns of their schema, stored rows have three of their own: `key`, namespace and id in one, which the
primary key must be, since it can't have two columns; `words`, what the full-text leg searches; and `names`, the
entities in the form in which names are compared, which stores of older versions lack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .errors import StoreError
from .names import name_key
from .schema import arrow_schema, conform
from .terms import row_words

if TYPE_CHECKING:
    import pyarrow as pa


def stored_schema(table: str, dim: int) -> pa.Schema:
    """The Arrow schema that a table of the schema `table` is stored with."""
    import pyarrow as pa

    own = {"namespace": False, "id": False}
    fields = [
        pa.field(
            field.name,
            pa.list_(pa.float32(), dim) if field.name == "vector" else field.type,
            nullable=own.get(field.name, True),
        )
        for field in arrow_schema(table)
    ]
    own_fields = [pa.field("words", pa.string()), pa.field("names", pa.list_(pa.string()))]
    return pa.schema([pa.field("key", pa.string(), nullable=False), *fields, *own_fields])


def check_columns(names: Sequence[str], url: str) -> None:
    """Raise `StoreError` if a table of memories lacks columns, as one that an older version made does."""
    if missing := [name for name in arrow_schema("memories").names if name not in names]:
        raise StoreError(
            f"{url} was made by an older version and lacks {', '.join(missing)}: run `hindlake migrate`, which builds "
            "another from the lake"
        )


def stored(rows: pa.Table, table: str, dim: int) -> pa.Table:
    """Rows of the schema `table` as the table keeps them: the newest of each id. Raises `StoreError` on bad rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = conform(rows, table)
    for name in ("namespace", "id", "seq"):
        if rows.column(name).null_count:
            raise StoreError(f"{rows.column(name).null_count} rows of a fold have no {name}: the log is damaged")
    key = pc.binary_join_element_wise(rows.column("namespace"), rows.column("id"), "/")
    numbered = pa.table({"key": key, "seq": rows.column("seq"), "row": pa.array(range(rows.num_rows), pa.int64())})
    newest = numbered.sort_by([("key", "ascending"), ("seq", "descending"), ("row", "ascending")])
    first = newest.group_by("key", use_threads=False).aggregate([("row", "first")]).column("row_first")
    if len(first) != rows.num_rows:
        rows, key = rows.take(first), key.take(first)
    indexed = rows.select(["text", "trigger", "tool", "error_code", "entities"]).to_pylist()
    vector = rows.schema.get_field_index("vector")
    rows = rows.set_column(vector, "vector", _fixed(rows.column("vector"), rows.column("id"), dim))
    rows = rows.add_column(0, "key", key)
    rows = rows.append_column("words", pa.array([row_words(row) for row in indexed], pa.string()))
    names = [list(dict.fromkeys(map(name_key, row["entities"] or ()))) for row in indexed]
    rows = rows.append_column("names", pa.array(names, pa.list_(pa.string())))
    return rows.cast(stored_schema(table, dim))


def _fixed(column: pa.ChunkedArray, ids: pa.ChunkedArray, dim: int) -> pa.Array:
    """Vectors of a fixed length, null where there is none."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    lists = column.combine_chunks()
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    if (wrong := np.flatnonzero((lengths != dim) & (lengths != 0))).size:
        raise StoreError(
            f"{wrong.size} vectors have another length than {dim}, such as {lengths[wrong[0]]} of memory "
            f"{ids[int(wrong[0])]}: they come from another embedder than this generation's"
        )
    matrix = np.zeros((len(lengths), dim), dtype=np.float32)
    has = lengths == dim
    matrix[has] = pc.list_flatten(lists).to_numpy(zero_copy_only=False).reshape(-1, dim)
    has &= ~np.isnan(matrix).any(axis=1)
    matrix[~has] = 0
    norms = np.linalg.norm(matrix, axis=1)
    if (wrong := np.flatnonzero(has & ~((norms > 1e-6) & np.isfinite(norms)))).size:
        raise StoreError(f"{wrong.size} vectors are zero or infinite, such as that of memory {ids[int(wrong[0])]}")
    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), dim, mask=pa.array(~has))
