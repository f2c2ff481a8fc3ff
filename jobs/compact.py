"""The job `compact`: small trace files of a namespace and day are joined into bigger ones, while others read and write.

What replaces what is said by the bigger file itself: its footer names the files that it was made of, with their sizes,
so that it appears together with what it says. They are deleted by a later run, when the grace is over and the bigger
file was read back whole. So there is no instruction at which a kill loses an event; until the deletion an event lies
in two files, and whoever reads takes each `event_id` once. A reader of this package that finds a file gone lists again
(`traces.read_trace_files`); one of another make, which only knows the files it listed, has the grace to finish.

A file that comes back under a name that was replaced (a collector that was killed between rolling a segment and
removing it rolls it again) has its old name and size, and goes the same way again. If it differs it is new, and joined.
"""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from ..memory_store.clock import Clock, as_utc
from ..memory_store.errors import DamagedFile
from ..memory_store.files.lake import Entry, Lake, namespace_path
from ..memory_store.ids import derive_id
from ..memory_store.schema import arrow_schema
from ..memory_store.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

#: Names of bigger files begin so.
JOINED = "joined-"
#: Key of the footer's metadata that says what a bigger file replaces.
FOOTER_KEY = b"hindlake.joined"
#: Most files that one bigger file replaces, so that its footer stays small.
_MOST_FILES = 1000
#: Events that are held in memory at once, in bytes; a bigger file is cut there, whatever it has on disk.
_MEMORY_BYTES = 512 << 20
#: Events of one row group, in bytes of memory: what a reader of a few traces has to fetch.
_GROUP_BYTES = 8 << 20


@dataclass(frozen=True)
class CompactReport:
    """What was done with the trace files: `files` is the sum of the counts from `joined` to `gone`."""

    #: When the job ran, UTC
    at: datetime
    #: Trace files that were there at the start
    files: int
    #: Small files whose events are in a bigger file now
    joined: int
    #: Files that an earlier run had replaced, deleted now
    deleted: int
    #: Files that are replaced and kept until the grace is over
    kept: int
    #: Files left alone because they are young
    young: int
    #: Files left alone because they are big enough
    big: int
    #: Small files with too little beside them to be worth joining
    alone: int
    #: Files that can't be understood, left where they are
    damaged: int
    #: Files that another run joined or deleted meanwhile
    gone: int
    #: Bigger files that were written
    written: int
    #: Bytes of the files that were joined, on disk
    bytes_read: int
    #: Bytes of the bigger files, on disk
    bytes_written: int
    #: Events of the files that were joined
    events: int
    #: Of these, events that were there twice and are written once
    doubled: int
    #: Paths of the damaged files
    damaged_paths: tuple[str, ...]


@dataclass
class _Counts:
    files: int = 0
    joined: int = 0
    deleted: int = 0
    kept: int = 0
    young: int = 0
    big: int = 0
    alone: int = 0
    gone: int = 0
    written: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    events: int = 0
    doubled: int = 0
    damaged_paths: list[str] = field(default_factory=list)


