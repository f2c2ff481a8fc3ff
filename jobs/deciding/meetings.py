"""Whom memories that want in meet: the nearest of each leg, and each other (R9, R10).

Candidates come from each leg by itself and not from the fused rank, in which a twin that only one leg knows goes under.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...memory_store.history.inbox import Row
from ...memory_store.recall.predicates import READABLE, Filter
from ...memory_store.recall.vector_legs import vector_legs
from ...memory_store.store.tables import Tables
from ...memory_store.text.calibration import language_of_pair
from ..comparing.pairs import COLUMNS, FAMILIES, Judge, Verdict, type_pairs
from ..comparing.updates import slot_of
from ..comparing.wording import wording_of
from .meet import ALL_PAIRS, Met, Scale, meet
from .neighbourhoods import split

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

#: Memories that the words of one bring to it, beside those that are near.
_BY_WORDS = 10
#: Live memories that a subject may have to be read whole.
_FEW = 1_000
#: Rows whose neighbours are looked for together.
_PORTION = 200


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
    dim = tables.dim
    own = {row["id"] for row in rows}
    for start in range(0, len(rows), _PORTION):
        near = _near(tables, namespace, rows[start : start + _PORTION], dim)
        pairs = [pair for pair in near if pair[1]["id"] not in own and (judge or may_touch(*pair[:2]))]
        verdicts = type_pairs([scale.pair(*pair) for pair in pairs], judge, holds_many=holds_many)
        for (row, other, _), verdict in zip(pairs, verdicts, strict=True):
            _note(found, row, other, verdict)
    vectors = _matrix(rows, dim)
    for met in meet(rows, vectors, scale, what="same", judge=judge, holds_many=holds_many):
        _note_met(found, rows, met)
    return found


Near = tuple[Row, Mapping[str, Any], float]


def _near(tables: Tables, namespace: str, rows: Sequence[Row], dim: int) -> Iterator[Near]:
    """Live memories of the same subject and family that each row meets, with their cosine.

    Subjects that have few are read once for all rows; of others the vector leg is asked for all rows of one, and each
    asks its words.
    """
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["subject"] or "", _family(row)].append(row)
    where = Filter((namespace,), states=READABLE, own_subjects=tuple({subject for subject, _ in groups} - {""}))
    count = Counter(tables.scan(where, ["subject"]).column("subject").to_pylist())
    few = tuple(subject for subject in where.own_subjects or () if count[subject] <= _FEW)
    others, vectors = split(tables.scan(replace(where, own_subjects=few), [*COLUMNS, "vector"]), dim)
    places: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, other in enumerate(others):
        places[other["subject"], _family(other)].append(place)
    for (subject, family), some in groups.items():
        if subject in few:
            there = places[subject, family]
            yield from _nearest(tables, namespace, some, [others[place] for place in there], vectors[there])
        else:
            yield from _asked(tables, namespace, some, dim)


def may_touch(row: Row, other: Mapping[str, Any]) -> bool:
    """Whether one may change or say what the other says: they share a word, or give the same thing a value, or are of
    two languages. Without a judge, everything else is distinct or stands beside it, whatever the vectors say.
    """
    one, two = str(row["text"]), str(other["text"])
    if not _words(one).isdisjoint(_words(two)) or language_of_pair(one, two) == "mixed":
        return True
    names = [entry.get("attribute") or getattr(slot_of(str(entry["text"])), "attribute", "") for entry in (row, other)]
    return names[0] == names[1] != ""


@lru_cache(maxsize=1 << 14)
def _words(text: str) -> frozenset[str]:
    return frozenset(wording_of(text).words)


def _nearest(
    tables: Tables, namespace: str, rows: Sequence[Row], others: Sequence[Row], vectors: npt.NDArray[np.float32]
) -> Iterator[Near]:
    """All memories of a subject that has few; of one that has more the nearest, and those that share words."""
    import numpy as np

    if not others:
        return
    cosines = _matrix(rows, vectors.shape[1]) @ vectors.T
    for row, near in zip(rows, cosines, strict=True):
        places: Iterable[int] = range(len(others))
        if len(others) > ALL_PAIRS:
            best = np.argsort(-np.nan_to_num(near, nan=-2.0), kind="stable")[: ALL_PAIRS + 1].tolist()
            said = {one.id for one in tables.text_leg(row["text"], _alike(namespace, row), _BY_WORDS)}
            places = dict.fromkeys([*best, *(place for place, other in enumerate(others) if other["id"] in said)])
        yield from ((row, others[place], float(near[place])) for place in places if others[place]["id"] != row["id"])


def _asked(tables: Tables, namespace: str, rows: Sequence[Row], dim: int) -> Iterator[Near]:
    """What the vector leg and the words bring to each of some rows of one subject and family that has many."""
    import numpy as np

    columns = [*COLUMNS, "vector"]
    vectors = _matrix(rows, dim)
    # One more: a row is its own nearest.
    near = vector_legs(tables, vectors, replace(_alike(namespace, rows[0]), not_ids=()), ALL_PAIRS + 1, columns)
    for row, vector, some in zip(rows, vectors, near, strict=True):
        legs = [one for one in some if one.id != row["id"]][:ALL_PAIRS]
        if len(legs) >= ALL_PAIRS or not np.isfinite(vector).all():
            legs += tables.text_leg(row["text"], _alike(namespace, row), _BY_WORDS, columns)
        for one in {one.id: one for one in legs}.values():
            yield row, one.row, float(vector @ one.vector) if one.vector is not None else float("nan")


def _alike(namespace: str, row: Row) -> Filter:
    """Live memories of the same subject and family as a row."""
    kinds = tuple(name for name, family in FAMILIES.items() if family == _family(row))
    subject = row["subject"] or ""
    return Filter((namespace,), kinds=kinds, states=READABLE, own_subjects=(subject,), not_ids=(row["id"],))


def _family(row: Row) -> str:
    kind = str(row["kind"])
    return FAMILIES.get(kind, kind)


def _matrix(rows: Sequence[Row], dim: int) -> npt.NDArray[np.float32]:
    import numpy as np

    return np.array([_vector(row, dim) for row in rows], np.float32).reshape(len(rows), dim)


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
