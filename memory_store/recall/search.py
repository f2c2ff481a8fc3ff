"""Finding memories: filter first, then legs, one ranking, and the rows of its top.

Three shelves are searched, each by legs of its own: memories; episodes, which their turns speak for too; and
passages, the turns themselves. A query names kinds, so most look at one shelf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..embedders import Embedder
from ..embedders.texts import is_mostly_cjk
from ..schema import arrow_schema
from ..settings import RerankSettings, SearchSettings
from ..store.tables import MEMORIES, PASSAGES, Tables
from ..text.aliases import Classes
from ..text.entities import entities_of
from .asking import Candidate, Near, Worded
from .legs import LEAST_SPAN, NO_CLASSES, RECENT_DAYS, Ask, cosines_of, found_legs, shelf_legs, telling_legs
from .passage_legs import AROUND, NEAR, SAID, Pool, episode_legs, neighbour_legs, pool_of
from .predicates import Filter, matches
from .ranking import Leg, Place, Ranked, Ranking, most_factor, row_factors
from .relations import mentions_in, neighbours
from .rerank import rerank

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ..records.usage import Use

#: What ranking needs to know of a candidate.
RANKING = ("kind", "text", "subject", "trigger", "tool", "error_code", "entities", "importance", "confidence",
           "strength", "valid_from", "added_at")  # fmt: skip
#: How many times more candidates the text leg supplies: their cosines are computed, the other way round can't be.
_TEXT_MORE = 2
#: How many times more candidates come of passages: they are many and short, and neighbours count.
_PASSAGES_MORE = 2
#: Legs that find by what is written.
WORDED = frozenset(("text", "fresh", "names", "whole", "entities", NEAR, AROUND, SAID))
#: Legs of what is about the things that a query names.
NAMED = frozenset(("names", "whole", "related"))
#: Kinds of memories that are about no single thing, whatever a query names.
_GENERAL = ("experience", "rule")
#: Candidates of the legs that only add some: entities, recency, dates.
_FEW = 20


@dataclass(frozen=True)
class Hit:
    """A memory that was found, and why."""

    #: The memory: columns of the schema MEMORIES, without its vector
    row: Mapping[str, Any]
    #: What the hits are ordered by; see `Ranked.score`
    score: float
    #: How relevant it is by itself, 0 to 1
    relevance: float
    #: Where each leg had it: "vector", "text", "fresh" (words of what the store does not hold yet), "names", …
    legs: Mapping[str, Place]
    #: What its rank was multiplied by
    factors: Mapping[str, float]
    #: A passage's neighbours: the texts before and after it; empty where there is none
    beside: tuple[str, str] = ("", "")
    #: Why a reranker that was asked had no say; empty: it had, or none was asked
    rerank_error: str = ""


def find(
    tables: Tables,
    embedder: Embedder,
    query: str,
    filter: Filter,
    settings: SearchSettings,
    now: datetime,
    limit: int = 5,
    floor: float = 0.0,
    lone_floor: float = 0.0,
    named_share: float = 0.0,
    overlay: Iterable[Mapping[str, Any]] = (),
    vector: npt.NDArray[np.float32] | None = None,
    uses: Callable[[Iterable[str]], Mapping[str, Use]] | None = None,
    reranker: RerankSettings | None = None,
    classes: Classes = NO_CLASSES,
) -> list[Hit]:
    """The memories that pass a filter and answer a query, best first.

    `embedder` is the generation's. `floor`: what is less relevant than this is not returned. `lone_floor`: the same
    for memories that share neither word nor name with the query where others do, if both are of one script.
    `named_share`: where the query names in full what some memories are about, other facts and preferences must be this
    share as relevant as the best of those.
    `overlay`: rows that are not in the store yet, of any namespace, with their vectors; the filter is applied here, and
    a row whose id the store has too is left out. Hidden memories are named by the filter's `not_ids`. `vector`: the
    query's, if it is known already. `uses`: asked what is known about the use of the candidates. `reranker`: asked for
    the order of the best. `classes`: which names stand for one thing. Passages are found only when the filter's kinds
    name them.
    """
    if limit < 1:
        return []
    if vector is None:
        vector = embedder.queries([query])[0]
    is_reranked = reranker is not None and bool(reranker.url)
    most = max(limit, reranker.candidates) if reranker is not None and is_reranked else limit
    floors = _Floors(floor, lone_floor, named_share)
    search = _Search(tables, Ask(embedder, query, vector, settings, now, classes), now, most, floors, uses)
    kinds = filter.kinds
    hits: list[Hit] = []
    others = None if kinds is None else tuple(kind for kind in kinds if kind not in ("episode", "passage"))
    fresh = list(overlay)
    if others is None or others or not kinds:
        hits += search.memories("memories", filter if kinds == others else replace(filter, kinds=others), fresh)
    if kinds is not None and "episode" in kinds:
        hits += search.memories("episodes", replace(filter, kinds=("episode",)), fresh)
    if kinds is not None and "passage" in kinds and tables.has_passages():
        hits += search.passages(replace(filter, kinds=("passage",)))
    hits.sort(key=lambda hit: (-hit.score, -hit.relevance, hit.row["id"]))
    return (rerank(query, hits, reranker) if reranker is not None and is_reranked else hits)[:limit]


def legs_of(
    query: str,
    vector: npt.NDArray[np.float32],
    near: Sequence[Candidate],
    worded: Sequence[Candidate],
    fresh: Sequence[Mapping[str, Any]],
    embedder: Embedder,
    settings: SearchSettings,
) -> list[Leg]:
    """The legs of memories that were found otherwise than by the store: `near` by meaning, `worded` by words."""
    ask = Ask(embedder, query, vector, settings)
    weight = ask.weigher("memories")
    known = {candidate.id: candidate.row for candidate in (*near, *worded)} | {row["id"]: row for row in fresh}
    return [*shelf_legs(ask, weight, near, worded, (), fresh), *telling_legs(ask, known, weight)]


@dataclass(frozen=True)
class _Floors:
    """How relevant what is returned must be; see `find`."""

    all: float
    lone: float
    #: A share, not a floor
    named: float


@dataclass(frozen=True)
class _Search:
    """One query in one store."""

    tables: Tables
    ask: Ask
    now: datetime
    limit: int
    floors: _Floors
    uses: Callable[[Iterable[str]], Mapping[str, Use]] | None

    def memories(self, shelf: str, filter: Filter, overlay: Sequence[Mapping[str, Any]]) -> list[Hit]:
        """Hits among memories, or among episodes."""
        weight, settings = self.ask.weigher(shelf), self.ask.settings
        turns = shelf == "episodes" and self.tables.has_passages()
        close = self._close(filter, MEMORIES, weight)
        near, worded, few = self._queries(MEMORIES, filter, settings.candidates, weight, close)
        found = {candidate.id: candidate.row for candidate in (*few, *worded, *near)}
        turn_legs: list[Leg] = []
        if turns:
            # What else is asked for is asked of the episode, below.
            inside = Filter(filter.namespaces, ("passage",), filter.states, filter.subjects, filter.task_types)
            said = self._pool(inside, settings.candidates * _PASSAGES_MORE)
            turn_legs = episode_legs(said, self.ask.embedder.curve(self.ask.query), LEAST_SPAN, weight)
            named = {place.id for leg in turn_legs for place in leg.found}
            wanted = tuple(sorted(named - found.keys()))
            more = self.tables.scan(replace(filter, ids=_within(filter.ids, wanted)), _columns(MEMORIES)).to_pylist()
            found |= {row["id"]: row for row in more}
            turn_legs = [replace(leg, found=[one for one in leg.found if one.id in found]) for leg in turn_legs]
        fresh = _fresh(self.tables, filter, [row for row in overlay if matches(row, filter) and row["id"] not in found])
        known = found | {row["id"]: row for row in fresh}
        # Who looks for an episode or a turn wants to see what there is; memories go into prompts.
        floors = self.floors if shelf == "memories" else replace(self.floors, lone=0.0, named=0.0)
        legs = [*shelf_legs(self.ask, weight, near, worded, few, fresh), *turn_legs]
        ranked = self._rank([*legs, *telling_legs(self.ask, known, weight, close)], known, floors)
        new = {row["id"]: row for row in fresh}
        return read_hits(self.tables, MEMORIES, filter, ranked, self.limit, new, found)

    def passages(self, filter: Filter) -> list[Hit]:
        """Hits among passages: those whose episode passes the filter too, wherever their own row may lag behind it."""
        weight = self.ask.weigher("passages")
        count = self.ask.settings.candidates * _PASSAGES_MORE
        close = self._close(filter, PASSAGES, weight)
        near, worded, few = self._queries(PASSAGES, filter, count, weight, close)
        known_cosines = cosines_of(self.ask.vector, near, worded, few)
        candidates = pool_of(self.ask.query, (*near, *worded, *few), known_cosines)
        known = {id: candidate.row for id, candidate in candidates.candidates.items()}
        legs = [
            *found_legs(self.ask, known_cosines, worded, weight),
            *neighbour_legs(candidates, self.ask.embedder.curve(self.ask.query).unrelated, LEAST_SPAN, weight),
            *telling_legs(self.ask, known, weight, close),
        ]
        ranked = self._rank(legs, known, replace(self.floors, lone=0.0, named=0.0))
        hits = read_hits(self.tables, PASSAGES, filter, ranked, self.limit, {}, known)
        return with_neighbours(self.tables, hits)

    def _pool(self, filter: Filter, count: int) -> Pool:
        """The passages that speak for episodes."""
        wanted = (Near(self.ask.vector, filter, count), Worded(self.ask.query, filter, count * _TEXT_MORE))
        near, worded = self.tables.ask(wanted, _columns(PASSAGES), PASSAGES, vectors_of="words")
        return pool_of(self.ask.query, (*near, *worded), cosines_of(self.ask.vector, near, worded, ()))

    def _queries(
        self,
        table: str,
        filter: Filter,
        count: int,
        weight: Callable[[str], float],
        close: Mapping[str, float],
    ) -> tuple[list[Candidate], list[Candidate], list[Candidate]]:
        """What the queries of a shelf find, side by side: near, worded, a few more. A leg of no weight asks nothing."""
        narrow = self._narrower(filter, weight, close)
        wanted: list[Near | Worded] = [
            Near(self.ask.vector, filter, count if weight("vector") else 0),
            Worded(self.ask.query, filter, count * _TEXT_MORE if weight("text") else 0),
            *(Near(self.ask.vector, one, _FEW) for one in narrow),
        ]
        near, worded, *few = self.tables.ask(wanted, _columns(table), table, vectors_of="words")
        return near, worded, [candidate for some in few for candidate in some]

    def _close(self, filter: Filter, table: str, weight: Callable[[str], float]) -> dict[str, float]:
        """Things that memories relate to those that the query names, with how close they are."""
        names = (*entities_of(self.ask.query), *sorted(self.ask.also)) if weight("related") else ()
        if not names:
            return {}
        found = neighbours(mentions_in(self.tables, filter, table), names, self.ask.classes, steps=2, limit=_FEW)
        return {name: one.closeness for one in found for name in one.names}

    def _narrower(self, filter: Filter, weight: Callable[[str], float], close: Mapping[str, float]) -> list[Filter]:
        """Filters whose nearest memories are candidates too: what mentions what the query names, by another name
        always; what mentions what is close to that; what is of the time that it names, what is recent.
        """
        also = self.ask.also if weight("names") else frozenset()
        names = entities_of(self.ask.query) if weight("entities") else ()
        groups = [tuple(sorted(also)), names, tuple(close)]
        narrow = [replace(filter, entity_groups=(*filter.entity_groups, group)) for group in groups if group]
        if weight("dates") and self.ask.span is not None:
            narrow.append(_between(filter, *self.ask.span))
        if weight("recency"):
            narrow.append(_between(filter, self.now - timedelta(days=RECENT_DAYS), self.now))
        return narrow

    def _rank(self, legs: Sequence[Leg], known: Mapping[str, Mapping[str, Any]], floors: _Floors) -> Iterator[Ranked]:
        """What no floor leaves out, best first; what stands further down than anyone asks is not looked at."""
        settings = self.ask.settings
        used = self.uses(known) if self.uses is not None else {}
        ranking = Ranking(legs, settings.fusion, settings.rrf_k)
        is_cjk = is_mostly_cjk(self.ask.query)
        by_words, by_names = ranking.found_by(WORDED), ranking.found_by(NAMED)
        named = max((ranking.relevance[id] for id in by_names), default=0.0) * floors.named

        most = max(floors.all, floors.lone, named)

        def floor(hit: Ranked) -> float:
            if hit.relevance >= most or is_mostly_cjk(known[hit.id]["text"] or "") != is_cjk:
                return 0.0  # across scripts a cosine says which is nearer, not how near
            if hit.id in by_names:
                return 0.0
            share = 0.0 if known[hit.id]["kind"] in _GENERAL else named
            if hit.id in by_words:
                return share  # among few memories a shared word scores next to nothing, and is one all the same
            return max(floors.all, floors.lone if by_words else 0.0, share)

        def factors(id: str) -> Mapping[str, float]:
            return row_factors(known[id], self.now, used.get(id), settings)

        ranked = ranking.best_first(factors, most_factor(used.values(), settings))
        return (hit for hit in ranked if hit.relevance >= floor(hit))


def placed(
    tables: Tables, filter: Filter, places: Sequence[tuple[str, float, float]], overlay: Iterable[Mapping[str, Any]]
) -> list[Hit]:
    """What was ranked before, by id, score and relevance, as it is now: what no longer passes the filter is left out.

    `overlay`: as in `find`.
    """
    fresh = {row["id"]: row for row in overlay if row["id"] not in filter.not_ids}
    ranked = [Ranked(id, score, relevance, {}) for id, score, relevance in places]
    found = read_hits(tables, MEMORIES, filter, ranked, len(ranked), fresh)
    if "passage" in (filter.kinds or ()) and tables.has_passages():
        inside = replace(filter, kinds=("passage",))
        found += with_neighbours(tables, read_hits(tables, PASSAGES, inside, ranked, len(ranked), {}))
    by_id = {hit.row["id"]: hit for hit in found}
    return [by_id[id] for id, _, _ in places if id in by_id]


def with_neighbours(tables: Tables, hits: Sequence[Hit]) -> list[Hit]:
    """Passages with the texts of their neighbours, which are read for them whatever the filter was."""
    ids = {id for hit in hits for id in (hit.row["before"], hit.row["after"]) if id}
    texts: dict[str, str] = {}
    for namespace in {hit.row["namespace"] for hit in hits} if ids else ():
        found = tables.rows(namespace, sorted(ids), ["id", "text"], PASSAGES)
        texts |= dict(zip(found.column("id").to_pylist(), found.column("text").to_pylist(), strict=True))
    return [replace(hit, beside=(texts.get(hit.row["before"], ""), texts.get(hit.row["after"], ""))) for hit in hits]


@cache
def _columns(table: str) -> list[str]:
    """Columns of a table's rows, as hits carry them."""
    return [name for name in arrow_schema(table).names if name != "vector"]


