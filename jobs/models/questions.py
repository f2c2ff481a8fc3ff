"""A question to a chat model as a value: what makes it the same question, and how it is put on the wire."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from pydantic import BaseModel

from ...memory_store.settings import ModelSettings
from .answers import Mode
from .budget import estimate_tokens
from .reading import flat_schema
from .repair import clean_text

#: Tokens that endpoints add around a message.
_AROUND = 8


class Message(TypedDict):
    """One message of a chat."""

    #: system · user · assistant
    role: str
    content: str


@dataclass(frozen=True)
class Question:
    """What a model is asked."""

    messages: tuple[Message, ...]
    #: Name of the model
    model: str
    #: Name of the schema that the answer is to follow, and the schema
    name: str
    schema: dict[str, Any]
    #: Most tokens of the answer
    limit: int
    #: Whether plain text is asked for, because no JSON came
    plain: bool
    namespace: str
    #: Hash of model, parameters, prompt and messages: equal keys are the same question
    key: str
    #: What it is asked for: reflect, judge, patterns
    purpose: str = "other"

    @property
    def estimate(self) -> int:
        """Tokens of the prompt, estimated high."""
        schema = estimate_tokens(json.dumps(self.schema))
        return schema + sum(estimate_tokens(message["content"]) + _AROUND for message in self.messages)

    def request(self, mode: Mode, dropped: Collection[str] = ()) -> dict[str, Any]:
        """The body of a chat completion that asks it in this mode, without the parameters that were dropped."""
        messages = [{"role": message["role"], "content": message["content"]} for message in self.messages]
        request: dict[str, Any] = {"model": self.model, "messages": messages}
        request["max_completion_tokens" if "max_tokens" in dropped else "max_tokens"] = self.limit
        if "temperature" not in dropped:
            request["temperature"] = 0
        if mode == "json_schema":
            shape = {"name": self.name, "schema": self.schema, "strict": True}
            request["response_format"] = {"type": "json_schema", "json_schema": shape}
            return request
        if mode == "json_object":
            request["response_format"] = {"type": "json_object"}
        messages[-1]["content"] += (
            "\n\nAnswer with one JSON object of this JSON schema, and nothing before or after it:\n"
            + json.dumps(self.schema, ensure_ascii=False)
        )
        return request


class Unanswered(Exception):  # no error: the answer comes with a later run
    """A question has no kept answer, and whoever asks it does not want it asked now. Caught by the reflector."""

    def __init__(self, question: Question, is_out: bool) -> None:
        super().__init__(question, is_out)
        self.question = question
        #: Whether it was asked already and its answer is awaited
        self.is_out = is_out
        #: Tokens of the prompts that can only be asked once it is answered
        self.later: list[int] = []


def question_of(
    settings: ModelSettings,
    messages: Sequence[Message],
    schema: type[BaseModel],
    *,
    limit: int,
    plain: bool,
    namespace: str,
    prompt_hash: str,
    purpose: str = "other",
) -> Question:
    """The question that these messages are, asked of the model of the settings."""
    shape = flat_schema(schema)
    clean: list[Message] = [{"role": m["role"], "content": clean_text(m["content"])} for m in messages]
    asked = [settings.name, prompt_hash, clean, shape, limit, plain]
    key = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
    return Question(tuple(clean), settings.name, schema.__name__, shape, limit, plain, namespace, key, purpose)
