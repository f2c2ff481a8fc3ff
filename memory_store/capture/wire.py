"""Events as bytes, for the spool: MessagePack, an array of an event's fields in their order."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypeAlias

import msgspec

from .events import Event

encode = msgspec.msgpack.Encoder().encode
# Not strict: a time may be written as seconds since 1970.
decode = msgspec.msgpack.Decoder(Event, strict=False).decode

#: What differs between the events of a task, in the order of `Event`: event_id, seq, at, type, role, name, content,
#: tool, call_id, arguments, result, error_code, error_message, retries, latency_us, outcome, score. The time may be
#: seconds since 1970 (a float of which holds microseconds): a `datetime` costs ten times as much.
Own: TypeAlias = tuple[
    str, int, datetime | float, str, str, str, str, str, str, str, str, str, str, int, int | None, str, float | None
]

_FIELDS = Event.__struct_fields__
_FIRST, _END = _FIELDS.index("event_id"), _FIELDS.index("score") + 1
#: MessagePack says the length of an array of 16 to 65,535 items in three bytes.
HEAD_BYTES = 3


class Stem:
    """The fields that all events of a task share, encoded once. What an event has of its own goes between.

    >>> at = datetime(2026, 3, 1, tzinfo=UTC)
    >>> stem = Stem(Event("acme", "t1", "", 0, at, "", subject="ann"))
    >>> own = ("e1", 0, at, "message", "user", "", "hello", "", "", "", "", "", "", 0, None, "", None)
    >>> decode(stem.head + encode(own)[HEAD_BYTES:] + stem.tail) == stem.event(own)
    True
    """

    def __init__(self, event: Event) -> None:
        """`event` has the shared fields. Raises `UnicodeEncodeError` for lone surrogates in them."""
        self._event = event
        values = msgspec.structs.astuple(event)
        size = encode(values)[:HEAD_BYTES]
        #: What comes before an event's own fields
        self.head = size + b"".join(map(encode, values[:_FIRST]))
        #: What comes after them
        self.tail = b"".join(map(encode, values[_END:]))
        #: Bytes of both
        self.size = len(self.head) + len(self.tail)

    def event(self, own: Own) -> Event:
        """The whole event."""
        event = msgspec.structs.replace(self._event, **dict(zip(_FIELDS[_FIRST:_END], own, strict=True)))
        if not isinstance(event.at, datetime):
            event.at = datetime.fromtimestamp(event.at, UTC)
        return event
