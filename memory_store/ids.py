"""Identifiers: sortable ones for what happens, derived ones for what a job makes of it.

A derived id is a keyed hash of content and origin: the same input gives the same id on every machine, so that a
job done twice names the same memories. The key is the namespace, so that equal texts of two tenants don't meet.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterator
from hashlib import blake2b

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford base 32, in ASCII order
_ENDINGS = tuple(f"{number:03x}" for number in range(4_096))
_lock = threading.Lock()
_last = 0


def _unlock() -> None:
    """A child of a fork has its own lock: the thread that held its parent's is not there."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)


def _base32(number: int, length: int) -> str:
    return "".join([_ALPHABET[number >> shift & 31] for shift in range(5 * length - 5, -1, -5)])


def sortable_id(millis: int | None = None) -> str:
    """A new 26-character id (ULID layout, lower case) that sorts by time, strictly growing inside one process.

    A fork in the middle is harmless: the random part is drawn anew for each id.

    >>> a, b = sortable_id(), sortable_id()
    >>> a < b, len(a)
    (True, 26)
    """
    global _last
    stamp = time.time_ns() // 1_000_000 if millis is None else millis
    value = (stamp << 80) | int.from_bytes(os.urandom(10))
    if millis is None:
        with _lock:
            if value <= _last:
                value = _last + 1 + int.from_bytes(os.urandom(4))
            _last = value
    return _base32(value, 26)


def time_of(id: str) -> int:
    """The milliseconds since 1970 that a sortable id was made at. Raises `ValueError` for what is no such id.

    >>> time_of(sortable_id(1234))
    1234
    """
    if len(id) != 26:
        raise ValueError(f"{id!r} is no sortable id")
    stamp = 0
    for letter in id[:10]:
        stamp = stamp << 5 | _ALPHABET.index(letter)
    return stamp


class IdSource:
    """Sortable ids for a hot path, laid out like `sortable_id`: time, 40 random bits of the source, a count.

    Strictly growing in one source, even when the clock jumps back. A child must `renew` its source after a fork.

    >>> ids = IdSource()
    >>> first, second = ids.new(), ids.new()
    >>> first < second, len(first)
    (True, 26)
    """

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Draw the random part anew."""
        self._own = _base32(int.from_bytes(os.urandom(5)), 8)
        self._blocks = itertools.count(int.from_bytes(os.urandom(2)))
        self._stamp = -1
        self._block: Iterator[str] = iter(())

    def new(self) -> str:
        """The next id."""
        stamp = time.time_ns() // 1_000_000
        if stamp > self._stamp:
            self._stamp = stamp
            self._block = self._next_block()
        try:
            return next(self._block)
        except StopIteration:
            self._block = self._next_block()
            return self.new()

    def _next_block(self) -> Iterator[str]:
        """The next 4,096 ids, each of which costs one call into C."""
        begin = f"{_base32(self._stamp, 10)}{self._own}{next(self._blocks) & 0xFFFFF:05x}"
        return map(begin.__add__, _ENDINGS)


def derive_id(namespace: str, kind: str, *parts: str | int) -> str:
    """A 24-character id derived from content and origin, keyed by the namespace.

    Parts are length-prefixed, so that ("ab", "c") and ("a", "bc") differ.

    >>> derive_id("acme", "mem", "retry", "trace1") == derive_id("acme", "mem", "retry", "trace1")
    True
    >>> derive_id("acme", "mem", "ab", "c") == derive_id("acme", "mem", "a", "bc")
    False
    """
    digest = blake2b(digest_size=15, key=blake2b(namespace.encode(), digest_size=32).digest(), person=b"hindlake")
    for part in (kind, *parts):
        raw = str(part).encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8))
        digest.update(raw)
    return _base32(int.from_bytes(digest.digest()), 24)
