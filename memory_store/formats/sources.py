"""From a path to streams of bytes: folders, archives and compression, told by the content, not by the name."""

from __future__ import annotations

import bz2
import io
import lzma
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import UsageError

_CHUNK = 1 << 18
_PIECE = 1 << 14
#: What a stream of compressed bytes can raise when it is damaged.
DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile)
#: Compressions by their first bytes.
_INFLATE: tuple[tuple[bytes, Callable[[], Any]], ...] = (
    (b"\x1f\x8b", lambda: zlib.decompressobj(wbits=31)),
    (b"\xfd7zXZ\x00", lzma.LZMADecompressor),
    (b"BZh", bz2.BZ2Decompressor),
)


@dataclass(frozen=True)
class Source:
    """One stream of bytes, read once."""

    #: Name of the file, for messages and `source_ref`; a file inside an archive is `archive!member`
    name: str
    #: Its bytes, decompressed. Raises one of `DAMAGED` in the middle if the file is
    chunks: Iterable[bytes]


def open_sources(paths: Iterable[str | Path]) -> Iterator[Source]:
    """Every file that the paths name, one after another; a source is to be read before the next is taken.

    A path is a file, a folder (all files below it, sorted, hidden ones left out) or "-" for standard input. What is
    compressed with gzip, xz or bzip2 is decompressed; of a tar or zip archive each file is a source.

    Raises `UsageError` for a path that does not exist, before anything is read.
    """
    files: list[tuple[str, Path | None]] = []
    for path in paths:
        if str(path) == "-":
            files.append(("<stdin>", None))
            continue
        place = Path(path)
        if not place.exists():
            raise UsageError(f"there is no file or folder {path}: check the path, or give - to read standard input")
        if place.is_dir():
            below = sorted(one for one in place.rglob("*") if one.is_file())
            shown = (one for one in below if not any(part.startswith(".") for part in one.relative_to(place).parts))
            files.extend((one.relative_to(place.parent).as_posix(), one) for one in shown)
        else:
            files.append((place.name, place))
    for name, file in files:
        yield from _open(name, file)


def _open(name: str, file: Path | None) -> Iterator[Source]:
    if file is None:
        yield from _expand(name, _chunks(sys.stdin.buffer))
        return
    try:
        stream = file.open("rb")
    except OSError as error:
        yield Source(name, _fails(error))
        return
    with stream:
        if zipfile.is_zipfile(stream):
            yield from _unzip(name, stream)
            return
        stream.seek(0)
        yield from _expand(name, _chunks(stream))


def _fails(error: BaseException) -> Iterator[bytes]:
    raise error
    yield b""


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK):
        yield chunk


def _expand(name: str, chunks: Iterator[bytes]) -> Iterator[Source]:
    try:
        head, chunks = _peek(chunks, 512)
    except DAMAGED as error:
        yield Source(name, _fails(error))
        return
    for magic, make in _INFLATE:
        if head.startswith(magic):
            yield from _expand(name, _inflate(chunks, make))
            return
    if head[257:262] == b"ustar":
        yield from _untar(name, chunks)
    else:
        yield Source(name, chunks)


def _peek(chunks: Iterator[bytes], size: int) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes, and the whole stream again. Damage after the first byte is left for who reads on."""
    head = b""
    damage: BaseException | None = None
    try:
        while len(head) < size:
            head += next(chunks)
    except StopIteration:
        pass
    except DAMAGED as error:
        if not head:
            raise
        damage = error

    def again() -> Iterator[bytes]:
        yield head
        if damage is not None:
            raise damage
        yield from chunks

    return head, again()


def _inflate(chunks: Iterator[bytes], make: Callable[[], Any]) -> Iterator[bytes]:
    """Decompress; files that were put one behind another are one stream, as gzip and xz have it."""
    inflater = make()
    fresh = True
    for chunk in _pieces(chunks):
        while chunk:
            if inflater.eof:
                chunk = chunk.lstrip(b"\0")  # padding between members
                if not chunk:
                    break
                inflater, fresh = make(), True
            if data := inflater.decompress(chunk):
                yield data
            fresh = False
            chunk = inflater.unused_data if inflater.eof else b""
    if not inflater.eof and not fresh:
        raise EOFError("the compressed file ends early")


def _pieces(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Small pieces: one can become a thousand times as much."""
    for chunk in chunks:
        for start in range(0, len(chunk), _PIECE):
            yield chunk[start : start + _PIECE]


class _Stream(io.RawIOBase):
    """Chunks as a file that can be read forward."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left:
            self._left = memoryview(next(self._chunks, b""))
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size


def _untar(name: str, chunks: Iterator[bytes]) -> Iterator[Source]:
    try:
        with tarfile.open(fileobj=io.BufferedReader(_Stream(chunks)), mode="r|") as archive:
            for member in archive:
                if member.isfile() and (stream := archive.extractfile(member)) is not None:
                    yield from _expand(f"{name}!{member.name}", _chunks(stream))  # type: ignore[arg-type]
    except DAMAGED as error:
        yield Source(name, _fails(error))


def _unzip(name: str, stream: BinaryIO) -> Iterator[Source]:
    try:
        with zipfile.ZipFile(stream) as archive:
            for member in archive.infolist():
                if not member.is_dir():
                    yield from _unzip_one(f"{name}!{member.filename}", archive, member)
    except DAMAGED as error:
        yield Source(name, _fails(error))


def _unzip_one(name: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[Source]:
    try:
        inside = archive.open(member)
    except (RuntimeError, NotImplementedError, *DAMAGED) as error:  # encrypted, or a method that Python lacks
        yield Source(name, _fails(OSError(str(error))))
        return
    with inside:
        yield from _expand(name, _chunks(inside))  # type: ignore[arg-type]
