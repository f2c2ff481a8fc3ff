"""Fit what cosines mean from labelled pairs of texts: the two probabilities of `memory_store.text.calibration`."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...memory_store.errors import UsageError
from ...memory_store.text.calibration import LANGUAGES, LEAST_PAIRS, Fit, fit_curve, language_of_pair
from .pairs import Pair, read_pair

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

#: Texts → unit vectors of passages, [texts, dim].
Embed = Callable[[Sequence[str]], "npt.NDArray[np.float32]"]
#: What a label in words says: whether the texts say the same, whether they are about one thing; None: not told.
_WORDS: dict[str, tuple[bool | None, bool | None]] = {
    "same": (True, True),
    "topic": (False, True),
    "different": (False, False),
    "not_same": (False, None),
}
#: Points of 5 from which texts say the same, share a topic, and up to which they don't (the scale of STS).
_SAME_FROM, _TOPIC_FROM, _APART_BELOW = 4.5, 3.0, 2.0


@dataclass(frozen=True)
class LabelledPair:
    """Two texts and what a person says of them."""

    first: str
    second: str
    #: Whether they say the same; None: not told
    same: bool | None
    #: Whether they are about one thing; None: not told
    topic: bool | None


def labelled(first: str, second: str, label: str) -> LabelledPair:
    """A pair by its label: same, topic, different, not_same (whether about one thing is not told), or 0 to 5 points.

    Raises `UsageError` for any other label.

    >>> labelled("a", "b", "topic").same, labelled("a", "b", "4.8").same, labelled("a", "b", "2.5").topic
    (False, True, None)
    """
    word = label.strip().casefold()
    if word in _WORDS:
        return LabelledPair(first, second, *_WORDS[word])
    try:
        points = float(word)
    except ValueError:
        points = math.nan
    if not 0 <= points <= 5:
        raise UsageError(f"{label!r} is no label: write same, topic, different, not_same, or points from 0 to 5")
    topic = True if points >= _TOPIC_FROM else False if points < _APART_BELOW else None
    return LabelledPair(first, second, points >= _SAME_FROM, topic)


def read_labelled(path: Path) -> list[LabelledPair]:
    """The pairs of a file: JSON lines with `a`, `b` and `label`, or tab-separated lines of these three; .gz as well.

    Raises `UsageError` naming the first line that can't be read.
    """
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.name.endswith(".gz") else data).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} can't be read as text ({error}): give JSON lines or tab-separated lines") from error
    pairs = []
    for number, parts in _rows(text):
        if parts is None or len(parts) < 3 or not all(isinstance(part, str) for part in parts[:2]):
            raise UsageError(f'{path}, line {number}: write {{"a": …, "b": …, "label": …}} or three columns with tabs')
        if number == 1 and [str(part).casefold() for part in parts[:3]] == ["a", "b", "label"]:
            continue
        try:
            pairs.append(labelled(str(parts[0]), str(parts[1]), str(parts[2])))
        except UsageError as error:
            raise UsageError(f"{path}, line {number}: {error}") from error
    return pairs


def _rows(text: str) -> Iterator[tuple[int, list[object] | None]]:
    if text.lstrip().startswith("{"):
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                try:
                    value = json.loads(line)
                except ValueError:
                    value = None
                parts: list[object] | None = (
                    [value.get(name) for name in ("a", "b", "label")] if isinstance(value, dict) else None
                )
                yield number, parts
        return
    for number, row in enumerate(csv.reader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE), 1):
        if row:
            yield number, list(row)


def fit_languages(pairs: Sequence[LabelledPair], embed: Embed) -> dict[str, Fit]:
    """The fits of each language that has enough pairs: en, zh, mixed.

    Pairs that a guard of `pairs` tells apart are left out of *same*: they never get as far as a probability. Pairs
    of texts that belong to different pairs count as different topics, as many as there are pairs of one topic. Raises
    `UsageError` when no language has enough.
    """
    import numpy as np

    by_language: dict[str, list[LabelledPair]] = defaultdict(list)
    for pair in pairs:
        by_language[language_of_pair(pair.first, pair.second)].append(pair)
    fits: dict[str, Fit] = {}
    reasons: list[str] = []
    for language in LANGUAGES:
        some = by_language.get(language, [])
        if len(some) < LEAST_PAIRS:
            continue
        first, second = (embed([getattr(pair, side) for pair in some]) for side in ("first", "second"))
        cosines = np.einsum("ij,ij->i", first, second)
        same = [place for place, pair in enumerate(some) if pair.same is not None and not _barred(pair)]
        topic = [place for place, pair in enumerate(some) if pair.topic is not None]
        shuffled = list(range(len(some)))
        random.Random(0).shuffle(shuffled)
        apart = np.einsum("ij,ij->i", first, second[shuffled])
        apart = apart[[place != other for place, other in enumerate(shuffled)]][: max(LEAST_PAIRS, len(topic))]
        try:
            fits[language] = Fit(
                fit_curve(cosines[same], [bool(some[place].same) for place in same]),
                fit_curve(
                    np.concatenate((cosines[topic], apart)),
                    [bool(some[place].topic) for place in topic] + [False] * len(apart),
                ),
                (len(same), len(topic)),
            )
        except UsageError as error:
            reasons.append(f"{language}: {error}")
    if not fits:
        counts = ", ".join(f"{name} {len(some)}" for name, some in sorted(by_language.items())) or "none"
        raise UsageError(
            "; ".join(reasons)
            or f"too few pairs of one language ({counts}): give at least {LEAST_PAIRS} of en, zh or mixed"
        )
    return fits


def _barred(pair: LabelledPair) -> bool:
    return bool(read_pair(Pair({"text": pair.first}, {"text": pair.second})).barred)
