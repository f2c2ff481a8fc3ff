"""What a cosine of two memories means: the probability that they say the same, and that they are about one thing.

The same cosine means something else for each embedder and language: unrelated Chinese texts sit at .90 for one model
and at .55 for another. So nothing is ever merged by a cosine, but by two probabilities that were fitted on
labelled pairs: *same* ("surely the same" is .95, R9 and R14) and *same topic* (.9, R13). Both memories are embedded as
passages.

Fits for the embedded embedders come with the package; `hindlake calibrate` keeps others in the lake, where the newest
of an embedder counts:

    calibrations/<embedder>/<number>.json
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import msgspec

from ..errors import LakeError, UsageError
from ..files.lake import Lake
from .language import language_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]

#: "Surely the same", R9 and R14.
SAME = 0.95
#: "About the same thing", R13.
SAME_TOPIC = 0.9
#: Fewest pairs that a probability is fitted on.
LEAST_PAIRS = 40
#: Languages that are fitted apart; a pair of any other is judged by "any", the strictest of them.
LANGUAGES = ("en", "zh", "mixed")
#: Fewest pairs that stand behind one step of a fit, and the share of all of them that does.
_STEP, _STEP_SHARE = 20, 0.01
#: How often another fit may be faster before keeping one is given up.
_TRIES = 20

#: Points of a curve: cosine and probability, both rising.
Knots = tuple[tuple[float, float], ...]


class Fit(msgspec.Struct, frozen=True):
    """The two curves of one language."""

    #: Cosine → probability that two texts say the same
    same: Knots
    #: Cosine → probability that two texts are about one thing
    topic: Knots
    #: Labelled pairs behind `same` and behind `topic`
    pairs: tuple[int, int] = (0, 0)


class CalibrationFile(msgspec.Struct, frozen=True):
    """One calibration of one embedder as it is kept."""

    #: Name of the embedder, which holds model, prefix and version
    embedder: str
    #: Fits by language: en, zh, mixed, any
    languages: dict[str, Fit]
    #: When it was fitted
    made_at: datetime
    #: Grows with each fit in a lake; 0 comes with the package
    version: int = 0


@dataclass(frozen=True)
class Calibration:
    """What cosines of one embedder mean for one language."""

    embedder: str
    #: en, zh, mixed (two languages) or any
    language: str
    #: Number of the file that it comes from; 0 comes with the package, -1: there is none
    version: int = -1
    fit: Fit = field(default_factory=lambda: Fit((), ()))

    @classmethod
    def of(cls, embedder: str, language: str, lake: Lake | None = None) -> Calibration:
        """The calibration of an embedder for a language tag, such as `language_of_pair` returns: the newest
        of the lake, else the one that comes with the package, else one that holds nothing for the same and says how to
        get one (`missing`).
        """
        kept = newest(lake, embedder) if lake is not None else None
        file = kept or _shipped().get(embedder)
        if file is None:
            return cls(embedder, language)
        name = language if language in file.languages else "any"
        return cls(embedder, name, file.version, file.languages.get(name, Fit((), ())))

    @property
    def missing(self) -> str:
        """Why nothing can be merged by similarity, with the fix; empty when something can."""
        if self.fit.same:
            return ""
        return (
            f"there is no calibration of {self.embedder} for language {self.language!r}, so nothing is merged by "
            f"similarity: run `hindlake calibrate --pairs FILE --embedder {self.embedder}` on labelled pairs"
        )

    def same(self, cosine: npt.ArrayLike) -> Numbers:
        """Probability that two texts say the same, by their cosine: any shape in, the same shape out; NaN is 0."""
        return _along(self.fit.same, cosine)

    def same_topic(self, cosine: npt.ArrayLike) -> Numbers:
        """Probability that two texts are about one thing, by their cosine; shapes as in `same`."""
        return _along(self.fit.topic, cosine)


def language_of_pair(first: str, second: str) -> str:
    """The language that the cosine of two texts is judged by: en, zh, mixed for one of each, else any.

    >>> language_of_pair("retry after the timeout", "支付超时应重试"), language_of_pair("支付API超时", "重试")
    ('mixed', 'zh')
    """
    one, two = (tag if (tag := language_of(text)) not in ("", "und-Latn") else "en" for text in (first, second))
    if one == two:
        return one if one in LANGUAGES else "any"
    return "mixed" if {one, two} == {"en", "zh"} else "any"


def fit_curve(cosines: npt.ArrayLike, holds: npt.ArrayLike) -> Knots:
    """Fit a probability that never falls as the cosine rises: isotonic regression by pooling adjacent violators
    (Ayer et al. 1955), over steps of at least 20 pairs; each step's share counts half a pair more on both sides, so
    that none is 0 or 1. Between steps the curve is straight.

    `cosines`: [pairs]; `holds`: [pairs], whether the label says so. Raises `UsageError` below `LEAST_PAIRS` pairs, or
    when all labels are alike.
    """
    import numpy as np

    x, y = np.asarray(cosines, dtype=np.float64), np.asarray(holds, dtype=bool)
    usable = np.isfinite(x)
    x, y = x[usable], y[usable]
    if len(x) < LEAST_PAIRS or y.all() or not y.any():
        raise UsageError(
            f"{len(x)} pairs with {int(y.sum())} that hold are too few to fit: give at least {LEAST_PAIRS} pairs of a "
            "language, some of either label"
        )
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    size = max(_STEP, int(len(x) * _STEP_SHARE))
    blocks: list[tuple[float, int, int]] = []  # sum of cosines, pairs, pairs that hold
    for start in range(0, len(x), size):
        end = len(x) if len(x) - start < 2 * size else start + size
        blocks.append((float(x[start:end].sum()), end - start, int(y[start:end].sum())))
        while len(blocks) > 1 and _share(blocks[-2]) >= _share(blocks[-1]):
            last = blocks.pop()
            blocks[-1] = tuple(a + b for a, b in zip(blocks[-1], last, strict=True))  # type: ignore[assignment]
        if end == len(x):
            break
    return tuple((round(block[0] / block[1], 5), round(_share(block), 4)) for block in blocks)


def _share(block: tuple[float, int, int]) -> float:
    return (block[2] + 0.5) / (block[1] + 1)


def strictest(fits: Sequence[Knots]) -> Knots:
    """The curve that is nowhere above any of these."""
    import numpy as np

    at = sorted({cosine for knots in fits for cosine, _ in knots})
    lows = np.min([_along(knots, at) for knots in fits], axis=0) if at else []
    return tuple((cosine, round(float(low), 4)) for cosine, low in zip(at, lows, strict=True))


def _along(knots: Knots, cosine: npt.ArrayLike) -> Numbers:
    import numpy as np

    values = np.asarray(cosine, dtype=np.float64)
    if not knots:
        return np.zeros_like(values)
    at, probability = zip(*knots, strict=True)
    return np.asarray(np.interp(np.nan_to_num(values), at, probability) * np.isfinite(values))


def newest(lake: Lake, embedder: str) -> CalibrationFile | None:
    """The newest calibration of an embedder that a lake holds. Raises `LakeError` if its file can't be read."""
    paths = lake.names(f"calibrations/{_folder(embedder)}")
    if not paths:
        return None
    try:
        return msgspec.json.decode(lake.get(paths[-1]), type=CalibrationFile)
    except msgspec.DecodeError as error:
        raise LakeError(f"{lake.url}/{paths[-1]} is damaged ({error}): remove it, or calibrate anew") from error


