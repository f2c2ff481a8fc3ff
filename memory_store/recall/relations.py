"""Relations: which things the memories of a namespace bring together, one or two steps away from what is named.

A relation is nothing that is kept: it is what active memories say, so it is as fresh, as bounded by the filter and as
forgotten as they are. Two things that one memory mentions are related; where the memory says how (an attribute and its
value, a tool and its error), the relation has that name. Walking from one thing to the next never leaves the filter,
nor the memories of one subject for another's: a name that two users know may be two people.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..store.tables import MEMORIES
from ..text.aliases import Classes
from ..text.names import name_key
from .predicates import Filter, matches

if TYPE_CHECKING:
    from ..store.tables import Tables

Row = Mapping[str, Any]
#: Memories that mention one of some names, the newest first.
Mentions = Callable[[Sequence[str]], Sequence[Row]]

#: Columns that relations are read from.
COLUMNS = ("id", "subject", "entities", "attribute", "value", "tool", "error_code", "valid_from")
#: What two things are to each other where nothing says more.
WITH = "with"
#: What a tool and its error are.
FAILS_WITH = "fails with"
#: Memories of one step that are looked at: what everything is related to says little.
HOT = 500
#: Memories that are read to find the newest among.
_READ = 2_000
#: Things of one step from which the next one is made.
FAN = 8
#: Memories that a relation cites.
_CITED = 5
#: A memory that mentions more things than this says of none that it belongs to another.
_LISTING = 16


@dataclass(frozen=True)
class Relation:
    """That memories bring two things together."""

    #: The usual names of the two
    name: str
    #: `with`, or how a memory says that they are related: an attribute, "fails with"
    relation: str
    other: str
    #: How strongly: 1 for a memory of these two alone, less the more things it mentions beside
    weight: float
    #: Memories that say so
    count: int
    #: Some of them, the newest first
    memories: tuple[str, ...]


@dataclass(frozen=True)
class Neighbour:
    """A thing near what was named."""

    #: Its usual name
    name: str
    #: Its names in the form in which names are compared
    names: tuple[str, ...]
    #: How close, 0 to 1: the share of the strongest; of two steps, the product of both
    closeness: float
    #: 1: a memory mentions both; 2: each is mentioned with a third
    steps: int
    #: What it was reached by; empty for one step
    through: str = ""
    #: Of one step: how memories say that they are related, and some of these
    relations: tuple[Relation, ...] = field(default=())


def relations(rows: Iterable[Row], classes: Classes | None = None) -> list[Relation]:
    """The relations that memories (columns `COLUMNS`) say, strongest first; names of one thing are one.

    The order of the rows changes nothing but which memories are cited: the first ones.
    """
    known = classes or Classes((), name_key)
    weights: dict[tuple[str, str, str], float] = defaultdict(float)
    cited: dict[tuple[str, str, str], dict[str, None]] = defaultdict(dict)
    written: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        things = _things(row, known, written)
        share = 1 / max(len(things) - 1, 1)
        for edge in _edges(row, things, known, written):
            weights[edge] += share if edge[1] == WITH else 1.0
            cited[edge][row["id"]] = None
    found = [
        Relation(
            _usual(one, known, written), relation, _usual(two, known, written), round(weights[one, relation, two], 6),
            len(ids), tuple(ids)[:_CITED],
        )
        for (one, relation, two), ids in cited.items()
    ]  # fmt: skip
    return sorted(found, key=lambda one: (-one.weight, one.name, one.relation, one.other))


def _things(row: Row, classes: Classes, written: dict[str, Counter[str]]) -> list[str]:
    """What a memory mentions, as keys, each once; nothing where it is a mere list."""
    found: dict[str, None] = {}
    for name in row["entities"] or ():
        key = classes.key(name)
        if key:
            written[key][name] += 1
            found[key] = None
    return list(found) if len(found) <= _LISTING else []


def _edges(
    row: Row, things: Sequence[str], classes: Classes, written: dict[str, Counter[str]]
) -> Iterator[tuple[str, str, str]]:
    for place, one in enumerate(things):
        for two in things[place + 1 :]:
            yield (one, WITH, two) if one < two else (two, WITH, one)
    said = ((row["subject"], row["attribute"], row["value"]), (row["tool"], FAILS_WITH, row["error_code"]))
    for name, relation, other in said:
        if not (name and relation and other):
            continue
        one, two = classes.key(name), classes.key(other)
        # A value that is no thing (a number, a yes) would relate all that share it.
        if one != two and (relation == FAILS_WITH or two in things):
            written[one][name] += 1
            written[two][other] += 1
            yield one, relation, two


def _usual(key: str, classes: Classes, written: Mapping[str, Counter[str]]) -> str:
    usual = classes.usual(key)
    if usual != key:
        return usual
    names = Counter({name: count for name, count in written[key].items() if name_key(name) == key}) or written[key]
    return min(names, key=lambda name: (-names[name], name)) if names else key


def neighbours(
    mentions: Mentions, names: Sequence[str], classes: Classes | None = None, *, steps: int = 1, limit: int = 20
) -> list[Neighbour]:
    """Things one step, or two, away from those that are named, closest first, at most `limit`.

    `mentions` looks memories up, and decides by that which count. A step goes on from the `FAN` closest alone.
    """
    known = classes or Classes((), name_key)
    start = {known.key(name) for name in names if name_key(name)}
    rows = mentions(_names(start, known)) if start else ()
    first = _step(rows, start, known, frozenset(start))
    if steps > 1 and first:
        first = _second(mentions, rows, first, start, known)
    found = sorted(first.values(), key=lambda one: (-one.closeness, one.steps, one.name))
    return found[:limit]


def _step(rows: Sequence[Row], start: set[str], known: Classes, seen: frozenset[str]) -> dict[str, Neighbour]:
    pairs: dict[str, list[Relation]] = defaultdict(list)
    for one in relations(rows, known):
        ends = known.key(one.name), known.key(one.other)
        for here, there in (ends, ends[::-1]):
            if here in start and there not in seen:
                pairs[there].append(one)
    sums = {key: sum(one.weight for one in some) for key, some in pairs.items()}
    best = max(sums.values(), default=1.0)
    return {
        key: Neighbour(_end(some[0], key, known), known.names(key), sums[key] / best, 1, relations=tuple(some))
        for key, some in pairs.items()
    }


def _end(relation: Relation, key: str, known: Classes) -> str:
    return relation.name if known.key(relation.name) == key else relation.other


def _second(
    mentions: Mentions, near: Sequence[Row], first: dict[str, Neighbour], start: set[str], known: Classes
) -> dict[str, Neighbour]:
    """What is one step further, beside what was found already. All are looked up together, each in its own scope."""
    middles = sorted(first, key=lambda key: (-first[key].closeness, key))[:FAN]
    rows = mentions(_names(middles, known))
    scopes = _scopes(near, start, set(middles), known)
    found = dict(first)
    keys = [_mentioned(row, known) for row in rows]
    for middle in middles:
        near_it = [row for row, names in zip(rows, keys, strict=True) if middle in names]
        own = [row for row in near_it if _may_follow(row, scopes[middle])]
        for key, one in _step(own, {middle}, known, frozenset((*start, *first))).items():
            closeness = round(one.closeness * first[middle].closeness, 6)
            if key not in found or closeness > found[key].closeness:
                found[key] = Neighbour(one.name, one.names, closeness, 2, first[middle].name)
    return found


def _scopes(rows: Iterable[Row], start: set[str], middles: set[str], known: Classes) -> dict[str, set[str]]:
    """Whose memories mention what was named and each middle together."""
    scopes: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        keys = _mentioned(row, known)
        if keys & start:
            for key in keys & middles:
                scopes[key].add(row["subject"] or "")
    return scopes


def _mentioned(row: Row, known: Classes) -> set[str]:
    """What a memory brings together, as keys."""
    said = (row["subject"], row["value"]), (row["tool"], row["error_code"])
    names = [*(row["entities"] or ()), *(name for pair in said if all(pair) for name in pair)]
    return {known.key(name) for name in names}


def _may_follow(row: Row, scopes: set[str]) -> bool:
    """Whether a memory is about the same thing as those that a name was found in: theirs, or shared with all."""
    subject = row["subject"] or ""
    return not subject or "" in scopes or subject in scopes


def _names(keys: Iterable[str], known: Classes) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for key in sorted(keys) for name in known.names(key)))


def mentions_in(tables: Tables, where: Filter, table: str = MEMORIES, fresh: Iterable[Row] = ()) -> Mentions:
    """What a store mentions, and rows that it does not hold yet, filter first; of what is mentioned everywhere, the
    newest `HOT` of some 2,000.
    """
    own = list(fresh)

    def look(names: Sequence[str]) -> Sequence[Row]:
        narrow = replace(where, entity_groups=(*where.entity_groups, tuple(names)))
        rows = tables.scan(narrow, COLUMNS, table, _READ)
        if rows.num_rows > HOT:
            newest = rows.sort_by([("valid_from", "descending"), ("id", "ascending")])
            rows = newest.slice(0, HOT)
        found: list[Row] = rows.to_pylist()
        held = {row["id"] for row in found}
        found += [row for row in own if row["id"] not in held and matches(row, narrow)]
        return sorted(found, key=lambda row: (row["valid_from"], row["id"]), reverse=True)[:HOT]

    return look
