"""Generations: complete stores, each one embedding model, one fold, its indexes. Readers use the newest in `current/`.

A generation is built beside the one in use, folded to the head of every log, and only then named in
`current/<number>.json`, created if absent: of two builders one wins, and the other one's work is dropped.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import msgspec

from .clock import Clock
from .cold import COLD, COOL, cooled_to, read_cold
from .embedders import Embedder, embedder_named, embedder_of
from .errors import NoGeneration
from .fold import fold
from .lake import Lake
from .log import log_paths, read_log
from .passage_fold import fold_passages
from .settings import Settings
from .tables import Tables
from .vectors import VectorCache, embed_texts, text_to_embed

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows of the log that are folded at once, which bounds the memory that a rebuild takes.
FOLD_ROWS = 50_000


@dataclass(frozen=True)
class Generation:
    """What `current/<number>.json` says."""

    #: Grows by one with every switch
    number: int
    #: Name of the folder below `store/`
    name: str
    #: Model that made its vectors
    embedder: str
    #: Length of a vector
    dim: int
    #: When readers were switched to it
    created_at: datetime
    #: Why it was built
    reason: str


def current(lake: Lake) -> Generation:
    """The generation that readers use. Raises `NoGeneration` if there is none."""
    paths = lake.names("current")
    if not paths:
        raise NoGeneration(f"{lake.url} has no store yet: run `hindlake run reflect` or `hindlake rebuild`")
    return msgspec.json.decode(lake.get(paths[-1]), type=Generation)


def store_url(settings: Settings, generation: str) -> str:
    """Where the tables of a generation lie."""
    return f"{settings.home}/store/{generation}"


def open_tables(settings: Settings, generation: Generation) -> Tables:
    """The tables of a generation."""
    return Tables.open(store_url(settings, generation.name), settings)


def ensure(lake: Lake, settings: Settings, clock: Clock) -> Generation:
    """The generation that readers use; an empty lake gets its first one."""
    try:
        return current(lake)
    except NoGeneration:
        return build(lake, settings, clock, reason="first")


def build(
    lake: Lake, settings: Settings, clock: Clock, *, embedder: Embedder | None = None, reason: str = "rebuild"
) -> Generation:
    """Make a generation from the lake alone, fold it to the head of every log, and switch readers to it.

    Without `embedder`, the one of the generation in use, else the one of the settings. No language model is called.
    If another builder was faster, its generation is returned and this one is removed.
    """
    numbers = lake.names("current")
    if embedder is None:
        embedder = embedder_named(current(lake).embedder, settings) if numbers else embedder_of(settings)
    number = len(numbers) + 1
    name = f"g{number:06d}-{token_hex(4)}"
    tables = Tables.create(store_url(settings, name), embedder.dim, settings)
    for namespace in lake.namespaces():
        fold_to_head(lake, tables, namespace, embedder)
        fold_passages(lake, tables, namespace, embedder)
    tables.index()
    generation = Generation(number, name, embedder.name, embedder.dim, clock.now(), reason)
    if lake.create(f"current/{number:06d}.json", msgspec.json.encode(asdict(generation))):
        return generation
    if not settings.is_remote:
        shutil.rmtree(store_url(settings, name), ignore_errors=True)
    return current(lake)


def fold_to_head(lake: Lake, tables: Tables, namespace: str, embedder: Embedder) -> int:
    """Bring the tables of a generation up to the head of a namespace's log; return the `seq` that they stand at.

    Folding twice, or two processes at once, changes nothing: a row is only replaced by one of a later `seq`.
    """
    start = tables.folded_to(namespace)
    cache = VectorCache(lake, namespace, embedder.name)
    for rows in _portions(lake, namespace, start):
        memories = fold(namespace, rows, _base(lake, tables, namespace, rows))
        tables.upsert(with_vectors(memories, embedder, cache))
        # Last, so that what another process has dropped since it folded these rows is dropped again.
        if place := max(cooled_to(rows), tables.cooled_to(namespace)):
            tables.cool(namespace, COLD, place)
        start = int(rows.column("seq")[-1].as_py())
        tables.set_folded_to(namespace, start)
    return start


def _portions(lake: Lake, namespace: str, start: int) -> Iterator[pa.Table]:
    """Rows of the log after `start`, whole files together, about `FOLD_ROWS` at a time."""
    import pyarrow as pa

    if start:
        rows = read_log(lake, namespace, start)
        if rows.num_rows:
            yield rows
        return
    from .schema import conform

    waiting: list[pa.Table] = []
    for _, rows in lake.read_tables(log_paths(lake, namespace)):
        waiting.append(conform(rows, "log"))
        if sum(table.num_rows for table in waiting) >= FOLD_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def _base(lake: Lake, tables: Tables, namespace: str, rows: pa.Table) -> pa.Table | None:
    """What the store, or cold storage, says of memories that the rows change but don't add."""
    import pyarrow as pa

    added: set[str] = set()
    named: set[str] = set()
    keys = zip(*(rows.column(name).to_pylist() for name in ("id", "decision", "verdict")), strict=True)
    for id, decision, verdict in keys:
        if verdict == "accepted" and decision not in ("refuse", COOL):
            (added if decision == "add" else named).add(id)
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
    # What was purged is of no kind, and has no vector.
    kinds = memories.column("kind").to_pylist()
    missing = [place for place, name in enumerate(names) if name != embedder.name and kinds[place]]
    if not missing:
        return memories
    texts = [
        text_to_embed(memories.column("kind")[place].as_py(), memories.column("text")[place].as_py())
        for place in missing
    ]
    found = cache.get(texts)
    unknown = sorted({text for text, vector in zip(texts, found, strict=True) if vector is None})
    made = {
        text: vector for text, vector in zip(unknown, embed_texts(embedder, unknown), strict=True) if vector is not None
    }
    cache.put(made)
    # Arrays, not lists: a Python float takes eight times the room of a number in a vector.
    vectors: list[Any] = [vector.values.to_numpy() if vector.is_valid else None for vector in memories.column("vector")]
    for place, text, vector in zip(missing, texts, found, strict=True):
        best = made.get(text) if vector is None else vector
        vectors[place] = best
        names[place] = embedder.name
    schema = memories.schema
    for name, values in (("embedder", names), ("vector", vectors)):
        at = schema.get_field_index(name)
        memories = memories.set_column(at, schema.field(at), pa.array(values, schema.field(at).type))
    return memories
