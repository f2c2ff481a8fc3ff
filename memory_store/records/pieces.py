"""Recognising texts by the pieces that they are made of, wherever they lie, from keyed hashes alone.

A text is normalised and cut into all its windows of 24 characters (a shorter one is a single piece), and each window
is hashed with the namespace's key to 40 bits: enough to tell it from a hundred million others, too few to be turned
back. Whoever has the lake and its key can test a guess, which is why the hashes are dropped when a purge is finished.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from ..text.terms import normal

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

#: Characters of a piece.
WINDOW = 24
#: A text of fewer bytes is recognised only where it stands alone.
_TELLING = 12
#: Characters that are hashed at once, a bound on memory.
_BATCH = 50_000
#: Bits of 64 that are dropped.
_BITS = 24
#: Bits by which most windows are ruled out at once.
_LOW = 0xFFFF


def is_telling(text: str) -> bool:
    """Whether a text is long enough to be recognised inside another one.

    >>> is_telling("success"), is_telling("预算8000元")
    (False, True)
    """
    return len(plain(text).encode("utf-8", "surrogatepass")) >= _TELLING


def plain(text: str) -> str:
    """A text for comparison: normalised, blanks as one; of JSON, its strings too, without their escapes."""
    said = text
    if "\\" in text and text.lstrip()[:1] in ("{", "[", '"'):
        with contextlib.suppress(ValueError, RecursionError):
            said = "\n".join((text, *leaves(json.loads(text))))
    return " ".join(normal(said).split())


def leaves(value: Any) -> Iterator[str]:
    """Every string inside a JSON value, keys included."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            waiting += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple):
            waiting += item


class Pieces:
    """The pieces of some texts. Made from texts by `of`, or from what a purge has kept of them."""

    def __init__(self, key: bytes, hashes: Mapping[int, Sequence[int]]) -> None:
        import numpy as np

        self._key = key
        seed = blake2b(key, digest_size=32, person=b"hindlake pieces").digest()
        self._odd = [int.from_bytes(seed[place : place + 8]) | 1 for place in range(0, 32, 8)]
        self._hashes: dict[int, npt.NDArray[np.uint64]] = {
            length: np.unique(np.asarray(some, dtype=np.uint64)) for length, some in hashes.items() if len(some)
        }

    @classmethod
    def of(cls, texts: Sequence[str], key: bytes) -> Pieces:
        """The pieces of texts, under the key of their namespace."""
        empty = cls(key, {})
        found: dict[int, list[int]] = defaultdict(list)
        for text in {plain(text) for text in texts} - {""}:
            length = min(len(text), WINDOW)
            found[length] += empty._windows(_codes(text), length).tolist()
        return cls(key, found)

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def __len__(self) -> int:
        return sum(len(some) for some in self._hashes.values())

    def kept(self) -> dict[str, list[int]]:
        """The hashes, as a purge keeps them."""
        return {str(length): some.tolist() for length, some in self._hashes.items()}

    @classmethod
    def from_kept(cls, kept: Mapping[str, Sequence[int]], key: bytes) -> Pieces:
        """What `kept` gave."""
        return cls(key, {int(length): some for length, some in kept.items()})

    def hits(self, texts: Sequence[str | None]) -> Counter[int]:
        """How many pieces each text holds, by its place; those that hold none are left out."""
        found: Counter[int] = Counter()
        for place, _, _ in self._found(texts):
            found[place] += 1
        return found

    def without(self, texts: Sequence[str | None]) -> Pieces:
        """The pieces that none of some texts hold."""
        import numpy as np

        gone: dict[int, set[int]] = defaultdict(set)
        for _, length, hash in self._found(texts):
            gone[length].add(hash)
        left = {}
        for length, some in self._hashes.items():
            left[length] = np.setdiff1d(some, np.asarray(sorted(gone[length]), dtype=np.uint64)).tolist()
        return Pieces(self._key, left)

    def joined(self, other: Pieces) -> Pieces:
        """The pieces of both, which have one key."""
        lengths = self._hashes.keys() | other._hashes.keys()
        both = (self._hashes, other._hashes)
        return Pieces(self._key, {n: [h for some in both if n in some for h in some[n].tolist()] for n in lengths})

    def _found(self, texts: Sequence[str | None]) -> Iterator[tuple[int, int, int]]:
        """Place of the text, length and hash of each piece that is found."""
        if not self._hashes:
            return
        some: list[tuple[int, str]] = []
        size = 0
        for place, text in enumerate(texts):
            if text:
                some.append((place, plain(text)))
                size += len(text)
            if size >= _BATCH:
                yield from self._found_in(some)
                some, size = [], 0
        if some:
            yield from self._found_in(some)

    def _found_in(self, texts: list[tuple[int, str]]) -> Iterator[tuple[int, int, int]]:
        import numpy as np

        whole = "\0".join(text for _, text in texts)  # no piece has a NUL, so none runs over an end
        starts = np.cumsum([0, *(len(text) + 1 for _, text in texts)])
        codes = _codes(whole)
        for length, known in self._hashes.items():
            windows = self._windows(codes, length)
            may_be = np.zeros(1 << 16, dtype=np.bool_)
            may_be[known & _LOW] = True
            some = np.flatnonzero(may_be[windows & _LOW])
            for at in some[np.isin(windows[some], known)].tolist():
                number = int(np.searchsorted(starts, at, side="right")) - 1
                place, text = texts[number]
                if length == WINDOW or _stands(text, at - int(starts[number]), length):
                    yield place, length, int(windows[at])

    def _windows(self, codes: npt.NDArray[np.uint64], length: int) -> npt.NDArray[np.uint64]:
        """The hash of every window of a length."""
        import numpy as np

        count = len(codes) - length + 1
        if count < 1:
            return np.empty(0, dtype=np.uint64)
        first, second, third, fourth = (np.uint64(odd) for odd in self._odd)
        mixed = (codes + second) * first
        mixed ^= mixed >> np.uint64(31)
        hashes = np.zeros(count, dtype=np.uint64)
        for offset in range(length):
            hashes *= second
            hashes += mixed[offset : offset + count]
        for odd, shift in ((third, 33), (fourth, 29)):
            hashes ^= hashes >> np.uint64(shift)
            hashes *= odd
        hashes ^= hashes >> np.uint64(32)
        return hashes >> np.uint64(_BITS)


