"""A place for backups: files of a lake by content, each once, and a manifest a backup that says which belong to it.

    hindlake-backup.json                  which lake is backed up here
    manifests/<name>.json                 a backup: every file of the lake as it was, by path and SHA-256
    dropped/<name>.json                   a backup that is not kept any more; what it alone needs goes after a grace
    partial.json                          what a backup that was stopped knew already
    pool/<ns=namespace or root>/<xx>/<sha256>   the files

The pool of each namespace is its own, so that two tenants share no file and a purge knows where to look. Nothing is
overwritten but by a purge, which writes other files and the manifests anew.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

import msgspec

from ..errors import DamagedFile, LakeError, UsageError
from ..ids import derive_id, sortable_id
from ..settings import S3Settings, Settings
from .folder import Folder
from .lake import Entry, Lake
from .s3 import s3_options

#: Told what is done, and of how much.
Progress = Callable[[int, int], None]
#: Format of a backup that this version writes, and the newest that it can read.
FORMAT = 1
#: Folders of manifests: those that are kept, and those that were until lately.
FOLDERS = ("manifests", "dropped")
_OWNER = "hindlake-backup.json"
_PARTIAL = "partial.json"


class Kept(msgspec.Struct, frozen=True):
    """A file of a backup."""

    #: Its path in the lake
    path: str
    #: Its size
    bytes: int
    #: Hash of its content, in hex: its name in the pool
    sha256: str
    #: What the lake's listing said of it, by which a file that was not written since is known
    version: str


class Point(msgspec.Struct, kw_only=True, frozen=True):
    """How far the log of a namespace had come, and what it folds to."""

    #: Files of the log
    files: int
    #: Place of its last row
    seq: int
    #: Memories by state
    memories: dict[str, int]
    #: Hash of id, place and state columns of every memory
    fingerprint: str


class Manifest(msgspec.Struct, kw_only=True):
    """A backup."""

    format: int = FORMAT
    #: Its name, which sorts by time
    name: str
    #: Id of the lake
    lake: str
    #: Where the lake lay
    home: str
    #: Version of hindlake that wrote it
    version: str
    began_at: datetime
    ended_at: datetime
    #: Model of the vectors of the generation that was in use; empty: there was none
    embedder: str = ""
    namespaces: dict[str, Point] = {}
    files: list[Kept] = []
    #: Files that can't be understood and were copied as they are
    damaged: list[str] = []


class _Owner(msgspec.Struct, kw_only=True):
    format: int = FORMAT
    lake: str


@dataclass(frozen=True)
class Fault:
    """A file of a backup that is not what it should be."""

    path: str
    reason: str


def backup_url(place: str) -> str:
    """A place for backups in full. Raises `UsageError` for what can't be one."""
    if place.startswith("s3://"):
        return place.rstrip("/")
    if not place or "://" in place:
        raise UsageError(
            f"{place or 'nothing'} is no place for backups: give --to DIR or s3://bucket/prefix, or set "
            "HINDLAKE_BACKUP_TO"
        )
    return str(Path(place).expanduser().absolute())


def backup_settings(settings: Settings) -> Settings:
    """Settings whose S3 section is that of the bucket of backups."""
    own = settings.backup
    s3 = settings.s3
    keys = own if own.access_key_id else s3
    merged = S3Settings(
        endpoint=own.endpoint or s3.endpoint,
        region=own.region or s3.region,
        access_key_id=keys.access_key_id,
        secret_access_key=keys.secret_access_key,
    )
    return settings.model_copy(update={"s3": merged})


class _Place(msgspec.Struct, kw_only=True):
    url: str


def remember(lake: Lake, url: str) -> None:
    """Note in a lake where backups of it lie, so that a purge finds them."""
    lake.create(_place_path(url), msgspec.json.encode(_Place(url=url)))


def places(lake: Lake) -> list[str]:
    """Where backups of a lake lie."""
    return [msgspec.json.decode(lake.get(path), type=_Place).url for path in lake.names("backups")]


def forget(lake: Lake, url: str) -> bool:
    """Note that no backups lie there any more; whether it was known that some do."""
    was_known = lake.exists(_place_path(url))
    lake.delete([_place_path(url)])
    return was_known


def _place_path(url: str) -> str:
    return f"backups/{derive_id('', 'backups', url)}.json"


