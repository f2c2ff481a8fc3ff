"""Chat lines: each record is one message, the conversation is the whole file or what shares an id.

{"role": "user", "content": "…"}
{"role": "assistant", "content": "…"}
"""

from __future__ import annotations

from collections.abc import Iterator

from .conversation import Conversation, goal_of, is_message
from .draft import Draft, event, shared
from .loose import canonical, first, mapping, text
from .records import Record

_CONVERSATION = ("conversation_id", "session_id", "thread_id", "chat_id", "sessionId", "conversationId")
_SUBJECT = ("user_id", "userId", "customer_id")


class ChatLines:
    """Messages one by one."""

    name = "chat-lines"
    about = "one message a line or array element"

    def matches(self, value: object) -> bool:
        """Whether the value is one message."""
        return is_message(value)

    def split(self, record: Record) -> Iterator[tuple[str, object]]:
        """A message belongs to the conversation that it names, else to its array or file."""
        named = text(first(mapping(record.value), *_CONVERSATION))
        yield (f"id {named}" if named else f"array {record.array}"), record.value

    def join(self, key: str, parts: list[object]) -> Draft:
        """The messages of one conversation, in the order of the file."""
        talk = Conversation()
        for one in parts:
            talk.add(one)
        events = talk.end()
        events.insert(0, event("task", "task", content=goal_of(events)))
        lines = [mapping(one) for one in parts]
        shared(
            events,
            subject=next((text(found) for line in lines if (found := first(line, *_SUBJECT))), ""),
            conversation_id=key[3:] if key.startswith("id ") else "",
        )
        return Draft((self.name, canonical(parts)), events, notes=talk.notes())
