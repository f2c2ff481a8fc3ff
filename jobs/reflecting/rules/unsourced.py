"""Figures that an agent presents as found, and that nothing in the trace holds: no call, no page, no user gave them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from ....memory_store.capture.events import Event, Trace
from .lessons import Lesson, asked

#: Fewer figures than this may be sums of what is known.
_LEAST = 2
#: Most figures of the last result from which another may be summed up.
_PARTS = 100
#: Of one event only this much is read, in characters.
_READ = 200_000
_NUMBER = re.compile(r"(?<![A-Za-z0-9_.#-])[$€£¥]?\d[\d,]*(?:\.\d+)?%?(?![A-Za-z0-9_])")
#: Parts of a message whose figures are no findings: code, formulas, numbers of list items and of steps.
_NO_FINDING = re.compile(
    r"```.*?(?:```|\Z)|\\\[.*?(?:\\\]|\Z)|\\\(.*?(?:\\\)|\Z)|^\s*\d+[.)、]\s|^#+.*$|\bsteps? \d+|第\d+步",
    re.S | re.M | re.I,
)
_FOUND = re.compile(
    r"\b(?:here (?:is|are)|(?:was|were|been|have|has) (?:found|retrieved|confirmed|verified|identified|checked)|"
    r"i (?:found|checked|verified|confirmed|retrieved)|(?:the )?following (?:are|is)|based on|according to|"
    r"the (?:results|findings)|known|data)\b|查到|找到|核实|确认|如下|根据|数据|结果",
    re.I,
)


def unsourced_of(trace: Trace, situation: str, chinese: bool) -> Lesson | None:
    """The first message in which figures come from nowhere, in a run that did not succeed; else None.

    What stands in the task, in a user's or system's message, in an argument, a result or an earlier message has a
    source. The first message of an agent often repeats what it was given, and is passed over.
    """
    if trace.outcome == "success":
        return None
    known: set[str] = set()
    last: set[str] = set()
    begun = False
    for event in trace.events:
        if event.type == "message" and event.role == "agent":
            figures = _figures(_NO_FINDING.sub(" ", event.content[:_READ]))
            parts = [*_amounts((*figures, *last))]
            new = {p: words for p, words in figures.items() if p not in known and not _is_derived(p, parts)}
            if begun and len(new) >= _LEAST and _FOUND.search(event.content):
                return _lesson(event, next(iter(new.values())), situation, chinese)
            begun = True
        for text in (event.content, event.result, event.arguments):
            known |= _digits(text[:_READ])
        if event.result:
            last = set(sorted(_digits(event.result[:_READ]))[:_PARTS])
    return None


def _amounts(figures: Iterable[str]) -> Iterator[float]:
    yield from (float(figure) for figure in figures if re.fullmatch(r"\d{1,15}(?:\.\d+)?", figure))


def _is_derived(figure: str, parts: Sequence[float]) -> bool:
    """Whether a figure is the sum, the difference or a small multiple of what stands beside it."""
    value = next(_amounts((figure,)), None)
    if value is None:
        return False
    others = {round(part, 2) for part in parts if part != value}
    summed = any(round(value - part, 2) in others or round(value + part, 2) in others for part in others)
    return summed or any(round(part * times, 2) == round(value, 2) for part in others for times in range(2, 10))


def _figures(text: str) -> dict[str, str]:
    """The figures of two digits or more in a text: each plain, with the words that it stands in."""
    found: dict[str, str] = {}
    for match in _NUMBER.finditer(text):
        plain = _plain(match.group())
        if len(re.sub(r"\D", "", plain)) >= 2:
            found.setdefault(plain, match.group().strip(",."))
    return found


def _digits(text: str) -> set[str]:
    """Every number in a text, plain; of a decimal its whole part too."""
    numbers = {_plain(number) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", text)}
    return numbers | {number.split(".")[0] for number in numbers}


def _plain(number: str) -> str:
    text = number.strip("$€£¥%,.").replace(",", "")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _lesson(event: Event, figure: str, situation: str, chinese: bool) -> Lesson:
    start = max(0, event.content.find(figure) - 80)
    quote = event.content[start : start + 160].strip()
    if chinese:
        trigger = asked(situation, True) if situation else "答复里要给出查到的数值"
        action, avoid = "每个数值都写明出自哪次调用", "给出没有任何工具返回过的数值"
        why = "一次失败的运行里，数值没有出处"
    else:
        trigger = asked(situation, False) if situation else "an answer presents figures as found"
        action = "name the call that returned each figure, and look up those that have none"
        avoid = "present figures that no tool and no user gave"
        why = "in a run that did not succeed they came from nowhere"
    return Lesson(
        "unsourced",
        trigger,
        action,
        ((event, quote),),
        avoid=avoid,
        why=why,
        quality=3,
        importance=0.5,
        confidence=0.45,
    )
