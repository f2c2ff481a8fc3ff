"""Whether two questions ask the same. A question asserts nothing that could be lost, so it may be worded more freely
than a statement: one may have more words than the other, in any place. None may be replaced by another one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from .wording import WordDifference

#: The certainty from which 96 % of the questions that are joined are right, on the half of LCQMC that is for fitting,
#: each pair left out of the fit by turns.
ASKED_ALIKE = 0.84
#: Log odds that two questions ask the same, by logistic regression on that half over both embedded embedders together:
#: what the log odds of *same* by the cosine count, and the logarithm of the number of words.
_BIAS, _COSINE, _WORDS = -4.39, 0.68, 3.42
#: What the way counts in which their words relate.
_ORDER = {"same": 0.0, "turned": -1.36, "moved": -0.73, "within": -1.95, "other": -2.38}
#: More words than this count as so many.
_MOST_WORDS = 14
#: Least probability by the cosine alone; what is less likely no job looks at.
_WORTH_A_LOOK = 0.4
#: Words that a question turns on: with one more of them it is another question.
_TURNS_ON = frozenset(
    ("怎么", "怎么办", "为什么", "何时", "多少", "谁", "多久", "哪年", "how", "why", "when", "who", "where")
)


def asked_alike(same: float, words: WordDifference) -> float:
    """Probability that two questions ask the same, by the probability of *same* of their cosine and by their words.

    >>> from .wording import word_difference
    >>> one, two = "How do I renew my library card?", "How can I renew the library card of my town?"
    >>> asked_alike(0.97, word_difference(one, one)) > asked_alike(0.97, word_difference(one, two))
    True
    """
    if same < _WORTH_A_LOOK or not words.count or words.order not in _ORDER:
        return 0.0
    odds = _BIAS + _COSINE * math.log(same / max(1 - same, 0.002))
    odds += _ORDER[words.order] + _WORDS * math.log(min(words.count, _MOST_WORDS))
    return 1 / (1 + math.exp(-odds))


def asks_for_more(words: WordDifference, texts: Sequence[str]) -> bool:
    """Whether the fuller of two questions asks for something else: why, rather than whether; or for a part of what the
    other one asks for, as in "X的Y是什么". `words` is how the two differ, of which only one has more.
    """
    more = words.left or words.right
    if not more:
        return False
    part = re.compile(f"[的中]{re.escape(''.join(more))}(?:$|[是怎什多有为叫在吗呢啊该\\W])")
    return not _TURNS_ON.isdisjoint(more) or any(part.search(text) for text in texts)
