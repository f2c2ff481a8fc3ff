"""The time that a query names, as a span: dates, months, years, weekdays and words like "last week" or 上周.

A preference, not a filter: what was said last week may have been written down a day later. Only what can't be taken
for something else counts: "may" is a verb, "May 2023" a month; a number alone is no year unless "in" or 年 says so.
"""

from __future__ import annotations

import calendar
import re
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Span = tuple[datetime, datetime]

_MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_name) if name}
_MONTHS |= {name.lower(): number for number, name in enumerate(calendar.month_abbr) if name} | {"sept": 9}
_DAYS = {name.lower(): number for number, name in enumerate(calendar.day_name)}
_CHINESE_DAYS = {"一": 0, "二": 1, "三": 2, "四": 3, "五": 4, "六": 5, "日": 6, "天": 6}
_NUMBERS = {"a": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
            "nine": 9, "ten": 10, "a couple of": 2, "a few": 3,
            "一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9, "十": 10,
            "几": 3}  # fmt: skip
_UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365, "天": 1, "日": 1, "周": 7, "星期": 7, "个星期": 7,
              "个月": 30, "年": 365}  # fmt: skip
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DAY = "|".join(_DAYS)
_NUMBER = r"\d{1,3}|" + "|".join(sorted((n for n in _NUMBERS if n.isascii()), key=len, reverse=True))
_CHINESE_NUMBER = r"\d{1,3}|[" + "".join(n for n in _NUMBERS if not n.isascii()) + "]"
_YEAR = r"(?:19|20)\d\d"
_ORDINAL = r"(\d{1,2})(?:st|nd|rd|th)?"


def span_of(query: str, now: datetime) -> Span | None:
    """The time that a query names, from and until, UTC; None if it names none. `now` is what "yesterday" is before.

    Of several, the first in the order of the rules below; days are days of UTC.

    >>> from datetime import datetime, UTC
    >>> span = span_of("what did she say last Tuesday?", datetime(2026, 3, 12, 9, tzinfo=UTC))  # a Thursday
    >>> [str(time.date()) for time in span]
    ['2026-03-10', '2026-03-11']
    """
    text = unicodedata.normalize("NFKC", query[:2_000]).lower()
    today = datetime(now.year, now.month, now.day, tzinfo=UTC)
    for pattern, act in _RULES:
        for match in pattern.finditer(text):
            try:
                return act(match, today)
            except (ValueError, OverflowError):  # the 31st of February
                continue
    return None


def _day(day: datetime) -> Span:
    return day, day + timedelta(days=1)


def _month(year: int, month: int) -> Span:
    start = datetime(year, month, 1, tzinfo=UTC)
    return start, datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)


def _year(year: int) -> Span:
    return datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)


def _week(today: datetime, back: int) -> Span:
    start = today - timedelta(days=today.weekday() + 7 * back)
    return start, start + timedelta(days=7)


