"""What an OpenAI-compatible model answered, read from a result, or put together from the pieces of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...memory_store.formats.loose import first, mapping, sequence, text, whole
from .talk import Reply

#: What ends a stream of the Responses API, and holds the whole of it.
_ENDS = ("response.completed", "response.incomplete", "response.failed")
#: What a response says beside its items that is worth keeping.
_KEPT = ("id", "status", "error", "incomplete_details")


def plain(value: object) -> dict[str, object]:
    """A result, a message or an item as an object of JSON; what is none is empty."""
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        value = dump(mode="json", exclude_unset=True, warnings=False)
    return mapping(value)


def reply_of(result: Mapping[str, object]) -> Reply:
    """What a chat completion or a response says. Of several choices it is the first, which agents go on with."""
    usage = mapping(result.get("usage"))
    attributes: dict[str, object]
    if "choices" in result:
        choices = [mapping(one) for one in sequence(result["choices"])]
        messages = [mapping(choices[0].get("message"))] if choices else []
        attributes = {name: result.get(name) for name in _KEPT}
        attributes["finish_reason"] = choices[0].get("finish_reason") if choices else None
        if len(choices) > 1:
            attributes["choices"] = len(choices)
    else:
        messages = [mapping(one) for one in sequence(result.get("output"))]
        attributes = {name: result.get(name) for name in _KEPT}
    details = mapping(first(usage, "prompt_tokens_details", "input_tokens_details"))
    attributes["cached_tokens"] = details.get("cached_tokens") or None
    return Reply(
        messages, text(result.get("model")), whole(first(usage, "prompt_tokens", "input_tokens")),
        whole(first(usage, "completion_tokens", "output_tokens")),
        {name: value for name, value in attributes.items() if value is not None},
    )  # fmt: skip


class Pieces:
    """A stream's pieces, put together as they pass."""

    def __init__(self) -> None:
        #: What is known of the result beside its messages
        self.whole: dict[str, object] = {}
        self._content: list[str] = []
        self._refusal: list[str] = []
        self._calls: dict[object, dict[str, Any]] = {}
        self._items: list[object] = []
        self._is_whole = False

    def add(self, piece: object) -> None:
        """Take a chunk of a chat completion, or an event of a response."""
        said = plain(piece)
        kind = text(said.get("type"))
        if kind in _ENDS:
            self.whole, self._is_whole = mapping(said.get("response")), True
        elif kind == "response.output_item.done":
            self._items.append(said.get("item"))
            self._content.clear()
        elif kind == "response.output_text.delta":
            self._content.append(text(said.get("delta")))
        elif kind == "response.created":
            self.whole = mapping(said.get("response"))
        elif "choices" in said:
            self._chunk(said)

    def reply(self) -> Reply:
        """What was said so far."""
        result = dict(self.whole)
        if "choices" in result:
            calls = [self._calls[place] for place in sorted(self._calls, key=str)]
            message = {"role": "assistant", "content": "".join(self._content), "refusal": "".join(self._refusal)}
            result["choices"] = [{"message": {**message, "tool_calls": calls}, "finish_reason": result.get("finish")}]
        elif not self._is_whole:
            half = {"type": "message", "role": "assistant", "content": "".join(self._content)}
            result["output"] = [*self._items, *([half] if half["content"] else [])]
        return reply_of(result)

    def _chunk(self, said: dict[str, object]) -> None:
        for name in ("id", "model", "usage"):
            if said.get(name):
                self.whole[name] = said[name]
        self.whole.setdefault("choices", [])
        choice = next((one for one in map(mapping, sequence(said["choices"])) if not one.get("index")), {})
        delta = mapping(choice.get("delta"))
        self._content.append(text(delta.get("content")))
        self._refusal.append(text(delta.get("refusal")))
        for number, part in enumerate(map(mapping, sequence(delta.get("tool_calls")))):
            call = self._calls.setdefault(
                part.get("index", number), {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
            )
            call["id"] = call["id"] or text(part.get("id"))
            function = mapping(part.get("function"))
            call["function"]["name"] += text(function.get("name"))
            call["function"]["arguments"] += text(function.get("arguments"))
        if choice.get("finish_reason"):
            self.whole["finish"] = choice["finish_reason"]
