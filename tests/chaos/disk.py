"""A disk of its own for a round, small enough to be filled: a tmpfs, which takes the right to mount."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

#: Size of the disk: room for a round, and quick to fill.
_MEGABYTES = 96


@cache
def can_mount() -> str:
    """Why no disk can be made here; empty if one can."""
    if os.name != "posix" or os.geteuid() != 0:
        return "a disk of its own takes the right to mount (root)"
    with TemporaryDirectory(prefix="hindlake-disk-") as folder:
        done = _mount(Path(folder))
        if done:
            return f"a disk of its own can't be mounted here: {done}"
        _unmount(Path(folder))
    return ""


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk at a folder, as long as the block lasts."""
    folder.mkdir(parents=True, exist_ok=True)
    if reason := _mount(folder):
        raise OSError(errno.EPERM, reason)
    try:
        yield folder
    finally:
        _unmount(folder)


def fill(folder: Path) -> Path:
    """Leave no byte free on the disk that a folder lies on; delete the file that is returned to end that."""
    path = folder / "filler"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        for size in (1 << 20, 1 << 12, 1):
            with suppress(OSError):
                while os.write(fd, b"\0" * size) == size:
                    pass
    finally:
        os.close(fd)
    return path


def _mount(folder: Path) -> str:
    options = f"size={_MEGABYTES}m"
    try:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "hindlake-chaos", str(folder)], capture_output=True, text=True
        )
    except OSError as error:
        return str(error)
    return done.stderr.strip() if done.returncode else ""


def _unmount(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True)
