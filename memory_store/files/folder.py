"""A folder as a store of files: they appear whole, and a name can be claimed.

Plain system calls, no threads and no connections, so that a forked process can go on using it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from ..ids import sortable_id

#: Half-written files lie here, out of sight of every listing.
_UNBORN = ".unborn"
#: A half-written file this old belongs to a process that died, in seconds.
_STALE_SECONDS = 86_400
#: How often a file is written that is removed before it has its name.
_TRIES = 3


class Folder:
    """Files under one folder, by paths with forward slashes. Safe to share between threads and processes."""

    def __init__(self, root: Path) -> None:
        """Make the folder if it is missing. Raises `OSError` if it can't be."""
        self._root = root
        self._unborn = root / _UNBORN
        self._unborn.mkdir(parents=True, exist_ok=True)
        for path in self._unborn.iterdir():
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                    path.unlink()

    def put(self, path: str, data: bytes) -> None:
        """Write a file, whole, in place of what may be there."""
        self._bear(path, data, os.replace)

    def create(self, path: str, data: bytes) -> None:
        """Write a file, whole. Raises `FileExistsError` if the name is taken."""
        self._bear(path, data, os.link)

    def get(self, path: str) -> bytes:
        """The bytes of a file. Raises `FileNotFoundError`."""
        return self._at(path).read_bytes()

    def size(self, path: str) -> int:
        """Bytes of a file. Raises `FileNotFoundError`."""
        return self._at(path).stat().st_size

    def open(self, path: str) -> BinaryIO:
        """A file to read from. Raises `FileNotFoundError`."""
        return self._at(path).open("rb")

    def names(self, prefix: str, after: str) -> list[str]:
        """Paths below a folder that come after a name, in no order."""
        found: list[str] = []
        for folder, folders, files in os.walk(self._at(prefix)):
            with contextlib.suppress(ValueError):
                folders.remove(_UNBORN)
            below = os.path.relpath(folder, self._root).replace(os.sep, "/")
            start = "" if below == "." else f"{below}/"
            found.extend(f"{start}{name}" for name in files if f"{start}{name}" > after)
        return found

    def entries(self, prefix: str) -> list[tuple[str, int, float, str]]:
        """Path, bytes, time of change (Unix seconds) and version of each file below a folder, in no order."""
        found: list[tuple[str, int, float, str]] = []
        for path in self.names(prefix, ""):
            with contextlib.suppress(FileNotFoundError):
                stat = self._at(path).stat()
                found.append((path, stat.st_size, stat.st_mtime, f"{stat.st_mtime_ns}-{stat.st_ino}"))
        return found

    def folders(self, prefix: str) -> list[str]:
        """Paths of the folders directly below a folder, in no order."""
        try:
            with os.scandir(self._at(prefix)) as entries:
                names = [entry.name for entry in entries if entry.is_dir() and entry.name != _UNBORN]
        except FileNotFoundError:
            return []
        return [f"{prefix}/{name}" if prefix else name for name in names]

    def delete(self, path: str) -> None:
        """Remove a file. Raises `FileNotFoundError`."""
        self._at(path).unlink()

    def sync(self, paths: list[str]) -> None:
        """Force files, and the folders that name them, to the disk."""
        files = [self._at(path) for path in paths]
        for path in (*files, *{parent for file in files for parent in (file.parent, file.parent.parent)}):
            fd = os.open(path, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def _at(self, path: str) -> Path:
        if ".." in path.split("/"):
            raise ValueError(f"{path!r} leads out of the lake")
        return self._root / path

    def _bear(self, path: str, data: bytes, name: Callable[[Path, Path], None]) -> None:
        """Write the bytes, and give them their name. What another process took for the leftover of a dead one, since
        its clock is days ahead, is written again.
        """
        for left in range(_TRIES - 1, -1, -1):
            target, unborn = self._write(path, data)
            try:
                name(unborn, target)
                return
            except FileNotFoundError:
                if not left:
                    raise
            finally:
                unborn.unlink(missing_ok=True)

    def _write(self, path: str, data: bytes) -> tuple[Path, Path]:
        """Write the bytes where no one looks; return the place they are for, and where they are."""
        target = self._at(path)
        unborn = self._unborn / sortable_id()
        try:
            file = unborn.open("xb")
        except FileNotFoundError:
            self._unborn.mkdir(parents=True, exist_ok=True)
            file = unborn.open("xb")
        try:
            with file:
                file.write(data)
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError:
            unborn.unlink(missing_ok=True)
            raise
        return target, unborn
