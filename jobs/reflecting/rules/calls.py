"""Tool calls compared: their arguments, where a value came from, and which calls change something."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from ....memory_store.capture.events import Event

_WRITES = re.compile(
    r"(?:^|[_.\s-])(?:create|add|insert|update|edit|modify|change|set|put|post|patch|delete|remove|cancel|book|buy|"
    r"order|pay|refund|return|exchange|"
    r"send|email|write|save|submit|commit|push|merge|deploy|publish|upload|transfer|move|rename|approve|reject|"
    r"assign|register|schedule|reserve|"
    r"issue|grant|revoke|enable|disable|apply|install|execute|certificate)(?:$|[_.\s-])",
    re.I,
)
_READS = re.compile(
    r"(?:^|[_.\s-])(?:get|list|read|find|search|fetch|query|show|view|look|lookup|check|describe|count|calculate|"
    r"compute|think|plan|browse|open|visit|"
    r"retrieve|load|inspect|validate|verify|status|details)(?:$|[_.\s-])",
    re.I,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
#: Tools that only turn a thought over: they are no step of the work.
_THOUGHT = re.compile(r"^(?:think|thought|reflect|plan|note|scratchpad|calculate|calculator)$", re.I)


def is_write(tool: str) -> bool:
    """Whether a tool changes something, by its name.

    >>> is_write("update_reservation"), is_write("getOrderStatus"), is_write("sendEmail")
    (True, False, True)
    """
    spaced = _CAMEL.sub("_", tool)
    first = re.split(r"[_.\s-]", spaced, maxsplit=1)[0]
    if _READS.search(first):
        return False
    return bool(_WRITES.search(spaced))


def is_handover(tool: str) -> bool:
    """Whether a tool gives the task to someone else.

    >>> is_handover("transfer_to_human_agents"), is_handover("transfer_money")
    (True, False)
    """
    return re.search(r"human|hand_?(?:off|over)|escalat|operator|supervisor|人工", tool, re.I) is not None


def is_thought(tool: str) -> bool:
    """Whether a tool only keeps a thought or does a sum."""
    return _THOUGHT.match(tool) is not None


def arguments_of(call: Event) -> dict[str, Any]:
    """The arguments of a call by name; one argument without a name is called "input"."""
    try:
        value = json.loads(call.arguments) if call.arguments else {}
    except (ValueError, RecursionError):
        return {"input": call.arguments}
    return value if isinstance(value, dict) else {"input": value}


def same_call(one: Event, other: Event) -> bool:
    """Whether two calls are the same tool with the same arguments."""
    return one.tool == other.tool and arguments_of(one) == arguments_of(other)


def leaves(value: Any) -> Iterable[str]:
    """The single values inside an argument, as text."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def origin_of(value: Any, events: Iterable[Event]) -> Event | None:
    """The event in which a value of an argument first shows up whole; None if it came from nowhere.

    Values of fewer than three characters are everywhere and have no origin.
    """
    wanted = [text for text in leaves(value) if len(text) >= 3]
    for event in events:
        text = f"{event.result} {event.content}"
        if wanted and any(re.search(rf"(?<![\w]){re.escape(one)}(?![\w])", text) for one in wanted):
            return event
    return None


def is_word(value: Any) -> bool:
    """Whether a value is a plain word of the tool's own vocabulary (economy, basic_economy, asc), and no instance.

    >>> is_word("basic_economy"), is_word("ORD-1"), is_word("Priya"), is_word(True)
    (True, False, False, True)
    """
    if isinstance(value, bool):
        return True
    return isinstance(value, str) and re.fullmatch(r"[a-z]{2,15}(?:[_-][a-z]{2,15}){0,2}", value) is not None


def is_prose(value: Any) -> bool:
    """Whether a value is something written: a summary, a message, code. What changed in it can't be said by rule."""
    return isinstance(value, str) and (len(value.split()) > 4 or "\n" in value or len(value) > 60)


def shape_of(value: Any) -> str:
    """How a value is written, for telling what changed between two: date, number, list, text and their patterns.

    >>> shape_of("05/20/2026"), shape_of("2026-05-20"), shape_of(3), shape_of("3")
    ('99/99/9999', '9999-99-99', 'number', '9')
    """
    if isinstance(value, bool):
        return "yes or no"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, list):
        return "list"
    if isinstance(value, dict):
        return "object"
    if value is None:
        return "nothing"
    text = str(value)
    if len(text) > 24:
        return "text"
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"\d", "9", text))
