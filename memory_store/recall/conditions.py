"""Conditions that combine: what a memory must be like, joined with `&`, `|` and `~`.

A `Filter` is one list of things that must all hold; a condition says the rest: this tool or that error, but not both.
Plain values, no SQL: `predicates` turns them into what the store understands.

>>> where(tool="pay") & ~where(outcome="success", error_code=("E1", "E2"))
All(every=(Is(column='tool', values=('pay',)), Not(without=All(every=(Is(column='outcome', values=('success',)), \
Is(column='error_code', values=('E1', 'E2')))))))
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from ..clock import as_utc
from ..errors import UsageError

#: Most parts of a condition: what is longer was made by a mistake.
MOST_PARTS = 256


#: Columns of one value that a condition can look at.
COLUMNS = (
    "kind", "state", "subject", "task_type", "tool", "outcome", "error_code", "agent_role", "said_by", "language",
)  # fmt: skip
#: What a condition can look at.
TESTED = (*COLUMNS, "entities", "tags")


class Condition:
    """What a memory is like or not. Combine with `&`, `|` and `~`."""

    def __and__(self, other: Condition) -> Condition:
        return All((self, _checked(other)))

    def __or__(self, other: Condition) -> Condition:
        return Either((self, _checked(other)))

    def __invert__(self) -> Condition:
        return Not(self)

    def __bool__(self) -> bool:
        raise UsageError("a condition is neither true nor false: join conditions with &, | and ~, not and, or and not")


@dataclass(frozen=True)
class Is(Condition):
    """A column has one of some values; for `entities` and `tags`: at least one of them. "" stands for "not set"."""

    column: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class From(Condition):
    """A memory holds since this time or later."""

    time: datetime


@dataclass(frozen=True)
class All(Condition):
    """Every part holds; without parts it does."""

    every: tuple[Condition, ...]


@dataclass(frozen=True)
class Either(Condition):
    """At least one part holds; without parts none does."""

    some: tuple[Condition, ...]


@dataclass(frozen=True)
class Not(Condition):
    """What is inside does not hold; what is not set is not equal to anything."""

    without: Condition


def where(
    *,
    kind: str | Iterable[str] | None = None,
    state: str | Iterable[str] | None = None,
    subject: str | Iterable[str] | None = None,
    task_type: str | Iterable[str] | None = None,
    tool: str | Iterable[str] | None = None,
    outcome: str | Iterable[str] | None = None,
    error_code: str | Iterable[str] | None = None,
    agent_role: str | Iterable[str] | None = None,
    said_by: str | Iterable[str] | None = None,
    language: str | Iterable[str] | None = None,
    entities: str | Iterable[str] | None = None,
    tags: str | Iterable[str] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Condition:
    """A condition: all that is given must hold; of several values of one, any will do.

    `since` and `until` bound the time since when a memory holds. It narrows what a search would return, and never
    widens it: subjects and states are still those that the search names. All of some tags:
    `where(tags="a") & where(tags="b")`. Raises `UsageError` for what can't be meant.
    """
    given = {
        "kind": kind, "state": state, "subject": subject, "task_type": task_type, "tool": tool, "outcome": outcome,
        "error_code": error_code, "agent_role": agent_role, "said_by": said_by, "language": language,
        "entities": entities, "tags": tags,
    }  # fmt: skip
    parts: list[Condition] = [Is(name, _texts(name, values)) for name, values in given.items() if values is not None]
    for time in (since, until):
        if time is not None and not isinstance(time, datetime):
            raise UsageError(f"{time!r} is no time: give a datetime")
    if since is not None:
        parts.append(From(as_utc(since)))
    if until is not None:
        parts.append(Not(From(as_utc(until))))
    if not parts:
        raise UsageError("where() needs something to look at, such as where(tool='pay')")
    return parts[0] if len(parts) == 1 else All(tuple(parts))


def check(condition: object) -> None:
    """Raise `UsageError` for what is no condition, or one of too many parts."""
    left = [condition]
    for _ in range(MOST_PARTS):
        if not left:
            return
        part = left.pop()
        match part:
            case All(every=parts) | Either(some=parts):
                left += parts
            case Not(without=inner):
                left.append(inner)
            case Is() | From():
                pass
            case _:
                raise UsageError(f"{part!r} is no condition: make one with where(…)")
    raise UsageError(f"a condition has more than {MOST_PARTS} parts: name values of one field together")


def _checked(other: object) -> Condition:
    if not isinstance(other, Condition):
        raise UsageError(f"{other!r} is no condition: make one with where(…)")
    return other


def _texts(name: str, values: str | Iterable[str]) -> tuple[str, ...]:
    some = (values,) if isinstance(values, str) else tuple(values) if isinstance(values, Iterable) else (values,)
    for value in some:
        if not isinstance(value, str):
            raise UsageError(f"{name} takes text, not {value!r}")
    return some
