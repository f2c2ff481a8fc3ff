"""Reading one lake and its store together: what the store has folded, and what was written since."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from ..clock import Clock
from ..embedders import Embedder, embedder_named
from ..errors import StoreError
from ..files.lake import Lake
from ..files.store_copy import StoreCopy
from ..history.overlay import Overlay, OverlayReader
from ..records.usage import CreditReader, Use
from ..records.vectors import embed_texts, text_to_embed
from ..settings import Settings
from ..store.generations import Generation, ensure, open_tables
from ..store.tables import Tables
from ..telemetry.otel import timed
from ..text.aliases import BookKeeper, Classes, NameBook, subject_of
from .cursors import DEPTH, Cursor, read_cursor, write_cursor
from .newest import newest
from .predicates import Filter, matches
from .search import Hit, find, placed

_T = TypeVar("_T")
#: Queries whose vectors are kept.
_ASKED = 64


@dataclass(frozen=True)
class _View:
    """The generation that a reader uses, and its tables."""

    generation: Generation
    tables: Tables
    embedder: Embedder
    #: Whether the tables are a copy on this machine of those in a bucket
    is_copy: bool = False


@dataclass(frozen=True)
class Answer:
    """What a search found, and what it could know."""

    hits: list[Hit]
    #: Name of the generation that answered
    generation: str
    #: Place in the log up to which it knew, by namespace
    seq: Mapping[str, int]


@dataclass(frozen=True)
class _Scope:
    """What one search looks at."""

    #: The filter, with what it must not return
    where: Filter
    #: Rows that the store does not hold yet
    fresh: list[Mapping[str, Any]]
    #: Place in the log up to which it knows, by namespace
    seq: Mapping[str, int]
    #: Which names stand for one thing
    classes: Classes


class Reader:
    """Searches the generation in use, or always the one given. Safe to share between threads; make a new one after a
    fork.
    """

    def __init__(self, lake: Lake, settings: Settings, clock: Clock, generation: Generation | None = None) -> None:
        self._lake, self._settings, self._clock = lake, settings, clock
        self._pinned = generation
        self._copies = StoreCopy(lake, settings) if settings.is_remote and settings.index.copy_to else None
        #: Switches of readers by the file that says them, and when the newest was looked for
        self._switches: dict[str, Generation] = {}
        self._used: tuple[float, Generation] | None = None
        self._books = BookKeeper()
        self._lock = threading.Lock()
        self._view: _View | None = None
        self._overlays: dict[str, OverlayReader] = {}
        self._latest: dict[str, tuple[float, int, Overlay]] = {}
        self._vectors: dict[tuple[str, str], Any] = {}
        self._credit: dict[str, CreditReader] = {}
        self._asked: dict[tuple[str, str], Any] = {}

    def embedder(self) -> Embedder:
        """The embedder of the generation in use."""
        return self._current().embedder

    def search(self, query: str, where: Filter, limit: int) -> list[Hit]:
        """The hits of `answer`."""
        return self.answer(query, where, limit).hits

    def answer(self, query: str, where: Filter, limit: int) -> Answer:
        """Memories that pass the filter and answer the query, best first; an empty query lists the newest.

        A search keeps the generation that it began with. What was written before it began is found.
        """
        return self.answers([query], where, limit)[0]

    def answers(self, queries: Sequence[str], where: Filter, limit: int) -> list[Answer]:
        """An answer to each query, as `answer` gives it, in one look at what was written; embedded in one call."""
        with timed("hindlake.search.duration"):
            return self._in_view(lambda view: self._answers(view, queries, where, limit))

    def page(self, query: str, where: Filter, limit: int, cursor: str) -> tuple[Answer, str]:
        """Some hits of an answer, and the cursor to the next ones, empty where there are no more; `pages` tells how.

        Raises `UsageError` for a cursor that is none, or another query's.
        """
        return self._in_view(lambda view: self._page(view, query, where, limit, cursor))

    def names(self, namespace: str) -> NameBook:
        """Which names stand for one thing in a namespace, what was just written included."""
        return self._in_view(lambda view: self._book(view, {namespace: self._read_overlay(view, namespace)}))

    def place(self, namespace: str) -> tuple[str, int]:
        """Name of the generation in use, and the place in the log up to which the last search of a namespace knew."""
        latest = self._latest.get(namespace)
        return self._current().generation.name, latest[2].seq if latest is not None else 0

    def _in_view(self, act: Callable[[_View], _T]) -> _T:
        view = self._current()
        try:
            return act(view)
        except StoreError:
            # A generation that was dropped under this search: readers had been switched away from it. Or a copy of one
            # that is damaged, or was removed.
            if self._copies is not None and view.is_copy:
                self._copies.forget(view.generation.name)
            self._used = None
            now = self._current()
            if now is view:
                raise
            return act(now)

    def _scope(self, view: _View, where: Filter) -> _Scope:
        overlays = {namespace: self._read_overlay(view, namespace) for namespace in where.namespaces}
        book = self._book(view, overlays)
        where = book.expand(where)
        hidden: list[str] = []
        fresh: list[Mapping[str, Any]] = []
        seq: dict[str, int] = {}
        for namespace, overlay in overlays.items():
            seq[namespace] = overlay.seq
            wanted = where.states
            hidden += [id for id, state in overlay.states.items() if wanted is not None and state not in wanted]
            fresh += [row for row in overlay.rows if matches(row, where)]
        classes = book.entities(subject_of(where))
        where = replace(where, not_ids=(*where.not_ids, *hidden)) if hidden else where
        return _Scope(where, fresh, seq, classes)

    def _answers(self, view: _View, queries: Sequence[str], where: Filter, limit: int) -> list[Answer]:
        scope = self._scope(view, where)
        vectors = self._query_vectors(view.embedder, [query for query in queries if query.strip()])
        fresh = self._with_vectors(view.embedder, scope.fresh) if vectors else []
        now, search = self._clock.now(), self._settings.search
        reranker = self._settings.rerank if self._settings.model.calls == "on" else None

        def one(query: str) -> Answer:
            if not query.strip():
                return Answer(newest(view.tables, scope.where, scope.fresh, limit), view.generation.name, scope.seq)
            hits = find(
                view.tables, view.embedder, query, scope.where, search, now, limit, search.floor, search.lone_floor,
                search.named_share, overlay=fresh, vector=vectors[query],
                uses=partial(self._uses, where.namespaces), reranker=reranker, classes=scope.classes,
            )  # fmt: skip
            return Answer(hits, view.generation.name, scope.seq)

        return [one(query) for query in queries]

    def _page(self, view: _View, query: str, where: Filter, limit: int, cursor: str) -> tuple[Answer, str]:
        known = read_cursor(cursor, query, where) if cursor else None
        if not query.strip():
            scope = self._scope(view, where)
            before = known.before if known is not None else None
            hits = newest(view.tables, scope.where, scope.fresh, limit + 1, before)
            last = hits[limit - 1].row if len(hits) > limit else None
            left = Cursor(before=(last["valid_from"], last["id"])) if last is not None else None
        elif known is None:
            [answer] = self._answers(view, [query], where, DEPTH)
            hits, scope = answer.hits, self._scope(view, where)
            places = [(hit.row["id"], hit.score, hit.relevance) for hit in hits[limit:]]
            left = Cursor(places=tuple(places)) if places else None
        else:
            scope = self._scope(view, where)
            hits, places = [], list(known.places)
            while places and len(hits) < limit:
                some, places = places[: limit - len(hits)], places[limit - len(hits) :]
                hits += placed(view.tables, scope.where, some, scope.fresh)
            left = Cursor(places=tuple(places)) if places else None
        answer = Answer(hits[:limit], view.generation.name, scope.seq)
        return answer, write_cursor(left, query, where) if left is not None else ""

    def _query_vectors(self, embedder: Embedder, queries: Sequence[str]) -> dict[str, Any]:
        """Vectors of queries: those of the last ones are known."""
        keys = {query: (embedder.name, query) for query in queries}
        found = {query: self._asked[key] for query, key in keys.items() if key in self._asked}
        missing = [query for query in keys if query not in found]
        found |= dict(zip(missing, embedder.queries(missing), strict=True)) if missing else {}
        self._asked |= {keys[query]: found[query] for query in missing}
        self._asked = dict(list(self._asked.items())[-_ASKED:])
        return found

    def _uses(self, namespaces: Iterable[str], ids: Iterable[str]) -> dict[str, Use]:
        """What is known about the use of some memories."""
        found: dict[str, Use] = {}
        for namespace in namespaces:
            if namespace not in self._credit:
                seconds = self._settings.search.usage_seconds
                self._credit[namespace] = CreditReader(self._lake, namespace, seconds)
            found |= self._credit[namespace].uses(ids)
        return found

    def _book(self, view: _View, overlays: Mapping[str, Overlay]) -> NameBook:
        """The aliases that hold for a search; over several namespaces none does, since each has names of its own."""
        if len(overlays) != 1:
            return NameBook()
        [(namespace, overlay)] = overlays.items()
        return self._books.book(view.tables, namespace, overlay)

    def _current(self) -> _View:
        with self._lock:
            generation = self._pinned or self._named()
            copy = self._copies.ready(generation.name) if self._copies is not None else ""
            if self._view is None or self._view.generation != generation or self._view.is_copy != bool(copy):
                embedder = embedder_named(generation.embedder, self._settings)
                tables = self._copied(generation, copy)
                is_copy = tables is not None
                self._view = _View(generation, tables or open_tables(self._settings, generation), embedder, is_copy)
                self._latest.clear()
            return self._view

    def _named(self) -> Generation:
        """The generation in use, looked for again when writes are."""
        seconds, now = self._settings.search.refresh_seconds, time.monotonic()
        if self._used is None or now - self._used[0] >= seconds:
            self._used = now, ensure(self._lake, self._settings, self._clock, self._switches)
        return self._used[1]

    def _copied(self, generation: Generation, copy: str) -> Tables | None:
        """The tables of a copy; None without one, or if it is damaged, and then it is removed."""
        try:
            return Tables.open(copy, self._settings) if copy else None
        except StoreError:
            if self._copies is not None:
                self._copies.forget(generation.name)
            return None

    def _read_overlay(self, view: _View, namespace: str) -> Overlay:
        """What was written since the fold. The fold's place is read first, so that nothing falls in between."""
        with self._lock:
            seconds = self._settings.search.refresh_seconds
            if seconds and namespace in self._latest:
                read_at, folded_to, overlay = self._latest[namespace]
                if time.monotonic() - read_at < seconds and folded_to == view.tables.folded_to(namespace):
                    return overlay
            folded_to = view.tables.folded_to(namespace)
            if namespace not in self._overlays:
                self._overlays[namespace] = OverlayReader(self._lake, namespace)
            overlay = self._overlays[namespace].read(folded_to)
            self._latest[namespace] = (time.monotonic(), folded_to, overlay)
            return overlay

    def forget_overlays(self) -> None:
        """Look for writes again at the next search, however lately that was done: this process has written."""
        with self._lock:
            self._latest.clear()

    def _with_vectors(self, embedder: Embedder, rows: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Rows with this embedder's vectors; one that was written without is embedded here, once."""
        bare = [row for row in rows if row["embedder"] != embedder.name or row["vector"] is None]
        missing = [row for row in bare if (embedder.name, row["id"]) not in self._vectors]
        texts = [text_to_embed(row["kind"], row["text"]) for row in missing]
        made = embed_texts(embedder, texts)
        self._vectors.update({(embedder.name, r["id"]): vector for r, vector in zip(missing, made, strict=True)})
        own = {row["id"]: self._vectors[embedder.name, row["id"]] for row in bare}
        self._vectors = {key: vector for key, vector in self._vectors.items() if key[1] in own}
        return [{**row, "vector": own[row["id"]]} if row["id"] in own else row for row in rows]
