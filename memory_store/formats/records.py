"""From bytes to records: JSON values with their places, one at a time, whatever is broken between them.

Three shapes are told apart by the content: one value a line (JSONL), an array whose elements are the records, and
JSON values one behind another (a single pretty-printed object is the simplest). Only one record is in memory at a
time, so a file may be far larger than the memory; a record may not.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .loose import parse_json
from .sources import DAMAGED, Source

#: A JSON string as a whole, a bracket, or the beginning of a string that does not end in what was read so far.
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]|"', re.S)
_SPACE = b" \t\r\n\0"
#: How far to look for the shape of a file.
_HEAD_BYTES = 1 << 16
_HEAD_LINES = 20
#: How far to look at once for the record after a broken one.
_RESUME_BYTES = 1 << 24
_CLOSES = {ord("]"): ord("["), ord("}"): ord("{")}


@dataclass(frozen=True)
class Record:
    """One JSON value of a file."""

    #: File and place, such as runs.json.gz#record 3 or log.jsonl#line 7
    where: str
    #: The value
    value: object
    #: Which top-level array of the file it is an element of, from 1; 0: it stands by itself
    array: int = 0


@dataclass(frozen=True)
class Broken:
    """A place where no record could be read."""

    #: File and place
    where: str
    #: What is wrong there
    why: str


def read_records(source: Source) -> Iterator[Record | Broken]:
    """Every record of a source, and every place that is broken. Never raises for what the bytes are."""
    text = _Text(source.chunks)
    head = text.fill(_HEAD_BYTES)
    if not head.strip(_SPACE):
        if text.damage:
            yield Broken(source.name, text.damage)
        else:
            yield Broken(source.name, "the file is empty")
        return
    shape = _shape(text, head)
    if shape == "lines":
        yield from _lines(source.name, text)
    elif shape == "values":
        yield from _values(source.name, text)
    else:
        yield Broken(source.name, text.damage or "not JSON: it begins with neither { nor [")
        return
    if text.damage:
        yield Broken(source.name, text.damage)


class _Text:
    """UTF-8 text that grows as it is asked for; knows whether the stream was damaged."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._decoder: codecs.IncrementalDecoder | None = None
        self._started = False
        self.buffer = bytearray()
        #: Nothing comes after the buffer
        self.ended = False
        #: Why the stream ended early; empty when it did not
        self.damage = ""

    def more(self, size: int = 1) -> bool:
        """Read at least `size` more bytes into the buffer; False if nothing came."""
        wanted, before = len(self.buffer) + size, len(self.buffer)
        while not self.ended and len(self.buffer) < wanted:
            try:
                chunk = next(self._chunks)
            except StopIteration:
                self.ended = True
            except DAMAGED as error:
                self.ended, self.damage = True, f"the file is damaged from here on: {error}"
            else:
                self.buffer += self._utf8(chunk)
        return len(self.buffer) > before

    def fill(self, size: int) -> bytes:
        """The first bytes, as many as there are up to `size`."""
        if len(self.buffer) < size:
            self.more(size - len(self.buffer))
        return bytes(self.buffer[:size])

    def _utf8(self, chunk: bytes) -> bytes:
        if not self._started:
            self._started = True
            if chunk.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                self._decoder = codecs.getincrementaldecoder("utf-16")("replace")
            chunk = chunk.removeprefix(codecs.BOM_UTF8)
        return self._decoder.decode(chunk).encode("utf-8", "replace") if self._decoder else chunk


def _shape(text: _Text, head: bytes) -> str:
    """Either "lines" if some early line is a whole object, "values" if it begins like JSON, or "none"."""
    begins = head.lstrip(_SPACE)[:1]
    if begins == b"[":
        return "values"
    lines = head.split(b"\n")
    if not text.ended or len(text.buffer) > len(head):
        lines = lines[:-1]  # the last one goes on
    for line in lines[:_HEAD_LINES]:
        if line.startswith(b"{") and len(line) > 2:
            try:
                if parse_json(line):
                    return "lines"
            except ValueError:
                continue
    return "values" if begins == b"{" else "none"


