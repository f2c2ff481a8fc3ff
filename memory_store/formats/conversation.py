"""Messages of a conversation as events, whichever of the common shapes they have.

OpenAI chat messages (`tool_calls`, and `function_call` of old), OpenAI Responses items (`function_call`,
`function_call_output`), Anthropic content blocks (`tool_use`, `tool_result`), ShareGPT (`from`, `value`), and plain
role and content. A call and its result become one event of type `tool_call`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from ..capture.events import Event
from ..capture.tool_errors import ToolError, tool_error
from .draft import UNTIMED, event
from .loose import first, json_text, mapping, moment, parse_json, rest, sequence, text, whole

_ROLES = {
    "user": "user", "human": "user", "customer": "user", "client": "user", "prompter": "user",
    "assistant": "agent", "agent": "agent", "ai": "agent", "gpt": "agent", "model": "agent", "bot": "agent",
    "chatgpt": "agent", "bard": "agent", "claude": "agent", "llm": "agent",
    "system": "system", "developer": "system", "instructions": "system",
    "tool": "tool", "function": "tool", "observation": "tool", "tool_response": "tool", "environment": "tool",
    "ipython": "tool", "function_response": "tool",
}  # fmt: skip
_SPEECH = {"text", "input_text", "output_text", "refusal", "markdown", "summary_text"}
_ANSWERS = ("tool_result", "tool_call_response")
_KNOWN = {
    "role", "from", "speaker", "author", "content", "value", "text", "name", "tool_calls", "function_call",
    "tool_call_id", "timestamp", "created_at", "create_time", "time", "type", "call_id", "arguments", "output",
    "is_error", "model", "message", "parts", "agent", "tool_call", "tool_name", "usage",
}  # fmt: skip


def is_message(value: object) -> bool:
    """Whether a value looks like one message of a conversation.

    >>> is_message({"role": "user", "content": "hello"}), is_message({"role": "admin"})
    (True, False)
    """
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("from"), str) and isinstance(value.get("value"), str | list):
        return True
    if value.get("type") in ("function_call", "function_call_output") and "call_id" in value:
        return True
    return isinstance(value.get("role"), str) and bool(
        value.keys() & {"content", "tool_calls", "function_call", "parts", "text", "tool_call_id"}
    )


def role_of(name: str) -> str:
    """A role in the words of the schema; a name that is none of them is an agent's.

    >>> role_of("Human"), role_of("developer"), role_of("WebSurfer")
    ('user', 'system', 'agent')
    """
    return _ROLES.get(name.strip().lower(), "agent")


class Conversation:
    """Builds the events of a conversation, joining each call with its result."""

    def __init__(self) -> None:
        #: The events so far, in order
        self.events: list[Event] = []
        self._open: list[Event] = []
        #: Results for which no call was found
        self.orphans = 0

    @property
    def unanswered(self) -> int:
        """Calls that have no result yet."""
        return len(self._open)

    def say(self, role: str, content: str, at: datetime | None = None, **fields: Any) -> Event:
        """Add a message."""
        said = event("message", at=at, role=role, content=content, **fields)
        self.events.append(said)
        return said

    def call(self, tool: str, arguments: object, call_id: str = "", at: datetime | None = None, **fields: Any) -> Event:
        """Add a tool call that has no result yet."""
        called = event(
            "tool_call", at=at, role="agent", tool=tool, call_id=call_id, arguments=json_text(arguments), **fields
        )
        self.events.append(called)
        self._open.append(called)
        return called

    def result(
        self, result: object, call_id: str = "", tool: str = "", at: datetime | None = None,
        failed: bool | None = None, extra: dict[str, object] | None = None,
    ) -> Event:  # fmt: skip
        """Give a call its result. A result without a call becomes an event of its own.

        `failed` is what the source itself says; None: the result is looked at.
        """
        found = self._match(call_id, tool)
        if found is None:
            self.orphans += 1
            found = event("tool_call", at=at, role="tool", tool=tool, call_id=call_id)
            extra = {"unmatched": "result without a call", **(extra or {})}
            self.events.append(found)
        elif at and found.at != UNTIMED and at >= found.at and found.latency_us is None:
            found.latency_us = round((at - found.at).total_seconds() * 1e6)
        found.result = json_text(result)
        set_error(found, result, failed)
        if extra:
            add_attributes(found, extra)
        return found

    def end(self) -> list[Event]:
        """The events; calls that were never answered say so."""
        for one in self._open:
            add_attributes(one, {"unmatched": "call without a result"})
        return self.events

    def notes(self) -> list[str]:
        """What was odd."""
        said = []
        if self.orphans:
            said.append(f"{self.orphans} tool results without a call")
        if self._open:
            said.append(f"{len(self._open)} tool calls without a result")
        return said

    def _match(self, call_id: str, tool: str) -> Event | None:
        """The oldest open call that this can be the result of: same id, else same tool where one has no id."""
        for one in self._open:
            if call_id and one.call_id == call_id:
                break
        else:
            for one in self._open:
                if not (call_id and one.call_id) and (not tool or one.tool == tool):
                    break
            else:
                return None
        self._open.remove(one)
        return one

    def add(self, message: object, at: datetime | None = None) -> list[Event]:
        """Add one message of any known shape; returns the events that it made or completed."""
        value = mapping(message)
        at = at or moment(first(value, "timestamp", "created_at", "create_time", "time"))
        kind = value.get("type")
        if kind == "function_call" and "call_id" in value:
            called = self.call(text(value.get("name")), value.get("arguments"), text(value["call_id"]), at)
            return [_with(called, rest(value, _KNOWN))]
        if kind == "function_call_output":
            return [self.result(value.get("output"), text(value.get("call_id")), at=at, extra=rest(value, _KNOWN))]
        said_by = text(first(value, "role", "from", "speaker"))
        role = role_of(said_by) if said_by else "agent"
        content = first(value, "content", "value", "text", "parts")
        extra = rest(value, _KNOWN)
        if role == "tool" and not value.get("tool_calls") and not _answers(content):
            name = text(first(value, "name", "tool_name"))
            return [
                self.result(_plain(content), text(first(value, "tool_call_id", "call_id")), name, at,
                            _truth(value.get("is_error")), extra)
            ]  # fmt: skip
        made = self._blocks(role, content, at)
        fields = _speaker(value, said_by, role)
        made += self._calls(value, at)
        if not made:
            made.append(self.say(role, "", at))
        for one in made:
            if one.type == "message":
                for name, given in fields.items():
                    setattr(one, name, given)
        if usage := mapping(value.get("usage")):
            made[0].input_tokens = whole(first(usage, "input_tokens", "prompt_tokens"))
            made[0].output_tokens = whole(first(usage, "output_tokens", "completion_tokens"))
        _with(made[0], extra)
        return made

    def _calls(self, value: dict[str, object], at: datetime | None) -> list[Event]:
        """Calls in `tool_calls`, and in `function_call` of old."""
        made = []
        calls = sequence(value.get("tool_calls"))
        if isinstance(value.get("function_call"), dict):
            calls = [*calls, {"function": value["function_call"]}]
        for one in map(mapping, calls):
            function = mapping(first(one, "function", "custom")) or one
            arguments = first(function, "arguments", "args", "input", "parameters")
            call_id = text(first(one, "id", "tool_call_id", "call_id"))
            made.append(self.call(text(function.get("name")), arguments, call_id, at))
        return made

    def _blocks(self, role: str, content: object, at: datetime | None) -> list[Event]:
        """Content that is text, or a list of blocks in the order they stand."""
        if not isinstance(content, list):
            plain = json_text(content)
            return [self.say(role, plain, at)] if plain else []
        made: list[Event] = []
        speech: list[str] = []
        others: list[object] = []

        def speak() -> None:
            if speech or others:
                said = self.say(role, "\n".join(speech), at)
                if others:
                    add_attributes(said, {"blocks": list(others)})
                made.append(said)
            speech.clear()
            others.clear()

        for block in content:
            part = mapping(block)
            kind = text(part["type"]) if "type" in part else None
            if isinstance(block, str):
                speech.append(block)
            elif kind in ("tool_use", "tool_call"):
                speak()
                arguments = first(part, "input", "arguments", "args")
                made.append(self.call(text(part.get("name")), arguments, text(first(part, "id", "call_id")), at))
            elif kind in _ANSWERS:
                speak()
                result = _plain(first(part, "content", "result", "response", "output"))
                call_id = text(first(part, "tool_use_id", "id", "call_id"))
                made.append(self.result(result, call_id, "", at, _truth(part.get("is_error"))))
            elif (kind in _SPEECH or kind is None) and isinstance(
                said := first(part, "text", "content", "refusal"), str
            ):
                speech.append(said)
            else:
                others.append(block)
        speak()
        return made


def set_error(called: Event, result: object, failed: bool | None = None) -> None:
    """Set the error columns of a call from its result; `failed` overrides what the result looks like."""
    error = tool_error(result)
    if failed and error is None:
        error = tool_error({"is_error": True, "message": json_text(result)})
    if failed is False:
        error = None
    if error is not None:
        _fail(called, error)


def _fail(called: Event, error: ToolError) -> None:
    called.error_code, called.error_message = error.code, error.message


def add_attributes(one: Event, more: dict[str, object]) -> None:
    """Put more into the attributes of an event."""
    before = mapping(parse_json(one.attributes.encode("utf-8", "surrogatepass"))) if one.attributes else {}
    one.attributes = json_text({**before, **more})


def _with(one: Event, extra: dict[str, object]) -> Event:
    if extra:
        add_attributes(one, extra)
    return one


def _answers(content: object) -> bool:
    """Whether content is blocks that name the calls that they answer."""
    return any(mapping(block).get("type") in _ANSWERS for block in sequence(content))


def _truth(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _plain(content: object) -> object:
    """Content that is only text blocks, as text; anything else as it is."""
    if isinstance(content, list) and content:
        texts = [text(mapping(part).get("text")) if isinstance(part, dict) else text(part) for part in content]
        kinds = {text(part.get("type", "text")) if isinstance(part, dict) else "text" for part in content}
        if kinds <= _SPEECH:
            return "\n".join(texts)
    return content


def _speaker(value: dict[str, object], said_by: str, role: str) -> dict[str, str]:
    """Columns that say who spoke: the name that is given, or a role that is a name."""
    agent = text(first(value, "name", "agent"))
    if not agent and said_by.strip().lower() not in _ROLES:
        agent = said_by
    fields = {"model": text(value.get("model"))}
    if role == "agent":
        fields["agent"] = agent
    elif agent:
        fields["name"] = agent
    return {name: given for name, given in fields.items() if given}


def goal_of(events: Iterable[Event]) -> str:
    """The first thing that the user said."""
    return next((one.content for one in events if is_users_word(one)), "")


def is_users_word(one: Event) -> bool:
    """Whether an event is something that the user said."""
    return one.type == "message" and one.role == "user" and bool(one.content)
