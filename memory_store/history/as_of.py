"""What was known at a past time: the fold of the log up to then, searched exactly (N3).

The place in the log says when something was known, so a time is first turned into a place. What has left the store
since is there, in the states of then. It tells what was known, not how it would have been ranked.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ..clock import as_utc
from ..embedders import Embedder
from ..errors import UsageError
from ..files.lake import Lake
from ..recall.asking import Candidate
from ..recall.predicates import Filter, matches
from ..recall.ranking import fuse, row_factors
from ..recall.search import RANKING, Hit, legs_of
from ..records.vectors import VectorCache, text_to_embed
from ..schema import LOG, conform
from ..settings import SearchSettings
from ..text.aliases import NameBook, aliases_of
from ..text.terms import row_terms, terms
from .fold import fold
from .inbox import inbox_paths
from .log import log_paths, read_log
from .moments import Moment, seq_at

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_COLUMNS = [column.name for column in LOG if column.name != "vector"]
#: Constants of BM25 (Robertson & Zaragoza 2009), over distinct terms.
_K1, _B = 1.2, 0.75


@dataclass(frozen=True)
class Past:
    """One namespace as it was known at a moment."""

    namespace: str
    #: Place in the log that the moment stands for
    seq: int
    #: The moment as a time; for a place, when its row was written
    at: datetime
    #: Memories of then (schema `memories`, without vectors), those that were purged since left out
    memories: pa.Table
    #: Memories of then that were purged since, by the state of then
    purged: Mapping[str, int]


def past(lake: Lake, namespace: str, moment: Moment) -> Past:
    """A namespace as it was known at a moment. Acts that still wait in the inbox count by the time of their writing.

    Raises `UsageError` for a place below 0.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    inbox = inbox_paths(lake, namespace, user_only=True)  # listed first: what leaves it meanwhile is in the log
    log = conform(read_log(lake, namespace, 0, _COLUMNS), "log")
    if isinstance(moment, int):
        if moment < 0:
            raise UsageError(f"{moment} is no place in a log: they begin at 1")
        seq = moment
        known = log.filter(pc.less_equal(log.column("seq"), seq))
        at = known.column("at")[-1].as_py() if known.num_rows else datetime(1970, 1, 1, tzinfo=UTC)
    else:
        at = as_utc(moment)
        seq = seq_at(log, at)
        known = log.filter(pc.less_equal(log.column("seq"), seq))
        if waiting := _waiting(lake, inbox, log, at):
            known = pa.concat_tables([known, *waiting])
    gone = log.filter(
        pc.and_(pc.equal(log.column("decision"), "purge"), pc.equal(log.column("verdict"), "accepted"))
    ).column("id")
    memories = fold(namespace, known)
    is_gone = pc.is_in(memories.column("id"), value_set=pc.unique(gone))
    purged = memories.filter(is_gone)
    alive = [row for row in zip(purged.column("id").to_pylist(), purged.column("state").to_pylist(), strict=True)]
    purged_then = set(known.filter(pc.equal(known.column("decision"), "purge")).column("id").to_pylist())
    counts = Counter(state for id, state in alive if id not in purged_then)
    return Past(namespace, seq, at, memories.filter(pc.invert(is_gone)).drop_columns(["vector"]), counts)


def _waiting(lake: Lake, paths: Sequence[str], log: pa.Table, at: datetime) -> list[pa.Table]:
    """What waits in the inbox and was written by then, numbered after the log."""
    import pyarrow as pa
    import pyarrow.compute as pc

    tables = []
    seq = log.num_rows
    for _, raw in lake.read_tables(list(paths)):
        rows = conform(raw, "log")
        rows = rows.filter(pc.invert(pc.is_in(rows.column("act"), value_set=pc.unique(log.column("act")))))
        rows = rows.filter(pc.less_equal(rows.column("at"), pa.scalar(at, rows.schema.field("at").type)))
        numbers = pa.array(range(seq + 1, seq + 1 + rows.num_rows), pa.int64())
        seq += rows.num_rows
        for name, values in (("seq", numbers), ("verdict", pa.array(["accepted"] * rows.num_rows, pa.string()))):
            place = rows.schema.get_field_index(name)
            rows = rows.set_column(place, rows.schema.field(place), values)
        tables.append(rows)
    return tables


