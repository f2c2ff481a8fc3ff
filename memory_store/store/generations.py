"""Generations: complete stores, each one embedding model, one fold, its indexes. Readers use the newest in `current/`.

A generation is built beside the one in use, folded to the head of every log, and only then named in
`current/<number>.json`, created if absent: of two builders one wins, and the other one's work is dropped. `registry`
knows which generations there are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ..clock import Clock
from ..embedders import Embedder, embedder_named, embedder_of
from ..errors import NoGeneration, StoreError
from ..files.lake import Lake
from ..history.cold import COLD, COOL, cooled_to, read_cold
from ..history.fold import fold
from ..history.log import head, log_paths
from ..records.vectors import VectorCache, embed_texts, text_to_embed
from ..schema import ALIAS, conform
from ..settings import Settings
from ..telemetry.events import tell
from .passage_fold import fold_passages
from .registry import Claim, claim, drop, find, mark_ready, switch
from .registry import Generation as Generation
from .registry import current as current
from .tables import Tables

if TYPE_CHECKING:
    import pyarrow as pa

_T = TypeVar("_T")

#: Rows of the log that are folded at once, which bounds the memory that a rebuild takes.
FOLD_ROWS = 20_000
#: Texts that are embedded before their vectors are kept: what a fold that is killed loses.
_EMBED_TEXTS = 1_000
#: A generation is caught up once what was written while it was folded takes less than this to fold, in seconds.
LAG_SECONDS = 1.0


def store_url(settings: Settings, generation: str) -> str:
    """Where the tables of a generation lie."""
    return f"{settings.home}/store/{generation}"


def open_tables(settings: Settings, generation: Generation | Claim) -> Tables:
    """The tables of a generation."""
    return Tables.open(store_url(settings, generation.name), settings)


def ensure(lake: Lake, settings: Settings, clock: Clock, seen: dict[str, Generation] | None = None) -> Generation:
    """The generation that readers use; an empty lake gets its first one. `seen` as in `current`."""
    try:
        return current(lake, seen)
    except NoGeneration:
        return build(lake, settings, clock, reason="first")


def despite_a_switch(lake: Lake, act: Callable[[], _T]) -> _T:
    """What `act` returns, which works on the generation in use and may be done twice.

    It is done again if it failed on the store and readers were switched meanwhile: the generation that it worked on
    may be gone, since a purge drops it at once.
    """
    before = lake.names("current")
    try:
        return act()
    except StoreError:
        if lake.names("current") == before:
            raise
        return act()


def build(
    lake: Lake, settings: Settings, clock: Clock, *, embedder: Embedder | None = None, reason: str = "rebuild"
) -> Generation:
    """Make a generation from the lake alone, fold it to the head of every log, and switch readers to it.

    Without `embedder`, the one of the generation in use, else the one of the settings. No language model is called.
    If another builder was faster, its generation is returned and this one is removed.
    """
    if embedder is None:
        embedder = embedder_named(current(lake).embedder, settings) if lake.names("current") else embedder_of(settings)
    claimed = claim(lake, clock, embedder.name, embedder.dim, reason)
    make(lake, settings, claimed, embedder)
    mark_ready(lake, claimed)
    tell("store_built", generation=claimed.number, reason=reason)
    if generation := switch(lake, clock, claimed, claimed.switches):
        return generation
    drop(lake, settings, find(lake, claimed.number))
    return current(lake)


def make(
    lake: Lake,
    settings: Settings,
    claimed: Claim,
    embedder: Embedder,
    progress: Callable[[int, int], None] | None = None,
) -> Tables:
    """Make the tables of a generation that was claimed, and fold them to the head of every log.

    `progress` is told of the rows of the log that are folded, and of those that were there at first.
    """
    tables = Tables.create(store_url(settings, claimed.name), claimed.dim, settings)
    for namespace in lake.namespaces():
        fold_to_head(lake, tables, namespace, embedder, progress)
        fold_passages(lake, tables, namespace, embedder)
    tables.index()
    catch_up(lake, tables, embedder)
    return tables


def catch_up(lake: Lake, tables: Tables, embedder: Embedder) -> None:
    """Fold what was written meanwhile, until that takes less than `LAG_SECONDS`."""
    for namespace in lake.namespaces():
        fold_to_head(lake, tables, namespace, embedder)
        fold_passages(lake, tables, namespace, embedder)
    while True:
        began = time.monotonic()
        for namespace in lake.namespaces():
            fold_to_head(lake, tables, namespace, embedder)
        if time.monotonic() - began < LAG_SECONDS:
            return


def fold_to_head(
    lake: Lake,
    tables: Tables,
    namespace: str,
    embedder: Embedder,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Bring the tables of a generation up to the head of a namespace's log; return the `seq` that they stand at.

    Folding twice, or two processes at once, changes nothing: a row is only replaced by one of a later `seq`.
    """
    start = tables.folded_to(namespace)
    last = head(lake, namespace)[1] if progress is not None else 0
    cache = VectorCache(lake, namespace, embedder.name)
    for rows in _portions(lake, namespace, start):
        memories = fold(namespace, rows, _base(lake, tables, namespace, rows))
        tables.upsert(with_vectors(memories, embedder, cache))
        # Last, so that what another process has dropped since it folded these rows is dropped again.
        if place := max(cooled_to(rows), tables.cooled_to(namespace)):
            tables.cool(namespace, COLD, place)
        start = int(rows.column("seq")[-1].as_py())
        tables.set_folded_to(namespace, start)
        if progress is not None:
            progress(start, max(start, last))
    return start


