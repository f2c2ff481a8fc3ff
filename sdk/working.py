"""Working memory: the last turns of a conversation, in this process (R1)."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import msgspec

from ..memory_store.capture.events import Event
from ..memory_store.capture.wire import decode, encode

#: Conversations that are kept; the one that was quiet longest goes first.
CONVERSATIONS = 256
#: Most characters of a turn's content.
CONTENT_CHARACTERS = 8_000

#: Encoded events, oldest first
Ring = deque[bytes]


@dataclass(frozen=True)
class Turn:
    """One turn of a conversation."""

    #: Who spoke or acted
    role: Literal["user", "agent", "tool", "system"]
    #: What was said, or what the tool returned
    content: str
    #: When, UTC
    at: datetime
    #: Tool that was called; empty for a message
    tool: str = ""
    #: Code or class of the tool's error; empty when it worked
    error_code: str = ""
    #: Tries after the first
    retries: int = 0
    #: How long the tool took, in microseconds; None: not measured
    latency_us: int | None = None


class WorkingMemory:
    """The last turns of the conversations that this process had lately. Safe to share between threads."""

    def __init__(self, turns: int = 20, conversations: int = CONVERSATIONS) -> None:
        #: Turns that a conversation holds
        self.turns = turns
        self._conversations = conversations
        self._rings: OrderedDict[str, Ring] = OrderedDict()
        self._lock = threading.Lock()

    def ring(self, conversation_id: str) -> Ring:
        """The ring of a conversation, made if it is missing; one of its own for an empty id."""
        if not conversation_id:
            return deque(maxlen=self.turns)
        with self._lock:
            ring = self._rings.pop(conversation_id, None)
            if ring is None:
                ring = deque(maxlen=self.turns)
            self._rings[conversation_id] = ring
            if len(self._rings) > self._conversations:
                self._rings.popitem(last=False)
            return ring

    def of(self, conversation_id: str) -> list[Turn]:
        """The last turns of a conversation, oldest first; none if it is not known here."""
        with self._lock:
            ring = self._rings.get(conversation_id)
        return turns_of(ring) if ring is not None else []

    def after_fork(self) -> None:
        """Begin anew in a child, where the lock may be held by a thread that no longer exists."""
        self._lock = threading.Lock()


def turns_of(ring: Ring) -> list[Turn]:
    """The turns of a ring, oldest first."""
    return [
        Turn(
            "tool" if event.type == "tool_call" else event.role or "agent",  # type: ignore[arg-type]
            event.result or event.error_message if event.type == "tool_call" else event.content,
            event.at,
            event.tool,
            event.error_code,
            event.retries,
            event.latency_us,
        )
        for event in map(decode, list(ring))
    ]


def shortened(payload: bytes) -> bytes:
    """An encoded event without what is too long to be held in memory."""
    event: Event = decode(payload)
    return encode(
        msgspec.structs.replace(
            event,
            content=event.content[:CONTENT_CHARACTERS],
            result=event.result[:CONTENT_CHARACTERS],
            arguments=event.arguments[:CONTENT_CHARACTERS],
            error_message=event.error_message[:CONTENT_CHARACTERS],
            attributes="",
        )
    )
