"""Numbers in a text with their units: digits, English words, Chinese numerals; money, shares, durations, counts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

_UNITS = {
    word: unit
    for unit, words in {
        "usd": "$ us$ dollar dollars usd buck bucks 美元 美金 刀",
        "eur": "€ euro euros eur 欧元",
        "gbp": "£ pound pounds gbp 英镑",
        "cny": "cny rmb yuan 元 块 块钱 元钱 人民币",
        "yen": "¥ yen jpy 日元",
        "percent": "% percent per-cent",
        "times": "time times 次 遍 回",
        "second": "s sec secs second seconds 秒 秒钟",
        "ms": "ms millisecond milliseconds 毫秒",
        "minute": "min mins minute minutes 分钟",
        "hour": "h hr hrs hour hours 小时 个小时 钟头 个钟头",
        "day": "day days 天 日",
        "week": "week weeks 周 星期 个星期 礼拜 个礼拜",
        "month": "month months 月 个月",
        "year": "year years yr yrs 年",
        "age": "years-old year-old 岁 周岁",
        "km": "km kilometer kilometers kilometre kilometres 公里 千米",
        "mile": "mile miles mi 英里",
        "m": "m meter meters metre metres 米",
        "cm": "cm centimeter centimeters centimetre centimetres 厘米 公分",
        "kg": "kg kilo kilos kilogram kilograms 公斤 千克",
        "jin": "斤",
        "g": "g gram grams 克",
        "lb": "lb lbs",
        "kb": "kb", "mb": "mb mib", "gb": "gb gib", "tb": "tb tib",
        "degree": "° degree degrees °c ℃ 度",
        "person": "person persons people 人 位 名",
        "floor": "楼 层",
    }.items()
    for word in words.split()
}  # fmt: skip
_UNIT = "|".join(re.escape(word).replace(r"\-", "[ -]") for word in sorted(_UNITS, key=len, reverse=True))
_SIGNS = r"us\$|[$€£¥]"
_DIGITS = re.compile(
    rf"(?:(?P<sign>{_SIGNS})\s?)?(?P<minus>(?<![\w-])-)?(?P<digits>\d+(?:,\d{{3}})+(?:\.\d+)?(?!\d)|\d+(?:\.\d+)?)"
    r"(?:\s?(?P<scale>k|thousand|million|m(?=\s?(?:dollars?|euros?|usd|eur)\b)|bn|billion|百万|千万|百|千|万|亿)"
    r"(?![a-z]))?"
    r"(?P<ordinal>st|nd|rd|th)?(?![a-z]\d)"
    rf"(?:[\s-]?(?P<unit>{_UNIT})(?![a-z]))?",
    re.I,
)
_SCALES = {
    "k": 10**3, "thousand": 10**3, "million": 10**6, "m": 10**6, "bn": 10**9, "billion": 10**9,
    "百": 100, "千": 10**3, "万": 10**4, "百万": 10**6, "千万": 10**7, "亿": 10**8,
}  # fmt: skip
_ONES = {
    word: number
    for number, word in enumerate(
        str.split(
            "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
            "seventeen eighteen nineteen"
        )
    )
}
_TENS = {
    word: 10 * number
    for number, word in enumerate(["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], 2)
}
_ORDINALS = {
    word: number
    for number, word in enumerate(
        ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"], 1
    )
}
_WORD = "|".join((*_TENS, *sorted(_ONES, key=len, reverse=True)))
_ENGLISH = re.compile(
    rf"\b(?P<words>(?:half a |a )?(?:{_WORD}|hundred|thousand|million|dozen)"
    rf"(?:(?:[\s-]|\sand\s)(?:{_WORD}|hundred|thousand|million|dozen))*)\b"
    rf"(?:[\s-](?P<unit>{_UNIT})(?![a-z]))?",
    re.I,
)
_SINGLE = re.compile(
    r"\b(?:(?P<times>once|twice|thrice)|(?P<every>daily|weekly|monthly|yearly|annually|hourly)|"
    r"(?:every|each|per|a|an)\s(?P<unit>hour|day|week|month|year)|every other (?P<other>day|week|month|year)|"
    rf"the (?P<ordinal>{'|'.join(_ORDINALS)}))\b",
    re.I,
)
_HAN = "零〇一二两三四五六七八九十百千万亿半几"
_HAN_DIGITS = {sign: number for number, sign in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_MEASURE = (
    r"个|只|条|本|张|件|台|辆|家|间|套|份|瓶|杯|碗|双|对|支|把|场|门|项|种|首|部|篇|句|字|号|届|期|级|等|倍|成|折|座|"
    r"顿|口|节|课|步|页|行|列"
)
_CHINESE = re.compile(
    rf"(?P<lead>第|百分之|每)?(?P<words>[零〇一二两三四五六七八九十百千万亿]+)(?:(?P<unit>{_UNIT})|(?P<measure>{_MEASURE}))"
    rf"|(?P<lead2>第|百分之)?(?P<words2>(?:[一二两三四五六七八九]?[十百千万亿])+[一二三四五六七八九]?)"
    r"|(?P<lead3>第|百分之)(?P<words3>[一二三四五六七八九])"
    rf"|每(?:个|一)?(?P<every>天|日|周|星期|月|年|小时)"
)
#: Words that only look like a Chinese number.
_NO_NUMBER = re.compile(
    r"千万(?![元块人个年吨])|万一|百货|百度|百合|百姓|百科|万能|万达|十分|十字|十足|百搭|千里|一百(?=度)|万象|千岛|万里|"
    r"百万(?=富翁)|三明治|三亚|三星|三国|四川|五一|六一|九寨|十一(?=放假|假|期间|去)|双十[一二]|七夕|八卦|五官|四季"
)


@dataclass(frozen=True)
class Number:
    """A number as a text has it."""

    #: Plain digits, such as "8000" or "0.5"
    amount: str
    #: Its unit, one name for every language; empty if none is known
    unit: str
    start: int
    end: int
    #: Whether it is only an article or "every": no number by itself
    weak: bool = False


def numbers_in(text: str) -> Iterator[Number]:
    """Every number of a text that is NFKC-normalised.

    >>> [(n.amount, n.unit) for n in numbers_in("$8k, twenty-five people, 1.5 hours, 三千元, 两周")]
    [('8000', 'usd'), ('1.5', 'hour'), ('25', 'person'), ('3000', 'cny'), ('2', 'week')]
    """
    for match in _DIGITS.finditer(text):
        sign = (match["sign"] or "").casefold()
        amount = _scaled(match["digits"].replace(",", ""), (match["scale"] or "").casefold())
        unit = _unit(sign or match["unit"])
        end = match.end()
        if sign and match["unit"]:  # "$5 a day" is one unit, "$5 2 days" is not
            end = match.start("unit")
        yield Number(("-" if match["minus"] else "") + amount, unit, match.start(), end)
    for match in _ENGLISH.finditer(text):
        words = re.sub(r"\band\b|-", " ", match["words"].casefold()).split()
        value = _english(words)
        is_weak = words in (["one"], ["a", "one"])
        yield Number(_plain(value), _unit(match["unit"]), match.start(), match.end(), is_weak)
    for match in _SINGLE.finditer(text):
        yield _single(match)
    for match in _CHINESE.finditer(text):
        if _NO_NUMBER.match(text, match.start()) or _NO_NUMBER.match(text, max(0, match.start() - 1)):
            continue
        if match["every"]:
            yield Number("1", _unit(match["every"]), match.start(), match.end(), weak=True)
            continue
        amount = str(match["words"] or match["words2"] or match["words3"])
        lead = match["lead"] or match["lead2"] or match["lead3"] or ""
        unit = "percent" if lead == "百分之" else _unit(match["unit"])
        is_weak = amount == "一" and lead != "第"
        yield Number(_plain(_han(amount)), unit, match.start(), match.end(), is_weak)


def _single(match: re.Match[str]) -> Number:
    span = match.start(), match.end()
    if match["times"]:
        count = {"once": "1", "twice": "2", "thrice": "3"}[match["times"].casefold()]
        return Number(count, "times", *span, weak=count == "1")
    if match["every"]:
        unit = {"daily": "day", "weekly": "week", "monthly": "month", "hourly": "hour"}
        return Number("1", unit.get(match["every"].casefold(), "year"), *span, weak=True)
    if match["other"]:
        return Number("2", match["other"].casefold(), *span)
    if match["ordinal"]:
        return Number(str(_ORDINALS[match["ordinal"].casefold()]), "", *span)
    return Number("1", match["unit"].casefold(), *span, weak=True)


def _unit(word: str | None) -> str:
    return _UNITS.get(re.sub(r"\s", "-", (word or "").casefold().strip()), "")


def _scaled(digits: str, scale: str) -> str:
    if scale:
        return _plain(Decimal(digits) * _SCALES[scale])
    whole, point, part = digits.partition(".")
    return whole if point and not part.strip("0") and len(part) < 3 else digits


def _plain(value: Decimal | int) -> str:
    text = format(Decimal(value), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _english(words: list[str]) -> Decimal:
    total, current = Decimal(0), Decimal(0)
    factor = Decimal(1)
    for word in words:
        if word == "half":
            factor = Decimal("0.5")
        elif word in _ONES or word in _TENS:
            current += _ONES.get(word, 0) + _TENS.get(word, 0)
        elif word in ("hundred", "dozen"):
            current = Decimal(current or 1) * (100 if word == "hundred" else 12)
        elif word in ("thousand", "million"):
            total += Decimal(current or 1) * _SCALES[word]
            current = Decimal(0)
    return Decimal(total + current) * factor


def _han(words: str) -> int:
    """The value of a Chinese numeral; a row of digits (二〇二四) is read as digits."""
    if len(words) > 1 and all(sign in _HAN_DIGITS for sign in words):
        return int("".join(str(_HAN_DIGITS[sign]) for sign in words))
    total = section = digit = 0
    for sign in words:
        if sign in _HAN_DIGITS:
            digit = _HAN_DIGITS[sign]
        elif sign in "十百千":
            section += (digit or 1) * {"十": 10, "百": 100, "千": 1000}[sign]
            digit = 0
        else:
            total = (total + section + digit or 1) * {"万": 10**4, "亿": 10**8}[sign]
            section = digit = 0
    return total + section + digit
