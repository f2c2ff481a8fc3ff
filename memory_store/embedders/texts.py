"""What a text must be before a model sees it, and what a vector must be before anyone trusts it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Embedded:
    """Vectors of some texts."""

    #: float32 [texts, dim]: unit rows; a text that failed has a row of NaN, which no search accepts by accident
    vectors: Matrix
    #: Why a text has no vector, by its position
    failures: dict[int, str] = field(default_factory=dict)


def embeddable(text: str, most: int) -> str:
    """The part of a text that a model is given: its first `most` characters, without what models choke on.

    NUL would end the text for a C library, and half of a surrogate pair can't be encoded.

    >>> embeddable(" a\\x00b ", 100)
    'a b'
    """
    return _SURROGATE.sub("\ufffd", text[: most * 2].replace("\x00", " ")).strip()[:most]


def unit_rows(rows: Sequence[object], dim: int) -> tuple[Matrix, dict[int, str]]:
    """Whatever a model returned as unit rows [n, dim], with the reason of each row that can't be one.

    A row that is missing, has another length, is not finite or has no direction becomes NaN.
    """
    import numpy as np

    vectors = np.full((len(rows), dim), np.nan, dtype=np.float32)
    failures: dict[int, str] = {}
    for place, row in enumerate(rows):
        try:
            vector = np.asarray(row, dtype=np.float64)
        except (TypeError, ValueError):
            vector = np.empty(0)
        if vector.shape != (dim,):
            length = vector.size if vector.ndim == 1 else 0
            failures[place] = f"the model returned {length} numbers instead of {dim}"
        elif not np.isfinite(vector).all():
            failures[place] = "the model returned a vector that is not finite"
        elif not (norm := float(np.linalg.norm(vector))) > 1e-12:
            failures[place] = "the model returned a vector of zeros"
        else:
            vectors[place] = vector / norm
    return vectors, failures


def is_mostly_cjk(text: str) -> bool:
    """Whether a text is written mainly in Chinese, Japanese or Korean characters.

    >>> is_mostly_cjk("支付API超时"), is_mostly_cjk("retry the payment API")
    (True, False)
    """
    some = text[:2000]
    if some.isascii():
        return False
    cjk = sum("\u3040" <= c <= "\u9fff" or "\uac00" <= c <= "\ud7af" or "\uf900" <= c <= "\ufaff" for c in some)
    words = len(re.findall(r"[^\W\d_\u3040-\u9fff\uac00-\ud7af\uf900-\ufaff]+", some))
    return cjk > 1.5 * words
