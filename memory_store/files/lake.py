"""The lake: immutable files in a folder or an S3 bucket, behind one small door.

    ns=<namespace>/traces/day=<day>/<segment>.parquet   events
    ns=<namespace>/gate/<name>.parquet                  which traces were reflected on, and why
    ns=<namespace>/reflections/<name>.parquet           what reflectors said, verbatim
    ns=<namespace>/reads/day=<day>/<name>.parquet       what was asked and returned
    ns=<namespace>/reviews/<name>.parquet               samples for review, and what people said of them
    ns=<namespace>/usage/day=<day>/<name>.parquet       which memories each task was shown, from the reads of a day
    ns=<namespace>/credit/<number>.parquet              usage and usefulness of each memory; the newest counts
    ns=<namespace>/archive/<name>.parquet               memories that have left the store, whole
    ns=<namespace>/runs/<run>.json                      one file a run
    ns=<namespace>/requests/<request>.<mark>.json       what an agent asks a job for, and how it stands
    ns=<namespace>/replies/<id>.json                    what a language model answered, verbatim, paid for once
    ns=<namespace>/batches/<batch>.<step>.json          questions that were sent to a model in batches: keys and numbers
    ns=<namespace>/inbox/<name>.parquet                 acts that have no place in the log yet
    ns=<namespace>/log/<number>.parquet                 the decision log, gapless
    ns=<namespace>/log-keys/<number>.parquet            what the rows of many log files are about, a shortcut
    ns=<namespace>/vectors/<embedder>/<name>.parquet    vectors of other models, by keyed hash of the text
    ns=<namespace>/purged/<purge>.json                  what was purged, by id; its receipt beside it
    ns=<namespace>/branches/<branch>/<folder>/<name>    the log, gate and runs that a branch has of its own
    lease/<job>/<namespace>/<epoch>.json                who is at work on a job; the newest counts
    backups/<place>.json                                where backups of the lake lie
    format.json                                         format and id of the lake
    generations/<number>/<step>.json                    generations: claimed, ready, dropped
    current/<number>.json                               the newest names the generation that readers use
    branches/<branch>/<name>                            what a re-reflection is for, and its generation
    calibrations/<embedder>/<number>.json               what the cosines of an embedder mean, the newest counts

*Put* writes a name that no one else uses; *create* claims a name and fails if it exists. Files appear whole.
"""

from __future__ import annotations

import contextlib
import io
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypeVar

import msgspec

from ..errors import DamagedFile, LakeError, UnsafeStore, UsageError
from ..settings import Settings, check_namespace
from .folder import Folder
from .lake_format import MARKER, LakeFormat, check_format, new_format, read_format
from .row_groups import row_groups
from .tries import tried

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from .backups import BackupFiles
    from .bucket import Bucket

_T = TypeVar("_T")

#: Files read at once.
_READERS = 8
#: A file up to this size is fetched whole, even when only some columns are wanted.
_WHOLE_BYTES = 1 << 20


class Entry(NamedTuple):
    """A file as a listing shows it."""

    #: Its path in the lake
    path: str
    #: Its size
    bytes: int
    #: When it was written, by the clock of the store, UTC
    changed_at: datetime
    #: What changes when the file is written again: an ETag, or time and inode of a file
    version: str = ""


class Among(NamedTuple):
    """A condition on the rows to read."""

    #: Column of text
    column: str
    #: Values that are wanted, sorted
    values: Sequence[str]


def namespace_path(namespace: str, *parts: str) -> str:
    """The path of something inside a namespace.

    >>> namespace_path("acme", "log", "000000000001.parquet")
    'ns=acme/log/000000000001.parquet'
    """
    return "/".join((f"ns={check_namespace(namespace)}", *parts))


def parquet_bytes(rows: pa.Table) -> bytes:
    """A table as one Parquet file, zstd-compressed, with checksums."""
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(rows, buffer, compression="zstd", write_page_checksum=True)
    return buffer.getvalue()


