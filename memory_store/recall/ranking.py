"""From what the legs of a search found to one ranking: pure functions, no I/O.

Two numbers are kept apart. What orders is the **share** that a memory has of each leg's best, so that legs on
different scales can be added. What a memory is worth by itself is its **relevance**, which is absolute: when nothing
fits, the best hit scores low, and a floor can be set.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ..clock import as_utc
from ..settings import SearchSettings

if TYPE_CHECKING:
    from ..embedders.calibration import Curve
    from ..records.usage import Use

#: Decay of importance a day (R15).
DECAY = 0.01
#: Most that decay, and confidence, take off a memory's rank: they weigh little against what was asked.
DECAY_WEIGHT = 0.1
CONFIDENCE_WEIGHT = 0.2
#: Weight of naming what a memory mentions, beside words and meaning, which share a weight of 1.
NAMES_WEIGHT = 0.1
#: BM25 at which the words alone make a memory as likely relevant as not.
_TEXT_MIDDLE = 12.0


class Found(msgspec.Struct, frozen=True, gc=False):
    """What one leg says of one memory."""

    id: str
    #: The leg's own score: cosine, BM25
    raw: float
    #: `raw` as a share of the leg's best, 0 to 1
    share: float
    #: `raw` on an absolute scale, 0 to 1
    relevance: float


@dataclass(frozen=True)
class Leg:
    """One way of finding."""

    name: str
    weight: float
    #: Best first, no memory twice
    found: Sequence[Found]


class Place(msgspec.Struct, frozen=True, gc=False):
    """Where one leg had a memory, from 1, and how it scored there."""

    rank: int
    raw: float
    share: float
    relevance: float


@dataclass(frozen=True)
class Ranked:
    """A memory with all that its place rests on."""

    id: str
    #: What the ranking is by. Score fusion: 0 to 1, the best hit's own relevance and the others in proportion to it.
    #: Reciprocal rank fusion: the sum of its terms. Factors are multiplied in.
    score: float
    #: How relevant it is by itself, 0 to 1, whatever else was found; factors left out
    relevance: float
    legs: Mapping[str, Place]
    factors: Mapping[str, float] = field(default_factory=dict)


def shares(raws: Sequence[float], base: float = 0.0, least: float = 1e-9) -> list[float]:
    """Scores as shares of the best, `base` being nothing. `least`: a best that is no further from base is no 1.

    >>> shares([9.0, 4.5, 0.0])
    [1.0, 0.5, 0.0]
    """
    span = max(max(raws, default=base) - base, least)
    parts = [(raw - base) / span for raw in raws]
    return [0.0 if part < 0.0 else 1.0 if part > 1.0 else part for part in parts]


def found_by(raws: Mapping[str, float]) -> list[Found]:
    """What a leg found that says nothing of relevance, from its scores by id; zero is not found.

    >>> [one.id for one in found_by({"a": 1.0, "b": 0.0, "c": 2.0})]
    ['c', 'a']
    """
    ids = sorted((id for id in raws if raws[id] > 0), key=lambda id: (-raws[id], id))
    values = [raws[id] for id in ids]
    return [Found(id, raw, share, 0.0) for id, raw, share in zip(ids, values, shares(values), strict=True)]


def by_meaning(cosines: Mapping[str, float], curve: Curve, least: float) -> list[Found]:
    """What a leg found by meaning, from cosines by id; `least`: see `shares`."""
    ids = sorted(cosines, key=lambda id: (-cosines[id], id))
    raws = [cosines[id] for id in ids]
    parts = zip(ids, raws, shares(raws, curve.unrelated, least), curve(raws).tolist(), strict=True)
    return [Found(id, raw, share, relevance) for id, raw, share, relevance in parts]


def text_relevance(bm25: float) -> float:
    """BM25 on an absolute scale: it grows with what is shared, and never reaches 1."""
    score = max(bm25, 0.0)
    return score / (score + _TEXT_MIDDLE)


def coverage(query: set[str], text: set[str]) -> float:
    """The share of a query's terms that a text has: how words are scored where there are no corpus statistics.

    >>> coverage({"refund", "ord-1"}, {"refund", "late"})
    0.5
    """
    return len(query & text) / len(query) if query else 0.0


class Ranking:
    """What the legs found, fused, before factors; what a memory's place rests on is put together when it is asked for.

    Score fusion adds each leg's share by weight; reciprocal rank fusion adds weight / (k + rank) (Cormack, Clarke &
    Büttcher 2009; R23). Legs of no weight count for nothing, but are shown.
    """

    def __init__(self, legs: Sequence[Leg], fusion: Literal["score", "rrf"] = "score", rrf_k: int = 60) -> None:
        self._legs = legs
        fused: dict[str, float] = {}
        # By id: the probability that no leg of some weight is right
        missed: dict[str, float] = {}
        for leg in legs:
            weight = leg.weight
            for rank, found in enumerate(leg.found, 1):
                id = found.id
                part = weight / (rrf_k + rank) if fusion == "rrf" else weight * found.share
                fused[id] = fused.get(id, 0.0) + part
                if weight:
                    missed[id] = missed.get(id, 1.0) * (1 - found.relevance)
        # One or the other is enough: the probability that at least one of independent witnesses is right.
        #: How relevant each memory is by itself, by id
        self.relevance = {id: 1 - missed.get(id, 1.0) for id in fused}
        level = 1.0
        if fusion == "score" and fused:
            best = min(fused, key=lambda id: (-fused[id], id))
            # Of numbers below the normal ones the reciprocal is infinite: they are nothing.
            level = self.relevance[best] / fused[best] if fused[best] >= sys.float_info.min else 0.0
        #: What each is ranked by, but for its factors
        self.scores = {id: level * value for id, value in fused.items()}

    @cached_property
    def _found(self) -> list[tuple[str, Mapping[str, int], Sequence[Found]]]:
        """The legs by name: where each memory lies, and what was found."""
        return [(leg.name, {one.id: at for at, one in enumerate(leg.found)}, leg.found) for leg in self._legs]

    def found_by(self, names: Set[str]) -> set[str]:
        """Ids of what at least one of some legs found."""
        return {found.id for leg in self._legs if leg.name in names for found in leg.found}

    def of(self, id: str, factors: Mapping[str, float]) -> Ranked:
        """One memory, with what its fused value is multiplied by."""
        legs = {}
        for name, places, found in self._found:
            if (at := places.get(id)) is not None:
                legs[name] = Place(at + 1, found[at].raw, found[at].share, found[at].relevance)
        return Ranked(id, self.scores[id] * math.prod(factors.values()), self.relevance[id], legs, factors)

    def best_first(self, factors: Callable[[str], Mapping[str, float]], most: float = 1.0) -> Iterator[Ranked]:
        """All, best first; equal scores in the order of ids. `factors` is asked of those only that may come next, as
        no factors multiply by more than `most`.
        """
        waiting = sorted(self.scores, key=self.scores.__getitem__)
        ready: list[tuple[float, float, str, Ranked]] = []
        while waiting or ready:
            while waiting and not (ready and -ready[0][0] > most * max(self.scores[waiting[-1]], 0.0)):
                id = waiting.pop()
                one = self.of(id, factors(id))
                heappush(ready, (-one.score, -one.relevance, id, one))
            yield heappop(ready)[3]


def fuse(
    legs: Sequence[Leg],
    fusion: Literal["score", "rrf"] = "score",
    rrf_k: int = 60,
    factors: Mapping[str, Mapping[str, float]] | None = None,
) -> list[Ranked]:
    """One ranking of all that the legs found, best first; see `Ranking`.

    `factors`: by id, then by name, what a memory's fused value is multiplied by.
    """
    known = factors or {}
    return list(Ranking(legs, fusion, rrf_k).best_first(lambda id: dict(known.get(id, {})), math.inf))


def decayed(importance: float, days: float, rate: float = DECAY) -> float:
    """Importance after some days: importance × exp(−λ (1 − importance / 2) days), λ = 0.01 unless given (R15).

    >>> round(decayed(0.5, 0), 2), round(decayed(0.5, 100), 2), round(decayed(1.0, 100), 2)
    (0.5, 0.24, 0.61)
    """
    return importance * math.exp(-rate * (1 - importance / 2) * max(days, 0.0))


def row_factors(
    row: Mapping[str, Any], now: datetime, use: Use | None = None, settings: SearchSettings | None = None
) -> dict[str, float]:
    """What is known about a row, as factors on its rank (R25). What is not known takes nothing off.

    `confidence`: how sure it is. `decay`: its importance since the statement holds, or since the memory was last put
    before an agent: what is still asked for is not stale. `strength`: whether a decision ranks it down. `usage`: an
    experience that was read, but not for `idle_days` (R16). `usefulness`: what outcomes say, see `usefulness`.
    """
    settings = settings or SearchSettings()
    confidence, importance, strength = (row.get(name) for name in ("confidence", "importance", "strength"))
    since = row.get("valid_from") or row.get("added_at")
    factors = {}
    if confidence is not None:
        factors["confidence"] = 1 - CONFIDENCE_WEIGHT * (1 - min(max(confidence, 0.0), 1.0))
    if importance is not None and since is not None:
        days = _days(max(as_utc(since), as_utc(use.last_at)) if use is not None else since, now)
        strong = decayed(min(max(importance, 0.0), 1.0), days, settings.decay)
        factors["decay"] = 1 - DECAY_WEIGHT * (1 - strong)
    if strength is not None:
        factors["strength"] = min(max(strength, 0.0), 1.0)
    if use is not None:
        if row.get("kind") == "experience" and _days(use.last_at, now) > settings.idle_days:
            factors["usage"] = settings.idle_factor
        if use.low is not None and use.high is not None:
            factors["usefulness"] = usefulness(use.low, use.high, settings.usefulness_weight)
    return factors


def usefulness(low: float, high: float, weight: float) -> float:
    """The factor of what a memory adds to the success rate of its tasks, known to lie between two bounds (N5).

    Only what is sure counts: the lower bound if it is above 0, the upper one if it is below. In doubt it is 1, so
    that a memory that was tried once is not worse than one that never was.

    >>> usefulness(0.2, 0.6, 0.3), usefulness(-0.4, 0.5, 0.3), usefulness(-0.8, -0.5, 0.3)
    (1.06, 1.0, 0.85)
    """
    return 1 + weight * (max(low, 0.0) + min(high, 0.0))


def most_factor(uses: Iterable[Use], settings: SearchSettings) -> float:
    """The most that any `row_factors` multiply by, for rows of which no more is known than this: only what was useful
    comes before what is as well found.
    """
    gains = (
        usefulness(use.low, use.high, settings.usefulness_weight)
        for use in uses
        if use.low is not None and use.high is not None
    )
    return max(1.0, max(gains, default=1.0))


def _days(since: datetime, now: datetime) -> float:
    return (now - as_utc(since)).total_seconds() / 86_400
