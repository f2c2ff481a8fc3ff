"""Which memories meet, and how each pair that does is typed: the same for dedup, merge and resolve. Pure.

Only memories of one subject and one family of kinds meet. Of a subject that has few, all pairs do; of one that has
many, those whose vectors are near enough to matter by the calibration of the embedder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ...memory_store.files.lake import Lake
from ...memory_store.history.inbox import Row
from ...memory_store.text.calibration import SAME_TOPIC, Calibration, language_of_pair
from ...memory_store.text.language import language_of
from ..comparing.pairs import FAMILIES, Judge, Pair, Verdict, type_pairs
from ..comparing.wording import normal_text
from .neighbourhoods import Rows
from .neighbours import near_pairs

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vectors = npt.NDArray[np.float32]

#: A subject of up to this many memories has them all meet: words may relate what vectors don't.
ALL_PAIRS = 40
#: Least probability of being the same at which a pair is looked at, since wording can raise it (see `pairs`).
_WORTH_A_LOOK = 0.4
_PORTION = 5_000

#: Languages that a row is told apart by; of what is in another one, little is known.
LANGUAGES = ("en", "zh", "")
#: What a pair of these is judged by; see `language_of_pair`.
_OF_PAIR = (("en", "mixed", "any"), ("mixed", "zh", "any"), ("any", "any", "any"))

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


class Scale:
    """The calibrations of one embedder, by language."""

    def __init__(self, embedder: str, lake: Lake | None = None) -> None:
        self._by_language = {
            language: Calibration.of(embedder, language, lake) for language in ("en", "zh", "mixed", "any")
        }
        #: What a cosine, to four digits, means in a language
        self._read: dict[tuple[str, float], tuple[float, float]] = {}

    @property
    def missing(self) -> str:
        """Why nothing is joined by similarity; empty when something can be."""
        return "" if any(not one.missing for one in self._by_language.values()) else self._by_language["any"].missing

    def floor(self, language: str, what: Literal["same", "topic"]) -> float:
        """The cosine below which no pair of a language is worth a look; 2 when nothing is known of the embedder."""
        import numpy as np

        one = self._by_language[language]
        if one.missing:
            return 2.0
        cosines = np.linspace(-1, 1, 401)
        worth = one.same(cosines) >= _WORTH_A_LOOK if what == "same" else one.same_topic(cosines) >= SAME_TOPIC
        return float(cosines[int(worth.argmax())]) if worth.any() else 2.0

    def floors(self, *what: Literal["same", "topic"]) -> npt.NDArray[np.float64]:
        """The least floor of these, by the languages of the two rows, [`LANGUAGES`, `LANGUAGES`]."""
        import numpy as np

        return np.array([[min(self.floor(pair, one) for one in what) for pair in row] for row in _OF_PAIR])

    def lowest(self, chance: float) -> float:
        """The lowest cosine at which two texts of any language are about one thing with at least this probability."""
        topics = (one.fit.topic for one in self._by_language.values())
        return min((at for topic in topics for at, likely in topic if likely >= chance), default=1.0)

    def pair(self, first: Mapping[str, Any], second: Mapping[str, Any], cosine: float) -> Pair:
        """Two memories with what their cosine means; NaN says that there is none."""
        if cosine != cosine:
            return Pair(first, second)
        key = language_of_pair(str(first["text"]), str(second["text"])), round(cosine, 4)
        if key not in self._read:
            one = self._by_language[key[0]]
            known = not one.missing
            self._read[key] = (float(one.same(key[1])), float(one.same_topic(key[1]))) if known else (0.0, 0.0)
        return Pair(first, second, *self._read[key])


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
    cells: Sequence[npt.NDArray[np.int64]] | None = None,
) -> Iterator[Met]:
    """Type the pairs that are worth it, each once, but for those that are distinct.

    `rows` have the columns of `pairs.COLUMNS`; `vectors`, [rows, dim], are unit length, NaN where there is none.
    `changed`, [rows]: only pairs that hold one of these rows. Without `by_words`, of a subject that has few only the
    pairs that are near, that give the same attribute a value, or that use the same words: what says the same. With
    `cells`, places of rows, the rows are those of a subject of many, and only those of one cell meet.
    """
    import numpy as np

    if len(rows) < 2:
        return
    groups = _groups(rows)
    sizes = np.bincount(groups)
    few = sizes[groups] <= (ALL_PAIRS if cells is None else 0)
    floors = scale.floors(what, "topic") if judge is not None else scale.floors(what)
    language = _languages(rows)
    met: list[tuple[int, int, float]] = []
    if isinstance(rows, Rows):
        rows.make(np.flatnonzero(few).tolist())
    for members in _members(groups, few):
        cosines = vectors[members] @ vectors[members].T
        floor = floors[np.ix_(language[members], language[members])]
        one, two = np.nonzero(np.triu(_likely(rows, members, cosines, floor, by_words), 1))
        if changed is not None:
            wanted = changed[members[one]] | changed[members[two]]
            one, two = one[wanted], two[wanted]
        met += zip(members[one].tolist(), members[two].tolist(), cosines[one, two].tolist(), strict=True)
    if cells is not None:
        met += _in_cells(cells, vectors, groups, language, floors)
    elif not few.all():
        met += _near(vectors, np.where(few, -1 - np.arange(len(rows)), groups), language, floors, changed)
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


def _near(
    vectors: Vectors,
    groups: npt.NDArray[np.int64],
    language: npt.NDArray[np.int64],
    floors: npt.NDArray[np.float64],
    changed: npt.NDArray[np.bool_] | None,
) -> Iterator[tuple[int, int, float]]:
    """Near pairs of one group: of each language by its own floor, then across languages, where a cosine means less."""
    import numpy as np

    alone = -1 - np.arange(len(groups))
    present = np.unique(language[groups >= 0]).tolist()
    for one in present:
        floor = float(floors[one, one])
        if floor <= 1:
            near = near_pairs(vectors, np.where(language == one, groups, alone), floor, changed=changed)
            yield from zip(near.left.tolist(), near.right.tolist(), near.cosine.tolist(), strict=True)
    across = min((float(floors[one, two]) for one in present for two in present if one != two), default=2.0)
    if across <= 1:
        near = near_pairs(vectors, groups, across, changed=changed)
        tongues = language[near.left], language[near.right]
        wanted = (tongues[0] != tongues[1]) & (near.cosine >= floors[tongues])
        pairs = (values[wanted].tolist() for values in (near.left, near.right, near.cosine))
        yield from zip(*pairs, strict=True)


def _in_cells(
    cells: Sequence[npt.NDArray[np.int64]],
    vectors: Vectors,
    groups: npt.NDArray[np.int64],
    language: npt.NDArray[np.int64],
    floors: npt.NDArray[np.float64],
) -> Iterator[tuple[int, int, float]]:
    """Near pairs of each cell; those that lie in two of them together, once."""
    pairs: dict[tuple[int, int], float] = {}
    for cell in cells:
        for one, two, cosine in _near(vectors[cell], groups[cell], language[cell], floors, None):
            first, second = sorted((int(cell[one]), int(cell[two])))
            pairs[first, second] = cosine
    yield from ((one, two, cosine) for (one, two), cosine in pairs.items())


def _languages(rows: Sequence[Row]) -> npt.NDArray[np.int64]:
    """The place of each row's language in `LANGUAGES`, as `language_of_pair` sees it."""
    import numpy as np

    texts = rows.column("text") if isinstance(rows, Rows) else [str(row["text"]) for row in rows]
    place = {"en": 0, "und-Latn": 0, "zh": 1}
    # Plain ASCII is English, Latin, or nothing that tells, which are one here.
    return np.array([0 if text.isascii() else place.get(language_of(text) or "en", 2) for text in texts], np.int64)


def _likely(
    rows: Sequence[Row],
    members: npt.NDArray[np.int64],
    cosines: Vectors,
    floor: npt.NDArray[np.float64],
    by_words: bool,
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
