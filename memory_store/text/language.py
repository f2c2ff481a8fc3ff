"""Which language a text is in, told by its script: no model, no word lists beyond one of function words."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

#: Ranges of scripts that name their language, or at least themselves (BCP 47 "und" with a script subtag).
_SCRIPTS = (
    ("ja", re.compile("[\u3040-\u30ff]")),
    ("ko", re.compile("[\u1100-\u11ff\uac00-\ud7af]")),
    ("zh", re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")),
    ("und-Cyrl", re.compile("[\u0400-\u04ff]")),
    ("und-Arab", re.compile("[\u0600-\u06ff]")),
    ("und-Deva", re.compile("[\u0900-\u097f]")),
    ("und-Thai", re.compile("[\u0e00-\u0e7f]")),
    ("und-Hebr", re.compile("[\u0590-\u05ff]")),
    ("und-Grek", re.compile("[\u0370-\u03ff]")),
)
_LATIN_WORD = re.compile(r"[A-Za-z\u00c0-\u024f]+(?:'[a-z]+)?")
#: Words that English can hardly do without, and its neighbours don't have.
_ENGLISH = frozenset(
    str.split(
        "the and is are was were be been of to for with that this it you your i i'm my not have has had do does "
        "did can could would should will from by what how please we they he she there which when where if but as "
        "at on don't doesn't didn't can't it's i'd i'll always never use first then before after its than new any "
        "all"
    )
)
#: A long text is judged by its beginning.
_LOOK = 4000


def is_cjk(text: str) -> bool:
    """Whether a text is mainly Chinese, Japanese or Korean, so that its length counts in characters (R3).

    >>> is_cjk("支付API超时应重试三次"), is_cjk("the 支付 API")
    (True, False)
    """
    return language_of(text) in ("zh", "ja", "ko")


@lru_cache(maxsize=1 << 14)
def language_of(text: str) -> str:
    """The BCP 47 tag of a text's main language; empty when nothing tells.

    Characters of other scripts are weighed against Latin *words*, since one of them says as much: a Chinese
    sentence full of English terms is Chinese. Latin text is "en" if it has English function words, else "und-Latn".

    >>> language_of("支付API timeout 后应重试"), language_of("retry after the timeout"), language_of("404")
    ('zh', 'en', '')
    """
    text = text[:_LOOK]
    counts = Counter({tag: len(pattern.findall(text)) for tag, pattern in _SCRIPTS})
    if counts["ja"]:  # Kanji are counted with the kana that come with them
        counts["ja"] += counts.pop("zh")
    words = [word.lower() for word in _LATIN_WORD.findall(text)]
    tag, most = counts.most_common(1)[0]
    if most > len(words):
        return tag
    if not words:
        return ""
    english = sum(word in _ENGLISH for word in words)
    if english >= max(1, len(words) // 12):
        return "en"
    return "und-Latn" if len(words) >= 4 else ""
