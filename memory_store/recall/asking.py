"""What a search asks of one table: legs by meaning and by words, side by side, and the rows that they found.

All of one call is answered by one version of the table. How the nearest vectors are found depends on how many rows a
filter leaves: few are compared one by one; of many the vector index names some, the more of its partitions looked at
the fewer rows pass, and those that it names are compared by their whole vectors.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ..settings import IndexSettings
from ..store.lance import Snapshot
from ..store.stored import PACKED, unpacked
from ..text.terms import query_words
from .predicates import Filter

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A memory that one leg of a search found."""

    id: str
    #: Cosine of the vector leg, BM25 of the text leg
    score: float
    #: Its columns, but for the vector: those that were asked for at least
    row: Mapping[str, Any]
    #: The vector, if it was asked for and there is one
    vector: npt.NDArray[np.float32] | None = None


@dataclass(frozen=True)
class Near:
    """The nearest to a unit vector, scored by cosine. A vector that is NaN (of no query) finds nothing."""

    vector: npt.NDArray[np.float32]
    filter: Filter
    limit: int
    #: Compare with every row that passes, index or not
    exact: bool = False


@dataclass(frozen=True)
class Worded:
    """What shares words with a query, scored by BM25. The query is words, never an expression."""

    query: str
    filter: Filter
    limit: int


#: Whose vectors are read too: of those that the vector legs found the cosine is known.
VectorsOf = Literal["none", "words", "all"]
#: Addresses of rows and their scores, best first.
_Found = tuple[list[int], list[float]]


@dataclass(frozen=True)
class Answer:
    """What some legs found, and the rows of all that any of them found, by address."""

    found: Sequence[_Found]
    rows: Mapping[int, Mapping[str, Any]]
    vectors: Mapping[int, npt.NDArray[np.float32]]

    def candidates(self) -> list[list[Candidate]]:
        """What each leg found as candidates, best first."""
        return [
            [
                Candidate(self.rows[place]["id"], score, self.rows[place], self.vectors.get(place))
                for place, score in zip(places, scores, strict=True)
                if place in self.rows
            ]
            for places, scores in self.found
        ]


async def ask(
    snapshot: Snapshot,
    wanted: Sequence[Near | Worded],
    settings: IndexSettings,
    columns: Sequence[str],
    vectors_of: VectorsOf = "none",
) -> Answer:
    """What each leg found, the rows of all that any found, and vectors: of none, of all, or of what only words found.

    `columns`: those of the rows, where the store has them not packed; they are blank where a row says nothing of them.
    """
    found = await asyncio.gather(*(_leg(snapshot, one, settings) for one in wanted))
    near = {id for leg, (ids, _) in zip(wanted, found, strict=True) for id in ids if isinstance(leg, Near)}
    bare = {id for ids, _ in found for id in ids} - (near if vectors_of == "words" else set())
    return await _read(snapshot, found, columns, set() if vectors_of == "none" else bare)


async def ask_many(
    snapshot: Snapshot,
    vectors: npt.NDArray[np.float32],
    near: Near,
    settings: IndexSettings,
    columns: Sequence[str],
    vectors_of: VectorsOf = "none",
) -> Answer:
    """What `near` finds for each of several finite vectors, [queries, dim], asked together."""
    rows = await (await _nearest(snapshot, list(vectors), near, settings)).to_arrow()
    found: list[_Found] = [([], []) for _ in vectors]
    numbers = rows.column("query_index").to_pylist() if len(vectors) > 1 else [0] * rows.num_rows
    scores = (1 - rows.column("_distance").to_numpy()).tolist()
    ordered = sorted(zip(numbers, scores, rows.column("_rowid").to_pylist(), strict=True), key=lambda one: -one[1])
    for number, score, id in ordered:
        found[number][0].append(id)
        found[number][1].append(score)
    every = {id for ids, _ in found for id in ids}
    return await _read(snapshot, found, columns, set() if vectors_of == "none" else every)


