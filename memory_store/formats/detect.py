"""Which format a record has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ..errors import UsageError
from .chat_lines import ChatLines
from .chatgpt import ChatGPT
from .claude_code import ClaudeCode
from .draft import Draft
from .group_chat import GroupChat
from .jaeger import Jaeger
from .openai_messages import OpenAIMessages
from .otlp import OTLP
from .records import Record
from .span_tree import SpanTree
from .swe_agent import SWEAgent


class Format(Protocol):
    """A format that can be ingested."""

    #: Its name on the command line; events have the source `ingest:NAME`
    name: str
    #: What it is, in a few words
    about: str

    def matches(self, value: object) -> bool:
        """Whether a record is of this format."""
        ...

    def split(self, record: Record) -> Iterable[tuple[str, object]]:
        """The parts of a record, each with the key of its trace; an empty key: the part is a whole trace."""
        ...

    def join(self, key: str, parts: list[object]) -> Draft:
        """The parts of one trace as a draft. Raises `RecordError`."""
        ...


#: Every format, the more particular before the more general.
FORMATS: tuple[Format, ...] = (
    OTLP(), Jaeger(), SpanTree(), SWEAgent(), GroupChat(), ChatGPT(), ClaudeCode(), OpenAIMessages(), ChatLines(),
)  # fmt: skip


def detect(value: object) -> Format | None:
    """The format of a record, None if it has none of those that are known."""
    return next((format for format in FORMATS if format.matches(value)), None)


def format_named(name: str) -> Format:
    """A format by name. Raises `UsageError` that lists the names."""
    for format in FORMATS:
        if format.name == name:
            return format
    raise UsageError(f"there is no format {name!r}: take auto, {', '.join(sorted(one.name for one in FORMATS))}")
