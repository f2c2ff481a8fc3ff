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
from .neighbourhoods import Rows
from .neighbours import near_pairs
from .pairs import FAMILIES, Judge, Pair, Verdict, type_pairs
from .wording import normal_text

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vectors = npt.NDArray[np.float32]

#: A subject of up to this many memories has them all meet: words may relate what vectors don't.
ALL_PAIRS = 40
#: Least probability of being the same at which a pair is looked at, since wording can raise it (see `pairs`).
_WORTH_A_LOOK = 0.4
_PORTION = 5_000

#: The judge of a namespace; None: guards and rules alone decide.
JudgeOf = Callable[[str], Judge | None]


def no_judge(namespace: str) -> Judge | None:
    """No judge, whatever the namespace."""
    return None


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
    by_words: bool = True,
) -> Iterator[Met]:
    """Type the pairs that are worth it, each once, but for those that are distinct.

    `rows` have the columns of `pairs.COLUMNS`; `vectors`, [rows, dim], are unit length, NaN where there is none.
    `changed`, [rows]: only pairs that hold one of these rows. Without `by_words`, of a subject that has few only the
    pairs that are near, that give the same attribute a value, or that use the same words: what says the same.
    """
    import numpy as np

    if len(rows) < 2:
        return
    groups = _groups(rows)
    sizes = np.bincount(groups)
    few = sizes[groups] <= ALL_PAIRS
    floor = scale.floor(what)
    if judge is not None:
        floor = min(floor, scale.floor("topic"))
    met: list[tuple[int, int, float]] = []
    if isinstance(rows, Rows):
        rows.make(np.flatnonzero(few).tolist())
    for members in _members(groups, few):
        cosines = vectors[members] @ vectors[members].T
        one, two = np.nonzero(np.triu(_likely(rows, members, cosines, floor, by_words), 1))
        if changed is not None:
            wanted = changed[members[one]] | changed[members[two]]
            one, two = one[wanted], two[wanted]
        met += zip(members[one].tolist(), members[two].tolist(), cosines[one, two].tolist(), strict=True)
    if not few.all() and floor <= 1:
        apart = np.where(few, -1 - np.arange(len(rows)), groups)
        near = near_pairs(vectors, apart, floor, changed=changed)
        met += zip(near.left.tolist(), near.right.tolist(), near.cosine.tolist(), strict=True)
    met.sort()
    for start in range(0, len(met), _PORTION):
        some = met[start : start + _PORTION]
        if isinstance(rows, Rows):
            rows.make([place for one, two, _ in some for place in (one, two)])
        typed = type_pairs(
            [scale.pair(rows[i], rows[j], cosine) for i, j, cosine in some], judge, holds_many=holds_many
        )
        for (i, j, _), verdict in zip(some, typed, strict=True):
            if verdict.type != "distinct":
                yield Met(i, j, verdict)


def _groups(rows: Sequence[Row]) -> npt.NDArray[np.int64]:
    """For each row a number that it shares with those that it may meet: one subject, one family of kinds."""
    import numpy as np

    if isinstance(rows, Rows):
        names = zip(rows.column("subject"), rows.column("kind"), strict=True)
    else:
        names = zip([row.get("subject") or "" for row in rows], [row.get("kind") or "" for row in rows], strict=True)
    numbers: dict[tuple[str, str], int] = {}
    found = []
    for subject, kind in names:
        family = FAMILIES.get(kind or "fact", kind)
        found.append(numbers.setdefault((subject, family), len(numbers)))
    return np.array(found, np.int64)


def _members(groups: npt.NDArray[np.int64], few: npt.NDArray[np.bool_]) -> Iterator[npt.NDArray[np.int64]]:
    """The places of each group among those that are few, if it has more than one."""
    import numpy as np

    places = np.flatnonzero(few)
    places = places[np.argsort(groups[places], kind="stable")]
    ends = np.flatnonzero(np.diff(groups[places])) + 1
    yield from (some for some in np.split(places, ends) if len(some) > 1)


def _likely(
    rows: Sequence[Row], members: npt.NDArray[np.int64], cosines: Vectors, floor: float, by_words: bool
) -> npt.NDArray[np.bool_]:
    """Which pairs of a small group are worth a look, [members, members]."""
    import numpy as np

    if by_words:
        return np.ones(cosines.shape, bool)
    likely = np.asarray(~(cosines < floor))  # NaN: what has no vector may say anything
    for key in ("words", "attribute"):
        seen: dict[str, list[int]] = {}
        for place, member in enumerate(members.tolist()):
            row = rows[member]
            value = normal_text(str(row["text"])) if key == "words" else row.get("attribute") or ""
            if value:
                seen.setdefault(value, []).append(place)
        for places in seen.values():
            if len(places) > 1:
                likely[np.ix_(places, places)] = True
    return likely
