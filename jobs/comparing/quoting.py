"""Whether one text holds another one word for word: nothing is lost when only the fuller one stands."""

from __future__ import annotations

import re

from .values import normal

#: Fewest characters of a text that counts as held.
_LEAST = 4
_AT_THE_END = " \t\r\n.!。！;；,，"
#: What a sentence starts after.
_BEFORE = re.compile(r"(?:[.!?]\s+|[。！？;；\n]\s*)$")
#: What ends one.
_END = re.compile(r"\s*(?:[.!](?=\s|$)|[。！;；\n]|$)")


def quoted(first: str, second: str) -> int | None:
    """Which of two texts holds all of the other one, word for word, as whole sentences: 0 the first, 1 the second, None
    neither. A sentence that goes on may say something else, and a question says nothing.

    >>> quoted("She has a cat.", "She has a cat. It is called Tom.")
    1
    >>> quoted("He lives in Rome", "He lives in Rome, or so he says"), quoted("The fee is 3", "The fee is 3.5")
    (None, None)
    """
    texts = [normal(text).casefold().strip() for text in (first, second)]
    fuller = int(len(texts[1]) > len(texts[0]))
    held, whole = texts[1 - fuller].rstrip(_AT_THE_END), texts[fuller]
    place = whole.find(held)
    if len(held) < _LEAST or place < 0 or held.endswith(("?", "？")):
        return None
    if len(whole.rstrip(_AT_THE_END)) == len(held) or (place and not _BEFORE.search(whole[:place])):
        return None
    return fuller if _END.match(whole, place + len(held)) else None
