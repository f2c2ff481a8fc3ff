"""Which memories meet, and how each pair that does is typed: the same for dedup, merge and resolve. Pure.

Only memories of one subject and one family of kinds meet. Of a subject that has few, all pairs do; of one that has
many, those whose vectors are near enough to matter by the calibration of the embedder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..memory_store.calibration import SAME_TOPIC, Calibration, language_of_pair
from ..memory_store.inbox import Row
from ..memory_store.lake import Lake
from .neighbours import near_pairs
from .pairs import FAMILIES, Judge, Pair, Verdict, type_pairs

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vectors = npt.NDArray[np.float32]

#: A subject of up to this many memories has them all meet: words may relate what vectors don't.
ALL_PAIRS = 40
#: Least probability of being the same at which a pair is looked at, since wording can raise it (see `pairs`).
_WORTH_A_LOOK = 0.4
_PORTION = 5_000


@dataclass(frozen=True)
class Met:
    """Two rows that met, by their places, and what they are to each other."""

    first: int
    second: int
    verdict: Verdict

    def other(self, place: int) -> int:
        """The other one's place."""
        return self.second if place == self.first else self.first

    def absorbs(self, place: int) -> bool:
        """Whether the row at a place can stand for both, nothing being lost."""
        if self.verdict.type == "refines":
            return (self.first, self.second)[self.verdict.stands or 0] == place
        return self.verdict.type == "same"


class Scale:
    """The calibrations of one embedder, by language."""

    def __init__(self, embedder: str, lake: Lake | None = None) -> None:
        self._by_language = {
            language: Calibration.of(embedder, language, lake) for language in ("en", "zh", "mixed", "any")
        }

    @property
    def missing(self) -> str:
        """Why nothing is joined by similarity; empty when something can be."""
        return "" if any(not one.missing for one in self._by_language.values()) else self._by_language["any"].missing

    def floor(self, what: Literal["same", "topic"]) -> float:
        """The cosine below which no pair of any language is worth a look; 2 when nothing is known of the embedder."""
        import numpy as np

        cosines = np.linspace(-1, 1, 401)
        lowest = 2.0
        for one in self._by_language.values():
            chances = one.same(cosines) >= _WORTH_A_LOOK if what == "same" else one.same_topic(cosines) >= SAME_TOPIC
            if not one.missing and chances.any():
                lowest = min(lowest, float(cosines[int(chances.argmax())]))
        return lowest

    def pair(self, first: Mapping[str, Any], second: Mapping[str, Any], cosine: float) -> Pair:
        """Two memories with what their cosine means; NaN says that there is none."""
        one = self._by_language[language_of_pair(str(first["text"]), str(second["text"]))]
        if cosine != cosine or one.missing:
            return Pair(first, second)
        return Pair(first, second, float(one.same(cosine)), float(one.same_topic(cosine)))


def meet(
    rows: Sequence[Row],
    vectors: Vectors,
    scale: Scale,
    *,
    what: Literal["same", "topic"],
    judge: Judge | None = None,
    holds_many: Callable[[str], bool] = lambda attribute: False,
    changed: npt.NDArray[np.bool_] | None = None,
) -> Iterator[Met]:
    """Type the pairs that are worth it, each once, but for those that are distinct.

    `rows` have the columns of `pairs.COLUMNS`; `vectors`, [rows, dim], are unit length, NaN where there is none.
    `changed`, [rows]: only pairs that hold one of these rows.
    """
    import numpy as np

    if len(rows) < 2:
        return
    keys: dict[tuple[str, str], int] = {}
    groups = np.array([keys.setdefault(_group(row), len(keys)) for row in rows], np.int64)
    sizes = np.bincount(groups, minlength=len(keys))
    few = sizes[groups] <= ALL_PAIRS
    met: list[tuple[int, int, float]] = []
    for group in np.unique(groups[few]):
        members = np.flatnonzero(groups == group)
        cosines = vectors[members] @ vectors[members].T
        met += [
            (int(one), int(two), float(cosines[at, at + 1 + further]))
            for at, one in enumerate(members)
            for further, two in enumerate(members[at + 1 :])
            if changed is None or changed[one] or changed[two]
        ]
    floor = scale.floor(what)
    if not few.all() and floor <= 1:
        apart = np.where(few, -1 - np.arange(len(rows)), groups)
        near = near_pairs(vectors, apart, floor, changed=changed)
        met += zip(near.left.tolist(), near.right.tolist(), near.cosine.tolist(), strict=True)
    met.sort()
    for start in range(0, len(met), _PORTION):
        some = met[start : start + _PORTION]
        typed = type_pairs(
            [scale.pair(rows[i], rows[j], cosine) for i, j, cosine in some], judge, holds_many=holds_many
        )
        for (i, j, _), verdict in zip(some, typed, strict=True):
            if verdict.type != "distinct":
                yield Met(i, j, verdict)


def _group(row: Row) -> tuple[str, str]:
    kind = str(row.get("kind") or "fact")
    return row.get("subject") or "", FAMILIES.get(kind, kind)
