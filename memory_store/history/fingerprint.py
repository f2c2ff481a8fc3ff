"""What the log of a namespace folds to, in a few numbers and a hash: two lakes that say the same have the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from ..files.backups import Point
from ..files.lake import Lake
from ..schema import STATE, arrow_schema, conform
from .fold import fold

if TYPE_CHECKING:
    import pyarrow as pa

_STATE = [column.name for column in STATE]
#: What a purge leaves as it is, so that a backup which was purged still folds to what it says.
_READ = ["id", "seq", "at", "run", "decision", "verdict", "read_to", *_STATE]


def point(lake: Lake, namespace: str, paths: Sequence[str]) -> Point:
    """The fold of some files of a log, all from its first on."""
    import pyarrow as pa

    none = arrow_schema("log").empty_table()
    read = [conform(rows, "log") for _, rows in lake.read_tables(list(paths), _READ)]
    log = pa.concat_tables([none, *read])
    memories = fold(namespace, log)
    seq = int(log.column("seq")[-1].as_py()) if log.num_rows else 0
    states = Counter(memories.column("state").to_pylist())
    return Point(files=len(paths), seq=seq, memories=dict(sorted(states.items())), fingerprint=fingerprint(memories))


def fingerprint(memories: pa.Table) -> str:
    """A hash of id, places and state columns of memories (schema `memories`), in whatever order they come."""
    import pyarrow as pa
    import pyarrow.compute as pc

    digest = sha256()
    rows = memories.select(["id", "seq", "added_seq", *_STATE]).sort_by("id").combine_chunks()
    for name in rows.column_names:
        column = rows.column(name)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        # As text, which is the same on every machine; a value that is not set is no value's text.
        text = pc.fill_null(column.cast(pa.string()), "\0")
        digest.update(f"{name}\0{len(text)}\0".encode())
        for chunk in pc.binary_join_element_wise(text, "", "\n").chunks:
            digest.update("".join(chunk.to_pylist()).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