class Lake:
    """Files under one root. Safe to share between threads; of a bucket, see `bucket` for what a fork does to it."""

    def __init__(self, store: Folder | Bucket | BackupFiles, url: str) -> None:
        self._store = store
        #: Where the lake lies, for messages
        self.url = url
        # Files that are no lake, such as a backup, have no format.
        self._is_known = self._is_marked = self._is_proven = True

    @classmethod
    def open(cls, settings: Settings, *, unfinished: bool = False) -> Lake:
        """The lake of a home; a folder is made if it is missing. Raises `LakeError` if it can't be.

        Its format is looked at by the first call: a lake that a newer version wrote, or that is half restored, raises
        `LakeError` then, before anything is read or written. `unfinished` leaves the look to the caller.
        """
        lake = cls(_store_at(f"{settings.home}/lake", settings), f"{settings.home}/lake")
        lake._is_known = lake._is_marked = unfinished
        lake._is_proven = not settings.is_remote
        return lake

    def format(self) -> LakeFormat:
        """What the lake says of itself, made when it is first asked for."""
        self._mark()
        return read_format(self.get(MARKER), self.url)

    def put(self, path: str, data: bytes) -> None:
        """Write a file under a name that no one else uses. Trying again is harmless."""
        self._mark()
        self._retry(lambda: self._store.put(path, data), f"write {path}")

    def create(self, path: str, data: bytes) -> bool:
        """Claim a name: True if the file holds exactly these bytes now, False if someone else's are there.

        A lost reply is no doubt: when the name is taken, what lies there is compared with what was sent, so bytes
        that must be told from another writer's have to differ from them (put the writer's id inside).
        """

        def claim() -> bool:
            try:
                self._store.create(path, data)
            except FileExistsError:
                return self.get(path) == data
            return True

        self._mark()
        self._prove()
        return self._retry(claim, f"create {path}")

    def get(self, path: str) -> bytes:
        """The bytes of a file. Raises `FileNotFoundError` if there is none."""
        return self._retry(lambda: self._store.get(path), f"read {path}")

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        try:
            self._retry(lambda: self._store.size(path), f"look for {path}")
        except FileNotFoundError:
            return False
        return True

    def names(self, prefix: str, after: str = "") -> list[str]:
        """Paths below a folder, sorted, those up to and including `after` left out."""
        return sorted(self._retry(lambda: self._store.names(prefix, after), f"list {prefix}"))

    def entries(self, prefix: str) -> list[Entry]:
        """Files below a folder with size and age, sorted by path."""
        found = self._retry(lambda: self._store.entries(prefix), f"list {prefix}")
        return sorted(
            Entry(path, size, datetime.fromtimestamp(seconds, UTC), version) for path, size, seconds, version in found
        )

    def folders(self, prefix: str = "") -> list[str]:
        """Paths of the folders directly below a folder, sorted."""
        return sorted(self._retry(lambda: self._store.folders(prefix), f"list {prefix}"))

    def namespaces(self) -> list[str]:
        """Every namespace that has a file."""
        return [path.removeprefix("ns=") for path in self.folders() if path.startswith("ns=")]

    def chosen(self, namespaces: Sequence[str] | None) -> list[str]:
        """The namespaces named, or with None all. Raises `UsageError` for one that has no file: it must be a slip."""
        there = self.namespaces()
        if namespaces is None:
            return there
        if missing := sorted(set(namespaces).difference(there)):
            has = ", ".join(there[:20]) if there else "none yet"
            raise UsageError(f"{self.url} has no namespace {', '.join(missing)}: it has {has}")
        return list(namespaces)

    def delete(self, paths: Iterable[str]) -> None:
        """Remove files, several at once; one that is gone already is fine."""

        def remove(path: str) -> None:
            with contextlib.suppress(FileNotFoundError):
                self._retry(lambda: self._store.delete(path), f"delete {path}")

        some = list(paths)
        if len(some) == 1:
            remove(some[0])
        elif some:
            with ThreadPoolExecutor(_READERS) as pool:
                list(pool.map(remove, some))

    def put_table(self, path: str, rows: pa.Table) -> None:
        """`put` a table as Parquet."""
        self.put(path, parquet_bytes(rows))

    def create_table(self, path: str, rows: pa.Table) -> bool:
        """`create` a table as Parquet."""
        return self.create(path, parquet_bytes(rows))

    def read_table(self, path: str, columns: list[str] | None = None, among: Among | None = None) -> pa.Table:
        """A Parquet file as a table. With `columns`, only these are fetched, and those it lacks are left out.

        With `among`, row groups whose statistics rule out every wanted value are not fetched; other rows may still
        be among those returned.

        Raises `FileNotFoundError`, or `DamagedFile` if the file is no Parquet or a checksum is wrong.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        with self._understood(path):
            is_big = (columns is not None or among is not None) and self._is_big(path)
            with self._open(path) if is_big else pa.BufferReader(self.get(path)) as source:
                file = pq.ParquetFile(source, page_checksum_verification=True)
                present = set(file.schema_arrow.names)
                names = None if columns is None else [name for name in columns if name in present]
                return file.read_row_groups(row_groups(file.metadata, among), columns=names)

    def footer(self, path: str) -> pq.FileMetaData:
        """What a Parquet file says of itself: sizes, statistics, key-value metadata. Raises as `read_table` does."""
        import pyarrow.parquet as pq

        with self._understood(path), self._open(path) as source:
            return pq.read_metadata(source)

    def read_tables(
        self,
        paths: list[str],
        columns: list[str] | None = None,
        damaged: list[str] | None = None,
        among: Among | None = None,
    ) -> Iterator[tuple[str, pa.Table]]:
        """Files one after another, in order, several fetched at once; one that was deleted meanwhile is skipped.

        With `damaged`, a file that can't be understood is named there and skipped instead of raised. `columns` and
        `among` as in `read_table`.
        """

        def read(path: str) -> pa.Table | None:
            try:
                return self.read_table(path, columns, among)
            except FileNotFoundError:
                return None
            except DamagedFile:
                if damaged is None:
                    raise
                damaged.append(path)
                return None

        if len(paths) == 1:
            if (only := read(paths[0])) is not None:
                yield paths[0], only
            return
        with ThreadPoolExecutor(_READERS) as pool:
            # No more are fetched than wait to be taken: a file may be big.
            ahead: deque[tuple[str, Future[pa.Table | None]]] = deque()
            for path in [*paths, *[""] * _READERS]:
                if path:
                    ahead.append((path, pool.submit(read, path)))
                if ahead and (len(ahead) > _READERS or not path):
                    done, fetched = ahead.popleft()
                    if (rows := fetched.result()) is not None:
                        yield done, rows

    def sync(self, paths: Iterable[str]) -> None:
        """Force files to the disk, so that they survive a power cut. An object store has done so already."""
        self._store.sync(list(paths))

    def check_conditional_writes(self) -> None:
        """Prove that *create* fails on a name that is taken; raise `UnsafeStore` if it does not."""
        path = f"probe/{time.time_ns()}-{random.getrandbits(64):x}"
        try:
            if not self.create(path, b"1") or self.create(path, b"2"):
                raise UnsafeStore(_unsafe(self.url))
        finally:
            self.delete([path])

    @contextlib.contextmanager
    def _understood(self, path: str) -> Iterator[None]:
        """What pyarrow raises over a file that is wrong inside, which is many things, as `DamagedFile`."""
        import pyarrow as pa

        try:
            yield
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise DamagedFile(
                f"{self.url}/{path} is damaged ({error}): bring it back from a backup, or move it away and run "
                "`hindlake rebuild`"
            ) from error

    def _open(self, path: str) -> BinaryIO:
        return self._retry(lambda: self._store.open(path), f"read {path}")

    def _is_big(self, path: str) -> bool:
        return self._retry(lambda: self._store.size(path), f"look for {path}") > _WHOLE_BYTES

    def _mark(self) -> None:
        """Give a lake that is about to get its first file its format."""
        if not self._is_marked:
            if not self.exists(MARKER):
                with contextlib.suppress(FileExistsError):
                    data = msgspec.json.encode(new_format())
                    tried(lambda: self._store.create(MARKER, data), f"create {MARKER}", self.url)
            self._is_marked = True

    def _prove(self) -> None:
        """Before the first claim, refuse a bucket where the lake's first file can be claimed again, as it is."""
        if self._is_proven:
            return
        with contextlib.suppress(FileNotFoundError):  # a lake that is being restored gets its format last
            data = self.get(MARKER)
            try:
                tried(lambda: self._store.create(MARKER, data), f"create {MARKER}", self.url)
            except FileExistsError:
                self._is_proven = True
                return
            raise UnsafeStore(_unsafe(self.url))

    def _retry(self, act: Callable[[], _T], what: str) -> _T:
        if not self._is_known:
            data: bytes | None = None
            with contextlib.suppress(FileNotFoundError):
                data = tried(lambda: self._store.get(MARKER), what, self.url)
            check_format(read_format(data, self.url), self.url)
            self._is_known, self._is_marked = True, self._is_marked or data is not None
        return tried(act, what, self.url)


def _unsafe(url: str) -> str:
    return (
        f"{url} ignores conditional writes (If-None-Match), so two writers could overwrite each other's decisions: use "
        "a store that honours them, such as Amazon S3, SeaweedFS or MinIO"
    )


def _store_at(url: str, settings: Settings) -> Folder | Bucket:
    if settings.is_remote:
        from .bucket import Bucket
        from .s3 import s3_options

        return Bucket(url, s3_options(settings))
    try:
        return Folder(Path(url))
    except OSError as error:
        raise LakeError(f"{url} can't be made ({error}): set HINDLAKE_HOME to a folder you can write") from error
