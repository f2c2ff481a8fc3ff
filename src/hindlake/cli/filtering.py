"""The options that say which memories a command looks at: declared once, for every command that searches."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import Annotated, Any

import typer

from ..memory_store.errors import UsageError
from ..memory_store.recall.conditions import TESTED, All, Condition, Either, Is, Not


@dataclass(frozen=True)
class _Given:
    """An option of a filter: its flag, the name of what it gives to a search, its help and its type."""

    flag: str
    name: str
    help: str = "Only these; may be given again."
    type: Any = list[str]
    metavar: str | None = None


_TEST = "such as tool=pay; may be given again."
_GIVEN = (
    _Given(
        "--kind",
        "kinds",
        "experience, fact, preference, rule, episode, passage; may be given again. The last two only if given.",
    ),
    _Given("--subject", "subject", "Whose facts and preferences; '*' is everyone's. Shared ones come always."),
    *(
        _Given(f"--{name.replace('_', '-')}", name)
        for name in ("task_type", "tool", "outcome", "error_code", "agent_role")
    ),
    _Given("--entity", "entities"),
    _Given("--tag", "tags"),
    _Given("--all", "every", f"All of these must hold, {_TEST}", metavar="NAME=VALUE"),
    _Given("--any", "some", f"At least one of these must hold, {_TEST}", metavar="NAME=VALUE"),
    _Given("--not", "none", f"None of these may hold, {_TEST}", metavar="NAME=VALUE"),
    _Given("--state", "states", "pending and active unless given."),
    _Given("--since", "since", "Holding since this time or later (UTC).", datetime),
    _Given("--until", "until", "Holding since before this time (UTC).", datetime),
)


def filtered(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of a filter; it gets them as `filters`: keyword arguments of `Memory.search`.

    The command raises `UsageError` when a condition is not NAME=VALUE.
    """

    @wraps(command)
    def run(*args: Any, **options: Any) -> None:
        given = {option.name: options.pop(option.name) for option in _GIVEN}
        command(*args, filters=_filters(given), **options)

    signature = inspect.signature(command, eval_str=True)
    given = [_parameter(option) for option in _GIVEN]
    own = [(given if item.name == "filters" else [_by_name(item)]) for item in signature.parameters.values()]
    both = [item for items in own for item in items]
    run.__signature__ = signature.replace(parameters=both)  # type: ignore[attr-defined]
    run.__annotations__ = {item.name: item.annotation for item in both}
    return run


def _by_name(item: inspect.Parameter) -> inspect.Parameter:
    return item.replace(kind=inspect.Parameter.KEYWORD_ONLY)


def _parameter(option: _Given) -> inspect.Parameter:
    told = typer.Option(option.flag, help=option.help, metavar=option.metavar)
    kind: Any = option.type
    noted = Annotated[kind | None, told]
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=noted)


def _filters(given: dict[str, Any]) -> dict[str, Any]:
    from ..sdk.arguments import ANY_SUBJECT

    where = _where(given.pop("every"), given.pop("some"), given.pop("none"))
    if given["subject"] == [ANY_SUBJECT]:
        given["subject"] = ANY_SUBJECT
    return {**given, "where": where}


def _where(every: list[str] | None, some: list[str] | None, none: list[str] | None) -> Condition | None:
    """The condition of --all, --any and --not. Raises `UsageError` for what is not NAME=VALUE."""
    parts: list[Condition] = [_test(item) for item in every or ()]
    if some:
        parts.append(Either(tuple(_test(item) for item in some)))
    parts += [Not(_test(item)) for item in none or ()]
    return All(tuple(parts)) if parts else None


#: Names of tests, beside those of where(), that the other options have.
_SINGULAR = {"tag": "tags", "entity": "entities"}


def _test(item: str) -> Condition:
    name, equals, value = item.partition("=")
    name = name.strip().replace("-", "_")
    name = _SINGULAR.get(name, name)
    if not equals or name not in TESTED:
        raise UsageError(f"{item!r}: write NAME=VALUE, where NAME is one of {', '.join(TESTED)}")
    return Is(name, (value,))