class Backups:
    """The backups in one place. Safe to share between threads and processes."""

    def __init__(self, settings: Settings, place: str = "", *, make: bool = False) -> None:
        """`place`: a folder or s3://bucket/prefix; empty: that of the settings. A folder is made only with `make`.

        Raises `UsageError` if none is given, if it lies inside the lake, or if there is no such folder.
        """
        #: Where they lie
        self.url = backup_url(place or settings.backup.to)
        lake = f"{settings.home}/lake"
        if f"{self.url}/".startswith(f"{lake}/") or f"{lake}/".startswith(f"{self.url}/"):
            raise UsageError(f"{self.url} and the lake {lake} lie inside each other: choose another place for backups")
        if self.url.startswith("s3://"):
            from .bucket import Bucket

            self._files = Lake(Bucket(self.url, s3_options(backup_settings(settings))), self.url)
            return
        if not make and not (Path(self.url) / _OWNER).exists():
            raise UsageError(f"{self.url} holds no backups: `hindlake backup create --to {self.url}` makes one")
        try:
            self._files = Lake(Folder(Path(self.url)), self.url)
        except OSError as error:
            raise LakeError(f"{self.url} can't be made ({error}): choose a folder that you can write") from error

    def claim(self, lake: str) -> None:
        """Make this the place of one lake's backups. Raises `UsageError` if it is that of another one."""
        if not self._files.exists(_OWNER):
            self._files.create(_OWNER, msgspec.json.encode(_Owner(lake=lake)))
        self.check(lake)

    def check(self, lake: str) -> None:
        """Raise `UsageError` if these are the backups of another lake, `LakeError` if a newer version wrote them."""
        try:
            owner = msgspec.json.decode(self._files.get(_OWNER), type=_Owner)
        except FileNotFoundError:
            raise UsageError(f"{self.url} holds no backups: `hindlake backup create` makes one") from None
        except msgspec.DecodeError as error:
            raise DamagedFile(f"{self.url}/{_OWNER} is damaged ({error}): write the id of the lake into it") from error
        if owner.format > FORMAT:
            raise LakeError(f"{self.url} has format {owner.format}, of a newer hindlake: run pip install -U hindlake")
        if lake and owner.lake != lake:
            raise UsageError(
                f"{self.url} holds the backups of lake {owner.lake}, this is lake {lake}: give each lake a place of "
                "its own"
            )

    # Manifests

    def names(self, folder: str = "manifests") -> list[str]:
        """Names of the backups, oldest first."""
        return [path.rpartition("/")[2].removesuffix(".json") for path in self._files.names(folder)]

    def manifest(self, name: str = "", folder: str = "manifests") -> Manifest:
        """A backup by its name or how it begins; empty: the newest. Raises `UsageError` if there is none or several."""
        every = self.names(folder)
        some = [one for one in every if one.startswith(name)]
        if name in every:
            some = [name]
        if not some:
            raise UsageError(f"{self.url} has no backup {name}".rstrip() + f": it has {', '.join(every) or 'none yet'}")
        if name and len(some) > 1:
            raise UsageError(f"{name} can be {', '.join(some)}: give more of the name")
        path = f"{folder}/{some[-1]}.json"
        try:
            return msgspec.json.decode(self._files.get(path), type=Manifest)
        except msgspec.DecodeError as error:
            raise DamagedFile(f"{self.url}/{path} is damaged ({error}): delete it, and use another backup") from error

    def manifests(self, folder: str = "manifests") -> Iterator[Manifest]:
        """Every backup, newest first; one that is dropped meanwhile is left out, and one that is damaged too."""
        for name in reversed(self.names(folder)):
            try:
                yield self.manifest(name, folder)
            except (UsageError, DamagedFile, FileNotFoundError):
                continue

    def add(self, manifest: Manifest) -> bool:
        """Let a backup be there; False if another has its name."""
        path = f"manifests/{manifest.name}.json"
        made = self._files.create(path, msgspec.json.encode(manifest))
        if made:
            self._files.sync([path])
        return made

    def replace(self, manifest: Manifest, folder: str = "manifests") -> None:
        """Write a manifest anew: a purge has written other files for those that it names."""
        self._files.put(f"{folder}/{manifest.name}.json", msgspec.json.encode(manifest))

    def drop(self, name: str) -> None:
        """Let a backup be there no more; its files stay for the grace."""
        try:
            data = self._files.get(f"manifests/{name}.json")
        except FileNotFoundError:
            return
        self._files.put(f"dropped/{name}.json", data)
        self._files.delete([f"manifests/{name}.json"])

    def dropped(self) -> list[Entry]:
        """Manifests that were dropped, with the time when."""
        return self._files.entries("dropped")

    # What a stopped backup knew

    def read_partial(self) -> list[Kept]:
        """Files that a backup which was stopped had looked at."""
        try:
            return msgspec.json.decode(self._files.get(_PARTIAL), type=list[Kept])
        except (FileNotFoundError, msgspec.DecodeError):
            return []

    def write_partial(self, files: Iterable[Kept]) -> None:
        """Keep what is known until now."""
        self._files.put(_PARTIAL, msgspec.json.encode(list(files)))

    def drop_partial(self) -> None:
        """The backup is complete."""
        self._files.delete([_PARTIAL])

    # Files

    def now(self) -> datetime:
        """The time by the clock of the place itself, by which it says how old its files are."""
        path = f"probe/{sortable_id()}"
        self._files.put(path, b"now")
        try:
            return self._files.entries(path.rpartition("/")[0])[-1].changed_at
        finally:
            self._files.delete([path])

    def pool(self, namespace_folder: str = "") -> dict[str, Entry]:
        """The files of the pool, or of a namespace's part of it, by path."""
        prefix = f"pool/{namespace_folder}".rstrip("/")
        return {entry.path: entry for entry in self._files.entries(prefix)}

    def put(self, path: str, data: bytes) -> str:
        """Keep a file's content; return its hash. Twice is once."""
        digest = sha256(data).hexdigest()
        self._files.put(pool_path(path, digest), data)
        return digest

    def get(self, kept: Kept) -> bytes:
        """The content of a file. Raises `DamagedFile` if it is gone or not what it was."""
        where = pool_path(kept.path, kept.sha256)
        try:
            data = self._files.get(where)
        except FileNotFoundError:
            raise DamagedFile(f"{self.url}/{where}, which is {kept.path}, is gone: {_AGAIN}") from None
        if len(data) != kept.bytes or sha256(data).hexdigest() != kept.sha256:
            raise DamagedFile(f"{self.url}/{where}, which is {kept.path}, is damaged: {_AGAIN}")
        return data

    def raw(self, path: str) -> bytes:
        """A file of the pool as it is. Raises `FileNotFoundError`."""
        return self._files.get(path)

    def delete(self, paths: Iterable[str]) -> None:
        """Remove files of the place."""
        self._files.delete(paths)

    def sync(self, paths: Iterable[str]) -> None:
        """Force files to the disk."""
        self._files.sync(paths)

    def lake(self, manifest: Manifest) -> Lake:
        """A backup as a lake that can be read."""
        return Lake(BackupFiles(self, manifest), f"{self.url}/{manifest.name}")


