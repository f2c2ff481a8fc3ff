"""The legs of a search: what the queries found as places of one ranking, and what tells candidates apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..clock import as_utc
from ..embedders import Embedder
from ..settings import SearchSettings
from ..text.aliases import Classes
from ..text.dates import Span, span_of
from ..text.entities import entities_of
from ..text.names import name_key
from ..text.terms import identifiers, normal, row_terms, said, terms
from .asking import Candidate
from .passage_legs import AROUND, BESIDE, NEAR, SAID, SEVERAL, TURNS
from .ranking import Found, Leg, by_meaning, coverage, found_by, shares, text_relevance

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

#: Days that the recency leg looks back (R23).
RECENT_DAYS = 30
#: A cosine this close above "unrelated" is noise, and no share of anything.
LEAST_SPAN = 0.02

#: Weights of the legs of each shelf; those of vector and text of memories come from the settings.
WEIGHTS: Mapping[str, Mapping[str, float]] = {
    "memories": {"names": 0.1, "whole": 0.3, "entities": 0.0, "related": 0.0, "dates": 0.1, "recency": 0.0},
    "episodes": {"vector": 0.02, "text": 0.02, SAID: 0.2, TURNS: 0.4, SEVERAL: 0.3, "names": 0.1, "whole": 0.3,
                 "entities": 0.0, "related": 0.0, "dates": 0.1, "recency": 0.0},
    "passages": {"vector": 0.4, BESIDE: 0.05, "text": 0.15, NEAR: 0.2, AROUND: 0.2, "names": 0.1, "whole": 0.3,
                 "entities": 0.0, "related": 0.0, "dates": 0.1, "recency": 0.0},
}  # fmt: skip
#: Every leg that can be given another weight.
LEGS: tuple[str, ...] = tuple(
    sorted({"vector", "text", "fresh", *(name for weights in WEIGHTS.values() for name in weights)})
)


#: Where nobody has said that two names are one.
NO_CLASSES = Classes((), name_key)
NOTHING: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True)
class Ask:
    """One query, and how it is meant."""

    embedder: Embedder
    query: str
    vector: npt.NDArray[np.float32]
    settings: SearchSettings
    #: The time that "yesterday" is before; None: times that the query names count for nothing
    now: datetime | None = None
    #: Names of things, as this search may use them
    classes: Classes = NO_CLASSES

    @cached_property
    def also(self) -> frozenset[str]:
        """Every name of what the query names and that has several, as they are compared."""
        return self.classes.said(normal(self.query)) if self.classes else frozenset()

    @cached_property
    def span(self) -> Span | None:
        """The time that the query names."""
        return span_of(self.query, self.now) if self.now is not None else None

    def weigher(self, shelf: str) -> Callable[[str], float]:
        """The weight of each leg on a shelf."""
        vector = self.settings.vector_weight
        usual = {"vector": vector, "text": 1 - vector, "fresh": 1 - vector, **WEIGHTS[shelf]}
        if self.settings.fusion == "rrf":
            usual["names"] = 0.0  # a count of names has too few ranks
        usual |= self.settings.weights
        return lambda leg: usual.get(leg, 0.0)


def found_legs(
    ask: Ask, cosines: Mapping[str, float], worded: Sequence[Candidate], weight: Callable[[str], float]
) -> list[Leg]:
    """The vector leg over all whose cosine is known, and the text leg."""
    vectors = by_meaning(cosines, ask.embedder.curve(ask.query), LEAST_SPAN)
    scores = [candidate.score for candidate in worded]
    texts = [
        Found(candidate.id, candidate.score, share, text_relevance(candidate.score))
        for candidate, share in zip(worded, shares(scores), strict=True)
    ]
    return [Leg("vector", weight("vector"), vectors), Leg("text", weight("text"), texts)]


def shelf_legs(
    ask: Ask,
    weight: Callable[[str], float],
    near: Sequence[Candidate],
    worded: Sequence[Candidate],
    few: Sequence[Candidate],
    fresh: Sequence[Mapping[str, Any]],
) -> list[Leg]:
    """The legs of vectors, of words, and of the words of rows that no index has."""
    known = cosines_of(ask.vector, near, worded, few) | cosines(
        ask.vector, {row["id"]: row.get("vector") for row in fresh}
    )
    return [
        *found_legs(ask, known, worded, weight),
        Leg("fresh", weight("fresh"), fresh_words(ask.query, worded, fresh)),
    ]


def telling_legs(
    ask: Ask,
    known: Mapping[str, Mapping[str, Any]],
    weight: Callable[[str], float],
    close: Mapping[str, float] = NOTHING,
) -> list[Leg]:
    """What tells equals apart: names that the query says, things and times that it is about, how recent one is.

    `close`: things that memories relate to those that the query names, by compared name, with how close they are.
    """
    legs = [Leg("names", weight("names"), _named(ask, known))]
    if weight("whole") and (wanted := set(identifiers(ask.query))):
        legs.append(Leg("whole", weight("whole"), found_by(_whole(wanted, known))))
    if close:
        near = {id: [close.get(name_key(name), 0.0) for name in row.get("entities") or ()] for id, row in known.items()}
        legs.append(
            Leg("related", weight("related"), found_by({id: max(some, default=0.0) for id, some in near.items()}))
        )
    if weight("entities"):
        names = {normal(name) for name in entities_of(ask.query)}
        mentions = {id: names & {normal(name) for name in row.get("entities") or ()} for id, row in known.items()}
        legs.append(Leg("entities", weight("entities"), found_by({id: float(len(n)) for id, n in mentions.items()})))
    if ask.now is None:
        return legs
    is_dated = bool(weight("dates")) and ask.span is not None
    since: dict[str, datetime] = {}
    if is_dated or weight("recency"):
        since = {id: as_utc(row["valid_from"]) for id, row in known.items() if row.get("valid_from")}
    if is_dated and (span := ask.span):
        inside = {id: float(span[0] <= time < span[1]) for id, time in since.items()}
        legs.append(Leg("dates", weight("dates"), found_by(inside)))
    if weight("recency"):
        days = {id: max((ask.now - time).total_seconds(), 0.0) / 86_400 for id, time in since.items()}
        lately = {id: 1 - age / RECENT_DAYS for id, age in days.items() if age < RECENT_DAYS}
        legs.append(Leg("recency", weight("recency"), found_by(lately)))
    return legs


def _named(ask: Ask, known: Mapping[str, Mapping[str, Any]]) -> list[Found]:
    """What the query names: entities and subjects, said in full. It finds nothing new, and tells equals apart."""
    text, also = normal(ask.query), ask.also
    counts: dict[str, float] = {}
    for id, row in known.items():
        names = [normal(name) for name in (*(row.get("entities") or ()), row.get("subject") or "") if name]
        # That a name is nowhere in the query is seen sooner than where it is.
        near = {name for name in names if name in text or also}
        counts[id] = float(sum(said(name, text) or (bool(also) and name_key(name) in also) for name in near))
    return found_by(counts)


def _whole(wanted: set[str], known: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """How many of some identifiers each row has in full."""
    counts = {}
    for id, row in known.items():
        written = _written(row)
        said = normal(written)
        # Taking identifiers out of a text costs much more than seeing that none of these is in it.
        some = [word for word in wanted if word in said]
        counts[id] = float(len(wanted & set(identifiers(written)))) if some else 0.0
    return counts


def _written(row: Mapping[str, Any]) -> str:
    """All that a row says where identifiers may stand."""
    get = row.get
    said = (get("text"), get("trigger"), get("tool"), get("error_code"), *(get("entities") or ()))
    return "\n".join([text for text in said if text])


def fresh_words(query: str, worded: Sequence[Candidate], fresh: Sequence[Mapping[str, Any]]) -> list[Found]:
    """The words of rows that no index has: BM25 of two corpora can't be compared, shares of the query can."""
    if not fresh:
        return []
    wanted = terms(query)
    covered = {row["id"]: coverage(wanted, row_terms(row)) for row in fresh}
    best = max((coverage(wanted, row_terms(candidate.row)) for candidate in worded[:10]), default=0.0)
    best = max(best, *covered.values())
    ids = sorted((id for id in covered if covered[id]), key=lambda id: (-covered[id], id))
    return [Found(id, covered[id], covered[id] / best, covered[id] / 2) for id in ids]


def cosines_of(
    vector: npt.NDArray[np.float32],
    near: Sequence[Candidate],
    worded: Sequence[Candidate],
    few: Sequence[Candidate],
) -> dict[str, float]:
    """The cosine of each candidate: what the vector queries said, computed for what the words found."""
    known = {candidate.id: candidate.score for candidate in (*few, *near)}
    return known | cosines(vector, {c.id: c.vector for c in worded if c.id not in known})


def cosines(
    vector: npt.NDArray[np.float32], others: Mapping[str, Sequence[float] | npt.NDArray[np.float32] | None]
) -> dict[str, float]:
    """The cosine of a unit vector and each other one that there is."""
    import numpy as np

    have = {id: np.asarray(other, dtype=np.float32) for id, other in others.items() if other is not None}
    have = {id: other for id, other in have.items() if other.shape == vector.shape}
    if not have:
        return {}
    values = np.concatenate(list(have.values())).reshape(len(have), -1) @ vector
    return {id: value for id, value in zip(have, values.tolist(), strict=True) if math.isfinite(value)}