def _lines(name: str, text: _Text) -> Iterator[Record | Broken]:
    number = scanned = 0
    while True:
        end = text.buffer.find(b"\n", scanned)
        if end < 0 and not text.ended:
            scanned = len(text.buffer)
            text.more(max(1, scanned))  # twice as much each time: a line may be huge
            continue
        line = bytes(text.buffer[: end if end >= 0 else len(text.buffer)])
        number += 1
        if line.strip(_SPACE):
            yield _parsed(f"{name}#line {number}", line, 0)
        if end < 0:
            return
        del text.buffer[: end + 1]  # moves no bytes: a bytearray only shifts its start
        scanned = 0


def _parsed(where: str, raw: bytes, array: int) -> Record | Broken:
    try:
        return Record(where, parse_json(raw), array)
    except ValueError as error:
        return Broken(where, str(error))


def _values(name: str, text: _Text) -> Iterator[Record | Broken]:
    """Values one behind another; an array at the top gives its elements."""
    number = array = 0
    inside = torn = False
    at = 0
    while True:
        at = _skip(text, at, b" \t\r\n\0," if inside else _SPACE)
        del text.buffer[:at]
        at = 0
        if not text.buffer:
            if inside and not torn and not text.damage:
                yield Broken(f"{name}#record {number + 1}", "cut off: the array is never closed")
            elif not number and not text.damage:
                yield Broken(name, "it holds no record")
            return
        begin = text.buffer[0]
        if inside and begin == ord("]"):
            inside, at = False, 1
            continue
        if not inside and begin == ord("["):
            inside, at, array = True, 1, array + 1
            continue
        number += 1
        where = f"{name}#record {number}"
        end, why = _end(text, begin)
        if why:
            yield Broken(where, why)
            at = _resume(text)
            torn = at == len(text.buffer)
            continue
        yield _parsed(where, bytes(text.buffer[:end]), array if inside else 0)
        at = end


def _skip(text: _Text, at: int, what: bytes) -> int:
    """The place of the next byte that is none of these."""
    while True:
        while at < len(text.buffer) and text.buffer[at] in what:
            at += 1
        if at < len(text.buffer) or not text.more(1):
            return at


def _end(text: _Text, begin: int) -> tuple[int, str]:
    """Where the value at the start of the buffer ends, or why it has no end."""
    if begin not in b'[{"':
        return _scalar_end(text), ""
    position, stack = 0, list[int]()
    while True:
        match = _TOKEN.search(text.buffer, position)
        if match is None or match.group() == b'"':
            # Wait for more, twice as much each time, so that a string without an end is not searched over and over.
            position = match.start() if match else len(text.buffer)
            if not text.more(max(1, len(text.buffer) - position)):
                return 0, "cut off: the file ends inside of it"
            continue
        token, position = match.group()[0], match.end()
        del match  # it would pin the buffer, which could not grow
        if token in b"[{":
            stack.append(token)
        elif token in b"]}" and (not stack or stack.pop() != _CLOSES[token]):
            return 0, f"not JSON: {chr(token)} closes nothing, at byte {position - 1} of it"
        if not stack:
            return position, ""


def _scalar_end(text: _Text) -> int:
    """Where a number, a word or garbage ends: at the next comma, bracket or line."""
    at = 1
    while True:
        while at < len(text.buffer) and text.buffer[at] not in b",]}[{\n":
            at += 1
        if at < len(text.buffer) or not text.more(1):
            return at


def _resume(text: _Text) -> int:
    """After a broken value: the next line that begins an object as far left as any does, else the end."""
    while True:
        text.more(_RESUME_BYTES)
        starts = list(re.finditer(rb"\n([ \t]*)\{", text.buffer))
        if starts:
            left = min(len(match.group(1)) for match in starts)
            return next(match.start() + 1 for match in starts if len(match.group(1)) == left)
        if text.ended:
            return len(text.buffer)
        del text.buffer[:-1]
