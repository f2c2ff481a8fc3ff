"""Whom memories that want in meet: the nearest of each leg, and each other (R9, R10).

Candidates come from each leg by itself and not from the fused rank, in which a twin that only one leg knows goes under.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..memory_store.inbox import Row
from ..memory_store.predicates import READABLE, Filter
from ..memory_store.tables import Tables
from .meet import ALL_PAIRS, Met, Scale, meet
from .pairs import COLUMNS, FAMILIES, Judge, Verdict, type_pairs

#: Memories that the words of one bring to it, beside those that are near.
_BY_WORDS = 10


@dataclass(frozen=True)
class Meeting:
    """What a memory that wants in is to another one."""

    #: Id of the other one
    other: str
    verdict: Verdict
    #: Of same, refines and supersedes: whether it is the other one that stands
    other_stands: bool


def meetings(
    tables: Tables,
    namespace: str,
    rows: Sequence[Row],
    scale: Scale,
    *,
    judge: Judge | None = None,
    holds_many: Callable[[str], bool] = lambda attribute: False,
) -> dict[str, list[Meeting]]:
    """By id, what each of `rows` (with `vector`) is to memories of the store and to each other.

    Pairs that are distinct or complement each other are left out: both stand.
    """
    found: dict[str, list[Meeting]] = defaultdict(list)
    own = {row["id"] for row in rows}
    for start in range(0, len(rows), 200):
        some = rows[start : start + 200]
        pairs = [
            (row, other, cosine)
            for row in some
            for other, cosine in _near(tables, namespace, row)
            if other["id"] not in own
        ]
        verdicts = type_pairs([scale.pair(*pair) for pair in pairs], judge, holds_many=holds_many)
        for (row, other, _), verdict in zip(pairs, verdicts, strict=True):
            _note(found, row, other, verdict)
    vectors = np.array([_vector(row, tables.dim) for row in rows], np.float32).reshape(len(rows), tables.dim)
    for met in meet(rows, vectors, scale, what="same", judge=judge, holds_many=holds_many):
        _note_met(found, rows, met)
    return found


def _near(tables: Tables, namespace: str, row: Row) -> list[tuple[Mapping[str, Any], float]]:
    """Live memories of the same subject and family that the vector leg or the words bring, with their cosine."""
    kind = str(row["kind"])
    kinds = tuple(name for name, family in FAMILIES.items() if family == FAMILIES.get(kind, kind))
    subject = row["subject"] or ""
    where = Filter(
        (namespace,), kinds=kinds, states=READABLE, subjects=(subject,) if subject else (), not_ids=(row["id"],)
    )
    vector = np.array(_vector(row, tables.dim), np.float32)
    columns = [*COLUMNS, "vector"]
    legs = tables.vector_leg(vector, where, ALL_PAIRS, columns)
    if len(legs) >= ALL_PAIRS or not np.isfinite(vector).all():
        legs = [*legs, *tables.text_leg(row["text"], where, _BY_WORDS, columns)]
    return [
        (one.row, float(vector @ one.vector) if one.vector is not None else float("nan"))
        for one in {one.id: one for one in legs}.values()
        if (one.row["subject"] or "") == subject
    ]


def _vector(row: Row, dim: int) -> Sequence[float]:
    vector = row.get("vector")
    return vector if vector is not None and len(vector) == dim else [float("nan")] * dim


def _note(found: dict[str, list[Meeting]], row: Row, other: Mapping[str, Any], verdict: Verdict) -> None:
    if verdict.type not in ("distinct", "complements"):
        found[row["id"]].append(Meeting(other["id"], verdict, verdict.stands == 1))


def _note_met(found: dict[str, list[Meeting]], rows: Sequence[Row], met: Met) -> None:
    first, second = rows[met.first], rows[met.second]
    _note(found, first, second, met.verdict)
    if met.verdict.type not in ("distinct", "complements"):
        found[second["id"]].append(Meeting(first["id"], met.verdict, met.verdict.stands == 0))
