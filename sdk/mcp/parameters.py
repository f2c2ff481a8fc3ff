"""What a tool takes: flat parameters, their JSON schema, and how what a model sends becomes what was meant (R29).

Models send "5" for 5 and "a, b" for a list. What can only mean one thing is taken as that; what can't be meant is
answered with what to send instead. Schemas keep to the words that OpenAI, Anthropic and Gemini all know: type,
description, enum, items, properties, required.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ...memory_store.errors import UsageError
from ..arguments import stored

Type = Literal["string", "integer", "number", "array"]
#: Most names in a list.
_MOST_ITEMS = 64


@dataclass(frozen=True)
class Parameter:
    """One argument of a tool."""

    name: str
    type: Type
    #: In plain words, with the default
    description: str
    is_required: bool = False
    #: The values that it may have; empty: any
    choices: tuple[str, ...] = ()
    #: Least number
    least: float = 0
    #: Greatest number
    most: float = 1

    @property
    def schema(self) -> dict[str, Any]:
        """Its JSON schema."""
        schema: dict[str, Any] = {"type": self.type, "description": self.description}
        if self.choices:
            schema["enum"] = list(self.choices)
        if self.type == "array":
            schema["items"] = {"type": "string"}
        return schema


def schema_of(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """The JSON schema of the arguments of a tool."""
    return {
        "type": "object",
        "properties": {one.name: one.schema for one in parameters},
        "required": [one.name for one in parameters if one.is_required],
    }


def meant(parameters: Sequence[Parameter], sent: Mapping[str, Any], characters: int) -> dict[str, Any]:
    """What was meant by the arguments that were sent; what was left out, or sent as null, is left out.

    Raises `UsageError`, which says what to send instead, for an argument that there is not, that is missing, that is
    longer than `characters`, or that can't be understood.
    """
    known = {one.name: one for one in parameters}
    for name in sent:
        if name not in known:
            raise UsageError(f"there is no argument {_shown(name)}: send {', '.join(known)}")
    values = {}
    for one in parameters:
        value = sent.get(one.name)
        if value is None or (one.is_required and isinstance(value, str) and not value.strip()):
            if one.is_required:
                raise UsageError(f"{one.name} is missing: send {one.name}, {_wanted(one)}")
            continue
        values[one.name] = _value(one, value, characters)
    return values


def _value(one: Parameter, value: Any, characters: int) -> Any:
    if isinstance(value, str) and len(value) > characters:
        raise UsageError(f"{one.name} has {len(value)} characters: send at most {characters}")
    if one.type == "array":
        return _names(one, value, characters)
    if one.type == "string":
        text = _text(one, value)
        return _choice(one, text) if one.choices else text
    return _number(one, value)


def _text(one: Parameter, value: Any) -> str:
    if isinstance(value, str):
        return stored(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return stored(value[0])
    raise _unmeant(one, value)


def _choice(one: Parameter, text: str) -> str:
    plain = text.strip().lower()
    if plain not in one.choices:
        raise _unmeant(one, text)
    return plain


def _number(one: Parameter, value: Any) -> int | float:
    number: float
    if isinstance(value, str):
        try:
            number = float(value.strip().replace("_", ""))
        except ValueError:
            raise _unmeant(one, value) from None
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value) if abs(value) < 1e300 else math.inf
    else:
        raise _unmeant(one, value)
    if not one.least <= number <= one.most or (one.type == "integer" and number != int(number)):
        raise _unmeant(one, value)
    return int(number) if one.type == "integer" else number


_SEPARATORS = re.compile(r"[,;，、；\n]")


def _names(one: Parameter, value: Any, characters: int) -> list[str]:
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise _unmeant(one, value) from None
    if isinstance(value, str):
        value = _SEPARATORS.split(value)
    if not isinstance(value, list) or len(value) > _MOST_ITEMS:
        raise _unmeant(one, value)
    names = []
    for item in value:
        if not isinstance(item, str | int | float) or isinstance(item, bool) or len(str(item)) > characters:
            raise _unmeant(one, item)
        if name := stored(str(item)).strip():
            names.append(name)
    return names


def _unmeant(one: Parameter, value: Any) -> UsageError:
    return UsageError(f"{one.name} is {_shown(value)}: send {_wanted(one)}")


def _wanted(one: Parameter) -> str:
    if one.choices:
        return f"one of {', '.join(one.choices)}"
    if one.type in ("integer", "number"):
        what = "a whole number" if one.type == "integer" else "a number"
        return f"{what} from {one.least:g} to {one.most:g}"
    return 'text, such as "a sentence"' if one.type == "string" else f'at most {_MOST_ITEMS} names, such as ["a", "b"]'


def _shown(value: Any) -> str:
    """What was sent, short: an answer must not repeat a megabyte."""
    try:
        text = stored(json.dumps(value, ensure_ascii=False, default=str))
    except (ValueError, RecursionError):
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:59]}…"
