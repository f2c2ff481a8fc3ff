"""Spools: events that are acknowledged and not yet in the lake, in files of this machine's disk.

A process appends to one segment at a time, one `write` an event, so that an event that was written survives the
process. A segment is a line that names the home it belongs to, then frames:

    length of the payload   4 bytes, little endian
    CRC-32 of the payload   4 bytes, little endian
    payload                 one event, or one read, as MessagePack

Its writer holds an exclusive `flock` as long as it appends. A segment that nobody holds is sealed: its content is
fixed, and whoever gets the lock may roll it into the lake. So a dead process's events are found without knowing its
number, and a half-written frame can only be the last one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Generic, TypeVar
from zlib import crc32

import msgspec

from ..files.lake import Lake
from ..ids import sortable_id
from ..settings import Settings
from .events import Event
from .traces import write_events
from .wire import decode

_T = TypeVar("_T")

_MAGIC = b"hindlake spool 1 "
_FRAME = struct.Struct("<II")
_pack = _FRAME.pack

#: A segment that has reached this size is sealed, in bytes.
SEGMENT_BYTES = 4 << 20
#: Size of the segment while none is open, so that one question tells that a new one is needed.
_NO_ROOM = 1 << 62
#: A segment that was made and never used is removed after this time, in seconds.
_STALE_SECONDS = 3600

# Locks belong to open files, and a child shares the open files of its parent: until it closes them, no one can adopt
# a segment of a parent that died.
_open_files: set[int] = set()


def _opened(path: Path, flags: int) -> int:
    fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
    _open_files.add(fd)
    return fd


def _close(fd: int) -> None:
    _open_files.discard(fd)
    os.close(fd)


def _close_inherited() -> None:
    for fd in list(_open_files):
        with contextlib.suppress(OSError):
            _close(fd)


os.register_at_fork(after_in_child=_close_inherited)


def home_label(settings: Settings) -> str:
    """The home that a spool's segments name, so that two homes can share a folder.

    Empty when the spool lies inside its home: then it moves with it.
    """
    return settings.home if settings.spool or settings.is_remote else ""


class Spool:
    """The segment that this process appends to. Safe to share between threads; opens nothing before it must."""

    def __init__(
        self, folder: Path, label: str = "", *, fsync: bool = False, segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        #: Where the segments lie
        self.folder = folder
        #: Events appended by this process
        self.appended = 0
        #: Called when a segment is begun
        self.on_open: Callable[[], None] | None = None
        self._header = _MAGIC + label.encode("utf-8", "surrogateescape") + b"\n"
        self._fsync = fsync
        self._limit = segment_bytes
        self._reset()

    def _reset(self) -> None:
        # Reentrant, because a signal handler of the agent may log while the same thread is inside `append`.
        self._lock = threading.RLock()
        self._fd = -1
        self._size = _NO_ROOM
        self._name = ""
        self._sealed: set[str] = set()

    def append(self, payload: bytes) -> None:
        """Keep one encoded event. When this returns, it survives the process (`fsync`: the machine).

        Raises `OSError` if it could not be kept; then nothing of it is left in the file.
        """
        frame = _pack(len(payload), crc32(payload)) + payload
        with self._lock:
            if self._size >= self._limit:
                self._open()
            written = os.write(self._fd, frame)
            if written != len(frame):
                self._take_back(written)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.folder))
            if self._fsync:
                try:
                    os.fdatasync(self._fd)
                except OSError:
                    self._take_back(written)
                    raise
            self._size += written
            self.appended += 1

    def seal(self) -> frozenset[str]:
        """Let go of the segment, so that it can be rolled, and name all that were let go. The next event begins one."""
        with self._lock:
            if self._fd >= 0:
                fd, self._fd, self._size = self._fd, -1, _NO_ROOM
                self._sealed.add(self._name)
                _close(fd)
            return frozenset(self._sealed)

    def unrolled(self, names: frozenset[str] | None = None) -> bool:
        """Whether a segment that this process sealed, of these names, is still in the folder."""
        with self._lock:
            self._sealed = {name for name in self._sealed if (self.folder / f"{name}.spool").exists()}
            return bool(self._sealed if names is None else self._sealed & names)

    def after_fork(self) -> None:
        """Begin anew in a child: the segment is the parent's, and this process has closed it already."""
        self.appended = 0
        self._reset()

    def _open(self) -> None:
        self.seal()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = sortable_id()
        # Locked before it has its name: no one may adopt a segment between its birth and its lock.
        unborn = self.folder / f"{name}.new"
        fd = _opened(unborn, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.write(fd, self._header) != len(self._header):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.folder))
            os.rename(unborn, self.folder / f"{name}.spool")
            if self._fsync:
                _sync_folder(self.folder)
        except OSError:
            _close(fd)
            with contextlib.suppress(OSError):
                os.unlink(unborn)
            raise
        self._fd, self._name, self._size = fd, name, 0
        if self.on_open is not None:
            self.on_open()

    def _take_back(self, written: int) -> None:
        """Undo a write that was not whole, or end the segment with it: a torn frame must be the last."""
        try:
            os.ftruncate(self._fd, os.lseek(self._fd, 0, os.SEEK_END) - written)
        except OSError:
            self.seal()


@dataclass
class Segment(Generic[_T]):
    """What a segment holds: events, or what else its frames were decoded to."""

    #: Home that it belongs to; empty: the one it lies in
    label: str
    #: Its whole events, in order
    events: list[_T] = field(default_factory=list)
    #: Bytes of a last frame that is not whole: an event that was never acknowledged
    torn_bytes: int = 0
    #: Whole frames whose checksum or content is wrong
    damaged: int = 0


