"""What a ranking is worth, by the ids that were to be found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet


def recall(found: Sequence[str], gold: AbstractSet[str], k: int) -> float:
    """The share of what was to be found that is among the first k.

    >>> recall(["a", "b", "c"], {"b", "d"}, 2)
    0.5
    """
    return len(gold & set(found[:k])) / len(gold)


def hit(found: Sequence[str], gold: AbstractSet[str]) -> float:
    """1 if the first is among what was to be found."""
    return float(bool(found) and found[0] in gold)


def all_found(found: Sequence[str], gold: AbstractSet[str], k: int) -> float:
    """1 if all that was to be found is among the first k."""
    return float(gold <= set(found[:k]))


def ndcg(found: Sequence[str], gold: AbstractSet[str], k: int) -> float:
    """Normalised discounted cumulative gain of the first k, each that was to be found worth 1 (Järvelin & Kekäläinen).

    >>> ndcg(["a", "b"], {"a"}, 10), round(ndcg(["b", "a"], {"a"}, 10), 3)
    (1.0, 0.631)
    """
    gained = sum(1 / math.log2(rank + 1) for rank, id in enumerate(found[:k], 1) if id in gold)
    return gained / sum(1 / math.log2(rank + 1) for rank in range(1, min(len(gold), k) + 1))
