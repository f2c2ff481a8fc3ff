"""Rewriting what a purge removes: one file in, the same file without the text out (N10).

Nothing else in hindlake overwrites a file that others read. Each file is replaced whole, and a file that says nothing
of the text stays as it is, so that doing it twice changes nothing.
"""

from __future__ import annotations

import io
import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...memory_store.errors import DamagedFile
from ...memory_store.files.lake import Lake, namespace_path
from ...memory_store.records.leftovers import decode
from ...memory_store.records.pieces import Pieces, leaves, strings
from ...memory_store.records.purged import EVENT_SHELL, REMOVED, Blocked, Purge, without_content, without_events
from ...memory_store.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

#: Folders whose rows are memories, by id.
_MEMORIES = ("log", "archive", "inbox")
#: Columns of other memories that may quote what was purged: what they say themselves stays.
_ABOUT = ("reason", "evidence")


#: Columns that name things out of a short list: a memory that is one of these words takes nothing from them.
_NAMES = frozenset(
    {*EVENT_SHELL, "id", "read_id", "reflection_id", "kind", "state", "decision", "verdict", "trigger", "generation"}
)
#: A half-written file of this age has no writer any more, in seconds.
_UNBORN_SECONDS = 60


@dataclass
class Removed:
    """What was taken out of the files of a namespace."""

    #: Files looked at, rewritten, deleted
    files: Counter[str] = field(default_factory=Counter)
    #: Rows that say less now, by folder
    rows: Counter[str] = field(default_factory=Counter)
    #: Files that can't be understood: they were left alone
    damaged: list[str] = field(default_factory=list)

    def add(self, other: Removed) -> None:
        """Count another one in."""
        self.files += other.files
        self.rows += other.rows
        self.damaged += other.damaged


def sweep(lake: Lake, settings: Settings, purge: Purge, blocked: Blocked, pieces: Pieces) -> Removed:
    """Take what was purged out of every file of a namespace, and out of half-written ones of this machine."""
    removed = Removed()
    own = namespace_path(purge.namespace, "purged") + "/"
    # The log last: until the other files are done it says what to look for.
    paths = [path for path in lake.names(namespace_path(purge.namespace)) if not path.startswith(own)]
    for path in sorted(paths, key=lambda path: (path.split("/")[1] == "log", path)):
        removed.files["looked at"] += 1
        _sweep_file(lake, path, purge, blocked, pieces, removed)
    if not settings.is_remote:
        for unborn in (Path(settings.home) / "lake" / ".unborn").glob("*"):
            sweep_unborn(unborn, pieces, removed)
    return removed


def sweep_unborn(path: Path, pieces: Pieces, removed: Removed) -> None:
    """What a writer that died has left half-written; one that is alive is done with it in seconds."""
    try:
        if time.time() - path.stat().st_mtime < _UNBORN_SECONDS:
            return
        rows = decode(path.name, path.read_bytes())
    except FileNotFoundError:
        return
    if any(pieces.hits(strings(rows.column(name))[1]) for name in rows.column_names):
        path.unlink(missing_ok=True)
        removed.files["deleted"] += 1


def _sweep_file(lake: Lake, path: str, purge: Purge, blocked: Blocked, pieces: Pieces, removed: Removed) -> None:
    try:
        clean, changed = cleaned_file(path, lake.get(path), purge, blocked, pieces)
    except FileNotFoundError:
        return
    except DamagedFile:
        removed.damaged.append(path)
        return
    if not changed:
        return
    removed.rows[_folder(path)] += changed
    if clean is None:
        lake.delete([path])
        removed.files["deleted"] += 1
    else:
        lake.put(path, clean)
        removed.files["rewritten"] += 1


def cleaned_file(path: str, data: bytes, purge: Purge, blocked: Blocked, pieces: Pieces) -> tuple[bytes | None, int]:
    """A file of the lake without what was purged, None if it has to go, and how many rows say less. Pure.

    Raises `DamagedFile` for a table that can't be understood.
    """
    if not path.endswith(".parquet"):
        return _cleaned_text(path, data, pieces)
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        rows = file.read()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DamagedFile(f"{path} is damaged ({error}): bring it back from a backup") from error
    clean, changed = cleaned(_folder(path), rows, purge, blocked, pieces)
    return (_as_before(clean, file.metadata) if changed else data), changed


def _folder(path: str) -> str:
    """The folder of a namespace that a file lies in, or would lie in but for its branch."""
    _, *folders, _ = path.split("/")
    return folders[2] if folders[:1] == ["branches"] and len(folders) > 2 else (folders or [""])[0]