def _portions(lake: Lake, namespace: str, start: int) -> Iterator[pa.Table]:
    """Rows of the log after `start`, whole files together, about `FOLD_ROWS` at a time."""
    import pyarrow as pa
    import pyarrow.compute as pc

    waiting: list[pa.Table] = []
    for _, read in lake.read_tables(_paths_after(lake, log_paths(lake, namespace), start)):
        rows = conform(read, "log")
        rows = rows.filter(pc.greater(rows.column("seq"), start)) if start else rows
        if rows.num_rows:
            waiting.append(rows)
        if sum(table.num_rows for table in waiting) >= FOLD_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def _paths_after(lake: Lake, paths: list[str], start: int) -> list[str]:
    """Files of the log that may hold rows after a place: who is nearly up to date looks into few."""
    back = 1
    while start and back < len(paths):
        first = lake.read_table(paths[-back], ["seq"]).column("seq")[0].as_py()
        if first <= start + 1:
            return paths[-back:]
        back *= 2
    return paths


def _base(lake: Lake, tables: Tables, namespace: str, rows: pa.Table) -> pa.Table | None:
    """What the store, or cold storage, says of memories that the rows change but don't add."""
    import pyarrow as pa

    added: set[str] = set()
    named: set[str] = set()
    keys = zip(*(rows.column(name).to_pylist() for name in ("id", "decision", "verdict")), strict=True)
    for id, decision, verdict in keys:
        if verdict == "accepted" and decision not in ("refuse", COOL):
            (added if decision == "add" else named).add(id)  # an alias may be said again
    if not named - added:
        return None
    stored = tables.rows(namespace, sorted(named - added))
    missing = named - added - set(stored.column("id").to_pylist())
    return pa.concat_tables([stored, read_cold(lake, namespace, missing)]) if missing else stored


def with_vectors(memories: pa.Table, embedder: Embedder, cache: VectorCache) -> pa.Table:
    """The same memories, each with this embedder's vector: its own, else the cached one, else a new one, then cached.

    A text that the embedder refuses stays without a vector and is found by its words.
    """
    import pyarrow as pa

    names: list[Any] = memories.column("embedder").to_pylist()
    # What was purged is of no kind, and has no vector; names have none either.
    kinds = memories.column("kind").to_pylist()
    missing = [place for place, name in enumerate(names) if name != embedder.name and kinds[place] not in ("", ALIAS)]
    if not missing:
        return memories
    said = memories.column("text").to_pylist()
    texts = [text_to_embed(kinds[place], said[place]) for place in missing]
    found = cache.get(texts)
    unknown = sorted({text for text, vector in zip(texts, found, strict=True) if vector is None})
    made = _embedded(unknown, embedder, cache)
    # Arrays, not lists: a Python float takes eight times the room of a number in a vector.
    vectors: list[Any] = [None] * memories.num_rows
    if len(missing) < memories.num_rows:
        vectors = [vector.values.to_numpy() if vector.is_valid else None for vector in memories.column("vector")]
    for place, text, vector in zip(missing, texts, found, strict=True):
        best = made.get(text) if vector is None else vector
        vectors[place] = best
        names[place] = embedder.name
    schema = memories.schema
    for name, values in (("embedder", names), ("vector", vectors)):
        at = schema.get_field_index(name)
        memories = memories.set_column(at, schema.field(at), pa.array(values, schema.field(at).type))
    return memories


def _embedded(texts: Sequence[str], embedder: Embedder, cache: VectorCache) -> dict[str, Any]:
    """The vectors of texts, made now, and kept as they come."""
    made: dict[str, Any] = {}
    for start in range(0, len(texts), _EMBED_TEXTS):
        some = texts[start : start + _EMBED_TEXTS]
        vectors = zip(some, embed_texts(embedder, some), strict=True)
        fresh = {text: vector for text, vector in vectors if vector is not None}
        cache.put(fresh)
        made |= fresh
    return made
