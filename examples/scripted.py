"""A model for the examples: an OpenAI-compatible server on this machine that says and calls what a script tells it.

It answers chat completions and Responses, whole or streamed, so that everything but the model is the real thing.

    with ScriptedAgent([call("refund_order", order="A-1001"), "It is refunded."]) as model:
        client = OpenAI(base_url=model.url, api_key="none")
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from typing import Any

from hindlake.jobs.models.scripted_model import ScriptedModel

#: A chat message of the assistant, its text, or an HTTP status with which the call fails.
Answer = dict[str, Any] | str | int
#: What one request was sent: model, messages or input, tools.
Body = dict[str, Any]


def call(tool: str, /, **arguments: object) -> dict[str, Any]:
    """The message of a model that calls a tool."""
    return {"role": "assistant", "content": None, "tool_calls": [_call(tool, arguments)]}


def _call(tool: str, arguments: object) -> dict[str, Any]:
    id = f"call_{tool}_{abs(hash(json.dumps(arguments, sort_keys=True))) % 10_000}"
    return {"id": id, "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}


class ScriptedAgent(ScriptedModel):
    """The server. `script` are answers in order, the last one repeated, or a function of what was sent."""

    def __init__(self, script: Iterable[Answer] | Callable[[Body], Answer]) -> None:
        super().__init__()
        self._say = script if callable(script) else None
        self._left = [] if callable(script) else list(script)
        self._turn_lock = threading.Lock()
        #: What each request was sent
        self.sent: list[Body] = []

    def serve(self, method: str, path: str, raw: bytes) -> tuple[int, str | dict[str, Any]] | None:
        """Answer a chat completion or a response as the script has it."""
        if path not in ("chat/completions", "responses"):
            return None
        body: Body = json.loads(raw)
        with self._turn_lock:
            self.sent.append(body)
            number = len(self.sent)
            answer: Answer
            if self._say is not None:
                answer = self._say(body)
            else:
                answer = self._left.pop(0) if len(self._left) > 1 else self._left[0]
        if isinstance(answer, int):
            return answer, {"error": {"message": f"status {answer}", "type": "error", "code": f"status_{answer}"}}
        message = {"role": "assistant", "content": answer} if isinstance(answer, str) else answer
        told = _chat(message, body, number) if path == "chat/completions" else _response(message, body, number)
        if not body.get("stream"):
            return 200, told
        return 200, "".join(_chunks(told) if path == "chat/completions" else _events(told))


def _chat(message: dict[str, Any], body: Body, number: int) -> dict[str, Any]:
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    return {
        "id": f"chatcmpl-{number}", "object": "chat.completion", "created": number, "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25},
    }  # fmt: skip


def _chunks(told: dict[str, Any]) -> Iterable[str]:
    """A completion in pieces: some characters each, then the calls, then how it ended, then what it used."""
    message, finish = told["choices"][0]["message"], told["choices"][0]["finish_reason"]
    content = message.get("content") or ""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": content[at : at + 7]} for at in range(0, len(content), 7)]
    for place, one in enumerate(message.get("tool_calls") or []):
        function = one["function"]
        begun = {**one, "index": place, "function": {"name": function["name"], "arguments": ""}}
        deltas.append({"tool_calls": [begun]})
        half = len(function["arguments"]) // 2
        for part in (function["arguments"][:half], function["arguments"][half:]):
            deltas.append({"tool_calls": [{"index": place, "function": {"arguments": part}}]})
    base = {key: told[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    for delta in deltas:
        yield _line({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield _line({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    yield _line({**base, "choices": [], "usage": told["usage"]})
    yield "data: [DONE]\n\n"


def _response(message: dict[str, Any], body: Body, number: int) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    if message.get("content"):
        part = {"type": "output_text", "text": message["content"], "annotations": []}
        said = {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed"}
        output.append({**said, "content": [part]})
    for one in message.get("tool_calls") or []:
        called = {"id": f"fc_{number}", "type": "function_call", "call_id": one["id"], "status": "completed"}
        output.append({**called, **one["function"]})
    return {
        "id": f"resp_{number}", "object": "response", "created_at": number, "model": body["model"], "output": output,
        "status": "completed", "error": None, "incomplete_details": None, "instructions": body.get("instructions"),
        "metadata": {}, "parallel_tool_calls": True, "temperature": 1, "top_p": 1, "tool_choice": "auto",
        "tools": body.get("tools") or [],
        "usage": {"input_tokens": 20, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5,
                  "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 25},
    }  # fmt: skip


def _events(told: dict[str, Any]) -> Iterable[str]:
    """A response as its events."""
    number = 0

    def event(type: str, **more: Any) -> str:
        nonlocal number
        number += 1
        return f"event: {type}\n" + _line({"type": type, "sequence_number": number, **more})

    yield event("response.created", response={**told, "output": [], "status": "in_progress", "usage": None})
    for place, item in enumerate(told["output"]):
        where = {"output_index": place, "item_id": item["id"]}
        empty = {"content": []} if item["type"] == "message" else {"arguments": ""}
        yield event("response.output_item.added", output_index=place, item={**item, **empty, "status": "in_progress"})
        if item["type"] == "message":
            text = item["content"][0]["text"]
            part = {"type": "output_text", "text": "", "annotations": []}
            yield event("response.content_part.added", **where, content_index=0, part=part)
            for at in range(0, len(text), 7):
                delta = text[at : at + 7]
                yield event("response.output_text.delta", **where, content_index=0, delta=delta, logprobs=[])
            yield event("response.output_text.done", **where, content_index=0, text=text, logprobs=[])
            yield event("response.content_part.done", **where, content_index=0, part=item["content"][0])
        else:
            yield event("response.function_call_arguments.delta", **where, delta=item["arguments"])
            done = {"name": item["name"], "arguments": item["arguments"]}
            yield event("response.function_call_arguments.done", **where, **done)
        yield event("response.output_item.done", output_index=place, item=item)
    yield event("response.completed", response=told)


def _line(said: dict[str, Any]) -> str:
    return f"data: {json.dumps(said)}\n\n"