def cleaned(folder: str, rows: pa.Table, purge: Purge, blocked: Blocked, pieces: Pieces) -> tuple[pa.Table, int]:
    """Rows of a folder's file without what was purged, and how many of them say less. Pure."""
    import pyarrow as pa

    names = rows.column_names
    changed = [False] * rows.num_rows
    if folder == "vectors" and "text_hash" in names:
        gone = {bytes.fromhex(text) for text in purge.vectors}
        keep = [hash not in gone for hash in rows.column("text_hash").to_pylist()]
        return rows.filter(pa.array(keep, pa.bool_())), keep.count(False)
    if folder in _MEMORIES and "id" in names:
        mask = [id in blocked.ids for id in rows.column("id").to_pylist()]
        rows, changed = _masked(rows, without_content, mask, changed)
        if "superseded_by" in names and "reason" in names:
            after = [id in blocked.ids for id in rows.column("superseded_by").to_pylist()]
            rows, changed = _masked(rows, _without_reason, after, changed)
        rows, changed = _scrubbed(rows, pieces, changed, _ABOUT, [not is_own for is_own in mask])
        return rows, sum(changed)
    if folder == "traces" and {"trace_id", "event_id"} <= set(names):
        keys = list(zip(rows.column("trace_id").to_pylist(), rows.column("event_id").to_pylist(), strict=True))
        mask = [blocked.event(*key) for key in keys]
        # What the same trace says of it besides: the agent repeats what the user said.
        for name in names:
            places, texts = strings(rows.column(name))
            for place in pieces.hits(texts):
                row = places[place]
                mask[row] = mask[row] or blocked.trace(keys[row][0])
        rows, changed = _masked(rows, without_events, mask, changed)
        return rows, sum(changed)
    if folder == "reflections" and "traces" in names:
        mask = [any(map(blocked.trace, traces or ())) for traces in rows.column("traces").to_pylist()]
        rows, changed = _masked(rows, _without_reply, mask, changed)
    if folder == "reads" and "trace_id" in names:
        mask = [trace in purge.traces for trace in rows.column("trace_id").to_pylist()]
        rows, changed = _masked(rows, _without_query, mask, changed)
    said = [name for name in names if name not in _NAMES]
    rows, changed = _scrubbed(rows, pieces, changed, said, [True] * rows.num_rows)
    return rows, sum(changed)


def _masked(rows: pa.Table, empty: Any, mask: list[bool], changed: list[bool]) -> tuple[pa.Table, list[bool]]:
    """Rows emptied where the mask is true, and which of them that has changed."""
    import pyarrow as pa

    if not any(mask):
        return rows, changed
    after = empty(rows, pa.array(mask, pa.bool_()))
    places = [place for place, is_masked in enumerate(mask) if is_masked]
    taken = zip(places, rows.take(places).to_pylist(), after.take(places).to_pylist(), strict=True)
    differs = {place for place, old, new in taken if old != new}
    return after, [was or place in differs for place, was in enumerate(changed)]


def _set(rows: pa.Table, mask: pa.Array, names: Iterable[str], value: str) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    for name in names:
        if name in rows.column_names:
            place = rows.schema.get_field_index(name)
            field = rows.schema.field(place)
            rows = rows.set_column(place, field, pc.if_else(mask, pa.scalar(value, field.type), rows.column(name)))
    return rows


def _without_reason(rows: pa.Table, mask: pa.Array) -> pa.Table:
    return _set(rows, mask, ["reason"], "")


def _without_reply(rows: pa.Table, mask: pa.Array) -> pa.Table:
    return _set(rows, mask, ["reply", "error"], "")


def _without_query(rows: pa.Table, mask: pa.Array) -> pa.Table:
    return _set(rows, mask, ["query", "filters"], "")


def _scrubbed(
    rows: pa.Table, pieces: Pieces, changed: list[bool], names: Iterable[str], may: list[bool]
) -> tuple[pa.Table, list[bool]]:
    """Rows whose strings hold no piece any more: each that does is replaced, in the columns and rows that may be."""
    import pyarrow as pa

    for name in names:
        if name not in rows.column_names:
            continue
        places, texts = strings(rows.column(name))
        hit = {place for place in pieces.hits(texts) if may[places[place]]}
        if not hit:
            continue
        said = {texts[place] for place in hit}
        in_rows = {places[place] for place in hit}
        field = rows.schema.field(name)
        values = [
            _without(value, said) if row in in_rows else value
            for row, value in enumerate(rows.column(name).to_pylist())
        ]
        rows = rows.set_column(rows.schema.get_field_index(name), field, pa.array(values, field.type))
        changed = [was or row in in_rows for row, was in enumerate(changed)]
    return rows, changed


def _without(value: Any, said: set[str | None]) -> Any:
    """A value of any depth, its strings of a set replaced."""
    if isinstance(value, str):
        return REMOVED if value in said else value
    if isinstance(value, bytes):
        return b"" if value.decode("utf-8", "replace") in said else value
    if isinstance(value, Mapping):
        return {_without(name, said): _without(item, said) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without(item, said) for item in value]
    return value


def _cleaned_text(path: str, data: bytes, pieces: Pieces) -> tuple[bytes | None, int]:
    """A file that is no table: of JSON the strings are replaced, a reply of a model and anything else goes."""
    text = data.decode("utf-8", "replace")
    try:
        value = json.loads(text)
        some = list(leaves(value))
    except (ValueError, RecursionError):
        value, some = None, [text]
    hits = pieces.hits(some)
    if not hits:
        return data, 0
    if value is None or path.split("/")[1] == "replies":
        return None, 1
    said = {some[place] for place in hits}
    return json.dumps(_without(value, set(said)), ensure_ascii=False).encode(), 1


def _as_before(rows: pa.Table, footer: Any) -> bytes:
    """Rows as a file that is laid out as the one before: groups of as many rows, and what it said of itself."""
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    group = max([footer.row_group(number).num_rows for number in range(footer.num_row_groups)], default=0)
    said = {name: value for name, value in (footer.metadata or {}).items() if name != b"ARROW:schema"}
    bare = rows.replace_schema_metadata(None)
    with pq.ParquetWriter(buffer, bare.schema, compression="zstd", write_page_checksum=True) as writer:
        writer.write_table(bare, row_group_size=max(group, 1))
        if said:
            writer.add_key_value_metadata(
                {name.decode(): value.decode("utf-8", "replace") for name, value in said.items()}
            )
    return buffer.getvalue()
