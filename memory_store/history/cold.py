"""Cold storage: memories that are archived or deleted leave the store, so that it grows with what is in use.

Which are cold follows from the log alone. A decision `cool` says up to which place in the log it looked (its
`read_to`): memories that are archived or deleted, and that nothing has changed after that place, are not in the store.
So a store that was kept for years and one that was made anew hold the same rows. A memory that something changes
again, such as a restore, is in the store again.

`ns=<ns>/archive/<name>.parquet` holds the cold rows whole, so that they come back without reading the log. It is a
shortcut: what it lacks is folded from the log.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from ..files.lake import Among, Lake, namespace_path
from ..ids import derive_id
from ..recall.predicates import Filter
from ..schema import arrow_schema, conform
from .fold import fold
from .log import log_paths, read_log

if TYPE_CHECKING:
    import pyarrow as pa

    from ..store.tables import Tables

#: States of memories that can be cold.
COLD = ("archived", "deleted")
#: The decision that says which memories are cold.
COOL = "cool"
#: Rows of one row group of an archive file: what has to be read for one of them.
_GROUP_ROWS = 500


def cooled_to(rows: pa.Table) -> int:
    """The furthest place in the log that a decision `cool` among rows of the log speaks of; 0 if there is none."""
    import pyarrow.compute as pc

    accepted = pc.and_(pc.equal(rows.column("verdict"), "accepted"), pc.equal(rows.column("decision"), COOL))
    return max(rows.filter(accepted).column("read_to").to_pylist(), default=0)


def quiet_to(lake: Lake, namespace: str, since: datetime) -> int:
    """The last place in the log before the first row that was written after a time."""
    import pyarrow.compute as pc

    log = read_log(lake, namespace, 0, ["at"])
    later = log.filter(pc.greater(log.column("at"), since)).column("seq")
    if len(later):
        return int(pc.min(later).as_py()) - 1
    return int(log.column("seq")[-1].as_py()) if log.num_rows else 0


def write_archive(lake: Lake, namespace: str, place: int, memories: pa.Table) -> str:
    """Keep memories (schema `memories`) that are going to leave the store; return the path. Twice is once."""
    import pyarrow.parquet as pq

    rows = memories.sort_by("id")
    name = derive_id(namespace, "archive", *rows.column("id").to_pylist())
    path = namespace_path(namespace, "archive", f"{place:012d}-{name}.parquet")
    buffer = io.BytesIO()
    pq.write_table(rows, buffer, compression="zstd", write_page_checksum=True, row_group_size=_GROUP_ROWS)
    lake.create(path, buffer.getvalue())
    return path


def read_cold(lake: Lake, namespace: str, ids: Iterable[str]) -> pa.Table:
    """Memories (schema `memories`) that the store may lack, as they were when they left; unknown ids are left out."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = pa.array(sorted(set(ids)), pa.string())
    none = arrow_schema("memories").empty_table()
    if not len(wanted):
        return none
    paths = lake.names(namespace_path(namespace, "archive"))
    found = [
        conform(rows, "memories").filter(pc.is_in(rows.column("id"), value_set=wanted))
        for _, rows in lake.read_tables(paths, among=Among("id", wanted.to_pylist()))
    ]
    rows = _newest(pa.concat_tables([none, *found]))
    missing = wanted.filter(pc.invert(pc.is_in(wanted, value_set=rows.column("id").combine_chunks())))
    return pa.concat_tables([rows, _from_log(lake, namespace, missing)]) if len(missing) else rows


def cold_count(lake: Lake, tables: Tables, namespace: str) -> int:
    """How many memories have left the store and not come back."""
    paths = lake.names(namespace_path(namespace, "archive"))
    left = {id for _, rows in lake.read_tables(paths, ["id"]) for id in rows.column("id").to_pylist()}
    if not left:
        return 0
    held = tables.scan(Filter((namespace,), states=None), ["id"]).column("id").to_pylist()
    return len(left.difference(held))


def _newest(rows: pa.Table) -> pa.Table:
    """The last row of each id: a memory may have left the store more than once."""
    import pyarrow as pa

    if not rows.num_rows:
        return rows
    numbered = pa.table({"id": rows.column("id"), "seq": rows.column("seq"), "row": pa.array(range(rows.num_rows))})
    last = numbered.sort_by([("id", "ascending"), ("seq", "descending"), ("row", "ascending")])
    return rows.take(last.group_by("id", use_threads=False).aggregate([("row", "first")]).column("row_first"))


def _from_log(lake: Lake, namespace: str, wanted: pa.Array) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    found: list[pa.Table] = []
    paths: Sequence[str] = log_paths(lake, namespace)
    for _, rows in lake.read_tables(list(paths), among=Among("id", wanted.to_pylist())):
        found.append(conform(rows.filter(pc.is_in(rows.column("id"), value_set=wanted)), "log"))
    return fold(namespace, pa.concat_tables([arrow_schema("log").empty_table(), *found]))
