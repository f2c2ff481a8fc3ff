"""A call to a model, told by OpenTelemetry's conventions for generative AI: names, tokens and times, never a text."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from . import otel

#: What speaks an OpenAI-compatible protocol is told as that, whoever serves it; `server.address` says who.
_PROVIDER = "openai"


@dataclass
class Call:
    """A call that goes on."""

    span: otel.Span
    about: dict[str, otel.Attribute] = field(default_factory=dict)
    error: str = ""

    def used(self, input_tokens: int | None, output_tokens: int | None = None, finish: str = "") -> None:
        """It was answered with so many tokens, None where no one counted."""
        tokens = {"input": input_tokens, "output": output_tokens}
        for kind, count in tokens.items():
            if count is not None:
                self.span.set({f"gen_ai.usage.{kind}_tokens": count})
                otel.measure("gen_ai.client.token.usage", count, {**self.about, "gen_ai.token.type": kind})
        self.span.set({"gen_ai.response.finish_reasons": finish or None})

    def fail(self, kind: str) -> None:
        """It was not answered, for what is said in a word."""
        self.error = kind
        self.span.fail(kind)


@contextmanager
def model_call(
    operation: Literal["chat", "embeddings"], model: str, url: str, most_tokens: int | None = None
) -> Iterator[Call]:
    """A span around one try of a call, and its figures. What is raised counts as failed."""
    about: dict[str, otel.Attribute] = {
        "gen_ai.operation.name": operation, "gen_ai.provider.name": _PROVIDER, "gen_ai.request.model": model,
    }  # fmt: skip
    host, port = _where(url)
    at: dict[str, otel.Attribute] = {"server.address": host}
    more = {"server.port": port, "gen_ai.request.max_tokens": most_tokens}
    began = time.monotonic()
    with otel.span(f"{operation} {model}", {**about, **at, **more}, is_client=True) as span:
        call = Call(span, about)
        try:
            yield call
        except BaseException as error:
            call.error = type(error).__name__
            raise
        finally:
            failed = {"error.type": call.error} if call.error else {}
            otel.measure("gen_ai.client.operation.duration", time.monotonic() - began, {**about, **at, **failed})


def _where(url: str) -> tuple[str, int | None]:
    """Host and port of an address; one that is none is for the call to complain about."""
    try:
        parts = urlsplit(url)
        return parts.hostname or "", parts.port
    except ValueError:
        return "", None
