"""How many tokens a text is: by a tokenizer that comes with a package, and by a careful guess where there is none."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from ..embedders.wordllama import tokenizer_file


def count_tokens(text: str) -> int:
    """Tokens of a text, by the Llama tokenizer that wordllama brings; without it, guessed high.

    Other models count a little otherwise, mostly fewer: above all of Chinese, for which this one needs more.

    >>> 2 <= count_tokens("two words") <= 4
    True
    """
    tokenizer = _tokenizer()
    if tokenizer is None:
        return estimate_tokens(text)
    # A lone surrogate is no text that a tokenizer takes.
    safe = text.encode("utf-8", "replace").decode()
    return len(tokenizer.encode(safe, add_special_tokens=False).ids)


def estimate_tokens(text: str) -> int:
    """Tokens that a text is at most likely to be: three ASCII characters a token, one token any other character.

    Prose has some four characters a token, so that a forecast is rather too high.

    >>> estimate_tokens("abcdef"), estimate_tokens("支付超时")
    (2, 4)
    """
    plain = len(text.encode("ascii", "ignore"))
    return -(-plain // 3) + len(text) - plain


@lru_cache(maxsize=1)
def _tokenizer() -> Any:
    path = tokenizer_file()
    if path is None or find_spec("tokenizers") is None:
        return None
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    return tokenizer