def search_past(
    lake: Lake, known: Sequence[Past], embedder: Embedder, query: str, where: Filter, settings: SearchSettings,
    limit: int,
) -> list[Hit]:  # fmt: skip
    """The memories of then that pass a filter and answer a query, best first; an empty query lists the newest.

    Every memory that passes is looked at. Vectors are those that the lake keeps of this embedder; a memory whose
    vector it lacks is found by its words.
    """
    every = [row for one in known for row in one.memories.to_pylist()]
    where = NameBook(aliases_of(every)).expand(where)
    rows = {row["id"]: row for row in every if matches(row, where)}
    now = max((one.at for one in known), default=datetime(1970, 1, 1, tzinfo=UTC))
    if not query.strip():
        newest = sorted(rows.values(), key=lambda row: (row["valid_from"], row["id"]), reverse=True)
        return [Hit(row, 0.0, 0.0, {}, {}) for row in newest[:limit]]
    vector = embedder.queries([query])[0]
    vectors = {id: v for one in known for id, v in _vectors(lake, one.namespace, embedder, rows).items()}
    near = _near(vector, vectors, rows, settings.candidates)
    worded = _worded(query, vectors, rows, 2 * settings.candidates)
    legs = legs_of(query, vector, near, worded, [], embedder, settings)
    factors = {one.id: row_factors(one.row, now) for one in (*near, *worded)}
    ranked = fuse(legs, settings.fusion, settings.rrf_k, factors)[:limit]
    return [Hit(rows[hit.id], hit.score, hit.relevance, hit.legs, hit.factors) for hit in ranked]


def _vectors(
    lake: Lake, namespace: str, embedder: Embedder, rows: Mapping[str, Mapping[str, Any]]
) -> dict[str, np.ndarray]:
    """Vectors of memories: those that were written with them, else those that a fold had to make."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    own = {id: row for id, row in rows.items() if row["namespace"] == namespace}
    ids = pa.array([id for id, row in own.items() if row["embedder"] == embedder.name], pa.string())
    found: dict[str, np.ndarray] = {}
    paths = [*log_paths(lake, namespace), *inbox_paths(lake, namespace, user_only=True)] if len(ids) else []
    for _, raw in lake.read_tables(paths, ["id", "decision", "vector"]):
        adds = conform(raw, "log").select(["id", "decision", "vector"])
        adds = adds.filter(
            pc.and_(pc.equal(adds.column("decision"), "add"), pc.is_in(adds.column("id"), value_set=ids))
        )
        for id, values in zip(adds.column("id").to_pylist(), adds.column("vector"), strict=True):
            if values.is_valid and len(values):
                found.setdefault(id, np.asarray(values.values.to_numpy(), dtype=np.float32))
    rest = [id for id in own if id not in found]
    cached = VectorCache(lake, namespace, embedder.name).get(
        [text_to_embed(own[id]["kind"], own[id]["text"]) for id in rest]
    )
    return found | {id: vector for id, vector in zip(rest, cached, strict=True) if vector is not None}


def _near(
    vector: np.ndarray, vectors: Mapping[str, np.ndarray], rows: Mapping[str, Mapping[str, Any]], limit: int
) -> list[Candidate]:
    import numpy as np

    if not vectors or not np.isfinite(vector).all():
        return []
    ids = list(vectors)
    cosines = np.stack([vectors[id] for id in ids]) @ vector
    best = sorted((-float(cosine), id) for id, cosine in zip(ids, cosines, strict=True))[:limit]
    return [Candidate(id, -cosine, {name: rows[id][name] for name in ("id", *RANKING)}) for cosine, id in best]


def _worded(
    query: str, vectors: Mapping[str, np.ndarray], rows: Mapping[str, Mapping[str, Any]], limit: int
) -> list[Candidate]:
    """BM25 over the distinct terms of what passes the filter."""
    wanted = terms(query)
    have = {id: row_terms(row) for id, row in rows.items()}
    in_rows = Counter(term for found in have.values() for term in found & wanted)
    mean = sum(map(len, have.values())) / max(len(have), 1)
    scores = {}
    for id, found in have.items():
        norm = (_K1 + 1) / (1 + _K1 * (1 - _B + _B * len(found) / max(mean, 1)))
        idf = sum(math.log(1 + (len(have) - n + 0.5) / (n + 0.5)) for n in (in_rows[term] for term in found & wanted))
        if idf:
            scores[id] = idf * norm
    best = sorted(scores, key=lambda id: (-scores[id], id))[:limit]
    return [Candidate(id, scores[id], {n: rows[id][n] for n in ("id", *RANKING)}, vectors.get(id)) for id in best]
