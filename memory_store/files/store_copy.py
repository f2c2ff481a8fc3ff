"""A copy of a generation's files on this machine's disk, so that searches of a bucket read no rows from it.

Files of a store never change: a new version is a new manifest that names new files. So bringing a copy up to date is
fetching what is missing, manifests last, and removing what the bucket has no more. What a copy lacks of the newest
folds is what the overlay reads from the log, as for a store that is folded later: a copy is behind, never wrong.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from ..errors import HindlakeError, LakeError, SettingsError
from ..settings import Settings
from .lake import Lake
from .s3 import s3_options
from .tries import tried

if TYPE_CHECKING:
    from .bucket import Bucket

_log = logging.getLogger("hindlake.copy")

#: Files that are fetched at once.
_FETCHERS = 8
#: A copy that was not brought up to date for so many times `index.copy_seconds` is not read from.
_LATE = 10
#: Seconds between two tries to bring a copy up to date.
_PAUSE = 5.0
#: Seconds after which what the bucket does not have was left by a process that died, or by an older generation. Until
#: then another process may have fetched it after this one has listed the bucket.
_LEFT = 3_600
#: Where a table keeps its manifests, and the table that says how far the others were folded.
_MANIFESTS = "/_versions/"
_FOLDS = "folds.lance/"


@dataclass
class Copied:
    """What bringing a copy up to date did."""

    #: Files and bytes of the generation
    files: int = 0
    bytes: int = 0
    #: Files that were fetched, and removed
    fetched: int = 0
    removed: int = 0
    #: Why there is no copy; empty if there is one
    reason: str = ""


class StoreCopy:
    """The copies of a lake's generations below `index.copy_to`. Processes of one machine share them: each file appears
    whole, and two that fetch the same one do it twice.
    """

    def __init__(self, lake: Lake, settings: Settings) -> None:
        """Raises `SettingsError` for a home that is no bucket, or without `index.copy_to`."""
        from .bucket import Bucket

        if not settings.is_remote or not settings.index.copy_to:
            raise SettingsError(
                "a copy of the store is for a home in a bucket: set HINDLAKE_HOME to s3://bucket/prefix and "
                "HINDLAKE_INDEX_COPY_TO to a folder of this machine"
            )
        self._lake, self._settings = lake, settings
        self._bucket: Bucket = Bucket(f"{settings.home}/store", s3_options(settings))
        self._most = settings.index.copy_mb * 2**20
        self._seconds = settings.index.copy_seconds
        self._thread: threading.Thread | None = None
        self._begun = -_PAUSE

    @cached_property
    def _root(self) -> Path:
        """Where the copies of this lake lie. The lake is asked for its id when this is first needed."""
        name = self._lake.format().lake or hashlib.sha256(self._settings.home.encode()).hexdigest()[:26]
        return Path(self._settings.index.copy_to).expanduser().absolute() / name

    def ready(self, name: str) -> str:
        """The folder of a generation's copy, empty if none may be read from now. It is brought up to date in the
        background, every `index.copy_seconds`.
        """
        age = self._age(name)
        is_busy = self._thread is not None and self._thread.is_alive()
        if age >= self._seconds and not is_busy and time.monotonic() - self._begun >= min(self._seconds, _PAUSE):
            self._begun = time.monotonic()
            self._thread = threading.Thread(target=self._follow, args=(name,), name="hindlake-copy", daemon=True)
            self._thread.start()
        return str(self._root / name) if age <= _LATE * max(self._seconds, _PAUSE) else ""

    def bring(self, name: str) -> Copied:
        """Bring the copy of a generation up to date. Raises `LakeError` when the bucket or the disk fail."""
        listed = self._listed(name)
        done = Copied(len(listed), sum(listed.values()))
        try:
            if not listed or done.bytes > self._most:
                self.forget(name)
                said = f"it has {done.bytes >> 20} MB, and HINDLAKE_INDEX_COPY_MB is {self._most >> 20}"
                done.reason = said if listed else "it was dropped"
                return done
            self._fetch(name, listed, done)
            self._mark(name).touch()
            self._drop_others(name)
        except OSError as error:
            raise LakeError(f"{self._root} can't be written ({error}): make room, or unset index.copy_to") from error
        return done

    def forget(self, name: str) -> None:
        """Remove a copy: of a generation that was dropped, or one that turned out to be damaged."""
        self._mark(name).unlink(missing_ok=True)
        shutil.rmtree(self._root / name, ignore_errors=True)

    def _follow(self, name: str) -> None:
        try:
            self.bring(name)
        except HindlakeError as error:
            _log.warning("the copy of the store was not brought up to date: %s", error)

    def _mark(self, name: str) -> Path:
        """The file whose age says when a copy was last as the bucket is."""
        return self._root / f"{name}.copied"

    def _age(self, name: str) -> float:
        try:
            return abs(time.time() - self._mark(name).stat().st_mtime)
        except FileNotFoundError:
            return float("inf")

    def _listed(self, name: str) -> dict[str, int]:
        """Sizes of the files of a generation, by their path in it."""
        found = tried(lambda: self._bucket.entries(name), f"list {name}", self._bucket.url)
        return {path.removeprefix(f"{name}/"): size for path, size, *_ in sorted(found)}

    def _fetch(self, name: str, listed: dict[str, int], done: Copied) -> None:
        """Fetch what is missing, and remove what the bucket has no more."""
        folder = self._root / name
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        held = dict(_held(folder))
        sizes = {path: stat.st_size for path, stat in held.items()}
        if any(sizes.get(path) != size for path, size in listed.items()):
            # What a listed manifest names was written before it, and may yet have come too late for its own page of the
            # listing.
            again = self._listed(name)
            wanted = {path: size for path, size in (again | listed).items() if path in listed or not _is_manifest(path)}
            missing = {path: size for path, size in wanted.items() if sizes.get(path) != size}
            for portion in _portions(missing):
                with ThreadPoolExecutor(_FETCHERS) as pool:
                    list(pool.map(lambda path: self._one(name, path, missing[path]), portion))
            done.fetched = len(missing)
            listed = again | listed
        before = time.time() - _LEFT
        gone = [path for path, stat in held.items() if path not in listed and stat.st_mtime < before]
        for path in sorted(gone, key=lambda path: not _is_manifest(path)):
            (folder / path).unlink(missing_ok=True)
        done.removed = len(gone)

    def _one(self, name: str, path: str, size: int) -> None:
        """Fetch one file, which appears whole."""
        to = self._root / name / path
        to.parent.mkdir(parents=True, exist_ok=True)
        made = to.with_name(f".{uuid4().hex}")
        try:
            tried(lambda: self._bucket.fetch(f"{name}/{path}", made), f"read {path}", self._bucket.url)
            if made.stat().st_size != size:
                raise LakeError(f"{name}/{path} has not the size that the bucket lists: it is fetched again")
            made.replace(to)
        except FileNotFoundError as error:
            raise LakeError(f"{name}/{path} was removed from the bucket meanwhile: it is copied again") from error
        finally:
            made.unlink(missing_ok=True)

    def _drop_others(self, name: str) -> None:
        """Remove copies of generations that are gone, or that no process of this machine has read from lately."""
        for mark in self._root.glob("*.copied"):
            other = mark.name.removesuffix(".copied")
            if other != name and (self._age(other) > _LEFT or not self._listed(other)):
                self.forget(other)


def _held(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """The files of a copy, by their path in it; those that another process is fetching may go at any moment."""
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            if path.is_file():
                yield path.relative_to(folder).as_posix(), path.stat()


def _is_manifest(path: str) -> bool:
    return _MANIFESTS in path


def _portions(missing: Iterable[str]) -> list[list[str]]:
    """Files in the order in which they may appear: those that manifests name before these, and last what says how far
    the others were folded, so that a copy is never behind what it says of itself.
    """
    files = [path for path in missing if not _is_manifest(path)]
    manifests = [path for path in missing if _is_manifest(path)]
    folds = [path for path in manifests if path.startswith(_FOLDS)]
    return [files, [path for path in manifests if path not in folds], folds]
