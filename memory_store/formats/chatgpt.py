"""ChatGPT's data export: conversations.json, a tree of messages a conversation.

The branch that the user ended on is loaded; answers that were regenerated or edited away are counted in a note. A
message to a tool and the tool's answer are one tool call.
"""

from __future__ import annotations

from collections.abc import Iterator

from .conversation import Conversation, goal_of
from .draft import Draft, RecordError, event, shared
from .loose import first, json_text, mapping, moment, rest, sequence, text
from .records import Record

#: Longer branches than this are cycles.
_LONG = 100_000


class ChatGPT:
    """Conversations as ChatGPT exports them."""

    name = "chatgpt"
    about = "ChatGPT data export (conversations.json)"

    def matches(self, value: object) -> bool:
        """Whether the value is a conversation: a mapping of nodes with messages and parents."""
        nodes = mapping(mapping(value).get("mapping"))
        return any("message" in mapping(node) and "parent" in mapping(node) for node in nodes.values())

    def split(self, record: Record) -> Iterator[tuple[str, object]]:
        """A conversation is a trace; an export that holds it twice holds one trace."""
        yield "", record.value

    def join(self, key: str, parts: list[object]) -> Draft:
        """The trace of a conversation."""
        record = mapping(parts[0])
        nodes = mapping(record.get("mapping"))
        if not nodes:
            raise RecordError("it has no mapping of messages")
        branch = _branch(nodes, text(record.get("current_node")))
        talk = Conversation()
        for name in branch:
            before = len(talk.events)
            _add(talk, mapping(mapping(nodes[name]).get("message")))
            for place, one in enumerate(talk.events[before:]):
                one.event_id = f"{name}.{place}"
        events = talk.end()
        if not events:
            raise RecordError("its conversation has no message")
        notes = talk.notes()
        if others := sum(1 for name in nodes if name not in branch and _content(mapping(nodes[name]))):
            notes.append(f"{others} messages on branches that the user left")
        conversation = text(first(record, "conversation_id", "id"))
        start = event("task", "task", at=moment(record.get("create_time")), content=goal_of(events))
        events.insert(0, start)
        shared(events, conversation_id=conversation, agent="chatgpt")
        extra = rest(record, ("mapping", "current_node", "conversation_id", "id", "create_time", "update_time"))
        start.attributes = json_text(extra) if extra else ""
        return Draft((self.name, conversation or json_text(branch)), events, notes=notes)


def _branch(nodes: dict[str, object], at: str) -> list[str]:
    """The nodes from the root to the one that the user ended on; without one, the last leaf."""
    if at not in nodes:
        leaves = [name for name, node in nodes.items() if not sequence(mapping(node).get("children"))]
        at = leaves[-1] if leaves else next(iter(nodes))
    path: dict[str, None] = {}
    while at in nodes and at not in path and len(path) < _LONG:
        path[at] = None
        at = text(mapping(nodes[at]).get("parent"))
    return list(reversed(path))


def _content(node: dict[str, object]) -> str:
    content = mapping(mapping(node.get("message")).get("content"))
    shown = [part if isinstance(part, str) else json_text(part) for part in sequence(content.get("parts"))]
    return "\n".join(shown) or text(first(content, "text", "result"))


def _add(talk: Conversation, message: dict[str, object]) -> None:
    content = _content({"message": message})
    if not content:
        return
    at = moment(message.get("create_time"))
    author = mapping(message.get("author"))
    role, recipient = text(author.get("role")), text(message.get("recipient"))
    model = text(mapping(message.get("metadata")).get("model_slug"))
    if role == "tool":
        talk.result(content, tool=text(author.get("name")), at=at)
    elif role == "assistant" and recipient not in ("", "all"):
        talk.call(recipient, {"text": content}, at=at, model=model)
    else:
        made = talk.add({"role": role or "user", "content": content}, at)
        made[0].model = model