def compact(
    lake: Lake,
    settings: Settings,
    clock: Clock,
    *,
    version: str,
    namespaces: Sequence[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> CompactReport:
    """Join small trace files of the namespaces named, or of all, and delete those that an earlier run has replaced.

    A file takes part when it is older than `jobs.compact_min_age_minutes`, smaller than half of
    `jobs.compact_target_mb`, and no bigger than the smaller ones of its day together: so a byte is rewritten a
    logarithmic number of times, however often the job runs, and a day keeps a few files. Rows are ordered by trace
    and place. Run it as often as you like, several at once too, and kill it anywhere; correctness rests on no clock.
    `progress` is called with the days done and all. `version` is that of hindlake, written into the files.

    Raises `LakeError` if the lake can't be read or written. A damaged file is counted, named and left alone.
    """
    days: list[tuple[str, list[Entry]]] = []
    for namespace in lake.chosen(namespaces):
        by_day: dict[str, list[Entry]] = defaultdict(list)
        for entry in lake.entries(namespace_path(namespace, "traces")):
            if entry.path.endswith(".parquet"):
                by_day[entry.path.rpartition("/")[0]].append(entry)
        days += ((namespace, entries) for _, entries in sorted(by_day.items()))
    now = as_utc(clock.now())
    counts = _Counts()
    for done, (namespace, entries) in enumerate(days):
        if progress:
            progress(done, len(days))
        _Day(lake, settings, now, namespace, version, counts).compact(entries)
    if progress:
        progress(len(days), len(days))
    values = vars(counts) | {"damaged": len(counts.damaged_paths), "damaged_paths": tuple(counts.damaged_paths)}
    return CompactReport(at=now, **values)


@dataclass(frozen=True)
class _Footer:
    """What a bigger file says of itself."""

    #: Names and sizes of the files that it replaces
    replaces: frozenset[tuple[str, int]]
    #: Bytes of its events in memory
    memory: int


@dataclass
class _Day:
    """The files of one folder."""

    lake: Lake
    settings: Settings
    now: datetime
    namespace: str
    version: str
    counts: _Counts
    damaged: set[str] = field(default_factory=set)

    def compact(self, entries: list[Entry]) -> None:
        """Delete what was replaced, then join what is small."""
        counts, jobs = self.counts, self.settings.jobs
        counts.files += len(entries)
        enough = jobs.compact_target_mb * 1_000_000 // 2
        small = [entry for entry in entries if entry.bytes < enough]
        if not small or len(entries) == 1:
            counts.big += len(entries) - len(small)
            counts.alone += len(small)
            return
        footers = self._footers(entries)
        replaced = self._replaced(entries, footers)
        self.damaged -= replaced
        youngest = self.now - timedelta(minutes=jobs.compact_min_age_minutes)
        ready = []
        for entry in entries:
            if entry.path in replaced or entry.path in self.damaged:
                continue
            if entry.bytes >= enough or (entry in footers and footers[entry].memory >= _MEMORY_BYTES // 2):
                counts.big += 1
            elif entry.changed_at > youngest:
                counts.young += 1
            else:
                ready.append(entry)
        chosen = worth_joining(ready)
        counts.alone += len(ready) - len(chosen)
        for some in _packed(chosen, jobs.compact_target_mb * 1_000_000):
            self._join(some)
        counts.damaged_paths += sorted(self.damaged)

    def _footers(self, entries: list[Entry]) -> dict[Entry, _Footer]:
        footers = {}
        for entry in entries:
            if not _name(entry).startswith(JOINED):
                continue
            try:
                said = json.loads((self.lake.footer(entry.path).metadata or {}).get(FOOTER_KEY, b"{}"))
            except FileNotFoundError:
                continue
            except (DamagedFile, ValueError):
                self.damaged.add(entry.path)
                continue
            footers[entry] = _Footer(frozenset(map(tuple, said.get("replaces", []))), said.get("memory", 0))
        return footers

    def _replaced(self, entries: list[Entry], footers: dict[Entry, _Footer]) -> set[str]:
        """Paths of the files that a bigger one replaces; they are deleted if the grace is over."""
        grace = self.now - timedelta(minutes=self.settings.jobs.compact_grace_minutes)
        replaced: set[str] = set()
        over: list[Entry] = []
        for bigger, said in footers.items():
            some = [
                entry
                for entry in entries
                if (_name(entry), entry.bytes) in said.replaces and entry is not bigger and entry.path not in replaced
            ]
            if not some:
                continue
            if bigger.changed_at > grace:
                self.counts.kept += len(some)
            elif self._is_whole(bigger):
                over += some
            else:
                continue
            replaced.update(entry.path for entry in some)
        # A bigger file that was replaced in turn goes after those that it replaced: it alone says that they are.
        self.lake.delete(entry.path for entry in over if entry not in footers)
        for entry in sorted((entry for entry in over if entry in footers), key=lambda entry: entry.changed_at):
            self.lake.delete([entry.path])
        self.counts.deleted += len(over)
        return replaced

    def _is_whole(self, bigger: Entry) -> bool:
        try:
            self.lake.read_table(bigger.path)
        except FileNotFoundError:
            return False
        except DamagedFile:
            self.damaged.add(bigger.path)
            return False
        return True

    def _join(self, some: list[Entry]) -> None:
        for files, tables, memory in self._read(some):
            if len(files) < 2:
                self.counts.alone += len(files)
                continue
            rows, doubled = _each_once(tables)
            replaces = sorted((_name(entry), entry.bytes) for entry in files)
            said = {
                "replaces": replaces,
                "memory": memory,
                "version": self.version,
            }
            data = _parquet(rows, said)
            id = derive_id(self.namespace, "joined", *(part for name_size in replaces for part in name_size))
            path = f"{files[0].path.rpartition('/')[0]}/{JOINED}{id}.parquet"
            if not self.lake.create(path, data):
                self.counts.gone += len(files)
                continue
            self.lake.sync([path])
            self.counts.joined += len(files)
            self.counts.written += 1
            self.counts.bytes_read += sum(entry.bytes for entry in files)
            self.counts.bytes_written += len(data)
            self.counts.events += rows.num_rows + doubled
            self.counts.doubled += doubled

    def _read(self, some: list[Entry]) -> Iterator[tuple[list[Entry], list[pa.Table], int]]:
        """Files, their events and the bytes of these, as many at once as memory has room for."""
        by_path = {entry.path: entry for entry in some}
        damaged: list[str] = []
        extra: dict[str, pa.DataType] = {}
        files: list[Entry] = []
        tables: list[pa.Table] = []
        seen = memory = 0
        for path, raw in self.lake.read_tables(list(by_path), damaged=damaged):
            rows = _as_events(raw, extra)
            if rows is None:
                damaged.append(path)
                continue
            seen += 1
            files.append(by_path[path])
            tables.append(rows)
            memory += rows.nbytes
            if len(files) > 1 and memory >= _MEMORY_BYTES:
                yield files, tables, memory
                files, tables, memory = [], [], 0
        self.damaged.update(damaged)
        self.counts.gone += len(some) - seen - len(damaged)
        if files:
            yield files, tables, memory


def worth_joining(small: Sequence[Entry]) -> list[Entry]:
    """The files that are no bigger than the smaller ones together, and these, in order of their names.

    Sizes 1, 1, 2, 30 → 1, 1, 2: the big one waits until there is as much beside it.
    """
    ordered = sorted(small, key=lambda entry: (entry.bytes, entry.path))
    chosen = total = 0
    for place, entry in enumerate(ordered):
        if place and entry.bytes <= total:
            chosen = place + 1
        total += entry.bytes
    return sorted(ordered[:chosen], key=lambda entry: entry.path)


def _packed(chosen: list[Entry], target: int) -> Iterator[list[Entry]]:
    """Files in groups of about a size."""
    some: list[Entry] = []
    size = 0
    for entry in chosen:
        if some and (size + entry.bytes > target or len(some) == _MOST_FILES):
            yield some
            some, size = [], 0
        some.append(entry)
        size += entry.bytes
    if some:
        yield some


def _name(entry: Entry) -> str:
    return PurePosixPath(entry.path).name


def _as_events(rows: pa.Table, extra: dict[str, pa.DataType]) -> pa.Table | None:
    """Rows with the schema's columns and their own further ones; None if they are no events, or unlike the others'.

    `extra` gathers the types of columns that this version does not know.
    """
    import pyarrow as pa

    schema = arrow_schema("events")
    more = [field for field in rows.schema if field.name not in schema.names]
    if "event_id" not in rows.column_names or rows.column("event_id").null_count:
        return None
    if rows.schema.equals(schema):
        return rows
    if any(extra.setdefault(field.name, field.type) != field.type for field in more):
        return None
    try:
        known = [
            rows.column(field.name).cast(field.type)
            if field.name in rows.column_names
            else pa.nulls(rows.num_rows, field.type)
            for field in schema
        ]
    except pa.ArrowException:
        return None
    return pa.table(
        [*known, *(rows.column(field.name) for field in more)], names=[*schema.names, *(field.name for field in more)]
    )


def _each_once(tables: list[pa.Table]) -> tuple[pa.Table, int]:
    """Rows of all tables in order of trace and place, the first of each event, and how many were left out."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = pa.concat_tables(tables, promote_options="default")
    keys = rows.select(["event_id", "trace_id", "seq"]).append_column("row", pa.array(range(rows.num_rows), pa.int64()))
    first = keys.group_by("event_id").aggregate([("row", "min")]).column("row_min")
    kept = keys.take(first)
    order = pc.sort_indices(kept, sort_keys=[(name, "ascending") for name in ("trace_id", "seq", "event_id")])
    return rows.take(kept.column("row").take(order)), rows.num_rows - len(first)


def _parquet(rows: pa.Table, said: dict[str, Any]) -> bytes:
    """Rows as one file in groups that a reader can pass over, with what it says of itself."""
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    group = max(1, rows.num_rows * _GROUP_BYTES // max(1, rows.nbytes))
    with pq.ParquetWriter(
        buffer, rows.schema, compression="zstd", write_page_checksum=True, sorting_columns=_sorting(rows.schema)
    ) as writer:
        writer.write_table(rows, row_group_size=group)
        writer.add_key_value_metadata({FOOTER_KEY.decode(): json.dumps(said, separators=(",", ":"))})
    return buffer.getvalue()


def _sorting(schema: pa.Schema) -> list[Any]:
    import pyarrow.parquet as pq

    return list(pq.SortingColumn.from_ordering(schema, [("trace_id", "ascending"), ("seq", "ascending")]))
