"""What passes between an agent and its model, told to a task: each message once, a call together with its result."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ...memory_store.formats.conversation import Conversation, role_of
from ...memory_store.formats.loose import canonical, first, mapping, parse_json, rest, text

if TYPE_CHECKING:
    from ...memory_store.capture.events import Event
    from ..tasks import Task

#: Items that say nothing that a trace needs: a model's sealed thoughts, and pointers to what was sent before.
_SILENT = ("reasoning", "item_reference", "compaction")
_CALL, _OUTPUT = "_call", "_call_output"
#: What an item that is a call says of it, and what of its result.
_ASKED, _RESULTS = ("arguments", "input", "action", "code", "queries"), ("output", "outputs", "results", "error")
_ENVELOPE = ("id", "type", "call_id", "status")
#: What is kept of a chat message: the rest is the provider's own.
_MESSAGE = ("role", "content", "name", "tool_calls", "tool_call_id", "function_call")


@dataclass(frozen=True)
class Reply:
    """What a model answered to one call."""

    #: Messages or items, as plain objects
    messages: Sequence[Mapping[str, object]] = ()
    model: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    #: What has no column: ids, why it stopped
    attributes: Mapping[str, object] = field(default_factory=dict)


class Talk:
    """What one task has heard so far. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._conversation = Conversation()
        self._heard: Counter[str] = Counter()
        self._open: dict[int, Event] = {}
        self._is_begun = False
        #: The last message of the user that a block was made for, and the block
        self.block: tuple[str, str] = ("", "")

    def hear(self, task: Task, messages: Sequence[Mapping[str, object]], at: datetime, *, tool_calls: bool) -> None:
        """Tell what was sent to the model and was not told yet.

        A model is sent the whole conversation at every call. What stands before its last answer when a task begins is
        the past of another task, or an example: it is not told, but calls in it find their results.
        """
        with self._lock:
            past = 0 if self._is_begun else _past(messages)
            self._is_begun = True
            here: Counter[str] = Counter()
            for place, message in enumerate(messages):
                said = essence(message)
                here[said] += 1
                if here[said] <= self._heard[said]:
                    continue
                self._heard[said] += 1
                made = _add(self._conversation, message, at)
                self._tell(task, [one for one in made if place >= past or one.role == "system"], tool_calls)
            self._conversation.events.clear()

    def answer(self, task: Task, reply: Reply, at: datetime, latency_us: int, *, tool_calls: bool) -> None:
        """Tell what the model answered; its tokens and time stand with its words, else with a step of their own."""
        with self._lock:
            made: list[Event] = []
            for message in reply.messages:
                self._heard[essence(message)] += 1
                made += _add(self._conversation, message, at)
            self._conversation.events.clear()
            spent: dict[str, Any] = {
                "model": reply.model, "input_tokens": reply.input_tokens, "output_tokens": reply.output_tokens,
                "latency_us": latency_us, "attributes": reply.attributes or None,
            }  # fmt: skip
            said = [one for one in made if one.type == "message" and one.content]
            if said:
                task.message("agent", "\n".join(one.content for one in said), **spent)
            else:
                task.step("model_call", **spent)
            self._tell(task, [one for one in made if one.type == "tool_call"], tool_calls)

    def end(self, task: Task) -> None:
        """Tell calls that no result came for."""
        with self._lock:
            for one in self._open.values():
                task.tool_call(
                    one.tool, arguments=one.arguments or None, call_id=one.call_id,
                    attributes={"unmatched": "call without a result"},
                )  # fmt: skip
            self._open.clear()

    def _tell(self, task: Task, events: Sequence[Event], tool_calls: bool) -> None:
        for one in events:
            attributes = parse_json(one.attributes.encode("utf-8", "surrogatepass")) if one.attributes else None
            if one.type == "message":
                task.message(one.role, one.content, attributes=attributes)
            elif tool_calls:
                self._open.pop(id(one), None)
                if one.role == "agent" and not one.result and not one.error_code and one.latency_us is None:
                    self._open[id(one)] = one  # told with its result, or when the task ends
                    continue
                task.tool_call(
                    one.tool, arguments=one.arguments or None, result=one.result, error_code=one.error_code,
                    error_message=one.error_message, latency_us=one.latency_us, call_id=one.call_id,
                    attributes=attributes,
                )  # fmt: skip


_talks: WeakKeyDictionary[Task, Talk] = WeakKeyDictionary()
_talks_lock = threading.Lock()


def talk_of(task: Task) -> Talk:
    """What a task has heard so far, by whichever clients."""
    with _talks_lock:
        talk = _talks.get(task)
        if talk is None:
            talk = _talks[task] = Talk()
            task.at_end.append(talk.end)
        return talk


def essence(message: Mapping[str, object]) -> str:
    """What a message says, whatever its shape: equal for an answer and for the same sent back."""
    made = _add(Conversation(), message, None)
    said = [(one.type, one.role, one.content, one.tool, one.call_id, one.arguments, one.result) for one in made]
    return blake2b(canonical(said).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def words_of(message: Mapping[str, object]) -> str:
    """What a message says in words."""
    return "\n".join(one.content for one in _add(Conversation(), message, None) if one.type == "message").strip()


def is_users(message: Mapping[str, object]) -> bool:
    """Whether a message is the user's."""
    return "role" in message and role_of(text(message["role"])) == "user"


def _past(messages: Sequence[Mapping[str, object]]) -> int:
    """How many messages there are up to the model's last answer."""
    return max((place + 1 for place, one in enumerate(messages) if _is_models(one)), default=0)


def _is_models(message: Mapping[str, object]) -> bool:
    if "role" in message:
        return role_of(text(message["role"])) == "agent"
    kind = text(message.get("type"))
    return kind in _SILENT or kind.endswith(_CALL)


def items_of(message: Mapping[str, object]) -> list[dict[str, object]]:
    """A chat message or a Responses item in shapes that `Conversation.add` takes; none for what says nothing.

    A tool that the provider ran is a call and its result.
    """
    item = dict(message)
    kind = text(item.get("type"))
    if kind in _SILENT:
        return []
    if kind.endswith(_OUTPUT):
        answer = first(item, *_RESULTS)
        output = rest(item, _ENVELOPE) if answer is None else answer
        return [{"type": "function_call_output", "call_id": item.get("call_id"), "output": output}]
    if kind.endswith(_CALL):
        name, call_id = text(item.get("name")) or kind.removesuffix(_CALL), first(item, "call_id", "id")
        called = {"type": "function_call", "call_id": call_id, "name": name, "arguments": first(item, *_ASKED)}
        if "call_id" in item:
            return [called]
        output = {"error": item["error"]} if item.get("error") else first(item, *_RESULTS) or item.get("status")
        if item.get("status") == "failed" and not item.get("error"):
            output = {"is_error": True, "message": "failed"}
        return [called, {"type": "function_call_output", "call_id": call_id, "output": output}]
    if not item.get("content"):
        item["content"] = item.get("refusal") or mapping(item.get("audio")).get("transcript")
    return [{name: value for name, value in item.items() if value is not None and name in _MESSAGE}]


def _add(talk: Conversation, message: Mapping[str, object], at: datetime | None) -> list[Event]:
    """Add a message to a conversation, and return the events that it made or completed, each once."""
    made = [one for item in items_of(message) for one in talk.add(item, at)]
    return list({id(one): one for one in made}.values())
