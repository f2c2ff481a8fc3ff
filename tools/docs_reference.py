"""Reference pages made from the code: the Python interface, the commands, the settings, the columns of the tables.

A page of docs/reference holds `<!-- generated: NAME -->`; docs/conf.py puts there what `PARTS[NAME]()` returns, as
Markdown. What has no description fails the build.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from importlib import import_module
from types import UnionType
from typing import Any, Union, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

import hindlake
from hindlake import Settings
from hindlake.cli import app
from hindlake.memory_store.schema import TABLES, arrow_type


class Undocumented(Exception):
    """Something public says nothing of itself: write its docstring, its help or its `#:` line."""


#: What public names return: their home, and what they are called
RETURNED = {
    "Hit": "sdk.hits", "Page": "sdk.hits", "Context": "sdk.context", "Task": "sdk.tasks", "ToolCall": "sdk.tasks",
    "Turn": "sdk.working", "RecorderStatus": "sdk.recorder",
}  # fmt: skip


def python() -> str:
    """Every public name of the package and what those return, with methods and fields."""
    parts = []
    for name in hindlake.__all__:
        public = getattr(hindlake, name)
        if inspect.isclass(public):
            parts += _class(name, public)
        elif callable(public):
            parts += [f"## `{name}`", _signature(name, public), _doc(name, public)]
    for name, home in RETURNED.items():
        parts += _class(name, getattr(import_module(f"hindlake.{home}"), name))
    return "\n\n".join(parts)


def _class(name: str, public: type) -> Iterator[str]:
    yield f"## `{name}`"
    yield _doc(name, public)
    if issubclass(public, Exception):
        yield f"A kind of `{public.__mro__[1].__name__}`."
        return
    if is_dataclass(public):
        meanings = _meanings(public)
        rows = [(f"`{one.name}`", _cell(meanings.get(one.name, ""))) for one in fields(public) if one.name[0] != "_"]
        yield _table(("field", "means"), rows)
    elif not (issubclass(public, BaseModel) or getattr(public, "_is_protocol", False)) and "__init__" in vars(public):
        yield _signature(name, public)
        if constructor := inspect.getdoc(vars(public)["__init__"]):
            yield constructor
    twin = getattr(hindlake, name.removeprefix("Async")) if name.startswith("Async") else None
    for member, value in vars(public).items():
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if member.startswith("_") or not (inspect.isfunction(function) or isinstance(function, property)):
            continue
        if twin is not None and inspect.getdoc(function) == inspect.getdoc(getattr(twin, member, None)):
            continue
        yield f"### `{name}.{member}`"
        if inspect.isfunction(function):
            yield _signature(member, function)
        yield _doc(f"{name}.{member}", function)


def _signature(name: str, of: Any) -> str:
    """How it is called, one argument a line where one line is too long."""
    signature = inspect.signature(of)
    told = [one for one in signature.parameters.values() if one.name not in ("self", "cls")]
    bare = signature.replace(parameters=told)
    if inspect.isclass(of):
        bare = bare.replace(return_annotation=inspect.Signature.empty)
    begin = f"async {name}" if inspect.iscoroutinefunction(of) else name
    text = begin + _unquoted(str(bare))
    if len(text) > 100:
        inner = "".join(f"    {line},\n" for line in _listed(told))
        text = f"{begin}(\n{inner})" + text[text.rindex(")") + 1 :]
    return f"```text\n{text}\n```"


def _listed(told: list[inspect.Parameter]) -> Iterator[str]:
    is_named = False
    for one in told:
        if one.kind is one.KEYWORD_ONLY and not is_named:
            is_named = True
            yield "*"
        yield _unquoted(str(one))


def _unquoted(signature: str) -> str:
    """Annotations are strings where their module says so."""
    return re.sub(r"(: |-> )'([^']+)'", r"\1\2", signature).replace("hindlake.", "")


def _doc(name: str, of: Any) -> str:
    if not (told := inspect.getdoc(of)):
        raise Undocumented(name)
    return told


def commands() -> str:
    """Every command, with its options."""
    group = typer.main.get_command(app)
    return "\n\n".join(part for path, command in _commands(group, ("hindlake",)) for part in _command(path, command))


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "commands"):
        yield path, command
        return
    for name, inner in command.commands.items():
        yield from _commands(inner, (*path, name))


def _command(path: tuple[str, ...], command: Any) -> Iterator[str]:
    name = " ".join(path)
    if not command.help:
        raise Undocumented(name)
    yield f"## `{name}`"
    for part in re.split(r"\n\s*\n", inspect.cleandoc(command.help)):
        is_example = part.startswith("\b\n")  # typer's mark of lines that are kept as they are
        yield f"```sh\n{textwrap.dedent(part[2:])}\n```" if is_example else " ".join(part.split())
    rows = []
    for one in command.params:
        if getattr(one, "hidden", False) or one.name == "help":
            continue
        is_argument = one.param_type_name == "argument"
        told = "what the command is about" if is_argument and not one.help else one.help
        if not told:
            raise Undocumented(f"{name} {one.name}")
        opened = (one.metavar or one.name or "").upper() if is_argument else ", ".join([*one.opts, *one.secondary_opts])
        rows.append((f"`{opened}`", _cell(told), _default(one)))
    if rows:
        yield _table(("argument or option", "means", "default"), rows)


def _default(parameter: Any) -> str:
    if parameter.required:
        return "needed"
    if parameter.default in (None, False, "", (), []) or callable(parameter.default):
        return ""
    return f"`{getattr(parameter.default, 'value', parameter.default)}`"


def settings() -> str:
    """Every setting: its variable, its default, what it means."""
    sections: list[tuple[str, type[BaseModel]]] = [("", Settings)]
    sections += [
        (name, field.annotation)
        for name, field in Settings.model_fields.items()
        if inspect.isclass(field.annotation) and issubclass(field.annotation, BaseModel)
    ]
    parts = []
    for name, section in sections:
        parts.append(f"## `[{name}]`" if name else "## At the top")
        if name:
            parts.append(_doc(name, section))
        meanings = _meanings(section)
        rows = []
        for key, field in section.model_fields.items():
            if not name and key in dict(sections):
                continue
            if key not in meanings:
                raise Undocumented(f"{section.__name__}.{key}")
            variable = f"HINDLAKE_{name}_{key}" if name else f"HINDLAKE_{key}"
            rows.append((f"`{variable.upper()}`", _type(field.annotation), _value(field), _cell(meanings[key])))
        parts.append(_table(("variable", "type", "default", "means"), rows))
    return "\n\n".join(parts)


def _meanings(section: type) -> dict[str, str]:
    """What the `#:` lines above each field say."""
    source = textwrap.dedent(inspect.getsource(section))
    lines = source.splitlines()
    (made,) = ast.parse(source).body
    assert isinstance(made, ast.ClassDef)
    found = {}
    for statement in made.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            said: list[str] = []
            at = statement.lineno - 2
            while lines[at].strip().startswith("#:"):
                said.insert(0, lines[at].strip().removeprefix("#:").strip())
                at -= 1
            if said:
                found[statement.target.id] = " ".join(said)
    return found


def _type(annotation: Any) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return " or ".join(_type(one) for one in inner if one is not type(None))
    if inner and all(isinstance(one, str) for one in inner):
        return " · ".join(f"`{one}`" for one in inner)
    words = {str: "text", int: "whole number", float: "number", bool: "yes or no", dict: "table", list: "list"}
    words |= {tuple: "list", set: "list", frozenset: "list"}
    return words.get(origin or annotation, {"SecretStr": "secret"}.get(getattr(annotation, "__name__", ""), "text"))


def _value(field: Any) -> str:
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "needed"
    if hasattr(value, "get_secret_value"):
        value = value.get_secret_value()
    if value is None or (value == "" or value == {} or value == () or value == frozenset()):
        return ""
    if isinstance(value, list | tuple | set | frozenset):
        value = ", ".join(str(one) for one in value)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def columns() -> str:
    """Every column of every table."""
    parts = []
    for name, table in TABLES.items():
        rows = [(f"`{one.name}`", f"`{arrow_type(one.type)}`", _cell(one.meaning)) for one in table]
        parts += [f"## {name}", _table(("column", "type", "means"), rows)]
    return "\n\n".join(parts)


def _cell(text: str) -> str:
    """A text for a cell of a table; what it has of HTML is shown as it stands."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


#: What a page can ask for, by name
PARTS: dict[str, Callable[[], str]] = {
    "columns": columns, "commands": commands, "python": python, "settings": settings,
}  # fmt: skip
