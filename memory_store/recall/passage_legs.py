"""The legs over passages: a turn is found by its own words and meaning, and by those of its neighbours.

What a question asks for is seldom all in one turn: "when?" is answered by the turn after the one that names the
event. So a turn counts the words of the query that the turns beside it have, each once, weighed by how rare they are
among the candidates; and an episode counts those of all its turns, and how near its turns come. Pure functions over
what the two queries returned.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from msgspec import structs

from ..text.terms import indexed_terms, query_words
from .asking import Candidate
from .ranking import Found, Leg, by_meaning, coverage, found_by, shares

if TYPE_CHECKING:
    from ..embedders.calibration import Curve

#: Legs of passages by weight, beside vector and text: words within one and two turns, the meaning of the turns beside.
NEAR, AROUND, BESIDE = "near", "around", "beside"
#: Turns to either side whose words count.
_REACH = {NEAR: 1, AROUND: 2}
#: Legs of episodes: the words of all turns, the meaning of the nearest turn, and of the nearest few together.
SAID, TURNS, SEVERAL = "said", "turns", "several"
#: How many turns are a few: one may be near by chance, an episode that is about the matter has more.
_FEW = 3
#: How soon saying a word again adds little (BM25's k₁, Robertson & Zaragoza 2009).
_SATURATION = 1.2


@dataclass(frozen=True)
class Pool:
    """The passages that the queries found."""

    query: str
    candidates: Mapping[str, Candidate]
    #: Cosine of each that has a vector
    cosines: Mapping[str, float]
    #: Terms of the query that each has
    matched: Mapping[str, frozenset[str]]
    #: How much each term of the query tells: inverse document frequency among the candidates (BM25's)
    rarity: Mapping[str, float]


def pool_of(query: str, candidates: Sequence[Candidate], cosines: Mapping[str, float]) -> Pool:
    """The candidates with what they share with the query; of two with one id, the first counts."""
    unique: dict[str, Candidate] = {}
    for candidate in candidates:
        unique.setdefault(candidate.id, candidate)
    wanted = indexed_terms(query_words(query))
    matched = {id: frozenset(wanted & indexed_terms(candidate.row["words"])) for id, candidate in unique.items()}
    return Pool(query, unique, cosines, matched, _rarity(wanted, matched.values()))


def neighbour_legs(pool: Pool, unrelated: float, least: float, weight: Callable[[str], float]) -> list[Leg]:
    """What a turn's neighbours add: words within one turn and within two, and how close the turns beside come.

    Where one alone speaks, turns are statements that answer no one: there they have no neighbours.
    """
    rows = {id: candidate.row for id, candidate in pool.candidates.items()}
    places = {(row["namespace"], row["conversation"], row["place"]): id for id, row in rows.items()}
    far = max(_REACH.values())
    speakers: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in rows.values():
        speakers[row["namespace"], row["conversation"]].add(row["role"])
    beside: dict[str, list[tuple[int, str]]] = {}
    for (namespace, conversation, place), id in places.items():
        reach = far if len(speakers[namespace, conversation]) > 1 else 0
        seats = ((abs(step), places.get((namespace, conversation, place + step))) for step in range(-reach, reach + 1))
        beside[id] = [(steps, other) for steps, other in seats if other is not None]
    legs = []
    for name, reach in _REACH.items():
        raws = {}
        for id, others in beside.items():
            said = frozenset().union(*(pool.matched[other] for steps, other in others if steps <= reach))
            raws[id] = sum(pool.rarity[term] for term in said)
        legs.append(Leg(name, weight(name), found_by(raws)))
    best = dict(zip(pool.cosines, shares(list(pool.cosines.values()), unrelated, least), strict=True))
    raws = {id: sum(best.get(other, 0.0) for steps, other in others if steps == 1) for id, others in beside.items()}
    return [*legs, Leg(BESIDE, weight(BESIDE), found_by(raws))]


def episode_legs(pool: Pool, curve: Curve, least: float, weight: Callable[[str], float]) -> list[Leg]:
    """What the turns say of their episodes, by the id of the episode.

    Words count by BM25 over the turns that were found, each episode a text; how long it is besides is not known, so
    length takes nothing off (b = 0).
    """
    said: dict[str, Counter[str]] = defaultdict(Counter)
    cosines: dict[str, list[float]] = defaultdict(list)
    for id, candidate in pool.candidates.items():
        episode = candidate.row["episode"]
        said[episode].update(pool.matched[id])
        if id in pool.cosines:
            cosines[episode].append(pool.cosines[id])
    wanted = set(pool.rarity)
    rarity = _rarity(wanted, said.values())
    scores = {id: sum(rarity[term] * _saturated(count) for term, count in some.items()) for id, some in said.items()}
    words = [
        Found(found.id, found.raw, found.share, coverage(wanted, set(said[found.id])) / 2) for found in found_by(scores)
    ]
    nearest = {id: max(some) for id, some in cosines.items()}
    few = {id: fmean(sorted(some, reverse=True)[:_FEW]) for id, some in cosines.items()}
    return [
        Leg(SAID, weight(SAID), words),
        Leg(TURNS, weight(TURNS), by_meaning(nearest, curve, least)),
        # What the nearest turn says of the relevance is said; this only orders.
        Leg(SEVERAL, weight(SEVERAL), [structs.replace(one, relevance=0.0) for one in by_meaning(few, curve, least)]),
    ]


def _rarity(wanted: Iterable[str], texts: Collection[Collection[str]]) -> dict[str, float]:
    """How much each term tells: BM25's inverse document frequency among texts; 0 of one that none has."""
    have = {term: sum(term in text for text in texts) for term in wanted}
    return {term: math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) if n else 0.0 for term, n in have.items()}


def _saturated(count: int) -> float:
    return count * (_SATURATION + 1) / (count + _SATURATION)
