"""OpenAI-message trajectories: a record with a list of chat messages, or the list itself.

    {"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "tool_calls": [{"id": …, "function": {
     "name": …, "arguments": "…"}}]}, {"role": "tool", "tool_call_id": …, "content": "…"}], "reward": 1.0}

The list may be called messages, traj, trajectory, conversation, conversations, history, turns or dialogue, may hold
Responses items, Anthropic blocks or ShareGPT turns, and may lie in a logged request (`request`, `body`) beside the
response's `choices`, `output` or `content`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..ids import derive_id
from .conversation import Conversation, goal_of, is_message
from .draft import Draft, RecordError, event, shared
from .labels import OUTCOME_KEYS, beside, outcome_event
from .loose import canonical, first, json_text, mapping, moment, sequence, text
from .records import Record

_LISTS = (
    "messages", "traj", "trajectory", "conversation", "conversations", "history", "turns", "dialogue", "chat", "input",
    "items",
)  # fmt: skip
_WRAPPERS = ("request", "body", "kwargs", "params", "data")
_SUBJECT = ("subject", "user_id", "userId", "customer_id", "account_id", "user", "end_user_id")
_GOAL = ("goal", "task", "question", "instruction", "problem_statement", "prompt", "query")
_CONVERSATION = ("conversation_id", "session_id", "thread_id", "chat_id", "sessionId", "conversationId")
_MAPPED = {*_SUBJECT, *_CONVERSATION, *OUTCOME_KEYS, "task_id", "model", "agent_role", "task_type", "agent", "goal"}


@dataclass
class _Found:
    """Where the messages of a record lie."""

    messages: list[object]
    #: The object that holds the list; empty when the record is the list
    holder: dict[str, object]
    #: Key of the list in its holder
    key: str
    #: Key of the record under which the holder lies; empty: the holder is the record
    wrapper: str = ""


class OpenAIMessages:
    """Records that hold a list of messages."""

    name = "openai-messages"
    about = "chat messages with tool calls: OpenAI, Anthropic, ShareGPT, tau-bench"

    def matches(self, value: object) -> bool:
        """Whether the value holds messages, or is a list of them."""
        return _find(value) is not None

    def split(self, record: Record) -> Iterator[tuple[str, object]]:
        """A record is a trace."""
        yield "", record.value

    def join(self, key: str, parts: list[object]) -> Draft:
        """The trace of a record. Raises `RecordError` when it holds no message."""
        value = parts[0]
        found = _find(value)
        if found is None:
            raise RecordError("it has no list of messages")
        if broken := next((n for n, one in enumerate(found.messages, 1) if not isinstance(one, dict | str)), 0):
            raise RecordError(f"message {broken} is no object")
        record, holder = mapping(value), found.holder
        talk = Conversation()
        if system := first(holder, "system", "instructions"):
            talk.add({"role": "system", "content": system})
        for one in found.messages:
            talk.add(one if isinstance(one, dict) else {"role": "user", "content": one})
        answered, replies = _replies(record, holder)
        for one in replies:
            talk.add(one)
        events = talk.end()
        if not events:
            raise RecordError("its list of messages is empty")
        goal = next((text(record[k]) for k in _GOAL if isinstance(record.get(k), str) and record[k]), "")
        start = event("task", "task", at=moment(first(record, "started_at", "start_time", "timestamp", "created_at")),
                      content=goal or goal_of(events), task_id=task_id_of(record, found.messages),
                      model=text(first(holder, "model") or record.get("model")))  # fmt: skip
        if extra := _extra(record, found, answered):
            start.attributes = json_text(extra)
        events.insert(0, start)
        if ended := outcome_event(record):
            events.append(ended)
        shared(
            events,
            subject=_subject(record, holder),
            conversation_id=text(first(record, *_CONVERSATION)),
            agent_role=text(record.get("agent_role")),
            task_type=text(record.get("task_type")),
            agent=text(record.get("agent")),
        )
        return Draft((self.name, canonical(value)), events, notes=talk.notes())


def _find(value: object, depth: int = 0) -> _Found | None:
    if isinstance(value, list):
        return _Found(value, {}, "") if value and all(map(is_message, value)) else None
    record = mapping(value)
    for name in _LISTS:
        held = sequence(record.get(name))
        if held and any(map(is_message, held)):
            return _Found(held, record, name)
    if depth < 2:
        for name in _WRAPPERS:
            if isinstance(record.get(name), dict) and (found := _find(record[name], depth + 1)):
                found.wrapper = name
                return found
    return None


def _extra(record: dict[str, object], found: _Found, answered: str) -> dict[str, object]:
    """What the record says beside its messages; of a task's definition nothing, since the agent did not have it."""
    extra = beside(record, {*_MAPPED, found.wrapper or found.key, answered, "info", "system", "instructions"})
    if info := beside(mapping(record.get("info")), {"task"}):
        extra["info"] = info
    if found.wrapper and (request := beside(found.holder, {found.key, "model", "system", "instructions"})):
        extra[found.wrapper] = request
    return extra


def _replies(record: dict[str, object], holder: dict[str, object]) -> tuple[str, list[object]]:
    """Messages of a logged response, and the record's key that holds them.

    They are chat choices, of which the first is what the agent went on with, one message, or Responses items.
    """
    response = mapping(record.get("response"))
    for place in (record, holder, response, mapping(response.get("body"))):
        key = "response" if place is not record else ""
        choices = sequence(place.get("choices"))
        if choices and isinstance(message := mapping(choices[0]).get("message"), dict):
            return key or "choices", [message]
        if place is not record and place.get("role") == "assistant" and place.get("content"):
            return key, [place]
        output = sequence(place.get("output"))
        if output and any(map(is_message, output)):
            return key or "output", output
    return "", []


def _subject(record: dict[str, object], holder: dict[str, object]) -> str:
    metadata = mapping(record.get("metadata"))
    for place in (mapping(mapping(record.get("info")).get("task")), record, metadata, holder):
        if isinstance(found := first(place, *_SUBJECT), str | int) and not isinstance(found, bool):
            return text(found)
    return ""


def task_id_of(record: dict[str, object], messages: list[object]) -> str:
    """The record's task id, the same for every trial of the task.

    A bare number says nothing outside of its file, so it is prefixed by a hash of what the task is: its definition
    if the record has one, else the first system message.
    """
    given = first(record, "task_id", "instance_id", "question_id", "question_ID", "taskId", "custom_id", "problem_id")
    if given is None or isinstance(given, bool | dict | list):
        return ""
    name = text(given)
    if not name.isdigit():
        return name
    defined = mapping(record.get("info")).get("task") or next(
        (one.get("content") for one in map(mapping, messages) if one.get("role") == "system"), ""
    )
    return f"{derive_id('', 'task', canonical(defined))[:8]}-{name}"
