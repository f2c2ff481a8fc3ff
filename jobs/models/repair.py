"""JSON as language models write it: fences and prose around it, broken escapes, missing brackets, a missing end.

Good JSON is read by the standard library. What it refuses is read once more by a forgiving reader that keeps every
value that is whole: an item of a list that is cut off or can't be read is left out and reported, the rest is kept.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_THOUGHT = re.compile(r"\s*<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.S | re.I)
_SPACE = " \t\r\n\f\v\u00a0\u2028\u2029\ufeff"
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_BARE = re.compile(r"[^\s,:\[\]{}\"]+")
_OBJECT_END = re.compile(r"\}(?=\s*[,\]])|(?=\n\s*\])")
_ITEM_END = re.compile(r"(?=[,\]])")
_WORDS = {"true": True, "false": False, "null": None, "none": None, "nan": None, "undefined": None}
_SURROGATES = re.compile("[\ud800-\udfff]")
#: Deeper nesting than this is not read: no schema of ours comes near it.
_DEPTH = 32


@dataclass(frozen=True)
class Found:
    """The JSON that was found in a text."""

    #: The value; None when there is none
    value: Any = None
    #: Items of lists that could not be read whole, as they stand in the text
    broken: tuple[str, ...] = ()
    #: Whether the text ends before the value does
    cut: bool = False


def find_json(text: str) -> Found:
    """The first JSON object (or list of objects) of a text, repaired where needed. Never raises.

    Strings come back fit to be stored: no NUL and no half of a surrogate pair.

    >>> find_json('Sure! ```json\\n{"a": [1, 2,], "b": "x"}\\n``` Anything else?').value
    {'a': [1, 2], 'b': 'x'}
    >>> find_json('{"facts": [{"text": "one"}, {"text": "tw').value
    {'facts': [{'text': 'one'}]}
    """
    if thought := _THOUGHT.match(text):
        text = text[thought.end() :]
    best = Found()
    for start in _starts(text):
        found = _read_at(text, start)
        if isinstance(found.value, dict) and (found.value or found.cut):
            return found
        if isinstance(found.value, list) and any(isinstance(item, dict) for item in found.value):
            return found
        if best.value is None:
            best = found
    return best if isinstance(best.value, dict) else Found(broken=best.broken, cut=best.cut)


def _starts(text: str) -> list[int]:
    """Where a value may begin: the first few brackets, those that begin a line or a fence first."""
    places = [match.start() for match in re.finditer(r"[{\[]", text)][:64]
    at_line = [place for place in places if not text[:place].rpartition("\n")[2].strip()]
    return list(dict.fromkeys([*at_line[:8], *places[:8]]))


def _read_at(text: str, start: int) -> Found:
    try:
        value, _ = json.JSONDecoder(strict=False).raw_decode(text, start)
        return Found(_clean(value))
    except (ValueError, RecursionError):
        reader = _Reader(text, start)
        try:
            value = reader.value(0)
        except _Cut:
            return Found(broken=tuple(reader.broken), cut=True)
        except _Bad:
            return Found(broken=tuple(reader.broken))
        return Found(_clean(value), tuple(reader.broken), reader.cut)


def clean_text(text: str) -> str:
    """A text without NUL and without halves of surrogate pairs, which no table can hold.

    >>> ascii(clean_text("a\\x00b\\ud800c"))
    "'ab\\\\ufffdc'"
    """
    return _SURROGATES.sub("\ufffd", text.replace("\x00", ""))


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {clean_text(key): _clean(item) for key, item in value.items()}
    return value


class _Cut(Exception):
    """The text ends inside a value."""


class _Bad(Exception):
    """No value can be read here."""


class _Reader:
    """A recursive reader that forgives. `place` is where it reads."""

    def __init__(self, text: str, place: int) -> None:
        self.text, self.place = text, place
        self.broken: list[str] = []
        self.cut = False

    def value(self, depth: int) -> Any:
        char = self._peek()
        if depth > _DEPTH:
            raise _Bad
        if char == "{":
            return self._object(depth)
        if char == "[":
            return self._list(depth)
        if char in "\"'“":
            return self._string({"“": "”"}.get(char, char))
        return self._bare()

    def _peek(self) -> str:
        """The next character that is no space and no comment; raises `_Cut` at the end."""
        text, length = self.text, len(self.text)
        while self.place < length:
            if text[self.place] in _SPACE:
                self.place += 1
            elif text.startswith("//", self.place):
                end = text.find("\n", self.place)
                self.place = length if end < 0 else end
            else:
                return text[self.place]
        raise _Cut

    def _object(self, depth: int) -> dict[str, Any]:
        self.place += 1
        result: dict[str, Any] = {}
        try:
            while True:
                char = self._peek()
                if char == "}":
                    self.place += 1
                    return result
                if char == ",":
                    self.place += 1
                    continue
                key = self._string(char) if char in "\"'" else str(self._bare())
                if self._peek() not in ":=":
                    raise _Bad
                self.place += 1
                result[key] = self.value(depth + 1)
        except _Cut:
            if depth:
                raise
            self.cut = True
            return result
        except _Bad:
            if depth:
                raise
            return result

    def _list(self, depth: int) -> list[Any]:
        self.place += 1
        result: list[Any] = []
        while True:
            start = self.place
            try:
                char = self._peek()
                start = self.place
                if char == "]":
                    self.place += 1
                    return result
                if char in ",}":
                    self.place += 1
                    continue
                result.append(self.value(depth + 1))
            except _Cut:
                self.cut = True
                if piece := self.text[start:].strip():
                    self.broken.append(piece)
                self.place = len(self.text)
                return result
            except _Bad:
                self._skip_item(start)
                self.broken.append(self.text[start : self.place].strip())

    def _skip_item(self, start: int) -> None:
        """Go on behind an item that can't be read: an object ends at its brace, anything else at a comma."""
        end = _OBJECT_END if self.text[start] == "{" else _ITEM_END
        match = end.search(self.text, max(self.place, start + 1))
        self.place = len(self.text) if match is None else match.end()

    def _string(self, quote: str) -> str:
        """A string. A quotation mark inside it that is not escaped is kept if nothing behind it ends a value."""
        text, place, length = self.text, self.place + 1, len(self.text)
        parts: list[str] = []
        while place < length:
            char = text[place]
            if char == "\\":
                piece, place = self._escape(place)
                parts.append(piece)
            elif char == quote and self._ends(place):
                self.place = place + 1
                return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            else:
                parts.append(char)
                place += 1
        self.place = length
        raise _Cut

    def _ends(self, place: int) -> bool:
        rest = self.text[place + 1 : place + 65].lstrip(_SPACE)
        return not rest or rest[0] in ",:}]" or rest.startswith("//")

    def _escape(self, place: int) -> tuple[str, int]:
        """What stands for a backslash and what follows; a broken one stands for itself."""
        if place + 1 >= len(self.text):
            raise _Cut
        char = self.text[place + 1]
        if char == "u":
            digits = self.text[place + 2 : place + 6]
            return (chr(int(digits, 16)), place + 6) if _HEX.fullmatch(digits) else ("\\u", place + 2)
        return (_ESCAPES[char], place + 2) if char in _ESCAPES else ("\\" + char, place + 2)

    def _bare(self) -> Any:
        """A number, or a word without quotation marks."""
        match = _BARE.match(self.text, self.place)
        if match is None:
            raise _Bad
        if match.end() == len(self.text):
            raise _Cut
        self.place = match.end()
        word = match.group()
        if word.lower() in _WORDS:
            return _WORDS[word.lower()]
        try:
            return json.loads(word)
        except ValueError:
            return word.strip("'`")
