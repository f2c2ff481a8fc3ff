"""Finding memories: filter first, then legs, one ranking, and the rows of its top."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from .embedders import Embedder
from .predicates import Filter, matches
from .ranking import NAMES_WEIGHT, Found, Leg, Place, Ranked, coverage, fuse, row_factors, shares, text_relevance
from .schema import arrow_schema
from .settings import SearchSettings
from .tables import Candidate, Tables
from .terms import normal, row_terms, said, terms

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from .usage import Use

#: What ranking needs to know of a candidate.
RANKING = ("kind", "text", "subject", "trigger", "tool", "error_code", "entities", "importance", "confidence",
            "strength", "valid_from", "added_at")  # fmt: skip
#: How many times more candidates the text leg supplies: their cosines are computed, the other way round can't be.
_TEXT_MORE = 2
#: A cosine this close above "unrelated" is noise, and no share of anything.
_LEAST_SPAN = 0.02


@dataclass(frozen=True)
class Hit:
    """A memory that was found, and why."""

    #: The memory: columns of the schema MEMORIES, without its vector
    row: Mapping[str, Any]
    #: What the hits are ordered by; see `Ranked.score`
    score: float
    #: How relevant it is by itself, 0 to 1
    relevance: float
    #: Where each leg had it: "vector", "text", "fresh" (words of what the store does not hold yet), "names"
    legs: Mapping[str, Place]
    #: What its rank was multiplied by
    factors: Mapping[str, float]


def find(
    tables: Tables,
    embedder: Embedder,
    query: str,
    filter: Filter,
    settings: SearchSettings,
    now: datetime,
    limit: int = 5,
    floor: float = 0.0,
    overlay: Iterable[Mapping[str, Any]] = (),
    vector: npt.NDArray[np.float32] | None = None,
    uses: Callable[[Iterable[str]], Mapping[str, Use]] | None = None,
) -> list[Hit]:
    """The memories that pass a filter and answer a query, best first.

    `embedder` is the generation's. `floor`: what is less relevant than this is not returned. `overlay`: rows that are
    not in the store yet, of any namespace, with their vectors; the filter is applied here, and a row whose id the
    store has too is left out. Hidden memories are named by the filter's `not_ids`. `vector`: the query's, if it
    is known already. `uses`: asked what is known about the use of the candidates.
    """
    if limit < 1:
        return []
    if vector is None:
        vector = embedder.queries([query])[0]
    with ThreadPoolExecutor(1) as pool:
        words = pool.submit(tables.text_leg, query, filter, settings.candidates * _TEXT_MORE, (*RANKING, "vector"))
        near = tables.vector_leg(vector, filter, settings.candidates, RANKING)
        worded = words.result()
    stored = {candidate.id for candidate in (*near, *worded)}
    fresh = _fresh(tables, filter, [row for row in overlay if matches(row, filter) and row["id"] not in stored])
    legs = legs_of(query, vector, near, worded, fresh, embedder, settings)
    known: dict[str, Mapping[str, Any]] = {candidate.id: candidate.row for candidate in (*near, *worded)}
    known |= {row["id"]: row for row in fresh}
    used = uses(known) if uses is not None else {}
    factors = {id: row_factors(row, now, used.get(id), settings) for id, row in known.items()}
    ranked = [hit for hit in fuse(legs, settings.fusion, settings.rrf_k, factors) if hit.relevance >= floor]
    return _hits(tables, filter, ranked, limit, {row["id"]: row for row in fresh})


def legs_of(
    query: str,
    vector: npt.NDArray[np.float32],
    near: Sequence[Candidate],
    worded: Sequence[Candidate],
    fresh: Sequence[Mapping[str, Any]],
    embedder: Embedder,
    settings: SearchSettings,
) -> list[Leg]:
    """What each leg says. `near`: by cosine; `worded`: by BM25; `fresh`: rows that no index has."""
    cosines = {candidate.id: candidate.score for candidate in near}
    cosines |= _cosines(vector, {c.id: c.vector for c in worded if c.id not in cosines})
    cosines |= _cosines(vector, {row["id"]: row.get("vector") for row in fresh})
    curve = embedder.curve(query)
    ids = sorted(cosines, key=lambda id: (-cosines[id], id))
    raws = [cosines[id] for id in ids]
    vectors = [
        Found(id, raw, share, float(relevance))
        for id, raw, share, relevance in zip(
            ids, raws, shares(raws, curve.unrelated, _LEAST_SPAN), curve(raws), strict=True
        )
    ]
    scores = [candidate.score for candidate in worded]
    texts = [
        Found(candidate.id, candidate.score, share, text_relevance(candidate.score))
        for candidate, share in zip(worded, shares(scores), strict=True)
    ]
    return [
        Leg("vector", settings.vector_weight, vectors),
        Leg("text", 1 - settings.vector_weight, texts),
        Leg("fresh", 1 - settings.vector_weight, _fresh_words(query, worded, fresh)),
        Leg("names", NAMES_WEIGHT if settings.fusion == "score" else 0.0, _named(query, (*near, *worded), fresh)),
    ]


def _named(query: str, candidates: Sequence[Candidate], fresh: Sequence[Mapping[str, Any]]) -> list[Found]:
    """What the query names: entities and subjects, said in full. It finds nothing new, and tells equals apart."""
    text = normal(query)
    counts: dict[str, int] = {}
    for row in (*(candidate.row for candidate in candidates), *fresh):
        names = {normal(name) for name in (*(row.get("entities") or ()), row.get("subject") or "") if name}
        counts[row["id"]] = sum(said(name, text) for name in names)
    raws = [float(count) for count in counts.values()]
    found = [Found(id, raw, share, 0.0) for id, raw, share in zip(counts, raws, shares(raws), strict=True) if raw]
    return sorted(found, key=lambda one: (-one.raw, one.id))


def _fresh_words(query: str, worded: Sequence[Candidate], fresh: Sequence[Mapping[str, Any]]) -> list[Found]:
    """The words of rows that no index has: BM25 of two corpora can't be compared, shares of the query can."""
    if not fresh:
        return []
    wanted = terms(query)
    covered = {row["id"]: coverage(wanted, row_terms(row)) for row in fresh}
    best = max((coverage(wanted, row_terms(candidate.row)) for candidate in worded[:10]), default=0.0)
    best = max(best, *covered.values())
    ids = sorted((id for id in covered if covered[id]), key=lambda id: (-covered[id], id))
    return [Found(id, covered[id], covered[id] / best, covered[id] / 2) for id in ids]


