"""Secrets and personal data, masked before anything touches the disk (N11).

Two steps, since nearly every event is innocent: one pass of an Aho-Corasick automaton over the encoded event looks
for the letters that each rule needs, and only the rules that it names are run, field by field. A masked text reads
`[masked:aws_key]`; masking it again changes nothing, and JSON stays JSON.

Names of things are left alone (subject, tool, task type, ids): masking them would make two subjects one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from ahocorasick_rs import BytesAhoCorasick, Implementation

from .events import Event
from .masking_rules import CURSOR, PERSONAL, SECRETS, Rule, is_secret_value

#: A function of the user's own that masks text; it returns the text unchanged when there is nothing to mask.
Screen = Callable[[str], str]

#: Columns that hold what was said and done.
FIELDS = ("name", "content", "arguments", "result", "error_message", "attributes")
#: JSON inside JSON is followed this deep.
_DEPTH = 4
#: What is masked may uncover what stood beside it; it is looked at again, at most this often.
_PASSES = 8
_MASK = re.compile(r"\[masked:[a-z_]+\]")
# In JSON text a slash may be escaped, and any letter may be written by its number.
_ESCAPES = (":\\/\\/",)


class Mask:
    """What is masked, ready to use: build it once. Safe to share between threads.

    >>> Mask().text("export AWS_KEY=AKIAIOSFODNN7EXAMPLE")
    ('export AWS_KEY=[masked:aws_key]', 1)
    """

    def __init__(self, secrets: bool = True, personal: bool = False, screens: Sequence[Screen] = ()) -> None:
        """`screens` are run on every text, after the rules."""
        self._rules = (SECRETS if secrets else ()) + (PERSONAL if personal else ())
        needles = list(dict.fromkeys(trigger for rule in self._rules for trigger in rule.triggers))
        self._named = [
            frozenset(place for place, rule in enumerate(self._rules) if needle in rule.triggers) for needle in needles
        ]
        self._always = frozenset(place for place, rule in enumerate(self._rules) if not rule.triggers)
        self._needles = BytesAhoCorasick([needle.encode() for needle in needles]) if needles else None
        self._any = (
            BytesAhoCorasick([needle.encode() for needle in (*needles, *_ESCAPES)], implementation=Implementation.DFA)
            if needles
            else None
        )
        self._secrets = secrets
        self._personal = personal
        self._screens = tuple(screens)
        #: Whether every event must be looked at, whatever is in it
        self.is_thorough = bool(self._always or self._screens)
        #: Whether encoded text may hold something to mask; true in the sense of `if`. A quick look: false alarms, but
        #: no misses
        self.suspects: Callable[[bytes], object] = (
            (lambda raw: True)
            if self.is_thorough
            else self._any.find_matches_as_indexes
            if self._any is not None
            else (lambda raw: False)
        )

    def __reduce__(self) -> tuple[type[Mask], tuple[bool, bool, tuple[Screen, ...]]]:
        return Mask, (self._secrets, self._personal, self._screens)

    def event(self, event: Event) -> int:
        """Mask the fields of an event in place, add to its `masked`, and return how many things were masked."""
        total = 0
        for name in FIELDS:
            value = getattr(event, name)
            if value and (self.suspects(value.encode("utf-8", "surrogatepass")) or "\\u" in value):
                masked, count = self.json(value) if value[0] in "{[" else self.text(value)
                if count:
                    setattr(event, name, masked)
                    total += count
        event.masked += total
        return total

    def text(self, text: str) -> tuple[str, int]:
        """The text with everything masked, and how many things that were."""
        count = 0
        for _ in range(_PASSES):
            before = count
            for place in self._suspicions(text):
                text, some = _apply(self._rules[place], text)
                count += some
            if count == before:
                break
        for screen in self._screens:
            screened = screen(text)
            if screened != text:
                count += max(1, len(_MASK.findall(screened)) - len(_MASK.findall(text)))
                text = screened
        return text, count

    def json(self, text: str) -> tuple[str, int]:
        """JSON text with the strings and numbers inside it masked; text that is no JSON is masked as text."""
        try:
            masked, count = self._value(json.loads(text), 0)
            if not count:
                return text, 0
            return json.dumps(masked, ensure_ascii=False, allow_nan=False, separators=(",", ":")), count
        except (ValueError, RecursionError):
            return self.text(text)

    def _suspicions(self, text: str) -> list[int]:
        """Places of the rules that may match, in the order of the rules."""
        found = set(self._always)
        if self._needles is not None:
            raw = text.encode("utf-8", "surrogatepass")
            for needle, _, _ in self._needles.find_matches_as_indexes(raw, overlapping=True):
                found |= self._named[needle]
        return sorted(found)

    def _value(self, value: Any, depth: int) -> tuple[Any, int]:
        if isinstance(value, str):
            if depth < _DEPTH and value[:1] in ("{", "["):
                return self._nested(value, depth)
            return self.text(value)
        if isinstance(value, dict):
            pairs = {key: self._member(key, item, depth) for key, item in value.items()}
            return {key: item for key, (item, _) in pairs.items()}, sum(count for _, count in pairs.values())
        if isinstance(value, list):
            items = [self._value(item, depth) for item in value]
            return [item for item, _ in items], sum(count for _, count in items)
        if self.is_thorough and isinstance(value, (int, float)) and not isinstance(value, bool):
            masked, count = self.text(repr(value))
            return (masked, count) if count else (value, 0)
        return value, 0

    def _nested(self, text: str, depth: int) -> tuple[str, int]:
        try:
            masked, count = self._value(json.loads(text), depth + 1)
        except (ValueError, RecursionError):
            return self.text(text)
        return (json.dumps(masked, ensure_ascii=False, separators=(",", ":")), count) if count else (text, 0)

    def _member(self, key: str, value: Any, depth: int) -> tuple[Any, int]:
        if self._secrets and isinstance(value, str) and is_secret_value(key, value):
            return "[masked:secret]", 1
        return self._value(value, depth)


def _apply(rule: Rule, text: str) -> tuple[str, int]:
    count = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal count
        group = match.lastgroup or 0
        found = match[group]
        if _MASK.search(found) or (rule.check is not None and not rule.check(found)):
            return match[0]
        start, end = match.start(group) - match.start(), match.end(group) - match.start()
        if group and CURSOR.search(text[max(0, match.start() - 20) : match.start(group)].rstrip("\"'=:> ")):
            return match[0]
        count += 1
        return f"{match[0][:start]}[masked:{rule.name}]{match[0][end:]}"

    return rule.pattern.sub(replace, text), count
