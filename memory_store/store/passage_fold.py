"""Passages of a generation, brought up to what the lake holds.

Each trace that has an episode gives its passages; those of one conversation are numbered through, so that a turn has
its neighbours. The table is a view like the others: it can be made anew from the lake, and vectors come from the
cache. Work is found by what is missing or differs, so a second fold changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..capture.passages import INHERITED, episode_id, is_telling, passages_of, text_to_embed
from ..capture.traces import PATH, read_traces, scan_events
from ..embedders import Embedder
from ..files.lake import Lake
from ..recall.predicates import Filter
from ..records.vectors import VectorCache, embed_texts
from ..schema import table_of
from .tables import PASSAGES, Tables

if TYPE_CHECKING:
    pass

#: Events of the conversations that are folded at once: a bound on memory, and on what an interruption costs.
_BATCH_EVENTS = 2_000
_EPISODE = tuple(dict.fromkeys(("id", "agent_role", *INHERITED)))


class _Trace:
    """What is known of a trace before it is read."""

    def __init__(self) -> None:
        self.conversation = ""
        self.events = 0
        self.began: Any = None
        self.paths: set[str] = set()


def fold_passages(
    lake: Lake,
    tables: Tables,
    namespace: str,
    embedder: Embedder,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Make what is missing of the passages of a namespace, and return how many rows were written.

    A passage needs its episode in the store: fold the log first. `progress` is told of events done, and of events in
    all, of the conversations that changed.
    """
    tables.ensure_passages()
    traces = _traces(lake, namespace)
    of_episode = {episode_id(namespace, id): id for id in traces}
    kinds = Filter((namespace,), kinds=("episode",), states=None)
    episodes = {
        of_episode[row["id"]]: row for row in tables.scan(kinds, _EPISODE).to_pylist() if row["id"] in of_episode
    }
    held = _held(tables, namespace, of_episode)
    conversations: dict[str, list[str]] = {}
    for id in sorted(episodes, key=lambda id: (traces[id].began, id)):
        conversations.setdefault(traces[id].conversation or id, []).append(id)
    changed = {
        name: ids
        for name, ids in conversations.items()
        if any(held.get(id) != (traces[id].events, episodes[id]["seq"]) for id in ids)
    }
    cache = VectorCache(lake, namespace, embedder.name)
    written = done = 0
    total = sum(traces[id].events for ids in changed.values() for id in ids)
    for some in _batches(changed, traces):
        ids = [id for name in some for id in changed[name]]
        read = {trace.trace_id: trace for trace in read_traces(
            lake, namespace, ids, sorted({path for id in ids for path in traces[id].paths})
        )}  # fmt: skip
        rows: list[dict[str, Any]] = []
        for name in some:
            place, said = 0, []
            for id in changed[name]:
                made = passages_of(read[id], episodes[id], name, place) if id in read else []
                place += len(made)
                said += [{**row, "events": traces[id].events} for row in made]
            rows += _linked(said)
        rows = _differing(tables, namespace, rows)
        _embed(rows, embedder, cache)
        tables.upsert(table_of(rows, PASSAGES), PASSAGES)
        written += len(rows)
        done += sum(traces[id].events for id in ids)
        if progress is not None:
            progress(done, total)
    return written


def _traces(lake: Lake, namespace: str) -> dict[str, _Trace]:
    """Every trace with events that can be passages."""
    found: dict[str, _Trace] = {}
    rows = scan_events(lake, namespace, ["type", "role", "conversation_id", "at", PATH])
    for row in zip(*(rows.column(name).to_pylist() for name in rows.column_names), strict=True):
        event = dict(zip(rows.column_names, row, strict=True))
        trace = found.setdefault(event["trace_id"], _Trace())
        trace.paths.add(event[PATH])
        trace.conversation = trace.conversation or event["conversation_id"] or ""
        trace.began = event["at"] if trace.began is None else min(trace.began, event["at"])
        trace.events += is_telling(event["type"], event["role"] or "")
    return {id: trace for id, trace in found.items() if trace.events}


def _held(tables: Tables, namespace: str, of_episode: dict[str, str]) -> dict[str, tuple[int, int]]:
    """What the passages of each trace were made from: its number of events, the place of its episode in the log."""
    rows = tables.scan(Filter((namespace,), states=None), ["episode", "events", "seq"], PASSAGES)
    held = zip(*(rows.column(name).to_pylist() for name in ("episode", "events", "seq")), strict=True)
    return {of_episode[id]: (events, seq) for id, events, seq in held if id in of_episode}


def _batches(conversations: dict[str, list[str]], traces: dict[str, _Trace]) -> Iterator[list[str]]:
    some: list[str] = []
    events = 0
    for name, ids in conversations.items():
        some.append(name)
        events += sum(traces[id].events for id in ids)
        if events >= _BATCH_EVENTS:
            yield some
            some, events = [], 0
    if some:
        yield some


def _linked(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Passages of one conversation, each with the ids of its neighbours."""
    ids = ["", *(row["id"] for row in rows), ""]
    return [{**row, "before": before, "after": after} for row, before, after in zip(rows, ids, ids[2:], strict=False)]


def _differing(tables: Tables, namespace: str, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows that the store lacks, or has with another place, state or number of events."""
    names = ["id", "seq", "place", "events", "conversation", "before", "after"]
    held = tables.rows(namespace, [row["id"] for row in rows], names, PASSAGES).to_pylist()
    known = {row["id"]: row for row in held}
    return [row for row in rows if known.get(row["id"]) != {name: row[name] for name in names}]


def _embed(rows: Iterable[dict[str, Any]], embedder: Embedder, cache: VectorCache) -> None:
    """Give rows their vectors: the cached one, else a new one, which is then cached."""
    texts = {row["id"]: text for row in rows if (text := text_to_embed(row))}
    unique = sorted(set(texts.values()))
    vectors = {text: vector for text, vector in zip(unique, cache.get(unique), strict=True) if vector is not None}
    missing = [text for text in unique if text not in vectors]
    made = zip(missing, embed_texts(embedder, missing), strict=True)
    fresh = {text: vector for text, vector in made if vector is not None}
    cache.put(fresh)
    vectors |= fresh
    for row in rows:
        vector = vectors.get(texts.get(row["id"], ""))
        row["embedder"], row["vector"] = embedder.name, None if vector is None else vector.tolist()
