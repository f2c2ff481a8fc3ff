"""Which memories a query may see: typed filters, and the one place where a LanceDB predicate is written.

Nobody else writes SQL for the store. A filter names its namespaces, always; what users supply reaches the predicate
only as a literal, through the quoters at the end of this file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, NewType

import msgspec

from ..clock import as_utc
from ..errors import UsageError
from ..settings import check_namespace
from ..text.names import name_key
from .conditions import COLUMNS, TESTED, All, Condition, Either, From, Is, Not, check

#: What the store is filtered by. Nobody else makes one.
Predicate = NewType("Predicate", str)

#: States of memories that a query returns unless it says otherwise.
READABLE: tuple[str, ...] = ("active", "pending")

_SURROGATE = re.compile("[\ud800-\udfff]")

#: Field of a filter → column, for columns of one value.
ONE = {
    "kinds": "kind",
    "states": "state",
    "task_types": "task_type",
    "tools": "tool",
    "outcomes": "outcome",
    "error_codes": "error_code",
    "agent_roles": "agent_role",
    "said_by": "said_by",
    "languages": "language",
    "attributes": "attribute",
    "ids": "id",
    "own_subjects": "subject",
    "superseded_by": "superseded_by",
}
#: Field of a filter → column, for values that a row must not have.
NOT_ONE = {
    "not_kinds": "kind",
    "not_task_types": "task_type",
    "not_tools": "tool",
    "not_outcomes": "outcome",
    "not_error_codes": "error_code",
    "not_agent_roles": "agent_role",
    "not_said_by": "said_by",
    "not_ids": "id",
}


@dataclass(frozen=True)
class Filter:
    """What a memory must be like to be returned. None means any; an empty tuple means none at all.

    An empty string stands for "not set": `tools=("",)` are the memories that are about no tool. Raises `UsageError`
    when it is built with values that can't be meant.
    """

    #: Tenants that are searched; never empty
    namespaces: tuple[str, ...]
    kinds: tuple[str, ...] | None = None
    states: tuple[str, ...] | None = READABLE
    #: Whom memories may be about. What is shared (no subject) always is among them; None: whoever it is about
    subjects: tuple[str, ...] | None = None
    task_types: tuple[str, ...] | None = None
    tools: tuple[str, ...] | None = None
    outcomes: tuple[str, ...] | None = None
    error_codes: tuple[str, ...] | None = None
    agent_roles: tuple[str, ...] | None = None
    said_by: tuple[str, ...] | None = None
    languages: tuple[str, ...] | None = None
    attributes: tuple[str, ...] | None = None
    ids: tuple[str, ...] | None = None
    #: Whom memories are about, without what is shared; "" alone: only that
    own_subjects: tuple[str, ...] | None = None
    #: Memories whose place these took
    superseded_by: tuple[str, ...] | None = None
    not_kinds: tuple[str, ...] = ()
    not_task_types: tuple[str, ...] = ()
    not_tools: tuple[str, ...] = ()
    not_outcomes: tuple[str, ...] = ()
    not_error_codes: tuple[str, ...] = ()
    not_agent_roles: tuple[str, ...] = ()
    not_said_by: tuple[str, ...] = ()
    not_ids: tuple[str, ...] = ()
    #: At least one of these is mentioned; entities are compared as names are, in any case and width (`name_key`)
    entities: tuple[str, ...] | None = None
    #: All of these are mentioned
    all_entities: tuple[str, ...] = ()
    #: None of these is mentioned
    not_entities: tuple[str, ...] = ()
    #: At least one of each of these groups is mentioned
    entity_groups: tuple[tuple[str, ...], ...] = ()
    #: At least one of these labels
    tags: tuple[str, ...] | None = None
    #: All of these labels
    all_tags: tuple[str, ...] = ()
    #: None of these labels
    not_tags: tuple[str, ...] = ()
    #: Valid from this time on
    since: datetime | None = None
    #: Valid from before this time
    until: datetime | None = None
    #: Holding in the world at this time
    valid_at: datetime | None = None
    #: What else must hold, and what must not; see `conditions.where`
    where: Condition | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("since", "until", "valid_at"):
                if value is not None and not isinstance(value, datetime):
                    raise UsageError(f"{field.name} is {value!r}: give a datetime")
            elif field.name == "where":
                if value is not None:
                    check(value)
            elif field.name == "entity_groups":
                if not all(isinstance(item, str) for group in value for item in group):
                    raise UsageError(f"{field.name} is {value!r}: give tuples of strings")
            elif value is not None and (
                not isinstance(value, tuple) or not all(isinstance(item, str) for item in value)
            ):
                raise UsageError(f"{field.name} is {value!r}: give a tuple of strings")
        if not self.namespaces:
            raise UsageError("a filter without a namespace reads nothing: name at least one")
        for namespace in self.namespaces:
            check_namespace(namespace)


def predicate(filter: Filter, has_names: bool = True) -> Predicate:
    """The filter as a predicate of LanceDB. `has_names`: whether the table has the column `names`, so that entities are
    compared as names are, not letter by letter.
    """
    clauses = [_one_of("namespace", filter.namespaces)]
    for field, column in ONE.items():
        if (values := getattr(filter, field)) is not None:
            clauses.append(_one_of(column, values))
    for field, column in NOT_ONE.items():
        if values := getattr(filter, field):
            clauses.append(_none_of(column, values))
    if filter.subjects is not None:
        clauses.append(_one_of("subject", ("", *filter.subjects)))
    named = "names" if has_names else "entities"
    form: Callable[[str], str] = name_key if has_names else str
    for column, some, every, none in (
        (named, _each(form, filter.entities), _each(form, filter.all_entities), _each(form, filter.not_entities)),
        ("tags", filter.tags, filter.all_tags, filter.not_tags),
    ):
        if some is not None:
            clauses.append(f"array_has_any({column}, {_texts(some)})" if some else "false")
        if every:
            clauses.append(f"array_has_all({column}, {_texts(every)})")
        if none:
            clauses.append(f"({column} IS NULL OR NOT array_has_any({column}, {_texts(none)}))")
    for group in filter.entity_groups:
        clauses.append(f"array_has_any({named}, {_texts(map(form, group))})" if group else "false")
    if filter.since is not None:
        clauses.append(f"valid_from >= {_time(filter.since)}")
    if filter.until is not None:
        clauses.append(f"valid_from < {_time(filter.until)}")
    if filter.valid_at is not None:
        clauses.append(f"valid_from <= {_time(filter.valid_at)}")
        clauses.append(f"(valid_to IS NULL OR valid_to > {_time(filter.valid_at)})")
    if filter.where is not None:
        clauses.append(_condition(filter.where, named, form))
    return Predicate(" AND ".join(clauses))


def predicate_up_to(filter: Filter, seq: int) -> Predicate:
    """What `predicate` says, of rows that nothing has changed after a place in the log."""
    return Predicate(f"{predicate(filter)} AND seq <= {int(seq)}")


def addresses_below(address: int) -> Predicate:
    """Rows whose address in the table is lower than one."""
    return Predicate(f"_rowid < {int(address)}")


def addresses_from(address: int) -> Predicate:
    """The other rows."""
    return Predicate(f"_rowid >= {int(address)}")


def fold_row(key: str) -> Predicate:
    """The row of the table `folds` that a key names: a namespace, or one and what else is counted of it."""
    return Predicate(_one_of("namespace", (key,)))


def matches(row: Mapping[str, Any], filter: Filter) -> bool:
    """Whether a row passes the filter: what `predicate` says, in Python, for rows that are not in the store yet.

    A column that is missing or None counts as not set.
    """
    if _text_of(row, "namespace") not in filter.namespaces:
        return False
    for field, column in ONE.items():
        if (values := getattr(filter, field)) is not None and _text_of(row, column) not in map(storable, values):
            return False
    for field, column in NOT_ONE.items():
        if _text_of(row, column) in map(storable, getattr(filter, field)):
            return False
    if filter.subjects is not None and _text_of(row, "subject") not in ("", *map(storable, filter.subjects)):
        return False
    for column, form, some, every, none in (
        ("entities", name_key, filter.entities, filter.all_entities, filter.not_entities),
        ("tags", storable, filter.tags, filter.all_tags, filter.not_tags),
    ):
        present = set(map(form, row.get(column) or ()))
        if some is not None and present.isdisjoint(map(form, some)):
            return False
        if not present.issuperset(map(form, every)) or not present.isdisjoint(map(form, none)):
            return False
        if column == "entities" and any(present.isdisjoint(map(form, group)) for group in filter.entity_groups):
            return False
    return _in_time(row, filter) and (filter.where is None or holds(row, filter.where))


def holds(row: Mapping[str, Any], condition: Condition) -> bool:
    """Whether a condition holds for a row: what the predicate says, in Python."""
    match condition:
        case All(every=parts):
            return all(holds(row, part) for part in parts)
        case Either(some=parts):
            return any(holds(row, part) for part in parts)
        case Not(without=inner):
            return not holds(row, inner)
        case Is(column="entities", values=values):
            return not set(map(name_key, row.get("entities") or ())).isdisjoint(map(name_key, values))
        case Is(column="tags", values=values):
            return not set(row.get("tags") or ()).isdisjoint(map(storable, values))
        case Is(column=column, values=values):
            return _text_of(row, _column(column)) in map(storable, values)
        case From(time=time):
            return (start := row.get("valid_from")) is not None and as_utc(start) >= time
    raise UsageError(f"{condition!r} is no condition: make one with where(…)")


def _in_time(row: Mapping[str, Any], filter: Filter) -> bool:
    start, end = row.get("valid_from"), row.get("valid_to")
    checks: tuple[tuple[datetime | None, Callable[[datetime], bool]], ...] = (
        (filter.since, lambda time: start is not None and as_utc(start) >= time),
        (filter.until, lambda time: start is not None and as_utc(start) < time),
        (filter.valid_at, lambda time: start is not None and as_utc(start) <= time),
        (filter.valid_at, lambda time: end is None or as_utc(end) > time),
    )
    return all(time is None or check(as_utc(time)) for time, check in checks)


def filter_json(filter: Filter) -> str:
    """What a filter asks for, as JSON: the fields that say something, without the namespaces.

    >>> filter_json(Filter(("acme",), kinds=("fact",), subjects=("ann",)))
    '{"kinds":["fact"],"subjects":["ann"]}'
    """
    said: dict[str, Any] = {}
    for field in fields(filter):
        value = getattr(filter, field.name)
        if field.name != "namespaces" and value != field.default:
            said[field.name] = as_utc(value) if isinstance(value, datetime) else value
    return storable(json.dumps(msgspec.to_builtins(said), ensure_ascii=False, separators=(",", ":")))


def _condition(condition: Condition, named: str, form: Callable[[str], str], is_not: bool = False) -> str:
    """A condition as a predicate. What is negated is negated at the leaves, where an unset column is not equal."""
    match condition:
        case All() | Either():
            parts = condition.every if isinstance(condition, All) else condition.some
            is_all = isinstance(condition, All) is not is_not
            joined = (" AND " if is_all else " OR ").join(_condition(part, named, form, is_not) for part in parts)
            return f"({joined})" if parts else str(is_all).lower()
        case Not(without=inner):
            return _condition(inner, named, form, not is_not)
        case Is(column="entities" | "tags" as column, values=values):
            texts = _texts(map(form, values)) if column == "entities" else _texts(values)
            column = named if column == "entities" else column
            if not values:
                return str(is_not).lower()
            has = f"array_has_any({column}, {texts})"
            return f"({column} IS NULL OR NOT {has})" if is_not else has
        case Is(column=column, values=values):
            if is_not and not values:
                return "true"
            return _none_of(_column(column), values) if is_not else _one_of(_column(column), values)
        case From(time=time):
            at = _time(time)
            return f"(valid_from IS NULL OR valid_from < {at})" if is_not else f"(valid_from >= {at})"
    raise UsageError(f"{condition!r} is no condition: make one with where(…)")


def _column(name: str) -> str:
    """The column of a test: only names that are known become SQL."""
    if name not in COLUMNS:
        raise UsageError(f"a condition can't look at {name!r}: take one of {', '.join(TESTED)}")
    return name


def _each(form: Callable[[str], str], names: Iterable[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(map(form, names))


def _text_of(row: Mapping[str, Any], column: str) -> str:
    value = row.get(column)
    return "" if value is None else str(value)


def _one_of(column: str, values: Iterable[str]) -> str:
    unique = dict.fromkeys(values)
    if not unique:
        return "false"
    clause = f"{column} IN ({', '.join(map(_text, unique))})"
    return f"({column} IS NULL OR {clause})" if "" in unique else clause


def _none_of(column: str, values: Iterable[str]) -> str:
    unique = dict.fromkeys(values)
    clause = f"{column} NOT IN ({', '.join(map(_text, unique))})"
    return f"({column} IS NOT NULL AND {clause})" if "" in unique else f"({column} IS NULL OR {clause})"


def storable(value: str) -> str:
    """A string as a store could hold it: half a surrogate pair can't be encoded."""
    return _SURROGATE.sub("\ufffd", value)


def _text(value: str) -> str:
    """A string literal. In this SQL a quote is doubled and nothing else is special, a backslash included."""
    return "'" + storable(value).replace("'", "''") + "'"


def _texts(values: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, dict.fromkeys(values)))}]"


def _time(value: datetime) -> str:
    return f"timestamp '{as_utc(value).replace(tzinfo=None).isoformat(sep=' ', timespec='microseconds')}'"