def keep(lake: Lake, embedder: str, languages: Mapping[str, Fit], made_at: datetime) -> CalibrationFile:
    """Keep a new calibration in the lake; earlier ones stay. Languages that were not fitted are taken from the one
    before, or from the package; "any" is the strictest of all.
    """
    for _ in range(_TRIES):
        before = newest(lake, embedder) or _shipped().get(embedder)
        fits = {**(before.languages if before else {}), **languages}
        fits["any"] = any_language({name: fit for name, fit in fits.items() if name != "any"})
        version = len(lake.names(f"calibrations/{_folder(embedder)}")) + 1
        file = CalibrationFile(embedder, fits, made_at, version)
        if lake.create(f"calibrations/{_folder(embedder)}/{version:06d}.json", msgspec.json.encode(file)):
            return file
    raise LakeError(f"{lake.url}/calibrations is written to by others all the time: run `hindlake calibrate` again")


def any_language(fits: Mapping[str, Fit]) -> Fit:
    """The fit for pairs of languages that have none: the strictest of those of one language."""
    own = [fit for name, fit in fits.items() if name != "mixed"] or list(fits.values())
    return Fit(
        strictest([fit.same for fit in own]),
        strictest([fit.topic for fit in own]),
        (min(fit.pairs[0] for fit in own), min(fit.pairs[1] for fit in own)),
    )


def _folder(embedder: str) -> str:
    return re.sub(r"[^\w@.-]", "_", embedder)


@cache
def _shipped() -> dict[str, CalibrationFile]:
    text = (resources.files(__package__) / "calibrations.json").read_bytes()
    return {file.embedder: file for file in msgspec.json.decode(text, type=list[CalibrationFile])}
