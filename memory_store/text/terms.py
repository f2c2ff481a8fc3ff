"""The words of a text as the full-text leg sees them: one column is indexed, and queries go through the same door.

LanceDB's tokenizer (`icu/split`) stems English, and leaves two gaps:

- It cuts Chinese, Japanese and Korean by a dictionary, and whether 超时 is one word or two depends on its neighbours:
  a query may be cut otherwise than the memory. So each character, and each pair of neighbours, is indexed instead.
- `ORD-12345` and `http_client.py` fall into parts that match anything. So each identifier is indexed whole too, and
  the whole ranks above its parts.

Both are written as made-up words of consonants, which no tokenizer splits, no stemmer shortens and no stop list has.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any

#: Characters of a query that are searched for; what an agent pastes beyond is noise.
QUERY_CHARACTERS = 4_000
#: Characters of a memory that are indexed.
_INDEXED = 200_000
_STOP_WORDS = """
a an and are as at be but by can did do does for from had has have he her him his how i if in is it its me my no not of
on or our she so that the their them then there they this to was we were what when where which who why will with you
your
"""
_STOP = frozenset(_STOP_WORDS.split())
_LETTERS = "bcdfghjkmnpqrtvw"
_CJK = re.compile("[\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]+")
_IDENTIFIER = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9]|[-_./:@#+](?=[A-Za-z0-9]))*")
_ALPHABET = frozenset(string.ascii_letters)
_DIGITS = frozenset(string.digits)
_SURROGATE = re.compile("[\ud800-\udfff]")
_WORD = re.compile(r"\w+")


def normal(text: str) -> str:
    """A text for matching only: compatibility forms unified, case folded.

    >>> normal("Ｆｕｌｌ ＷＩＤＴＨ")
    'full width'
    """
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", _SURROGATE.sub(" ", text)).casefold()


def identifiers(text: str) -> Iterator[str]:
    """Identifiers of a text, case folded: what mixes letters with digits or joiners, long numbers, SHOUTED names.

    >>> list(identifiers("ORD-12345 failed in http_client.py with ECONNRESET, twice at 10.5 s"))
    ['ord-12345', 'http_client.py', 'econnreset']
    """
    for found in _IDENTIFIER.finditer(text if text.isascii() else unicodedata.normalize("NFKC", text)):
        word = found.group()
        if word.isalpha():
            is_one = len(word) > 5 and word.isupper()
        else:
            parts = set(word)
            has_letter, has_digit = bool(parts & _ALPHABET), bool(parts & _DIGITS)
            is_one = (
                (has_letter and has_digit)
                or bool(parts & set("_/:@#"))
                or (has_letter and "." in parts)
                or (has_digit and ("-" in parts or len(word) > 5))
            )
        if is_one:
            yield word.casefold()


def _characters(text: str) -> Iterator[str]:
    """Each CJK character, and each pair that stands together."""
    for found in _CJK.finditer(text):
        run = found.group()
        yield from run
        yield from (run[place : place + 2] for place in range(len(run) - 1))


@lru_cache(maxsize=1 << 16)
def _code(kind: str, word: str) -> str:
    digest = blake2b(word.encode("utf-8", "replace"), digest_size=6).hexdigest()
    return kind + "".join(_LETTERS[int(digit, 16)] for digit in digest)


def words(text: str) -> str:
    """A text as it is indexed and searched: normalised words, then identifiers and CJK characters as made-up words.

    >>> words("Refund A1")
    'refund a1 zjtdkjfqfkcfcj'
    """
    some = text[:_INDEXED]
    plain = normal(some)
    extra = [_code("zj", word) for word in identifiers(some)]
    extra += [_code("zq", characters) for characters in _characters(plain)]
    return " ".join((_CJK.sub(" ", plain), *extra)) if extra else plain


def _row_text(row: Mapping[str, Any]) -> str:
    text = row.get("text") or ""
    also = [row.get("trigger") or "", row.get("tool") or "", row.get("error_code") or "", *(row.get("entities") or ())]
    have = normal(text)
    missing = [value for value in also if value and not said(normal(value), have)]
    return "\n".join((text, *missing))


def said(name: str, text: str) -> bool:
    """Whether a text says a name in full, both normalised: not as a part of a longer word, where words have ends.

    >>> said("ann", "ask ann."), said("ann", "planning"), said("东京", "在东京都")
    (True, False, True)
    """
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        if not (_runs_on(text[start - 1 : start], name[:1]) or _runs_on(name[-1:], text[end : end + 1])):
            return True
        start = text.find(name, start + 1)
    return False


def _runs_on(left: str, right: str) -> bool:
    """Whether two neighbours are inside one word."""
    return left.isalnum() and right.isalnum() and not _CJK.match(left) and not _CJK.match(right)


def row_words(row: Mapping[str, Any]) -> str:
    """What is indexed of a memory: its text, and what its text may leave out (trigger, tool, error code, entities)."""
    return words(_row_text(row))


def row_terms(row: Mapping[str, Any]) -> set[str]:
    """The terms of a memory, from the same columns."""
    return terms(_row_text(row))


def query_words(query: str) -> str:
    """What is searched for, for a query."""
    return words(query[:QUERY_CHARACTERS])


def terms(text: str) -> set[str]:
    """The distinct terms of a text, for a comparison in Python: words, identifiers, CJK characters.

    >>> sorted(terms("The refund of ORD-1"))
    ['1', 'ord', 'ord-1', 'refund']
    """
    plain = normal(text[:QUERY_CHARACTERS])
    found = {_stem(word) for word in re.findall(r"\w+", _CJK.sub(" ", plain)) if word not in _STOP}
    return found | set(identifiers(text[:QUERY_CHARACTERS])) | set(_characters(plain))


def indexed_terms(indexed: str) -> set[str]:
    """The distinct terms of a text that `words` has gone over already, which spares finding identifiers again.

    >>> sorted(indexed_terms(words("The refunds of A1")) - {"a1"})
    ['refund', 'zjtdkjfqfkcfcj']
    """
    return {_stem(word) for word in _WORD.findall(indexed) if word not in _STOP}


@lru_cache(maxsize=1 << 16)
def _stem(word: str) -> str:
    """A word without its commonest English endings, so that "refunds" and "refunded" meet "refund"."""
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word.removesuffix(ending)
    return word
