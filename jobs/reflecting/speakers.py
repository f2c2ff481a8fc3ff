"""Who said what in an event: what a tool or a page said is never taken for the user's words (N11)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from ...memory_store.capture.events import Event

Speaker = Literal["user", "agent", "tool", "web", "operator"]

#: Tools that bring in what strangers wrote.
_WEB = re.compile(
    r"(?:^|[^a-z])(?:web|url|http|https|browser?|browse|browsing|crawl(?:er)?|scrape[r]?|internet|google|bing|"
    r"duckduckgo|wikipedia|arxiv|page|visit|fetch|surf(?:er|ing)?|curl|wget)(?:[^a-z]|$)"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ROLES: dict[str, Speaker] = {"user": "user", "agent": "agent", "tool": "tool", "system": "operator"}


@dataclass(frozen=True)
class Voice:
    """A part of an event that one speaker is behind."""

    #: Field of the event
    field: str
    text: str
    speaker: Speaker
    #: Whether it is how a call failed
    is_error: bool = False


@cache
def is_web_tool(tool: str) -> bool:
    """Whether a tool, by its name, brings in what strangers wrote on the web.

    >>> is_web_tool("web_search"), is_web_tool("fetchUrl"), is_web_tool("search_flights")
    (True, True, False)
    """
    return bool(_WEB.search(_CAMEL.sub("_", tool).lower()))


def voices(event: Event) -> Iterator[Voice]:
    """The texts of an event, each with who said it; empty ones are left out.

    A call's arguments are the agent's, its result is the tool's. Feedback without a role is the user's; anything
    else without one is the agent's.
    """
    outside: Speaker = "web" if is_web_tool(event.tool or event.name) else "tool"
    usual: Speaker = "user" if event.type == "feedback" else "agent"
    speaker = _ROLES.get(event.role, usual)
    if event.type == "tool_call" or speaker == "tool":
        speaker = outside
    if event.content:
        yield Voice("content", event.content, speaker)
    if event.arguments:
        yield Voice("arguments", event.arguments, "agent")
    failed = bool(event.error_code or event.error_message)
    if event.error_message:
        yield Voice("error_message", event.error_message, outside, is_error=True)
    if event.result:
        yield Voice("result", event.result, outside, is_error=failed)