async def _read(snapshot: Snapshot, found: Sequence[_Found], columns: Sequence[str], bare: set[int]) -> Answer:
    """Rows of all that was found, and vectors of some: from memory where they are there, else from the table."""
    every = sorted({id for ids, _ in found for id in ids})
    if snapshot.resident is not None:
        pieces, near = snapshot.resident.pieces(every), snapshot.resident.vectors(sorted(bare))
        if pieces is not None and near is not None:
            return Answer(found, dict(zip(every, unpacked(pieces, columns), strict=True)), near)
    names = [PACKED] if PACKED in snapshot.columns else [name for name in columns if name in snapshot.columns]
    rows, vectors = await asyncio.gather(_taken(snapshot, every, names), _taken(snapshot, sorted(bare), ["vector"]))
    return Answer(found, _rows(rows, columns) if rows else {}, _vectors(vectors) if vectors else {})


def _rows(rows: pa.Table, columns: Sequence[str]) -> dict[int, dict[str, Any]]:
    places = rows.column("_rowid").to_pylist()
    if PACKED in rows.column_names:
        pieces = (piece.as_buffer() for piece in rows.column(PACKED))
        return dict(zip(places, unpacked(pieces, columns), strict=True))
    blank = dict.fromkeys(columns)
    plain = rows.drop_columns(["_rowid"]).to_pylist()
    return {place: {**blank, **row} for place, row in zip(places, plain, strict=True)}


async def _leg(snapshot: Snapshot, leg: Near | Worded, settings: IndexSettings) -> _Found:
    return await (_near(snapshot, leg, settings) if isinstance(leg, Near) else _worded(snapshot, leg))


async def _near(snapshot: Snapshot, leg: Near, settings: IndexSettings) -> _Found:
    import numpy as np

    if leg.limit < 1 or not np.isfinite(leg.vector).all():
        return [], []
    if snapshot.resident is not None:
        near = await asyncio.to_thread(snapshot.resident.nearest, leg.vector, leg.filter, leg.limit, leg.exact)
        if near is not None:
            return near.addresses.tolist(), near.scores.tolist()
    rows = await (await _nearest(snapshot, leg.vector, leg, settings)).to_arrow()
    return rows.column("_rowid").to_pylist(), (1 - rows.column("_distance").to_numpy()).tolist()


async def _nearest(snapshot: Snapshot, vector: Any, leg: Near, settings: IndexSettings) -> Any:
    """The query for the nearest to a vector, or to each of a list of them."""
    condition = snapshot.condition(leg.filter)
    query = snapshot.table.query().nearest_to(vector).column("vector").distance_type("cosine")
    query = query.where(condition).select(["_distance"]).with_row_id().limit(leg.limit)
    if not snapshot.has_vector_index:
        return query
    matching = await snapshot.count(condition)
    if leg.exact or matching <= settings.exact_matches:
        return query.bypass_vector_index()
    # The fewer rows pass a filter, the more of the index's partitions hold none of the nearest.
    probes = round(settings.probes * math.sqrt(snapshot.rows / max(matching, 1)))
    return query.nprobes(probes).refine_factor(settings.refine)


async def _worded(snapshot: Snapshot, leg: Worded) -> _Found:
    from lancedb.query import MatchQuery

    text = query_words(leg.query)
    if leg.limit < 1 or not text.strip():
        return [], []
    match = MatchQuery(text, "words")  # type: ignore[call-arg]  # its defaults are hidden from mypy
    filter = leg.filter if snapshot.resident is None else snapshot.resident.needed(leg.filter)
    condition = snapshot.condition(filter)
    query = snapshot.table.query().nearest_to_text(match).where(condition)
    rows = await query.select(["_score"]).with_row_id().limit(leg.limit).to_arrow()
    return rows.column("_rowid").to_pylist(), rows.column("_score").to_pylist()


async def _taken(snapshot: Snapshot, ids: list[int], columns: list[str]) -> pa.Table | None:
    if not ids:
        return None
    return await snapshot.table.take_row_ids(ids).select(columns).with_row_id().to_arrow()


def _vectors(rows: pa.Table) -> dict[int, npt.NDArray[np.float32]]:
    lists = rows.column("vector").combine_chunks()
    # flatten leaves out the rows that are null
    matrix = iter(lists.flatten().to_numpy().reshape(-1, lists.type.list_size))
    places = rows.column("_rowid").to_pylist()
    return {place: next(matrix) for place, valid in zip(places, lists.is_valid().to_pylist(), strict=True) if valid}