def _between(filter: Filter, since: datetime, until: datetime) -> Filter:
    return replace(
        filter,
        since=since if filter.since is None else max(since, filter.since),
        until=until if filter.until is None else min(until, filter.until),
    )


def _within(ids: tuple[str, ...] | None, wanted: tuple[str, ...]) -> tuple[str, ...]:
    return wanted if ids is None else tuple(sorted(set(ids) & set(wanted)))


def _fresh(tables: Tables, filter: Filter, rows: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rows that the store does not hold, in any state: what it has, it answers for."""
    if not rows:
        return []
    everything = Filter(filter.namespaces, states=None, ids=tuple(row["id"] for row in rows))
    held = set(tables.scan(everything, ["id"]).column("id").to_pylist())
    unique = {row["id"]: row for row in rows if row["id"] not in held}
    return list(unique.values())


def read_hits(
    tables: Tables,
    table: str,
    filter: Filter,
    ranked: Iterable[Ranked],
    limit: int,
    fresh: Mapping[str, Mapping[str, Any]],
    known: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Hit]:
    """The rows of the best: `known` ones, and others read under the same filter; for one that it leaves out, the next
    moves up.
    """
    names = _columns(table)
    known = known or {}
    hits: list[Hit] = []
    following = iter(ranked)
    while some := list(islice(following, limit - len(hits))):
        wanted = tuple(hit.id for hit in some if hit.id not in fresh and hit.id not in known)
        found = tables.scan(replace(filter, ids=wanted), names, table).to_pylist() if wanted else []
        found += [{name: known[hit.id].get(name) for name in names} for hit in some if hit.id in known]
        if table == PASSAGES:
            found = _of_readable(tables, filter, found)
        rows: dict[str, Mapping[str, Any]] = {row["id"]: row for row in found}
        rows |= {id: {name: row.get(name) for name in names} for id, row in fresh.items()}
        hits += [Hit(rows[h.id], h.score, h.relevance, h.legs, h.factors) for h in some if h.id in rows]
    return hits


def _of_readable(tables: Tables, filter: Filter, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Passages whose episode is in a state that the filter lets through: what was forgotten speaks no more."""
    episodes = tuple(sorted({row["episode"] for row in rows}))
    allowed = Filter(filter.namespaces, kinds=("episode",), states=filter.states, ids=episodes, not_ids=filter.not_ids)
    readable = set(tables.scan(allowed, ["id"]).column("id").to_pylist()) if episodes else set()
    return [row for row in rows if row["episode"] in readable]