def _codes(text: str) -> npt.NDArray[np.uint64]:
    import numpy as np

    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.uint64)


def _stands(text: str, at: int, length: int) -> bool:
    """Whether a short piece is the whole text, or says enough and is no part of a longer word."""
    piece = text[at : at + length]
    if len(text) == length:
        return True
    if not is_telling(piece):
        return False
    before, after = text[at - 1 : at] if at else "", text[at + length : at + length + 1]
    return not (_joins(before, piece[0]) or _joins(piece[-1], after))


def _joins(left: str, right: str) -> bool:
    return left.isascii() and right.isascii() and left.isalnum() and right.isalnum()


def strings(column: pa.ChunkedArray) -> tuple[list[int], list[str | None]]:
    """Every string in a column, however deep, and the row that it lies in. Bytes are read as UTF-8."""
    import pyarrow as pa

    rows: list[int] = []
    texts: list[str | None] = []
    type = column.type
    if pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type):
        return list(range(len(column))), column.to_pylist()
    if not _can_say(type):
        return rows, texts
    for row, value in enumerate(column.to_pylist()):
        for text in _said(value):
            rows.append(row)
            texts.append(text)
    return rows, texts


def _can_say(type: pa.DataType) -> bool:
    """Whether a type can hold a text."""
    import pyarrow as pa

    if isinstance(type, pa.DictionaryType):
        return _can_say(type.value_type)
    if type.num_fields:
        return any(_can_say(type.field(place).type) for place in range(type.num_fields))
    plain_types = (pa.types.is_primitive, pa.types.is_boolean, pa.types.is_null, pa.types.is_decimal)
    return not any(is_one(type) for is_one in plain_types)


def _said(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, bytes):
            yield item.decode("utf-8", "replace")
        elif isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            waiting += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple):
            waiting += item
