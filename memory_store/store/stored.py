"""Rows as the tables of a generation keep them: checked, vectors of one length, with key and words.

Beside the columns of their schema, stored rows have four of their own: `key`, namespace and id in one, which the
primary key must be, since it can't have two columns; `words`, what the full-text leg searches; and, which stores of
older versions lack, `names`, the entities in the form in which names are compared, and `packed`, the row in one piece:
a search reads some hundred rows from anywhere, and each column costs it as much as the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import StoreError
from ..schema import arrow_schema, conform
from ..text.names import name_key
from ..text.terms import row_words

if TYPE_CHECKING:
    import pyarrow as pa

#: The column that holds the other ones but for the vector: MessagePack, what is not set left out.
PACKED = "packed"


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
    own_fields = ("words", pa.string()), ("names", pa.list_(pa.string())), (PACKED, pa.binary())
    return pa.schema([pa.field("key", pa.string(), nullable=False), *fields, *(pa.field(*one) for one in own_fields)])


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
    plain = rows.drop_columns(["vector"]).to_pylist()
    words = [row_words(row) for row in plain]
    vector = rows.schema.get_field_index("vector")
    rows = rows.set_column(vector, "vector", _fixed(rows.column("vector"), rows.column("id"), dim))
    rows = rows.add_column(0, "key", key)
    rows = rows.append_column("words", pa.array(words, pa.string()))
    names = [list(dict.fromkeys(map(name_key, row["entities"] or ()))) for row in plain]
    rows = rows.append_column("names", pa.array(names, pa.list_(pa.string())))
    rows = rows.append_column(PACKED, pa.array(_packed(plain, words), pa.binary()))
    return rows.cast(stored_schema(table, dim))


def unpacked(pieces: Iterable[Any], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Rows from their packed form, which are buffers; a column of `names` that a row does not set is None."""
    decoder, blank = msgspec.msgpack.Decoder(dict[str, Any]), dict.fromkeys(names)
    return ({**blank, **decoder.decode(piece)} for piece in pieces)


def _packed(rows: Iterable[dict[str, Any]], words: Sequence[str]) -> list[bytes]:
    encoder = msgspec.msgpack.Encoder()
    return [
        encoder.encode({name: value for name, value in row.items() if value is not None} | {"words": said})
        for row, said in zip(rows, words, strict=True)
    ]


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
