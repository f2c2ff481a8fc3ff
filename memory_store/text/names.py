"""When two names are one: the form in which names are compared, and how else they may be related.

Only the form decides by itself (case, width, spaces, an honorific before a full name). All else is a proposal that
a decision must accept: a name that is spelled a little otherwise may well be somebody else's.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Literal

from .terms import normal

Likeness = Literal["spelling", "slip", "short form", "letters"]

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_SPACED_CJK = re.compile(f"(?<=[{_CJK}]) +| +(?=[{_CJK}])")
_IS_CJK = re.compile(f"[{_CJK}]")
#: What stands around a name and is no part of it.
_AROUND = " \t\"'`“”‘’«»《》〈〉「」『』【】()[]{}<>,;:!?、，。；：！？"
_ENGLISH_HONORIFICS = frozenset(["mr", "mrs", "ms", "miss", "mx", "dr", "prof", "professor", "sir", "madam"])
_CHINESE_HONORIFICS = ("先生", "女士", "小姐")
_COMPOUND_SURNAMES = frozenset(re.findall("..", "欧阳司马上官诸葛夏侯东方皇甫尉迟公孙慕容令狐司徒端木"))
#: What tells that a name is a company's, an office's or a place's.
_ORGANISED = re.compile(
    r"\b(?:inc|ltd|llc|plc|corp|corporation|company|gmbh|ag|co|bank|university|hospital|hotel|group|foundation|school|"
    r"college|institute|ministry|agency|airlines?)\b\.?|公司|集团|银行|医院|大学|学院|中学|小学|酒店|宾馆|餐厅|机场|车站|"
    r"博物馆|图书馆|公园|超市|大厦|小区|委员会|部门",
)
_DIGIT = re.compile(r"\d|[一二三四五六七八九十百甲乙丙丁][号楼室栋层座区路院期组]")
_CODE = re.compile(r"[/\\@#_=<>{}]|://|\w\.\w|[a-z][A-Z]")
#: Letters that a slip needs beside it to be told from another word.
_LONG = 8


@lru_cache(maxsize=1 << 16)
def name_key(name: str) -> str:
    """A name as it is compared: one width, one case, single spaces, none beside Chinese; without quotes around it,
    and without an honorific that stands before or after a full name.

    >>> name_key("Ｐay  API"), name_key("支付 API"), name_key("Dr. Sarah Connor"), name_key("张伟先生")
    ('pay api', '支付api', 'sarah connor', '张伟')
    >>> name_key("Mr. Smith"), name_key("王先生"), name_key("Room 101") == name_key("Room 102")
    ('mr. smith', '王先生', False)
    """
    key = name
    for _ in range(4):  # until it stays as it is: folding case may open what another form unifies
        before = key
        key = _key_once(key)
        if key == before:
            break
    return key


def _key_once(name: str) -> str:
    key = " ".join(normal(name).replace("\0", " ").split())
    key = _SPACED_CJK.sub("", key)
    key = key.strip(_AROUND) or key
    words = key.split(" ")
    while len(words) > 2 and words[0].rstrip(".") in _ENGLISH_HONORIFICS:
        words.pop(0)
    key = " ".join(words)
    for ending in _CHINESE_HONORIFICS:
        full = key.removesuffix(ending)
        if full != key and len(full) >= 2 and full not in _COMPOUND_SURNAMES and _is_cjk(full):
            return full
    return key


def is_identifier(name: str) -> bool:
    """Whether a name stands for one thing whoever says it, and matches whole or not at all: a number, a code, a file,
    an address, a room.

    >>> is_identifier("ORD-12345"), is_identifier("http_client.py"), is_identifier("Room 101"), is_identifier("三号楼")
    (True, True, True, True)
    >>> is_identifier("Sarah Connor"), is_identifier("王经理")
    (False, False)
    """
    text = unicodedata.normalize("NFKC", name)
    is_shouted = len(text) > 5 and text.isascii() and text.isalpha() and text.isupper()
    return is_shouted or bool(_DIGIT.search(text) or _CODE.search(text))


def is_organised(name: str) -> bool:
    """Whether a name says that it is a company's, an office's or a place's, and so no person's.

    >>> is_organised("Ford Inc."), is_organised("顺丰公司"), is_organised("Ford")
    (True, True, False)
    """
    return bool(_ORGANISED.search(name_key(name)))


def without_kind(key: str) -> str:
    """What a compared name is without the words that say that it is a company's, an office's or a place's.

    >>> without_kind("ford inc."), without_kind("顺丰公司")
    ('ford', '顺丰')
    """
    return " ".join(_ORGANISED.sub(" ", key).split())


def likeness(first: str, second: str) -> Likeness | None:
    """How two names that differ may be one by their letters; None where nothing speaks for it, or a number, a code or
    a kind of thing speaks against it.

    `spelling`: the same letters but for accents, hyphens, dots and spaces. `slip`: two letters changed places, or one
    is doubled, in a long name. `short form`: a first name, or initials, of a name of several words. `letters`: the
    capitals of its words. The first is nearly always one thing, the others need to be confirmed.

    >>> likeness("São Paulo", "Sao Paulo"), likeness("web-hook", "Webhook"), likeness("Sarah", "Sarah Connor")
    ('spelling', 'spelling', 'short form')
    >>> likeness("SSL", "Secure Sockets Layer"), likeness("Acmme Logistics", "Acme Logistics")
    ('letters', 'slip')
    >>> likeness("Room 101", "Room 102"), likeness("Ford", "Ford Inc"), likeness("李伟", "李薇")
    (None, None, None)
    """
    one, two = name_key(first), name_key(second)
    if not one or not two or one == two:
        return None
    if is_identifier(first) or is_identifier(second) or is_organised(first) != is_organised(second):
        return None
    if _letters(one) == _letters(two) != "":
        return "spelling"
    if _is_cjk(one) or _is_cjk(two):
        return None  # one character of a Chinese name is as good as a word
    short, full = sorted((first, second), key=len)
    if _is_initialism(short, full):
        return "letters"
    if _is_short_form(name_key(short), name_key(full)):
        return "short form"
    return "slip" if _is_slip(one, two) else None


def _is_cjk(text: str) -> bool:
    return bool(_IS_CJK.search(text))


def _letters(key: str) -> str:
    """The letters of a name, accents off."""
    parts = unicodedata.normalize("NFKD", key)
    return "".join(sign for sign in parts if sign.isalnum())


def _is_initialism(short: str, full: str) -> bool:
    words = [word for word in re.split(r"[\s-]+", full) if word[:1].isupper()]
    letters = short.replace(".", "")
    return len(words) > 1 and letters.isupper() and len(letters) > 1 and letters == "".join(w[0] for w in words)


def _is_short_form(short: str, full: str) -> bool:
    """Whether one name is the beginning or end of another one, by words, or has initials for its first words."""
    few, many = short.split(" "), full.split(" ")
    if len(few) < len(many):
        return few in (many[: len(few)], many[-len(few) :]) and all(len(word) > 2 for word in few)
    if len(few) != len(many) or len(few) < 2 or few[-1] != many[-1]:
        return False
    return all(a == b or (a.rstrip(".") == b[:1]) for a, b in zip(few, many, strict=True))


def _is_slip(one: str, two: str) -> bool:
    if min(len(one), len(two)) < _LONG or one[0] != two[0]:
        return False
    if len(one) == len(two):
        places = [place for place, (a, b) in enumerate(zip(one, two, strict=True)) if a != b]
        if len(places) != 2 or places[1] != places[0] + 1:
            return False
        first, last = places
        return one[first] == two[last] and one[last] == two[first]
    short, long = sorted((one, two), key=len)
    if len(long) != len(short) + 1:
        return False
    place = next((place for place, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    return long[:place] + long[place + 1 :] == short and long[place] == long[place - 1]
