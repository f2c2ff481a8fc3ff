"""The fold: what the log says each memory is now."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING

from ..errors import MissingExtra
from ..records.purged import without_content
from ..schema import ADDING, CONTENT, STATE, arrow_schema

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_STATE = [column.name for column in STATE]
_ADDED = ["added_seq", "added_at", "run", *(column.name for column in CONTENT)]


def fold(namespace: str, rows: pa.Table, base: pa.Table | None = None) -> pa.Table:
    """Memories (schema `memories`) after rows of the log (schema `log`), by id.

    `base` is what the same memories were before; rows that they contain already (seq not above the memory's own)
    change nothing, so folding the same rows twice is folding them once. Only memories that a row names are returned.
    A row about a memory that is neither added here nor in the base is left out: its turn comes with its base.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    accepted = rows.filter(
        pc.and_(pc.equal(rows.column("verdict"), "accepted"), pc.not_equal(rows.column("decision"), "refuse"))
    )
    schema = arrow_schema("memories")
    if base is None:
        base = schema.empty_table()
    adds = accepted.filter(pc.is_in(accepted.column("decision"), value_set=pa.array(ADDING)))
    adds = adds.append_column("added_seq", adds.column("seq")).append_column("added_at", adds.column("at"))
    fresh = adds.filter(pc.invert(pc.is_in(adds.column("id"), value_set=pc.unique(base.column("id")))))
    content = pa.concat_tables([base.select(["id", *_ADDED]), fresh.select(["id", *_ADDED])])
    changes = pa.concat_tables(
        [base.select(["id", "seq", *_STATE]), accepted.select(["id", "seq", *_STATE])], promote_options="permissive"
    )
    state = _last_values(changes)
    place = pc.index_in(state.column("id"), value_set=content.column("id").combine_chunks())
    state = state.filter(pc.is_valid(place))
    content = content.take(place.drop_null())
    purged = pc.unique(accepted.filter(pc.equal(accepted.column("decision"), "purge")).column("id"))
    content = without_content(content, pc.is_in(content.column("id"), value_set=purged))
    columns = {name: content.column(name) for name in _ADDED} | {
        name: state.column(name) for name in ("id", "seq", *_STATE)
    }
    columns["namespace"] = pa.array([namespace] * state.num_rows, pa.string())
    return pa.Table.from_arrays([_cast(columns[field.name], field) for field in schema], schema=schema)


def _cast(values: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    import pyarrow as pa

    values = values if values.type == field.type else values.cast(field.type)
    return values.fill_null("") if field.type == pa.string() else values


def _last_values(changes: pa.Table) -> pa.Table:
    statement = resources.files(__package__).joinpath("fold.sql").read_text("utf-8")
    with _database(os.getpid()).cursor() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("changes", changes)
        return connection.sql(statement).to_arrow_table()


@lru_cache(maxsize=1)
def _database(pid: int) -> duckdb.DuckDBPyConnection:
    """One empty database a process, since opening one takes far longer than a small fold."""
    try:
        import duckdb
    except ImportError:
        raise MissingExtra.needs("duckdb", "recall") from None
    return duckdb.connect()
