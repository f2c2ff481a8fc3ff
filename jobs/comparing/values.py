"""What a text pins down: numbers with units, dates, times, identifiers, names, and words that exclude each other.

Two texts whose vectors are one may differ in exactly one of these, and then they do not say the same (N6). Values are
compared by sort, across English and Chinese; what one text leaves open (a unit, a year) agrees with anything.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ...memory_store.text.entities import find_entities
from ...memory_store.text.terms import said
from .numerals import numbers_in
from .opposites import WORDS, alternatives_in
from .wording import normal_text

#: Texts of which what was read is remembered: a memory meets many others.
REMEMBERED = 1 << 14
#: Entities whose text is compared as it is.
_EXACT = ("url", "email", "file", "identifier", "error", "code")
#: Sorts whose order in a text tells who does what to whom.
_ORDERED = ("number", "date", "time", "identifier", "name")
#: Sorts that are written in many ways, so that what agrees is no matter of wording.
WRITTEN_FREELY = ("number", "date", "time")
_MONTHS = {
    name: str(number)
    for number, names in enumerate(
        (
            "january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
            "september sept sep", "october oct", "november nov", "december dec",
        ),
        1,
    )
    for name in names.split()
}  # fmt: skip
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DATES = (
    re.compile(r"(?<!\d)(?P<y>\d{4})[-/.](?P<m>0?[1-9]|1[0-2])[-/.](?P<d>0?[1-9]|[12]\d|3[01])(?!\d)"),
    re.compile(
        r"(?:(?<!\d)(?P<y>\d{4})年)?(?<!\d)(?P<m>0?[1-9]|1[0-2])月(?:份|(?P<d>0?[1-9]|[12]\d|3[01])(?!\d)[日号]?)?"
    ),
    re.compile(
        rf"\b(?P<m>{_MONTH})\b\.? (?:the )?(?P<d>0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?\b(?!:)(?:,? (?P<y>\d{{4}})\b)?",
        re.I,
    ),
    re.compile(
        rf"\b(?P<d>0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?(?: of)? (?P<m>{_MONTH})\b\.?(?:,? (?P<y>\d{{4}})\b)?", re.I
    ),
    re.compile(rf"\b(?P<m>{_MONTH})\b\.?,? (?P<y>\d{{4}})\b", re.I),
    # "May", "march" and "Jan" alone are words and names as well.
    re.compile(rf"\b(?P<m>(?!may\b|march\b|mar\b|jan\b|june\b|august\b)(?:{_MONTH}))\b", re.I),
    re.compile(r"(?<!\d)(?P<y>(?:19|20)\d\d)年"),
)
_CLOCK = (
    re.compile(r"(?<![\d:.])(?P<h>[01]?\d|2[0-4])[:：](?P<m>[0-5]\d)(?::[0-5]\d)?(?![\d:])\s?(?P<p>[ap]\.?m\b)?", re.I),
    re.compile(r"(?<![\d:.])(?P<h>1[0-2]|0?[1-9])()\s?(?P<p>[ap]\.?m\b)", re.I),
    re.compile(
        r"(?P<p>凌晨|早上|上午|中午|下午|傍晚|晚上)?(?<!\d)(?P<h>1\d|2[0-4]|\d|十[一二]?|(?<=[午上晨晚])[一二两三四五六七八九]|"
        r"[一二两三四五六七八九](?=点(?:半|钟|整|[0-5]\d分)))[点时](?!间|候|代|刻|常|不|都|儿|小)(?:(?P<m>[0-5]\d|半|一刻|三刻)分?|整|钟)?"
    ),
)
_HAN_HOURS = {name: number for number, name in enumerate(str.split("一 二 三 四 五 六 七 八 九 十 十一 十二"), 1)} | {
    "两": 2
}
_MINUTES = {"半": 30, "一刻": 15, "三刻": 45}
_VERSION = re.compile(r"(?<![\w.])[vV]?\d+(?:\.\d+){2,5}(?![\w.])|(?<![\w.])[vV]\d+(?:\.\d+){0,4}(?![\w.])")


@dataclass(frozen=True)
class Value:
    """One thing that a text pins down."""

    #: Values of one sort exclude each other: number, date, time, identifier, name, and the groups of `opposites`
    sort: str
    #: Its parts, such as number and unit; an empty part is left open
    key: tuple[str, ...]
    #: Where it stands in the normalised text
    start: int
    #: Where it ends there
    end: int
    #: Whether it counts only where the other text has a value of this sort: "a", "one", "every week"
    weak: bool = False

    def agrees(self, other: Value) -> bool:
        """Whether both can be meant: equal in every part that neither leaves open."""
        if self.sort != other.sort:
            return False
        if (
            self.sort == "name"
            and self.weak
            and other.weak
            and (self.key[0] in other.key[0] or other.key[0] in self.key[0])
        ):
            return True
        return all(mine == theirs or not mine or not theirs for mine, theirs in zip(self.key, other.key, strict=True))

    def __str__(self) -> str:
        return " ".join(part for part in self.key if part)


@dataclass(frozen=True)
class Differences:
    """How the values of two texts differ."""

    #: Values of a sort that both texts have, and that do not agree: of the first, of the second
    clash: tuple[tuple[Value, Value], ...] = ()
    #: What only the first has
    first_only: tuple[Value, ...] = ()
    #: What only the second has
    second_only: tuple[Value, ...] = ()
    #: Whether both have the same values in another order
    swapped: bool = False
    #: Values that agree: of the first, of the second
    agreed: tuple[tuple[Value, Value], ...] = ()

    @property
    def none(self) -> bool:
        """Whether the values are the same on both sides."""
        return not (self.clash or self.first_only or self.second_only or self.swapped)


def without(text: str, values: Iterable[Value]) -> str:
    """A text, normalised, with some of its values left out.

    >>> without("pay 20 euros", values_of("pay 20 euros")).split()
    ['pay']
    """
    for value in sorted(values, key=lambda value: -value.start):
        text = text[: value.start] + " " + text[value.end :]
    return text


@lru_cache(maxsize=REMEMBERED)
def normal(text: str) -> str:
    """A text as values are read from it: one width, one kind of apostrophe and of dash."""
    return unicodedata.normalize("NFKC", text).replace("’", "'").replace("–", "-").replace("−", "-")


@lru_cache(maxsize=REMEMBERED)
def values_of(text: str) -> tuple[Value, ...]:
    """The values of a text, in order. Every digit belongs to one.

    >>> [(v.sort, str(v)) for v in values_of("Budget: 8,000 EUR until 1 April, retry three times")]
    [('number', '8000 eur'), ('date', '4 1'), ('number', '3 times')]
    >>> [(v.sort, str(v)) for v in values_of("预算8000欧元，4月1日前，重试三次")]
    [('number', '8000 eur'), ('date', '4 1'), ('number', '3 times')]
    """
    text = normal(text)
    taken = bytearray(len(text))
    found: list[Value] = []

    def take(sort: str, key: tuple[str, ...], start: int, end: int, weak: bool = False) -> None:
        if start < end and not any(taken[start:end]):
            taken[start:end] = b"\1" * (end - start)
            found.append(Value(sort, key, start, end, weak))

    entities = find_entities(text, limit=200)
    for entity in entities:
        if entity.kind in ("url", "email", "file"):
            take("identifier", (entity.text.casefold(),), entity.start, entity.start + len(entity.text))
    for match in _VERSION.finditer(text):
        take("identifier", (match.group().casefold().lstrip("v"),), match.start(), match.end())
    for pattern in _DATES:
        for match in pattern.finditer(text):
            parts = match.groupdict()
            month = (parts.get("m") or "").casefold()
            key = (parts.get("y") or "", _MONTHS.get(month, month.lstrip("0")), (parts.get("d") or "").lstrip("0"))
            take("date", key, match.start(), match.end())
    for pattern in _CLOCK:
        for match in pattern.finditer(text):
            hour, half = _hour(match)
            take("time", (hour, half), match.start(), match.end())
    for entity in entities:
        if entity.kind in _EXACT and not entity.text[0].isdigit():
            take("identifier", (entity.text.casefold(),), entity.start, entity.start + len(entity.text))
    for number in numbers_in("".join("\0" if used else sign for used, sign in zip(taken, text, strict=True))):
        take("number", (number.amount, number.unit), number.start, number.end, number.weak)
    for entity in entities:
        if entity.kind in _EXACT:
            take("identifier", (entity.text.casefold(),), entity.start, entity.start + len(entity.text))
        elif entity.text.casefold() not in WORDS:
            # Where a Chinese name begins is a guess, so it tells texts apart only where both have one.
            is_guess = not entity.text.isascii()
            take("name", (entity.text.casefold(),), entity.start, entity.start + len(entity.text), is_guess)
    for group, word, start, end in alternatives_in(text):
        take(group, (word,), start, end, weak=True)
    return tuple(sorted(found, key=lambda value: value.start))


def _hour(match: re.Match[str]) -> tuple[str, str]:
    """Hour on a dial of 12 with minutes, and which half of the day, if said."""
    said_hour, minute = match["h"], match.groupdict().get("m") or ""
    hour = _HAN_HOURS[said_hour] if said_hour in _HAN_HOURS else int(said_hour)
    period = (match["p"] or "").casefold().replace(".", "")
    half = "pm" if period in ("pm", "中午", "下午", "傍晚", "晚上") else "am" if period else ""
    if hour > 12 or (hour == 12 and not period):
        half = "pm"
    minutes = _MINUTES.get(minute, int(minute) if minute.isdigit() else 0)
    return f"{hour % 12}:{minutes:02}", half


def differences(first: str, second: str) -> Differences:
    """How the values of two texts differ.

    >>> str(differences("budget 5000", "the budget is 8000 now").clash[0][1])
    '8000'
    >>> differences("retry three times", "重试3次").none
    True
    """
    return compare(values_of(first), values_of(second), normal(first), normal(second))


def compare(ours: Sequence[Value], theirs: Sequence[Value], first: str, second: str) -> Differences:
    """The same of values that were read already; the texts tell whether a name is said without being seen as one."""
    left, right, pairs = _unmatched(ours, theirs)
    left = [value for value in left if not _said_in(value, second)]
    right = [value for value in right if not _said_in(value, first)]
    clash: list[tuple[Value, Value]] = []
    of_right = _by_sort(right)
    for sort, values in _by_sort(left).items():
        clash += zip(values, of_right.get(sort, ()), strict=False)
    sorts = {one.sort for one, _ in clash}
    return Differences(
        clash=tuple(clash),
        first_only=_strong(left, sorts, theirs),
        second_only=_strong(right, sorts, ours),
        swapped=_swapped(pairs),
        agreed=tuple(pairs),
    )


def written_alike(one: str, two: str) -> bool:
    """Whether two texts are the same number, date or time, written otherwise, and nothing else.

    >>> written_alike("three thousand", "3000"), written_alike("3 km", "3 miles")
    (True, False)
    """
    found = differences(one, two)
    agreed = [pair for pair in found.agreed if pair[0].sort in WRITTEN_FREELY]
    rests = [
        normal_text(without(normal(text), [pair[side] for pair in agreed])) for side, text in enumerate((one, two))
    ]
    return found.none and bool(agreed) and rests[0] == rests[1]


def _unmatched(
    ours: Sequence[Value], theirs: Sequence[Value]
) -> tuple[list[Value], list[Value], list[tuple[Value, Value]]]:
    """Values without a partner on each side, and the pairs. Equal ones pair before those that only agree."""
    left, right = list(ours), list(theirs)
    pairs: list[tuple[Value, Value]] = []
    for exact in (True, False):
        for one in list(left):
            for two in right:
                if one.agrees(two) and (one.key == two.key or not exact):
                    left.remove(one)
                    right.remove(two)
                    pairs.append((one, two))
                    break
    # What is said again is no difference, where the other side has nothing to set against it.
    spare = {value.sort for value in right}
    again = [one for one in left if one.sort not in spare and any(one.agrees(two) for two in theirs)]
    spare = {value.sort for value in left}
    again += [two for two in right if two.sort not in spare and any(two.agrees(one) for one in ours)]
    return [one for one in left if one not in again], [two for two in right if two not in again], pairs


def _said_in(value: Value, text: str) -> bool:
    """Whether a name, or a part of it that is a name by itself, is said by the other text too."""
    if value.sort not in ("name", "identifier"):
        return False
    plain = text.casefold()
    if said(value.key[0], plain):
        return True
    parts = value.key[0].split()
    return value.sort == "name" and len(parts) > 1 and any(len(part) > 2 and said(part, plain) for part in parts)


def _by_sort(values: Iterable[Value]) -> dict[str, list[Value]]:
    groups: dict[str, list[Value]] = defaultdict(list)
    for value in values:
        groups[value.sort].append(value)
    return groups


def _strong(values: Sequence[Value], clashing: set[str], others: Sequence[Value]) -> tuple[Value, ...]:
    sorts = {value.sort for value in others}
    return tuple(
        value
        for value in values
        if value.sort not in clashing and (not value.weak or (value.sort == "number" and value.sort in sorts))
    )


def _swapped(pairs: Sequence[tuple[Value, Value]]) -> bool:
    """Whether values of one sort stand in another order, as in "from 5 to 8" and "from 8 to 5"."""
    for sort in _ORDERED:
        places = sorted((one.start, two.start) for one, two in pairs if one.sort == sort)
        order = [second for _, second in places]
        if order != sorted(order):
            return True
    return False
