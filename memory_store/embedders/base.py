"""What every embedder shares: cleaning texts, checking vectors, embedding equal texts once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .calibration import Curve
from .texts import Embedded, embeddable, is_mostly_cjk, unit_rows

if TYPE_CHECKING:
    from .texts import Matrix


class BaseEmbedder(ABC):
    """An embedder, but for the model itself. Safe to share between threads."""

    #: Stable name of model, prefix and version; vectors of two names are never compared
    name: str
    #: Numbers of one vector
    dim: int
    #: Characters of a text that the model is given; full text finds what lies beyond
    most_characters: int
    #: Cosine → relevance, by script of the query: "cjk" and "other"
    curves: Mapping[str, Curve]

    @abstractmethod
    def _encode(self, texts: list[str], query: bool) -> Sequence[object]:
        """One vector a text, in order. Texts are clean, not empty and differ from each other."""

    def passages(self, texts: Sequence[str]) -> Matrix:
        """Vectors of texts to be found: float32 [n, dim], unit rows, NaN for a text that can't be embedded.

        `embed` says why one can't be. Raises `EmbedderError` when the model can't be used at all.
        """
        return self.embed(texts).vectors

    def queries(self, texts: Sequence[str]) -> Matrix:
        """Vectors of texts to search by: as `passages`, with the model's prefix for queries."""
        return self.embed(texts, query=True).vectors

    def embed(self, texts: Sequence[str], query: bool = False) -> Embedded:
        """Vectors of texts, and the reason of each that has none: one bad text never fails the others."""
        import numpy as np

        clean = [embeddable(text, self.most_characters) for text in texts]
        unique = list(dict.fromkeys(text for text in clean if text))
        made, wrong = unit_rows(self._encode(unique, query), self.dim) if unique else (None, {})
        place = {text: number for number, text in enumerate(unique)}
        vectors = np.full((len(clean), self.dim), np.nan, dtype=np.float32)
        failures: dict[int, str] = {}
        for number, text in enumerate(clean):
            if not text:
                failures[number] = "there is nothing to embed"
                continue
            assert made is not None
            vectors[number] = made[place[text]]
            if place[text] in wrong:
                failures[number] = wrong[place[text]]
        return Embedded(vectors, failures)

    def curve(self, query: str) -> Curve:
        """What the cosines of this query mean."""
        return self.curves["cjk" if is_mostly_cjk(query) else "other"]
