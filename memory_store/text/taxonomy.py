"""Names of kinds of tasks that look like one, as mappings that a person may accept (R28). Pure.

What agents call their tasks is theirs: two names are never brought together by how they look alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from .names import name_key

#: Words of a name: at capitals inside, digits, and whatever is no letter.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_ENDINGS = ("ing", "ed", "s", "e")


@dataclass(frozen=True)
class TaskType:
    """A name of a kind of task, as agents use it."""

    #: The name
    name: str
    #: Its class in the taxonomy; the name itself if it was mapped to none
    of: str
    #: Whether it is mapped to a class, or a class itself
    is_mapped: bool
    #: Memories that can be returned and have this name
    memories: int


@dataclass(frozen=True)
class Suggestion:
    """That a name may belong to a class."""

    name: str
    to: str
    reason: str


def suggestions(names: Iterable[TaskType]) -> list[Suggestion]:
    """Mappings that bring names of the same words together, under the one that most memories have or that is a class.

    Names that are one already are left out; so are those that differ in a number, in one more word or in one less.
    """
    alike: dict[tuple[str, ...], list[TaskType]] = defaultdict(list)
    for one in names:
        alike[_words(one.name)].append(one)
    found = []
    for words, some in alike.items():
        classes = {one.of for one in some}
        if not words or len(classes) < 2:
            continue
        weight = {name: sum(one.memories for one in some if one.of == name) for name in classes}
        mapped = {one.of for one in some if one.of != one.name}
        to = min(classes, key=lambda name: (name not in mapped, -weight[name], name))
        found += [Suggestion(name, to, "the same words") for name in sorted(classes - {to})]
    return sorted(found, key=lambda one: (one.to, one.name))


def _words(name: str) -> tuple[str, ...]:
    """The words of a name in the form in which they are compared, in the order of the alphabet.

    >>> _words("BookFlights") == _words("flight_booking") == _words("book-flight")
    True
    """
    return tuple(sorted(_stem(name_key(word)) for word in _WORD.findall(name)))


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word
