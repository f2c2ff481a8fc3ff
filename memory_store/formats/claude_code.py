"""Claude Code session logs: one line an entry, `{"type", "sessionId", "uuid", "timestamp", "message": {…}}`.

A session that went on since it was read is read again: only its new entries are added. A call whose result came in
meanwhile is added once more, with it.

What a subagent does (`isSidechain`) is a trace of its own, which the session began. Its entries lie in a file of their
own and name it (`agentId`), or, in older logs, among those of the session; there `parentUuid` leads to its first one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..capture.events import Event
from .conversation import Conversation, add_attributes
from .draft import Draft, RecordError, event, shared
from .loose import json_text, mapping, moment, rest, text
from .records import Record

_ENVELOPE = {"type", "uuid", "sessionId", "timestamp", "message", "toolUseResult", "content", "version", "cwd",
             "userType", "gitBranch", "requestId", "parentUuid", "sourceToolAssistantUUID", "slug", "isSidechain",
             "agentId"}  # fmt: skip
_SPOKEN = ("user", "assistant")
#: Between the session and the subagent of a key: no id holds it.
_OF = "\n"

_Entry = dict[str, object]


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
        """An entry belongs to its session, or to the subagent that it names."""
        entry = mapping(record.value)
        session = text(entry.get("sessionId"))
        if not session:
            raise RecordError(f"an entry of type {text(entry.get('type'))!r} that names no session")
        agent = text(entry.get("agentId")) if entry.get("isSidechain") is True else ""
        yield f"{session}{_OF}{agent}" if agent else session, entry

    def join(self, key: str, parts: list[object]) -> Draft:
        """The session or the subagent, in the order of its log; a session with the subagents that lie in it."""
        session, _, agent = key.partition(_OF)
        entries = [mapping(part) for part in parts]
        if agent:
            return self._subagent(session, agent, entries)
        own = [entry for entry in entries if entry.get("isSidechain") is not True]
        begun = [self._subagent(session, first, chain) for first, chain in _chains(entries).items()]
        if not own:  # the session itself lies elsewhere
            begun[0].begun = begun[1:]
            return begun[0]
        events, notes = _events(own)
        shared(events, conversation_id=session, agent=self.name)
        return Draft((self.name, session), events, notes=notes, begun=begun)

    def _subagent(self, session: str, agent: str, entries: Sequence[_Entry]) -> Draft:
        """What one subagent did. It was told what to do by the agent that began it: nothing of it is a user's word."""
        events, notes = _events(entries)
        for one in events:
            if one.type == "message" and one.role == "user":
                one.role = "system"
        add_attributes(events[0], {"subagent": agent})
        shared(events, conversation_id=session, agent=self.name)
        return Draft((self.name, session, "subagent", agent), events, notes=notes, parent=(self.name, session))


def _chains(entries: Sequence[_Entry]) -> dict[str, list[_Entry]]:
    """The entries of subagents that name none, by the first entry that each follows from."""
    chains: dict[str, list[_Entry]] = {}
    firsts: dict[str, str] = {}
    for number, entry in enumerate(entries):
        if entry.get("isSidechain") is True:
            uuid = text(entry.get("uuid")) or f"entry {number}"
            firsts[uuid] = firsts.get(text(entry.get("parentUuid")), uuid)  # an entry stands after what it follows from
            chains.setdefault(firsts[uuid], []).append(entry)
    return chains


def _events(entries: Sequence[_Entry]) -> tuple[list[Event], list[str]]:
    """The events of a trace, and what was odd."""
    talk = Conversation()
    counted: set[str] = set()
    goal = ""
    for number, entry in enumerate(entries):
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
    first = entries[0]
    start = event("task", "task", at=moment(first.get("timestamp")), content=goal)
    if said_of := {name: first[name] for name in ("cwd", "gitBranch", "version") if first.get(name)}:
        add_attributes(start, said_of)
    events.insert(0, start)
    return events, talk.notes()
