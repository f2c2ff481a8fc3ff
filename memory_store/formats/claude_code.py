"""Claude Code session logs: one line an entry, `{"type", "sessionId", "uuid", "timestamp", "message": {…}}`.

A session that went on since it was read is read again: only its new entries are added. A call whose result came in
meanwhile is added once more, with it.
"""

from __future__ import annotations

from collections.abc import Iterator

from .conversation import Conversation, add_attributes
from .draft import Draft, RecordError, event, shared
from .loose import json_text, mapping, moment, rest, text
from .records import Record

_ENVELOPE = {"type", "uuid", "sessionId", "timestamp", "message", "toolUseResult", "content", "version", "cwd",
             "userType", "gitBranch", "requestId", "parentUuid", "sourceToolAssistantUUID", "slug"}  # fmt: skip
_SPOKEN = ("user", "assistant")


class ClaudeCode:
    """Session logs of Claude Code."""

    name = "claude-code"
    about = "Claude Code session logs (JSONL)"

    def matches(self, value: object) -> bool:
        """Whether the value is an entry of a session log."""
        entry = mapping(value)
        if isinstance(entry.get("type"), str) and "sessionId" in entry:
            return "uuid" in entry or "message" in entry or "timestamp" in entry
        return entry.get("type") in ("summary", "file-history-snapshot") and bool(
            entry.keys() & {"leafUuid", "messageId", "snapshot"}
        )

    def split(self, record: Record) -> Iterator[tuple[str, object]]:
        """An entry belongs to its session."""
        entry = mapping(record.value)
        session = text(entry.get("sessionId"))
        if not session:
            raise RecordError(f"an entry of type {text(entry.get('type'))!r} that names no session")
        yield session, entry

    def join(self, key: str, parts: list[object]) -> Draft:
        """The session, in the order of its log."""
        talk = Conversation()
        counted: set[str] = set()
        goal = ""
        for number, entry in enumerate(map(mapping, parts)):
            at = moment(entry.get("timestamp"))
            uuid = text(entry.get("uuid")) or f"entry {number}"
            message = mapping(entry.get("message"))
            before = len(talk.events)
            if entry.get("type") in _SPOKEN and message:
                usage = text(message.get("id"))
                hidden = {"id", "type", "stop_reason", "stop_sequence", *(("usage",) if usage in counted else ())}
                made = talk.add(rest(message, hidden), at)
                counted.add(usage)
                said = made[0]
                if not goal and said.type == "message" and said.role == "user" and not entry.get("isMeta"):
                    goal = said.content if not said.content.startswith("<") else ""
            elif entry.get("type") == "system":
                said = talk.say("system", json_text(entry.get("content")), at)
            else:
                said = event("step", at=at, name=text(entry.get("type")), content=json_text(entry.get("content")))
                talk.events.append(said)
            if left := rest(entry, _ENVELOPE):
                add_attributes(said, left)
            for place, one in enumerate(talk.events[before:]):
                one.event_id = f"{uuid}.{place}"
        for one in talk.events:
            if one.type == "tool_call" and one.role == "agent" and not one.result and not one.error_code:
                one.event_id += "?"  # so that the same call with its result, read later, is not taken for this one
        events = talk.end()
        first = mapping(parts[0])
        start = event("task", "task", at=moment(first.get("timestamp")), content=goal)
        if said_of := {name: first[name] for name in ("cwd", "gitBranch", "version") if first.get(name)}:
            add_attributes(start, said_of)
        events.insert(0, start)
        shared(events, conversation_id=key, agent="claude-code")
        return Draft((self.name, key), events, notes=talk.notes())