_AGAIN = "the next `hindlake backup create` copies it again if the lake still has it"


def pool_path(path: str, digest: str) -> str:
    """Where the pool keeps a file of the lake.

    >>> pool_path("ns=acme/log/000000000001.parquet", "ab12")
    'pool/ns=acme/ab/ab12'
    """
    first = path.partition("/")[0]
    return f"pool/{first if first.startswith('ns=') else 'root'}/{digest[:2]}/{digest}"


class BackupFiles:
    """The files of one backup, under the paths that they had in the lake. Read only."""

    def __init__(self, backups: Backups, manifest: Manifest) -> None:
        self._backups = backups
        self._kept = {kept.path: kept for kept in manifest.files}
        self._when = manifest.ended_at.timestamp()

    def get(self, path: str) -> bytes:
        """The bytes of a file. Raises `FileNotFoundError`, and `DamagedFile` if the pool lacks them."""
        return self._backups.get(self._at(path))

    def size(self, path: str) -> int:
        """Bytes of a file. Raises `FileNotFoundError`."""
        return self._at(path).bytes

    def open(self, path: str) -> BinaryIO:
        """A file to read from. Raises as `get`."""
        return io.BytesIO(self.get(path))

    def names(self, prefix: str, after: str) -> list[str]:
        """Paths below a folder that come after a name."""
        return [path for path in self._below(prefix) if path > after]

    def entries(self, prefix: str) -> list[tuple[str, int, float, str]]:
        """Path, bytes, time of the backup and version of each file below a folder."""
        some = (self._kept[path] for path in self._below(prefix))
        return [(kept.path, kept.bytes, self._when, kept.version) for kept in some]

    def folders(self, prefix: str) -> list[str]:
        """Paths of the folders directly below a folder."""
        start = len(prefix) + 1 if prefix else 0
        return sorted({path[: path.index("/", start)] for path in self._below(prefix) if "/" in path[start:]})

    def put(self, path: str, data: bytes) -> None:
        """Refused: a backup is not written into."""
        raise PermissionError(f"{path} belongs to a backup")

    create = put

    def delete(self, path: str) -> None:
        """Refused."""
        self.put(path, b"")

    def sync(self, paths: list[str]) -> None:
        """Nothing to do."""

    def _at(self, path: str) -> Kept:
        if path not in self._kept:
            raise FileNotFoundError(path)
        return self._kept[path]

    def _below(self, prefix: str) -> Iterator[str]:
        start = f"{prefix}/" if prefix else ""
        return (path for path in self._kept if path.startswith(start))
