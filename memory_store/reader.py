"""Reading one lake and its store together: what the store has folded, and what was written since."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from .aliases import BookKeeper, NameBook
from .clock import Clock
from .embedders import Embedder, embedder_named
from .errors import StoreError
from .generations import Generation, ensure, open_tables
from .lake import Lake
from .overlay import Overlay, OverlayReader
from .predicates import Filter, matches
from .schema import arrow_schema
from .search import Hit, find, newest_passages
from .settings import Settings
from .tables import Tables
from .usage import CreditReader, Use
from .vectors import embed_texts, text_to_embed

_COLUMNS = [name for name in arrow_schema("memories").names if name != "vector"]


@dataclass(frozen=True)
class _View:
    """The generation that a reader uses, and its tables."""

    generation: Generation
    tables: Tables
    embedder: Embedder


@dataclass(frozen=True)
class Answer:
    """What a search found, and what it could know."""

    hits: list[Hit]
    #: Name of the generation that answered
    generation: str
    #: Place in the log up to which it knew, by namespace
    seq: Mapping[str, int]


class Reader:
    """Searches the generation in use, or always the one given. Safe to share between threads; make a new one after a
    fork.
    """

    def __init__(self, lake: Lake, settings: Settings, clock: Clock, generation: Generation | None = None) -> None:
        self._lake, self._settings, self._clock = lake, settings, clock
        self._pinned = generation
        self._books = BookKeeper()
        self._lock = threading.Lock()
        self._view: _View | None = None
        self._overlays: dict[str, OverlayReader] = {}
        self._latest: dict[str, tuple[float, int, Overlay]] = {}
        self._vectors: dict[tuple[str, str], Any] = {}
        self._credit: dict[str, CreditReader] = {}

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
        view = self._current()
        try:
            return self._answer(view, query, where, limit)
        except StoreError:
            # A generation that was dropped under this search: readers had been switched away from it.
            now = self._current()
            if now is view:
                raise
            return self._answer(now, query, where, limit)

    def _answer(self, view: _View, query: str, where: Filter, limit: int) -> Answer:
        where = self._book(view, where).expand(where)
        hidden: list[str] = []
        fresh: list[Mapping[str, Any]] = []
        seq: dict[str, int] = {}
        for namespace in where.namespaces:
            overlay = self._read_overlay(view, namespace)
            seq[namespace] = overlay.seq
            wanted = where.states
            hidden += [id for id, state in overlay.states.items() if wanted is not None and state not in wanted]
            fresh += [row for row in overlay.added.to_pylist() if matches(row, where)]
        where = replace(where, not_ids=(*where.not_ids, *hidden))
        if not query.strip():
            newest = [*_newest(view.tables, where, fresh, limit), *newest_passages(view.tables, where, limit)]
            newest.sort(key=lambda hit: (_time(hit.row), hit.row["id"]), reverse=True)
            return Answer(newest[:limit], view.generation.name, seq)
        now, search = self._clock.now(), self._settings.search
        hits = find(
            view.tables, view.embedder, query, where, search, now, limit, search.floor, search.lone_floor,
            overlay=self._with_vectors(view.embedder, fresh), uses=partial(self._uses, where.namespaces),
        )  # fmt: skip
        return Answer(hits, view.generation.name, seq)

    def _uses(self, namespaces: Iterable[str], ids: Iterable[str]) -> dict[str, Use]:
        """What is known about the use of some memories."""
        found: dict[str, Use] = {}
        for namespace in namespaces:
            if namespace not in self._credit:
                seconds = self._settings.search.usage_seconds
                self._credit[namespace] = CreditReader(self._lake, namespace, seconds)
            found |= self._credit[namespace].uses(ids)
        return found

    def _book(self, view: _View, where: Filter) -> NameBook:
        """The aliases that hold for a search; over several namespaces none does, since each has names of its own."""
        if len(where.namespaces) != 1:
            return NameBook()
        return self._books.book(view.tables, where.namespaces[0], self._read_overlay(view, where.namespaces[0]))

    def _current(self) -> _View:
        with self._lock:
            generation = self._pinned or ensure(self._lake, self._settings, self._clock)
            if self._view is None or self._view.generation != generation:
                embedder = embedder_named(generation.embedder, self._settings)
                self._view = _View(generation, open_tables(self._settings, generation), embedder)
                self._latest.clear()
            return self._view

    def _read_overlay(self, view: _View, namespace: str) -> Overlay:
        """What was written since the fold. The fold's place is read first, so that nothing falls in between."""
        with self._lock:
            seconds = self._settings.search.refresh_seconds
            if seconds and namespace in self._latest:
                read_at, folded_to, overlay = self._latest[namespace]
                if time.monotonic() - read_at < seconds and folded_to == view.tables.folded_to(namespace):
                    return overlay
            folded_to = view.tables.folded_to(namespace)
            reader = self._overlays.setdefault(namespace, OverlayReader(self._lake, namespace))
            overlay = reader.read(folded_to)
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


def _newest(tables: Tables, where: Filter, fresh: list[Mapping[str, Any]], limit: int) -> list[Hit]:
    """The memories that pass the filter, by the time since when they hold, newest first."""
    stored = tables.scan(where, ["id", "valid_from"]).to_pylist()
    known = {row["id"] for row in stored}
    new = {row["id"]: row for row in fresh if row["id"] not in known and row["id"] not in where.not_ids}
    order = sorted([*stored, *new.values()], key=lambda row: (_time(row), row["id"]), reverse=True)[:limit]
    wanted = tuple(row["id"] for row in order if row["id"] not in new)
    rows = {row["id"]: row for row in tables.scan(replace(where, ids=wanted), _COLUMNS).to_pylist()} if wanted else {}
    rows |= {id: {name: row[name] for name in _COLUMNS} for id, row in new.items()}
    return [Hit(rows[row["id"]], 0.0, 0.0, {}, {}) for row in order if row["id"] in rows]


def _time(row: Mapping[str, Any]) -> datetime:
    value: datetime = row["valid_from"]
    return value