def _cosines(
    vector: npt.NDArray[np.float32], others: Mapping[str, Sequence[float] | npt.NDArray[np.float32] | None]
) -> dict[str, float]:
    import numpy as np

    have = {id: np.asarray(other, dtype=np.float32) for id, other in others.items() if other is not None}
    have = {id: other for id, other in have.items() if other.shape == vector.shape}
    if not have:
        return {}
    cosines = np.stack(list(have.values())) @ vector
    return {id: float(cosine) for id, cosine in zip(have, cosines, strict=True) if np.isfinite(cosine)}


def _fresh(tables: Tables, filter: Filter, rows: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rows that the store does not hold, in any state: what it has, it answers for."""
    if not rows:
        return []
    everything = Filter(filter.namespaces, states=None, ids=tuple(row["id"] for row in rows))
    held = set(tables.scan(everything, ["id"]).column("id").to_pylist())
    unique = {row["id"]: row for row in rows if row["id"] not in held}
    return list(unique.values())


def _hits(
    tables: Tables, filter: Filter, ranked: Sequence[Ranked], limit: int, fresh: Mapping[str, Mapping[str, Any]]
) -> list[Hit]:
    """The rows of the best, read under the same filter: one that changed since is left out, and the next moves up."""
    names = [name for name in arrow_schema("memories").names if name != "vector"]
    hits: list[Hit] = []
    start = 0
    while len(hits) < limit and start < len(ranked):
        some = ranked[start : start + limit - len(hits)]
        start += len(some)
        wanted = tuple(hit.id for hit in some if hit.id not in fresh)
        found = tables.scan(replace(filter, ids=wanted), names).to_pylist() if wanted else []
        rows: dict[str, Mapping[str, Any]] = {row["id"]: row for row in found}
        rows |= {id: {name: row.get(name) for name in names} for id, row in fresh.items()}
        hits += [Hit(rows[h.id], h.score, h.relevance, h.legs, h.factors) for h in some if h.id in rows]
    return hits