def _months_back(today: datetime, back: int) -> Span:
    number = today.year * 12 + today.month - 1 - back
    return _month(number // 12, number % 12 + 1)


def _latest(today: datetime, month: int, day: int = 0) -> Span:
    """A month, or a day of it, without a year: the latest that has begun."""
    for year in (today.year, today.year - 1):
        span = _day(datetime(year, month, day, tzinfo=UTC)) if day else _month(year, month)
        if span[0] <= today:
            return span
    raise ValueError(month)


def _ago(count: str, unit: str, today: datetime) -> Span:
    days = _count(count) * _UNIT_DAYS[unit]
    slack = _UNIT_DAYS[unit] // 2
    middle = today - timedelta(days=days)
    return middle - timedelta(days=slack), middle + timedelta(days=slack + 1)


def _last(count: str, unit: str, today: datetime) -> Span:
    return today - timedelta(days=_count(count) * _UNIT_DAYS[unit]), today + timedelta(days=1)


def _count(text: str) -> int:
    return _NUMBERS[text] if text in _NUMBERS else int(text)


def _weekday(which: str, number: int, today: datetime) -> Span:
    """A named weekday: of this week with "this", else the latest before today."""
    if which in ("this", "这", "本"):
        return _day(today - timedelta(days=today.weekday() - number))
    if which == "上":
        return _day(today - timedelta(days=today.weekday() + 7 - number))
    return _day(today - timedelta(days=(today.weekday() - number - 1) % 7 + 1))


def _near(which: str, unit: str, today: datetime) -> Span:
    """This, or the last, week, month or year."""
    back = 1 if which in ("last", "previous", "上", "去") else 0
    if unit in ("week", "周", "星期"):
        return _week(today, back)
    if unit in ("month", "月"):
        return _months_back(today, back)
    return _year(today.year - back)


_Rule = tuple[re.Pattern[str], Callable[[re.Match[str], datetime], Span]]
_RULES: tuple[_Rule, ...] = (
    # whole dates
    (re.compile(rf"(?<!\d)({_YEAR})[-/.](\d{{1,2}})[-/.](\d{{1,2}})(?!\d)"),
     lambda m, t: _day(datetime(int(m[1]), int(m[2]), int(m[3]), tzinfo=UTC))),
    (re.compile(rf"({_YEAR})\s?年\s?(\d{{1,2}})\s?月\s?(\d{{1,2}})\s?[日号]"),
     lambda m, t: _day(datetime(int(m[1]), int(m[2]), int(m[3]), tzinfo=UTC))),
    (re.compile(rf"\b({_MONTH})\.? {_ORDINAL},? ({_YEAR})\b"),
     lambda m, t: _day(datetime(int(m[3]), _MONTHS[m[1]], int(m[2]), tzinfo=UTC))),
    (re.compile(rf"\b{_ORDINAL} (?:of )?({_MONTH})\.?,? ({_YEAR})\b"),
     lambda m, t: _day(datetime(int(m[3]), _MONTHS[m[2]], int(m[1]), tzinfo=UTC))),
    # months of a year
    (re.compile(rf"\b({_MONTH})\.?,?(?: of)? ({_YEAR})\b"), lambda m, t: _month(int(m[2]), _MONTHS[m[1]])),
    (re.compile(rf"({_YEAR})\s?年\s?(\d{{1,2}})\s?月"), lambda m, t: _month(int(m[1]), int(m[2]))),
    (re.compile(rf"(?<!\d)({_YEAR})-(\d\d)(?![\d-])"), lambda m, t: _month(int(m[1]), int(m[2]))),
    (re.compile(r"去年\s?(\d{1,2})\s?月"), lambda m, t: _month(t.year - 1, int(m[1]))),
    # days without a year
    (re.compile(rf"\b({_MONTH})\.? {_ORDINAL}\b(?! ?(?:am|pm|:))"), lambda m, t: _latest(t, _MONTHS[m[1]], int(m[2]))),
    (re.compile(rf"\b{_ORDINAL} (?:of )?({_MONTH})\b"), lambda m, t: _latest(t, _MONTHS[m[2]], int(m[1]))),
    (re.compile(r"(?<!\d)(\d{1,2})\s?月\s?(\d{1,2})\s?[日号]"), lambda m, t: _latest(t, int(m[1]), int(m[2]))),
    # days counted from today
    (re.compile(r"\bday before yesterday\b|前天"), lambda m, t: _day(t - timedelta(days=2))),
    (re.compile(r"\byesterday\b|\blast night\b|昨天|昨晚|昨日"), lambda m, t: _day(t - timedelta(days=1))),
    (re.compile(r"\b(?:today|tonight|this (?:morning|afternoon|evening))\b|今天|今早|今晚|今日"), lambda m, t: _day(t)),
    (re.compile(rf"\b({_NUMBER}) (day|week|month|year)s? ago\b"), lambda m, t: _ago(m[1], m[2], t)),
    (re.compile(rf"({_CHINESE_NUMBER})\s?(天|日|周|个?星期|个月|年)(?:以|之)?前"), lambda m, t: _ago(m[1], m[2], t)),
    (re.compile(rf"\b(?:last|past|previous) ({_NUMBER}) (day|week|month|year)s?\b"), lambda m, t: _last(m[1], m[2], t)),
    (re.compile(rf"(?:最近|近|过去)\s?({_CHINESE_NUMBER})\s?(天|周|个?星期|个月|年)"),
     lambda m, t: _last(m[1], m[2], t)),
    # weekdays
    (re.compile(rf"\b(last|this|on|past) ({_DAY})\b"), lambda m, t: _weekday(m[1], _DAYS[m[2]], t)),
    (re.compile(r"(上|这|本)?个?(?:周|星期|礼拜)([一二三四五六日天])"),
     lambda m, t: _weekday(m[1] or "", _CHINESE_DAYS[m[2]], t)),
    # weeks, months, years counted from now
    (re.compile(r"\b(last|this|previous) (week|month|year)\b"), lambda m, t: _near(m[1], m[2], t)),
    (re.compile(r"上上个?(?:周|星期)"), lambda m, t: _week(t, 2)),
    (re.compile(r"(上|这|本)个?(周|星期|月)(?!\s?[一二三四五六日天末份])"), lambda m, t: _near(m[1], m[2], t)),
    (re.compile(r"(去|今)年"), lambda m, t: _near(m[1], "年", t)),
    (re.compile(r"前年"), lambda m, t: _year(t.year - 2)),
    # a month, or a year, by itself
    (re.compile(rf"\b(?:in|during|since|last) ({_MONTH})\b"), lambda m, t: _latest(t, _MONTHS[m[1]])),
    (re.compile(rf"\b(?:in|during|of) ({_YEAR})\b"), lambda m, t: _year(int(m[1]))),
    (re.compile(rf"({_YEAR})\s?年"), lambda m, t: _year(int(m[1]))),
    (re.compile(r"(?<![\d年])(\d{1,2})\s?月份?(?!\s?\d)"), lambda m, t: _latest(t, int(m[1]))),
)  # fmt: skip
