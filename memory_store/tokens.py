"""How many tokens a text is: by a tokenizer that comes with a package, and by a careful guess where there is none."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from .embedders.wordllama import tokenizer_file


def count_tokens(text: str) -> int:
    """Tokens of a text, by the Llama tokenizer that wordllama brings; without it, guessed high.

    Other models count a little otherwise, mostly fewer: above all of Chinese, for which this one needs more.

    >>> 2 <= count_tokens("two words") <= 4
    True
    """
    tokenizer = _tokenizer()
    if tokenizer is None:
        return guess_tokens(text)
    # A lone surrogate is no text that a tokenizer takes.
    safe = text.encode("utf-8", "replace").decode()
    return len(tokenizer.encode(safe, add_special_tokens=False).ids)


def guess_tokens(text: str) -> int:
    """A guess that is rather too high: three ASCII characters a token, one token any other character.

    >>> guess_tokens("abcdef"), guess_tokens("预算")
    (2, 2)
    """
    plain = sum(sign.isascii() for sign in text)
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
