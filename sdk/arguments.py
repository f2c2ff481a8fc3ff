"""What callers give, checked and made what the store can keep."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ..memory_store.clock import as_utc
from ..memory_store.errors import UsageError
from ..memory_store.recall.conditions import Condition
from ..memory_store.recall.predicates import READABLE, Filter

#: Kinds that a search returns unless it names others (R5): all but episodes.
DEFAULT_KINDS: tuple[str, ...] = ("experience", "fact", "preference", "rule")
#: Give this as `subject` to search the memories of every subject, as an operator does and an agent should not.
ANY_SUBJECT = "*"
STATES = ("pending", "active", "superseded", "merged", "archived", "deleted", "quarantined")


def stored(text: str) -> str:
    """A text as Parquet and Arrow can keep it: no NUL, no half of a surrogate pair."""
    if not isinstance(text, str):
        raise UsageError(f"{text!r} is no text")
    return text.replace("\0", "").encode("utf-8", "backslashreplace").decode()


def many(value: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """One value or several, as a filter takes them. Raises `UsageError` on what is no text."""
    if value is None:
        return None
    values = (value,) if isinstance(value, str) else tuple(value)
    for item in values:
        if not isinstance(item, str):
            raise UsageError(f"a filter takes text, not {item!r}")
    return values


def known(values: tuple[str, ...] | None, allowed: tuple[str, ...], what: str) -> tuple[str, ...] | None:
    """The same values. Raises `UsageError` on one that is not allowed, and names those that are."""
    for value in values or ():
        if value not in allowed:
            raise UsageError(f"there is no {what} {value!r}: take one of {', '.join(allowed)}")
    return values


def filter_of(
    namespace: str,
    *,
    kinds: Sequence[str] | None = None,
    subject: str | Sequence[str] | None = None,
    task_type: str | Sequence[str] | None = None,
    tool: str | Sequence[str] | None = None,
    outcome: str | Sequence[str] | None = None,
    error_code: str | Sequence[str] | None = None,
    agent_role: str | Sequence[str] | None = None,
    entities: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
    states: Sequence[str] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    where: Condition | None = None,
) -> Filter:
    """What a search was asked to keep to, as a filter. Raises `UsageError` for what can't be meant."""
    return Filter(
        namespaces=(namespace,),
        kinds=known(many(kinds), ("episode", "passage", *DEFAULT_KINDS), "kind") or DEFAULT_KINDS,
        states=known(many(states), STATES, "state") or READABLE,
        subjects=None if subject == ANY_SUBJECT else many(subject) or (),
        task_types=many(task_type),
        tools=many(tool),
        outcomes=many(outcome),
        error_codes=many(error_code),
        agent_roles=many(agent_role),
        entities=many(entities),
        tags=many(tags),
        since=None if since is None else as_utc(since),
        until=None if until is None else as_utc(until),
        where=where,
    )
