"""From the text of a reply to a pydantic model, item by item: one bad item never loses the rest (R8)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails

from .repair import find_json

M = TypeVar("M", bound=BaseModel)

#: Characters of a lost item that are kept.
_PIECE = 2_000
#: Parts of a JSON schema that every endpoint with structured output understands.
_PLAIN = ("type", "enum", "description", "items", "properties", "anyOf", "const")


class ReplyModel(BaseModel):
    """Base of what a model is asked to fill in: unknown fields are ignored, null counts as not given."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, data: Any) -> Any:
        return {name: value for name, value in data.items() if value is not None} if isinstance(data, dict) else data


@dataclass(frozen=True)
class Lost:
    """A piece of a reply that could not be used."""

    #: Field of the reply that it belongs to
    field: str
    #: The piece as it was written, its first 2,000 characters
    piece: str
    #: Why
    reason: str


@dataclass(frozen=True)
class Reading(Generic[M]):
    """What could be made of a reply."""

    #: The reply, without what was lost; None when nothing could be made of it
    value: M | None
    #: What was lost
    lost: tuple[Lost, ...] = ()
    #: Whether the text ends before the reply does
    cut: bool = False
    #: Why there is no value
    problem: str = ""


def read_reply(text: str, schema: type[M]) -> Reading[M]:
    """Read a reply that was asked to follow a schema, and keep what can be kept. Never raises.

    Items of a list are read one by one. A field of a wrong type takes its default if it has one; else its item is
    lost, and if that item is the reply itself, the reply is.
    """
    found = find_json(text)
    lost = [Lost("", piece[:_PIECE], "broken off or no JSON") for piece in found.broken]
    data = _unwrap(found.value, schema)
    if data is None:
        start = " ".join(text[:200].split())
        problem = f"no answer in the reply, which begins {start!r}" if start else "the reply is empty"
        return Reading(None, tuple(lost), found.cut, problem)
    kept: dict[str, Any] = {}
    for name, field in schema.model_fields.items():
        if name not in data or data[name] is None:
            continue
        value = data[name]
        item = _item_of(field.annotation)
        if item is None:
            kept[name] = value
            continue
        kept[name] = []
        for piece in value if isinstance(value, list) else [value]:
            read = _read_item(piece, item)
            if isinstance(read, str):
                lost.append(Lost(name, json.dumps(piece, ensure_ascii=False)[:_PIECE], read))
            else:
                kept[name].append(read)
    read = _read_item(kept, schema)
    if isinstance(read, str):
        return Reading(None, tuple(lost), found.cut, f"the reply can't be used: {read}")
    return Reading(read, tuple(lost), found.cut)


def _unwrap(value: Any, schema: type[BaseModel]) -> dict[str, Any] | None:
    """The object that has fields of the schema: the value, or what a model wrapped it in."""
    names = schema.model_fields.keys()
    for _ in range(3):
        if isinstance(value, list):
            value = next((item for item in value if isinstance(item, dict) and names & item.keys()), None)
        if not isinstance(value, dict):
            return None
        if names & value.keys():
            return value
        inner = [item for item in value.values() if isinstance(item, dict | list)]
        value = inner[0] if len(inner) == 1 else None
    return None


def _item_of(annotation: Any) -> type[BaseModel] | None:
    """The model of a list's items, None if the field is no list of models."""
    if get_origin(annotation) not in (list, tuple):
        return None
    item = get_args(annotation)[0]
    return item if isinstance(item, type) and issubclass(item, BaseModel) else None


def _read_item(data: Any, schema: type[M]) -> M | str:
    """The item, or why it can't be read. Fields of a wrong type are left out once, so that they take defaults."""
    try:
        return schema.model_validate(data)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
    wrong = {problem["loc"][0] for problem in problems if problem["loc"]}
    if (
        isinstance(data, dict)
        and wrong
        and all(name in schema.model_fields and not schema.model_fields[str(name)].is_required() for name in wrong)
    ):
        try:
            return schema.model_validate({name: value for name, value in data.items() if name not in wrong})
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False)
    return "; ".join(_said(problem) for problem in problems[:3])


def _said(problem: ErrorDetails) -> str:
    where = ".".join(str(part) for part in problem["loc"])
    return f"{where}: {problem['msg']}" if where else problem["msg"]


def flat_schema(schema: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a model as structured output wants it: no references, every field required, nothing added.

    Limits of length and number are left out: some endpoints refuse them, and what comes back is checked anyway.
    """
    full = schema.model_json_schema()
    return _flat(full, full.get("$defs", {}))


def _flat(node: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in node:
        target = defs[node["$ref"].rpartition("/")[2]]
        return _flat({**target, **{name: value for name, value in node.items() if name != "$ref"}}, defs)
    plain: dict[str, Any] = {name: node[name] for name in _PLAIN if name in node}
    if "items" in plain:
        plain["items"] = _flat(plain["items"], defs)
    if "anyOf" in plain:
        plain["anyOf"] = [_flat(option, defs) for option in plain["anyOf"]]
    if "properties" in plain:
        plain["properties"] = {name: _flat(value, defs) for name, value in plain["properties"].items()}
        plain["required"] = list(plain["properties"])
        plain["additionalProperties"] = False
    return plain
