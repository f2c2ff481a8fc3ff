"""Looking for what a purge should have removed: every column of every file of lake, spool and store is decoded (N10).

A byte search would not do: Parquet and Lance compress and encode, and a text that was deleted can lie in an older
version. What can't be decoded is searched as bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import DamagedFile
from ..files.backups import FOLDERS, Backups, pool_path
from ..files.lake import Lake, namespace_path
from ..files.store_files import every_version, generation_folders
from ..resident.files import copied
from ..settings import Settings
from .pieces import Pieces, leaves, strings
from .purged import Blocked

if TYPE_CHECKING:
    import pyarrow as pa

#: Tables whose rows are memories.
_MEMORIES = ("log", "archive", "inbox", "memories")
#: Places that are named of one file and column.
_NAMED = 5


@dataclass(frozen=True)
class Place:
    """Where pieces of a purged text lie. It names no text."""

    #: File, or generation with table and version
    path: str
    #: Column; empty for a file that has none
    column: str
    #: Rows that hold pieces
    rows: int
    #: Ids of some of these: memories, else traces
    ids: tuple[str, ...] = ()
    #: Whether all of them are other memories, or events of other traces: someone said it there too
    is_elsewhere: bool = False


@dataclass
class Found:
    """What a search for leftovers saw."""

    leftovers: list[Place]
    #: The same words in other memories and traces
    elsewhere: list[Place]
    #: Files, or versions of tables, that were decoded
    files: int = 0
    #: Columns of these
    columns: int = 0

    def add(self, places: Sequence[Place]) -> None:
        """Take places in."""
        for place in places:
            (self.elsewhere if place.is_elsewhere else self.leftovers).append(place)


def find(
    lake: Lake, settings: Settings, namespace: str, pieces: Pieces, blocked: Blocked, generations: Sequence[str] = ()
) -> Found:
    """Decode everything that may hold the pieces, and name where they are.

    Looked at are the files of the namespace and those of no namespace, half-written ones, what waits in the spool of
    this machine, and every version of every table of all generations but those that are named as waiting to go, with
    the copies that searches map into memory.
    """
    found = Found([], [])
    paths = [path for path in lake.names("") if path.startswith(f"{namespace_path(namespace)}/") or path[:3] != "ns="]
    for path in paths:
        try:
            data = lake.get(path)
        except FileNotFoundError:
            continue
        _take(found, path, decode(path, data), pieces, blocked)
    for local in _local_files(settings):
        try:
            data = local.read_bytes()
        except OSError:
            continue
        _take(found, str(local.relative_to(settings.home)) if local.is_relative_to(settings.home) else str(local),
              decode(local.name, data), pieces, blocked)  # fmt: skip
    for name in generation_folders(settings):
        if name in generations:
            continue
        for table, version, rows in every_version(settings, name):
            _take(found, f"store/{name}/{table}@{version}", rows, pieces, blocked)
        for copy, rows in copied(f"{settings.home}/store/{name}"):
            _take(found, f"store/{name}/{copy}", rows, pieces, blocked)
    return found


def find_in_backups(backups: Backups, namespace: str, pieces: Pieces, blocked: Blocked, found: Found) -> None:
    """Decode every file that the backups of a namespace keep, and what a backup that was stopped has left."""
    known: dict[str, str] = {}
    for folder in FOLDERS:
        for manifest in backups.manifests(folder):
            known.update((pool_path(kept.path, kept.sha256), kept.path) for kept in manifest.files)
    unborn = Path(backups.url) / ".unborn"
    half = [] if backups.url.startswith("s3://") else [path.name for path in unborn.glob("*") if path.is_file()]
    for where in [*backups.pool(namespace_path(namespace)), *(f".unborn/{name}" for name in half)]:
        try:
            data = backups.raw(where)
        except FileNotFoundError:
            continue
        seen = Found([], [])
        path = known.get(where, where)
        _take(seen, path, decode(path, data), pieces, blocked)
        found.files += seen.files
        found.columns += seen.columns
        found.add([replace(place, path=f"{backups.url}/{where}") for place in (*seen.leftovers, *seen.elsewhere)])


def decode(path: str, data: bytes) -> pa.Table:
    """A file as a table: Parquet with its footer, the strings of JSON, else its bytes read as text."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if data[:4] == b"PAR1" and data[-4:] == b"PAR1":
        try:
            file = pq.ParquetFile(pa.BufferReader(data))
            said = [item.decode("utf-8", "replace") for pair in (file.metadata.metadata or {}).items() for item in pair]
            rows = file.read()
            if not rows.num_rows:
                return pa.table({"_footer": pa.array(said, pa.string())})
            footer = [said, *[[]] * (rows.num_rows - 1)]
            return rows.append_column("_footer", pa.array(footer, pa.list_(pa.string())))
        except (pa.ArrowException, OSError, DamagedFile):
            pass
    text = data.decode("utf-8", "replace")
    try:
        some = list(leaves(json.loads(text)))
    except (ValueError, RecursionError):
        some = [text]
    return pa.table({"": pa.array([path, *some], pa.string())})


def _local_files(settings: Settings) -> Iterator[Path]:
    """Files of this machine that no listing of the lake shows: spools, and what a writer has not finished."""
    folders = [settings.spool_folder]
    if not settings.is_remote:
        folders.append(Path(settings.home) / "lake" / ".unborn")
    for folder in folders:
        if folder.is_dir():
            yield from (path for path in folder.rglob("*") if path.is_file())


def _take(found: Found, path: str, rows: pa.Table, pieces: Pieces, blocked: Blocked) -> None:
    found.files += 1
    found.columns += rows.num_columns
    for name in rows.column_names:
        numbers, texts = strings(rows.column(name))
        hits = sorted({numbers[place] for place in pieces.hits(texts)})
        if hits:
            found.add(_places(path, name, rows, hits, blocked))


def _places(path: str, column: str, rows: pa.Table, hits: list[int], blocked: Blocked) -> list[Place]:
    own: list[str] = []
    others: list[str] = []
    is_said = column not in ("reason", "_footer", "evidence")
    names = [name for name in ("id", "trace_id") if name in rows.column_names]
    known = {name: rows.column(name).take(hits).to_pylist() for name in names}
    for place in range(len(hits)):
        row = {name: str(values[place] or "") for name, values in known.items()}
        id, is_other = _whose(path, row, blocked)
        (others if is_other and is_said else own).append(id)
    places = []
    for some, is_elsewhere in ((own, False), (others, True)):
        if some:
            places.append(Place(path, column, len(some), tuple(dict.fromkeys(some))[:_NAMED], is_elsewhere))
    return places


def _whose(path: str, row: dict[str, str], blocked: Blocked) -> tuple[str, bool]:
    """The memory or trace that a row is about, and whether it is another than what was purged."""
    parts = path.split("/")
    if parts[0] == "store":
        kind = parts[2].partition("@")[0].removesuffix(".resident")
    else:
        kind = parts[1] if path.startswith("ns=") and len(parts) > 2 else ""
    if kind in _MEMORIES and row.get("id"):
        return row["id"], row["id"] not in blocked.ids
    if row.get("trace_id") and kind in ("traces", "passages"):
        return row["trace_id"], not blocked.trace(row["trace_id"])
    return row.get("id") or row.get("trace_id") or "", False
