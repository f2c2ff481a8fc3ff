"""Why a search returned what it did, and why it did not return what was expected (R33).

The search itself is asked three times: as it is; as far as it ranks; and without its floors. So what is told is what
happened, not a second opinion. Of a memory that no leg brought, lake and store are asked for the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ..clock import Clock
from ..errors import UnknownMemory, UsageError
from ..files.lake import Lake
from ..history.explain import Explanation, explain
from ..history.inbox import inbox_paths
from ..history.overlay import Overlay, OverlayReader
from ..schema import conform
from ..settings import Settings
from ..store.generations import current, open_tables
from ..store.tables import MEMORIES, PASSAGES, Tables
from ..text.aliases import BookKeeper
from .predicates import Filter, matches
from .ranking import Place
from .reader import Reader
from .search import NAMED, WORDED, Hit

#: More hits than the legs of a search supply.
_ALL = 10_000
#: How far down a leg a memory's place is looked for.
DEPTH = 10_000
#: Memories of each sort that are told of when none is expected.
_NEAREST = 3
#: Kinds that a search may be widened to when the nearest are looked for that filters leave out.
_KINDS = ("experience", "fact", "preference", "rule")


@dataclass(frozen=True)
class Verdict:
    """What became of one memory in a search."""

    id: str
    #: returned · outranked · below_floor · no_candidate · not_embedded · not_in_store · state · subject · kind ·
    #: filter · waiting · refused · purged · unknown
    reason: str
    #: The same in a sentence, with what would change it
    told: str
    kind: str = ""
    text: str = ""
    state: str = ""
    subject: str = ""
    #: Place in the ranking, from 1; None where it has none
    rank: int | None = None
    score: float = 0.0
    #: How relevant it is by itself, 0 to 1
    relevance: float = 0.0
    #: The floor that it is below
    floor: float | None = None
    #: Where each leg had it
    legs: Mapping[str, Place] = field(default_factory=dict)
    #: What its rank was multiplied by
    factors: Mapping[str, float] = field(default_factory=dict)
    #: Fields of the filter that it does not pass
    fails: tuple[str, ...] = ()
    #: Of a memory that no leg brought: its place in each leg had that looked further, from 1; None: beyond `DEPTH`, or
    #: it shares nothing
    further: Mapping[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True)
class QueryExplanation:
    """Why a search returned what it did."""

    query: str
    namespace: str
    #: Name of the generation that answered
    generation: str
    #: Place in the log up to which it knew
    seq: int
    #: Hits that were asked for
    limit: int
    #: Memories that any leg brought
    candidates: int
    #: Of these, those below a floor
    below_floor: int
    #: What was returned, best first
    hits: tuple[Verdict, ...]
    #: What came near and was not returned
    cut: tuple[Verdict, ...]
    #: The memory that was expected
    expected: Verdict | None = None


def explain_query(
    lake: Lake, settings: Settings, clock: Clock, query: str, where: Filter, limit: int = 5, expected: str = ""
) -> QueryExplanation:
    """Explain a search of one namespace. Nothing is logged as read.

    With `expected`, the id of a memory, why that one came or did not; without, why the nearest others did not. Raises
    `UsageError` for a limit below one.
    """
    if limit < 1:
        raise UsageError(f"limit is {limit}: ask for at least one")
    return _Question(lake, settings, clock, query, where, limit).explained(expected)


class _Question:
    """One search, asked as it is and without its floors."""

    def __init__(self, lake: Lake, settings: Settings, clock: Clock, query: str, where: Filter, limit: int) -> None:
        self.lake, self.settings, self.query, self.limit = lake, settings, query, limit
        (self.namespace,) = where.namespaces
        reader = Reader(lake, settings, clock)
        self.answer = reader.answer(query, where, limit)
        no_floors = settings.search.model_copy(update={"floor": 0.0, "lone_floor": 0.0, "named_share": 0.0})
        self.open = Reader(lake, settings.model_copy(update={"search": no_floors}), clock)
        self.kept = {hit.row["id"]: hit for hit in reader.answer(query, where, _ALL).hits}
        self.found = {hit.row["id"]: hit for hit in self.open.answer(query, where, _ALL).hits}
        self.tables: Tables = open_tables(settings, current(lake))
        self.overlay: Overlay = OverlayReader(lake, self.namespace).read(self.tables.folded_to(self.namespace))
        self.where = BookKeeper().book(self.tables, self.namespace, self.overlay).expand(where)
        self.embedder = self.open.embedder()

    def explained(self, expected: str) -> QueryExplanation:
        returned = [hit.row["id"] for hit in self.answer.hits]
        return QueryExplanation(
            query=self.query,
            namespace=self.namespace,
            generation=self.answer.generation,
            seq=self.answer.seq[self.namespace],
            limit=self.limit,
            candidates=len(self.found),
            below_floor=len(self.found.keys() - self.kept.keys()),
            hits=tuple(self.ranked(id) for id in returned),
            cut=() if expected else self.nearest(),
            expected=self.verdict(expected) if expected else None,
        )

    def verdict(self, id: str) -> Verdict:
        """What became of a memory, whatever it is."""
        return self.ranked(id) if id in self.found else self.absent(id)

    def ranked(self, id: str) -> Verdict:
        """What became of a candidate."""
        hit = self.kept.get(id) or self.found[id]
        returned = [one.row["id"] for one in self.answer.hits]
        if id in returned:
            place = returned.index(id) + 1
            return _told(hit, "returned", f"it is hit {place} of {len(returned)}", rank=place)
        if id in self.kept:
            place = list(self.kept).index(id) + 1
            last = self.answer.hits[-1]
            told = (
                f"it ranks {place} of {len(self.kept)}, and {self.limit} were asked for: its score is {hit.score:.3g}, "
                f"that of the last hit {last.score:.3g}; a limit of {place} returns it"
            )
            return _told(hit, "outranked", told, rank=place)
        search = self.settings.search
        if hit.relevance >= search.lone_floor or not WORDED.isdisjoint(hit.legs):
            named = (one.relevance for one in self.found.values() if not NAMED.isdisjoint(one.legs))
            best = max(named, default=0.0)
            told = (
                f"its relevance {hit.relevance:.3f} is below search.named_share {search.named_share:g} of {best:.3f}, "
                "that of the best memory about what the query names: it is about nothing of that"
            )
            return _told(hit, "below_floor", told, floor=search.named_share * best)
        is_lone = hit.relevance >= search.floor
        floor = search.lone_floor if is_lone else search.floor
        told = f"its relevance {hit.relevance:.3f} is below search.{'lone_floor' if is_lone else 'floor'} {floor:g}: "
        told += (
            "it shares no word and no name with the query, and others do"
            if is_lone
            else "it shares no word with the query, and by meaning it is far"
        )
        return _told(hit, "below_floor", told, floor=floor)

    def absent(self, id: str) -> Verdict:
        """Why a memory is no candidate."""
        try:
            known = explain(self.lake, self.namespace, id, with_events=False)
        except UnknownMemory:
            return self.unlogged(id)
        row = {**known.memory, "id": id, "namespace": self.namespace}
        if any(step.decision == "purge" and step.verdict != "refused" for step in known.decisions):
            return Verdict(id, "purged", "it was purged: nothing brings it back")
        if row["state"] == "refused":
            return _of(row, "refused", f"it was never added: {known.decisions[0].reason}")
        if cause := self.excluded(row, known):
            return cause
        return self.unreached(row, MEMORIES)

    def unlogged(self, id: str) -> Verdict:
        """Why an id that the log and the users' acts don't have is no candidate."""
        found = self.tables.rows(self.namespace, [id], table=PASSAGES) if self.tables.has_passages() else None
        if found is not None and found.num_rows:
            (row,) = found.to_pylist()
            if cause := self.excluded(row):
                return cause
            episode = self.tables.rows(self.namespace, [row["episode"]], ["state"]).to_pylist()
            state = self.overlay.states.get(row["episode"], episode[0]["state"] if episode else "gone")
            if self.where.states is not None and state not in self.where.states:
                told = f"the episode that it is a part of, {row['episode']}, is {state}"
                return _of(row, "state", told, fails=("states",))
            return self.unreached(row, PASSAGES)
        for _, raw in self.lake.read_tables(inbox_paths(self.lake, self.namespace)):
            rows = conform(raw, "log")
            if id in rows.column("id").to_pylist():
                (row, *_) = (one for one in rows.to_pylist() if one["id"] == id)
                told = f"run {row['run']} proposed it, and it has no place in the log yet: the next job gives it one"
                return _of(row, "waiting", told)
        return Verdict(
            id, "unknown", f"namespace {self.namespace} has no memory of this id: -n looks into another namespace"
        )

    def excluded(self, row: Mapping[str, Any], known: Explanation | None = None) -> Verdict | None:
        """The verdict on a memory that the filter leaves out; None for one that it lets through."""
        fails = failing(row, self.where)
        if not fails:
            return None
        reason = _REASONS.get(fails[0], "filter")
        parts = [_gone(row, known) if name == "states" else _clause(name, row, self.where) for name in fails]
        return _of(row, reason, "; ".join(parts), fails=fails)

    def unreached(self, row: Mapping[str, Any], table: str) -> Verdict:
        """Why no leg brought a memory that passes the filter, as the lake has it."""
        id = row["id"]
        everything = Filter((self.namespace,), states=None, ids=(id,))
        held = self.tables.scan(everything, None, table).to_pylist()
        if not held:
            head = self.overlay.seq
            told = (
                f"the store does not hold it: it is folded to place {self.overlay.folded_to} of the log, which ends at "
                f"{head}; the next fold brings it, `hindlake rebuild` makes the store anew"
            )
            return _of(row, "not_in_store", told)
        if fails := failing(held[0], self.where):
            told = (
                f"the store has it as it was before the last decisions ({', '.join(fails)}): the next fold brings them"
            )
            return _of(row, "not_in_store", told, fails=fails)
        if not self.query.strip():
            return _of(row, "no_candidate", f"an empty query lists the newest, and {_ALL} are newer")
        further = self.further(row, table)
        if held[0]["vector"] is None:
            told = "it has no vector, so only its words can find it, and the query shares none"
            if further["text"] is not None:
                told = f"it has no vector, and by its words it is only at place {further['text']}"
            return _of(row, "not_embedded", told, further=further)
        places = [f"by {name} it is at place {place}" for name, place in further.items() if place is not None]
        if further["text"] is None:
            places.append("it shares no word")
        told = (
            f"no leg brought it: {', '.join(places)}; each leg supplies search.candidates "
            f"({self.settings.search.candidates}) or a few times that"
        )
        return _of(row, "no_candidate", told, further=further)

    def further(self, row: Mapping[str, Any], table: str) -> dict[str, int | None]:
        """The place of a memory in the legs of vectors and words, had they looked further."""
        is_memory = row["kind"] not in ("episode", "passage")
        kinds = self.where.kinds or _KINDS
        shelf = tuple(kind for kind in kinds if kind not in ("episode", "passage")) if is_memory else (row["kind"],)
        hidden = tuple(id for id, state in self.overlay.states.items() if state not in (self.where.states or (state,)))
        where = replace(self.where, kinds=shelf, not_ids=(*self.where.not_ids, *hidden))
        vector = self.embedder.queries([self.query])[0]
        legs = {
            "vector": self.tables.vector_leg(vector, where, DEPTH, table=table),
            "text": self.tables.text_leg(self.query, where, DEPTH, table=table),
        }
        return {
            name: next((place for place, one in enumerate(found, 1) if one.id == row["id"]), None)
            for name, found in legs.items()
        }

    def nearest(self) -> tuple[Verdict, ...]:
        """The best of what was ranked and not returned, of what is below a floor, and of what filters leave out."""
        beyond = list(self.kept)[len(self.answer.hits) :][:_NEAREST]
        below = [id for id in self.found if id not in self.kept][:_NEAREST]
        kinds = tuple(dict.fromkeys((*(self.where.kinds or ()), *_KINDS)))
        wide = Filter((self.namespace,), kinds=kinds, states=None)
        verdicts = [self.ranked(id) for id in (*beyond, *below)]
        excluded: list[Verdict] = []
        for hit in self.open.answer(self.query, wide, self.limit + 10 * _NEAREST).hits:
            row = {**hit.row, "state": self.overlay.states.get(hit.row["id"], hit.row["state"])}
            is_near = hit.relevance >= self.settings.search.floor and row["id"] not in self.found
            if is_near and (cause := self.excluded(row)):
                excluded.append(replace(cause, relevance=hit.relevance, legs=hit.legs, factors=hit.factors))
        return (*verdicts, *excluded[:_NEAREST])


def failing(row: Mapping[str, Any], where: Filter) -> tuple[str, ...]:
    """The fields of a filter that a row does not pass, states and subjects first.

    >>> failing({"namespace": "acme", "kind": "fact", "state": "active", "tool": "pay"},
    ...         Filter(("acme",), kinds=("rule",), tools=("pay",)))
    ('kinds',)
    """
    first = ("states", "subjects", "own_subjects", "kinds")
    names = [*first, *(one.name for one in fields(Filter) if one.name not in (*first, "namespaces"))]
    failed = []
    for name in names:
        value = getattr(where, name)
        if value is not None and not matches(row, replace(Filter(where.namespaces, states=None), **{name: value})):
            failed.append(name)
    return tuple(failed)


def _gone(row: Mapping[str, Any], known: Explanation | None) -> str:
    """In which state a memory is, since when, and why."""
    state = row["state"]
    told = f"it is {state}"
    if state in ("superseded", "merged") and row.get("superseded_by"):
        told = f"it was {'merged into' if state == 'merged' else 'superseded by'} {row['superseded_by']}"
    steps = [] if known is None else [s for s in known.decisions if s.verdict != "refused" and "state" in s.sets]
    if steps:
        last = steps[-1]
        told += f", {last.at:%Y-%m-%d %H:%M}" + (f": {last.reason}" if last.reason else "")
        told += f" (run {last.run})" if last.run else ""
    away = state not in ("superseded", "merged", "pending", "active")
    return f"{told} (`hindlake restore {row['id']}` brings it back)" if away else told


def _clause(name: str, row: Mapping[str, Any], where: Filter) -> str:
    asked = getattr(where, name)
    if name in ("since", "until", "valid_at"):
        return f"it holds since {row['valid_from']:%Y-%m-%d %H:%M}, and {name} is {asked:%Y-%m-%d %H:%M}"
    if name == "subjects":
        named = ", ".join(asked) or "none"
        return f"it is about {row['subject']}, and the search names {named} as the subject"
    column = _COLUMNS.get(name, name)
    has = row.get(column)
    said = ", ".join(has) if isinstance(has, list | tuple) else str(has or "")
    wanted = ", ".join(map(str, asked)) if isinstance(asked, tuple) else str(asked)
    return f"its {column} is {said or 'not set'}, and {name} is {wanted or 'nothing'}"


#: Why a memory is left out, by the first field of the filter that it does not pass.
_REASONS = {"states": "state", "subjects": "subject", "own_subjects": "subject", "kinds": "kind"}
#: Column that a field of a filter looks at, where the two have different names.
_COLUMNS = {
    "kinds": "kind", "states": "state", "subjects": "subject", "own_subjects": "subject", "task_types": "task_type",
    "tools": "tool", "outcomes": "outcome", "error_codes": "error_code", "agent_roles": "agent_role",
    "languages": "language", "attributes": "attribute", "ids": "id", "not_kinds": "kind",
    "not_task_types": "task_type", "not_tools": "tool", "not_outcomes": "outcome", "not_error_codes": "error_code",
    "not_agent_roles": "agent_role", "not_said_by": "said_by", "not_ids": "id", "all_entities": "entities",
    "not_entities": "entities", "entity_groups": "entities", "all_tags": "tags", "not_tags": "tags",
}  # fmt: skip


def _told(hit: Hit, reason: str, told: str, rank: int | None = None, floor: float | None = None) -> Verdict:
    """The verdict on a candidate."""
    verdict = _of(hit.row, reason, told)
    return replace(
        verdict, rank=rank, floor=floor, score=hit.score, relevance=hit.relevance, legs=hit.legs, factors=hit.factors
    )


def _of(
    row: Mapping[str, Any],
    reason: str,
    told: str,
    fails: tuple[str, ...] = (),
    further: Mapping[str, int | None] | None = None,
) -> Verdict:
    """The verdict on a row."""
    kind, text, state, subject = (str(row.get(name) or "") for name in ("kind", "text", "state", "subject"))
    return Verdict(row["id"], reason, told, kind, text, state, subject, fails=fails, further=further or {})