def read_segment(path: Path) -> Segment[Event]:
    """Every event that a segment holds. Raises `OSError` if it can't be read."""
    return read_frames(path, decode)


def read_frames(path: Path, decode: Callable[[bytes], _T]) -> Segment[_T]:
    """Everything that a segment holds, each frame decoded. Raises `OSError` if it can't be read."""
    raw = path.read_bytes()
    line_end = raw.find(b"\n")
    if not raw.startswith(_MAGIC) or line_end < 0:
        return Segment("", damaged=1) if raw else Segment("")
    segment: Segment[_T] = Segment(raw[len(_MAGIC) : line_end].decode("utf-8", "surrogateescape"))
    for payload, ok in _frames(raw, line_end + 1, segment):
        if not ok:
            segment.damaged += 1
            continue
        try:
            segment.events.append(decode(payload))
        except (msgspec.DecodeError, UnicodeDecodeError):
            segment.damaged += 1
    return segment


def _frames(raw: bytes, place: int, segment: Segment[_T]) -> Iterator[tuple[bytes, bool]]:
    while place < len(raw):
        if len(raw) - place < _FRAME.size:
            segment.torn_bytes = len(raw) - place
            return
        length, checksum = _FRAME.unpack_from(raw, place)
        end = place + _FRAME.size + length
        # A length of 0 is what a file system leaves of a write that a power cut interrupted.
        if length == 0 or end > len(raw):
            segment.torn_bytes = len(raw) - place
            return
        payload = raw[place + _FRAME.size : end]
        yield payload, crc32(payload) == checksum
        place = end


@contextlib.contextmanager
def adopt(path: Path) -> Iterator[bool]:
    """Hold a segment that no one else holds: True if it is ours now, False if someone has it or it is gone."""
    try:
        fd = _opened(path, os.O_RDWR)
    except FileNotFoundError:
        yield False
        return
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Someone may have rolled and removed it between our open and our lock.
            ours = os.fstat(fd).st_ino == os.stat(path).st_ino
        except (BlockingIOError, FileNotFoundError):
            ours = False
        yield ours
    finally:
        _close(fd)


@dataclass
class Rolled:
    """What one pass over a spool folder did."""

    #: Segments that are in the lake now
    segments: int = 0
    #: Events of these segments
    events: int = 0
    #: Files of the lake that hold them
    files: int = 0
    #: Segments that a live process appends to, or that another collector holds
    held: int = 0
    #: Segments of other homes, left alone
    foreign: int = 0
    #: Bytes of unfinished frames: events that were never acknowledged
    torn_bytes: int = 0
    #: Frames that can't be read; their segments are kept beside the others as `.damaged`
    damaged: int = 0


def roll_segments(lake: Lake, folder: Path, label: str = "", *, fsync: bool = False) -> Rolled:
    """Roll every segment of a folder that no one holds into the lake, one Parquet file a namespace and day.

    The files are named for the segment and created if absent, and the segment is removed after them: a pass that is
    killed anywhere is finished by the next one, and nothing is written twice.

    Raises `LakeError` if the lake can't be written and `OSError` if the folder can't be read; what was not rolled is
    still there.
    """
    return roll_frames(lake, folder, label, decode, write_events, fsync=fsync)


def roll_frames(
    lake: Lake,
    folder: Path,
    label: str,
    decode: Callable[[bytes], _T],
    write: Callable[[Lake, Sequence[_T], str], list[str]],
    *,
    fsync: bool = False,
) -> Rolled:
    """`roll_segments` for frames of any content: `write` is given what a segment holds and the name of the segment,
    and returns the paths of the files that it wrote, named for that.
    """
    rolled = Rolled()
    for path in segment_paths(folder):
        with adopt(path) as ours:
            if not ours:
                rolled.held += 1
                continue
            segment = read_frames(path, decode)
            if segment.label not in ("", label):
                rolled.foreign += 1
                continue
            paths = write(lake, segment.events, path.stem) if segment.events else []
            if fsync:
                lake.sync(paths)
            if segment.damaged:
                os.replace(path, path.with_suffix(".damaged"))
            else:
                os.unlink(path)
            rolled.segments += 1
            rolled.events += len(segment.events)
            rolled.files += len(paths)
            rolled.torn_bytes += segment.torn_bytes
            rolled.damaged += segment.damaged
    _remove_unborn(folder)
    return rolled


@dataclass(frozen=True)
class Waiting:
    """What is acknowledged and not yet in the lake."""

    #: Events, of every process that shares the folder
    events: int = 0
    #: Their size on disk
    bytes: int = 0
    #: Files that hold them
    segments: int = 0
    #: Time of the oldest of them
    oldest: datetime | None = None
    #: Segments that were set aside because part of them can't be read
    damaged: int = 0


def waiting(folder: Path) -> Waiting:
    """What waits in a spool folder; nothing if there is no such folder."""
    events = size = segments = 0
    oldest: datetime | None = None
    for path in segment_paths(folder):
        try:
            segment = read_segment(path)
        except OSError:
            continue
        if segment.events:
            segments += 1
            events += len(segment.events)
            size += path.stat().st_size if path.exists() else 0
            first = min(event.at for event in segment.events)
            oldest = first if oldest is None else min(oldest, first)
    damaged = sum(1 for _ in folder.glob("*.damaged")) if folder.is_dir() else 0
    return Waiting(events, size, segments, oldest, damaged)


def segment_paths(folder: Path) -> list[Path]:
    """The segments of a folder, oldest first; none if there is no such folder."""
    return sorted(folder.glob("*.spool")) if folder.is_dir() else []


def _remove_unborn(folder: Path) -> None:
    for path in folder.glob("*.new") if folder.is_dir() else ():
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                path.unlink()


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
