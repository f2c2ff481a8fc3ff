"""What of an event's text can be kept: lone surrogates are written out, and what is too long is cut and marked."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256

import msgspec

from .events import Cut, Event

#: Columns that hold text of any length.
LONG_FIELDS = ("content", "arguments", "result", "error_message", "attributes", "name")
#: Columns that hold JSON and must go on doing so when they are cut.
_JSON_FIELDS = frozenset({"arguments", "attributes"})
#: Names of things; a longer one is no name.
_NAME_BYTES = 4_096
#: A secret that begins before the cut is seen this many bytes beyond it.
_BEYOND = 4_096
_SURROGATE = re.compile("[\ud800-\udfff]")
_TEXT_FIELDS = tuple(field.name for field in msgspec.structs.fields(Event) if field.type is str)


def visible(text: str) -> str:
    """The text with its lone surrogates written out, as the six characters `\\ud83d`: UTF-8 has none."""
    return text if text.isascii() else _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def printable(event: Event) -> None:
    """Make the text of an event `visible`, in place."""
    for name in _TEXT_FIELDS:
        setattr(event, name, visible(getattr(event, name)))


def cut(event: Event, limit: int, screen: Callable[[str], tuple[str, int]]) -> None:
    """Cut an event's long values to `limit` bytes of UTF-8, in place, and note length and SHA-256 of the whole.

    `screen` masks what is kept before it is cut for good, so that no secret is split where it can't be seen, and says
    how many things it masked. JSON that is cut becomes `{"$cut": "<what is kept of it>"}`.
    """
    for name in _TEXT_FIELDS:
        value = getattr(event, name)
        room = limit if name in LONG_FIELDS else min(limit, _NAME_BYTES)
        if len(value) * 4 <= room:
            continue
        raw = value.encode()
        if len(raw) <= room:
            continue
        kept = _head(raw, room)
        if name in LONG_FIELDS:
            head, masked = screen(_head(raw, room + _BEYOND))
            kept = _head(head.encode(), room)
            event.masked += masked
        event.cuts = [*event.cuts, Cut(name, len(raw), sha256(raw).hexdigest())]
        setattr(event, name, msgspec.json.encode({"$cut": kept}).decode() if name in _JSON_FIELDS else kept)


def _head(raw: bytes, size: int) -> str:
    return raw[:size].decode("utf-8", "ignore")
