"""Cursors: where the next page of a search begins, as a text that any process can go on from.

A ranking is made once, for the first page, and the cursor names what is left of it. So the pages after it repeat and
lose nothing, whatever is written, folded or built anew meanwhile. What was forgotten since is left out all the same:
rows are read again, under the filter, and a forged cursor shows nothing that a search would not.
"""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from hashlib import blake2b

import msgspec

from ..errors import UsageError
from .predicates import Filter, filter_json

#: Hits that the pages of one search have in all.
DEPTH = 200
_VERSION = 1


class Cursor(msgspec.Struct, array_like=True, frozen=True):
    """What is left of a search."""

    #: Id, score and relevance of the hits that are left, best first
    places: tuple[tuple[str, float, float], ...] = ()
    #: Where the list of the newest goes on: after the memory that holds since this time and has this id
    before: tuple[datetime, str] | None = None


class _Written(msgspec.Struct, array_like=True, frozen=True):
    version: int
    asked: bytes
    cursor: Cursor


def write_cursor(cursor: Cursor, query: str, where: Filter) -> str:
    """A cursor as text."""
    raw = msgspec.msgpack.encode(_Written(_VERSION, _asked(query, where), cursor))
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def read_cursor(text: str, query: str, where: Filter) -> Cursor:
    """The cursor of a text. Raises `UsageError` if it is none, or that of another search."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        written = msgspec.msgpack.decode(raw, type=_Written)
    except (ValueError, binascii.Error, msgspec.MsgspecError) as error:
        raise UsageError("this is no cursor: give the one that the page before came with") from error
    if (written.version, written.asked) != (_VERSION, _asked(query, where)):
        raise UsageError("the cursor is another search's: give the query and the filters of its first page")
    return written.cursor


def _asked(query: str, where: Filter) -> bytes:
    asked = "\0".join((*where.namespaces, query, filter_json(where)))
    return blake2b(asked.encode("utf-8", "surrogatepass"), digest_size=8).digest()
