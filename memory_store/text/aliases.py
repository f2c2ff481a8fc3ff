"""Aliases: decisions that two names stand for one thing, or that an agent's name of a kind of task is one of a class.

An alias is a row of the log (decision `alias`), folded, undone, purged and asked as of a past time as a memory is, and
never returned by a search. Texts and entities of memories stay as they were written: a query asks for all names of
what it names, so an alias that is taken back leaves no trace.

Of a name that was given several meanings the newest holds; one that was given for a subject comes before one for all.
What names stand for one thing is the closure of that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from ..clock import END_OF_TIME
from ..errors import UsageError
from ..history.inbox import Row
from ..ids import derive_id
from ..recall.conditions import All, Condition, Either, Is, Not
from ..recall.predicates import READABLE, Filter
from ..schema import ALIAS
from .names import name_key
from .terms import said

if TYPE_CHECKING:
    from ..history.overlay import Overlay
    from ..store.tables import Tables

Sort = Literal["entity", "task_type"]

#: Columns of the store that an alias is made of.
COLUMNS = (
    "id", "kind", "attribute", "about", "value", "subject", "state", "valid_from", "run", "evidence", "derived_from",
)  # fmt: skip


@dataclass(frozen=True)
class Alias:
    """A name, and the one that it stands for."""

    id: str
    #: entity: a name of a person or thing · task_type: an agent's name of a kind of task
    sort: Sort
    #: The name, as it was given
    name: str
    #: What it stands for: the usual name, or the class in the taxonomy
    of: str
    #: In whose memories; empty: in all
    subject: str
    #: active, or pending when what it was learned from was undone; these hold. Else deleted, superseded, …
    state: str
    #: When it was decided
    since: datetime
    #: Run that proposed it; empty: a user
    run: str
    #: Trace and event ids that it rests on, with the quoted span
    evidence: tuple[Mapping[str, str], ...] = ()
    #: Memories that it was learned from
    derived_from: tuple[str, ...] = ()


def alias_id(namespace: str, sort: Sort, name: str, of: str, subject: str = "") -> str:
    """The id of an alias: the same names, in the form that they are compared in, give the same one."""
    form = _FORMS[sort]
    return derive_id(namespace, ALIAS, sort, subject, form(name), form(of))


def alias_row(
    namespace: str,
    sort: Sort,
    name: str,
    of: str,
    *,
    at: datetime,
    subject: str = "",
    reason: str = "",
    evidence: Sequence[Mapping[str, str]] = (),
    derived_from: Sequence[str] = (),
    id: str = "",
) -> Row:
    """The decision that a name stands for another one, as a row of the log without `act`, `run` and `read_to`.

    Raises `UsageError` for names that are empty or one already.
    """
    name, of = name.strip(), of.strip()
    if not name or not of:
        raise UsageError("an alias needs two names")
    if _FORMS[sort](name) == _FORMS[sort](of):
        raise UsageError(f"{name!r} and {of!r} are one name already")
    return {
        "decision": "alias",
        "id": id or alias_id(namespace, sort, name, of, subject),
        "at": at,
        "reason": reason,
        "kind": ALIAS,
        "text": f"{name} = {of}",
        "attribute": sort,
        "about": name,
        "value": of,
        "subject": subject,
        "evidence": [dict(item) for item in evidence],
        "derived_from": list(derived_from),
        "state": "active",
        "strength": 1.0,
        "confidence": 1.0,
        "valid_from": at,
        "valid_to": END_OF_TIME,
        "superseded_by": "",
    }


def same_name(sort: Sort, first: str, second: str) -> bool:
    """Whether two names are one by their form alone."""
    return _FORMS[sort](first) == _FORMS[sort](second)


def superseded_row(old: Alias, by: str, at: datetime) -> Row:
    """That an alias gave way to another one of the same name."""
    return {
        "decision": "supersede", "id": old.id, "at": at, "state": "superseded", "superseded_by": by, "valid_to": at,
        "reason": f"{old.name} is given another meaning",
    }  # fmt: skip


def aliases_of(rows: Iterable[Mapping[str, Any]]) -> list[Alias]:
    """The aliases among rows of the store, in any state, oldest first. One that was purged says nothing."""
    found = [
        Alias(
            row["id"], row["attribute"], row["about"], row["value"], row["subject"] or "", row["state"],
            row["valid_from"], row["run"] or "", tuple(row["evidence"] or ()), tuple(row["derived_from"] or ()),
        )
        for row in rows
        if row["kind"] == ALIAS and row["about"] and row["value"] and row["attribute"] in _FORMS
    ]  # fmt: skip
    return sorted(found, key=_age)


def stored_aliases(tables: Tables, namespace: str) -> list[Alias]:
    """The aliases that a store has folded, in any state, oldest first."""
    return aliases_of(tables.scan(Filter((namespace,), kinds=(ALIAS,), states=None), COLUMNS).to_pylist())


def with_overlay(stored: Sequence[Alias], overlay: Overlay) -> list[Alias]:
    """The same aliases with what was decided since the fold, oldest first."""
    import pyarrow.compute as pc

    by_id = {alias.id: replace(alias, state=overlay.states.get(alias.id, alias.state)) for alias in stored}
    added = overlay.added.filter(pc.equal(overlay.added.column("kind"), ALIAS)) if overlay.added.num_rows else None
    if added is not None and added.num_rows:
        by_id |= {alias.id: alias for alias in aliases_of(added.select(COLUMNS).to_pylist())}
    return sorted(by_id.values(), key=_age)


def _age(alias: Alias) -> tuple[datetime, str]:
    return alias.since, alias.id


def _exact(name: str) -> str:
    """Names of kinds of tasks are what agents log: they are compared letter by letter."""
    return name


_FORMS: Mapping[str, Callable[[str], str]] = {"entity": name_key, "task_type": _exact}


class Classes:
    """Which names stand for one thing, by aliases of one sort."""

    def __init__(self, aliases: Iterable[Alias], form: Callable[[str], str]) -> None:
        """`aliases`: those that hold, oldest first; of one name the last counts."""
        self._form = form
        self._meaning: dict[str, str] = {}
        #: How names are written
        self._written: dict[str, str] = {}
        self._order: dict[str, int] = {}
        for place, alias in enumerate(aliases):
            name, of = form(alias.name), form(alias.of)
            if name != of:
                self._meaning[name], self._order[name] = of, place
                self._written |= {name: alias.name, of: alias.of}
        self._members: dict[str, list[str]] = defaultdict(list)
        for name in self._written:
            self._members[self._end(name)].append(name)

    def __bool__(self) -> bool:
        return bool(self._meaning)

    def _end(self, name: str) -> str:
        """What a name stands for in the end; in a circle, what the newest alias of it says."""
        path: dict[str, None] = {}
        while name in self._meaning and name not in path:
            path[name] = None
            name = self._meaning[name]
        if name not in path:
            return name
        circle = list(path)[list(path).index(name) :]
        return self._meaning[max(circle, key=self._order.__getitem__)]

    def usual(self, name: str) -> str:
        """The usual name of what a name stands for, as it is written; the name itself if none is known."""
        end = self._end(self._form(name))
        return self._written.get(end, name) if end != self._form(name) else name

    def key(self, name: str) -> str:
        """The usual name in the form in which names are compared: equal for all names of one thing."""
        return self._end(self._form(name))

    def names(self, name: str) -> tuple[str, ...]:
        """Every name of what a name stands for, itself first, in the form in which names are compared."""
        own = self._form(name)
        return tuple(dict.fromkeys((own, *sorted(self._members.get(self._end(own), ())))))

    def said(self, text: str) -> frozenset[str]:
        """All names of the things that have several and of which a normalised text says one in full."""
        return frozenset(
            name for names in self._members.values() if any(said(one, text) for one in names) for name in names
        )

    def groups(self) -> dict[str, tuple[str, ...]]:
        """The names of each thing that has several, by its usual name, as they are written."""
        return {
            self._written[end]: tuple(sorted(self._written[name] for name in names))
            for end, names in sorted(self._members.items())
        }


class NameBook:
    """The aliases of one namespace that hold, and what they make of a query."""

    def __init__(self, aliases: Iterable[Alias] = ()) -> None:
        """`aliases`: in any state."""
        self._held = sorted((alias for alias in aliases if alias.state in READABLE), key=_age)
        #: Names of kinds of tasks
        self.task_types = Classes((alias for alias in self._held if alias.sort == "task_type"), _exact)
        self._entities: dict[str, Classes] = {}

    def __bool__(self) -> bool:
        return bool(self._held)

    def entities(self, subject: str = "") -> Classes:
        """Names of things, as they are used for a subject; without one, as they are used for all."""
        if subject not in self._entities:
            own = [alias for alias in self._held if alias.sort == "entity" and alias.subject in ("", subject)]
            self._entities[subject] = Classes(sorted(own, key=lambda alias: bool(alias.subject)), name_key)
        return self._entities[subject]

    def expand(self, filter: Filter) -> Filter:
        """The same filter with all names of what it names. Doing it twice changes nothing.

        Aliases that hold for one subject apply where the filter is bound to that subject alone. A filter over several
        namespaces stays as it is: each has names of its own.
        """
        if not self or len(filter.namespaces) != 1:
            return filter
        things, types = self.entities(subject_of(filter)), self.task_types
        alone = tuple(name for name in filter.all_entities if len(things.names(name)) == 1)
        groups = tuple(things.names(name) for name in filter.all_entities if name not in alone)
        return replace(
            filter,
            entities=None if filter.entities is None else _all(things, filter.entities),
            all_entities=alone,
            entity_groups=(*(_all(things, group) for group in filter.entity_groups), *groups),
            not_entities=_all(things, filter.not_entities),
            task_types=None if filter.task_types is None else _all(types, filter.task_types),
            not_task_types=_all(types, filter.not_task_types),
            where=None if filter.where is None else _inside(filter.where, things, types),
        )


class BookKeeper:
    """The name books of the namespaces that a reader asks, kept until something is folded or written."""

    def __init__(self) -> None:
        self._stored: dict[str, tuple[Tables, int, list[Alias]]] = {}
        self._books: dict[str, tuple[Overlay, NameBook]] = {}

    def book(self, tables: Tables, namespace: str, overlay: Overlay) -> NameBook:
        """The aliases that hold in a namespace, by a store and what was written since."""
        kept = self._books.get(namespace)
        if kept is not None and kept[0] is overlay:
            return kept[1]
        stored = self._stored.get(namespace)
        if stored is None or stored[0] is not tables or stored[1] != overlay.folded_to:
            stored = (tables, overlay.folded_to, stored_aliases(tables, namespace))
            self._stored[namespace] = stored
        book = NameBook(with_overlay(stored[2], overlay))
        self._books[namespace] = (overlay, book)
        return book


def subject_of(filter: Filter) -> str:
    """The one subject that a filter is bound to; empty if there is none, or several."""
    subjects = set(filter.own_subjects if filter.own_subjects is not None else filter.subjects or ())
    return subjects.pop() if len(subjects) == 1 else ""


def _inside(condition: Condition, things: Classes, types: Classes) -> Condition:
    """The same condition with all names of what it names."""
    match condition:
        case All(every=parts):
            return All(tuple(_inside(part, things, types) for part in parts))
        case Either(some=parts):
            return Either(tuple(_inside(part, things, types) for part in parts))
        case Not(without=inner):
            return Not(_inside(inner, things, types))
        case Is(column="entities", values=values):
            return Is("entities", _all(things, values))
        case Is(column="task_type", values=values):
            return Is("task_type", _all(types, values))
    return condition


def _all(classes: Classes, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one for name in names for one in (name, *classes.names(name))))
