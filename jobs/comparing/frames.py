"""Counts of one thing, told in free words: "37 coins in that collection" then "my collection has 41 coins by now".

What is compared is the clause around a number: who counts, what is counted, and the words about it. A number of what
happened once ("I ate 3 apples") changes nothing; one of how things stand, or of what has been done so far, does.
"""

from __future__ import annotations

import re

from .opposites import stance_of
from .values import Value, normal, values_of
from .wording import wording_of

#: Where a clause ends.
_END = re.compile(
    r"[.!?;:](?=\s|$)|。|(?<=[\u3400-\u9fff])[,;!?:]|\s[-–—]\s|,\s*(?=(?:and|but|so|since|because|while|though|although|which|who|i|i'm|i've|we)\b)",
    re.I,
)
#: How things stand, or what has been done so far: "have", "has tried", "now", "in total".
_STANDS = re.compile(
    r"(?i:\b(?:(?:i|we|you|they)(?:'ve| have)|(?:he|she|it|who) has|owns?|there(?: are| is|'s)|now|currently|so far|"
    r"already|in total|a total of|by now|these days|at the moment)\b)|\b[A-Z][\w'-]+ has\b"
    r"|现在|目前|已经|一共|总共|至今|共有|有了|拥有"
)
#: Words that stand for what was named before, or name nothing themselves.
_NAMELESS = frozenset(str.split("them one ones it those these new more other different total of"))
#: Words that tell nothing of what a clause is about.
_EMPTY = frozenset(
    str.split(
        "about around got get go way speak realiz already now currently far right still lot mean think i we "
        "you they he "
        "she my our your his her their me us them with for over sinc year month week day time new more 我 们 "
        "已 经 现 目 前 共"
    )
)
#: Fewest words about one thing that two clauses share, and their least share of those of the shorter clause.
_LEAST, _SHARE = 2, 0.5
#: Their least share where the unit is one and the same person or thing is named.
_SHARE_OF_NAMED = 0.6


def recounted(older: str, newer: str) -> tuple[Value, Value] | None:
    """Two numbers of one thing, of which the newer text gives another one than the older; None if it gives none.

    >>> [str(value) for value in recounted("I have read 3 of Lem's novels.", "So far I've read 5 novels by Lem!")]
    ['3', '5']
    >>> recounted("I have read 3 novels.", "I read 5 pages today.")
    """
    first, second = normal(older), normal(newer)
    ours, theirs = (
        [value for value in values_of(text) if value.sort == "number" and not value.weak] for text in (first, second)
    )
    for one in ours:
        for two in theirs:
            if not one.agrees(two) and one.key[1] == two.key[1] and _is_recount(first, one, second, two):
                return one, two
    return None


def clause_around(text: str, value: Value) -> tuple[int, int]:
    """Where the clause that holds a value starts and ends.

    >>> text = "Nice, and I have 3 cats, which I love."
    >>> start, end = clause_around(text, values_of(text)[0])
    >>> text[start:end].strip(" ,")
    'and I have 3 cats'
    """
    start, end = 0, len(text)
    for match in _END.finditer(text):
        if match.end() <= value.start:
            start = match.end()
        elif match.start() >= value.end:
            end = match.start()
            break
    return start, end


def _is_recount(first: str, one: Value, second: str, two: Value) -> bool:
    clauses, words, nouns = [], [], []
    for text, value in ((first, one), (second, two)):
        start, end = clause_around(text, value)
        clause = text[start:end]
        stance = stance_of(clause)
        if stance.asks or stance.hedged or stance.conditional or stance.over or stance.denials:
            return False
        if not _STANDS.search(clause):
            return False
        clauses.append(clause)
        words.append(set(wording_of(text[start : value.start] + " " + text[value.end : end]).words) - _EMPTY)
        nouns.append(_counted(text[value.end : end]))
    shared = words[0] & words[1]
    least = min(map(len, words))
    if not shared or not least:
        return False
    if one.key[1]:
        return _named(clauses[0]) & _named(clauses[1]) != set() and len(shared) / least >= _SHARE_OF_NAMED
    if nouns[0] and nouns[1] and not nouns[0] & nouns[1]:
        return False
    named = nouns[0] | nouns[1]
    if named and not (named & words[0] and named & words[1]) and nouns[0] != nouns[1] and not _points(first, one):
        return False
    return len(shared) >= _LEAST and len(shared) / least >= _SHARE


def _counted(after: str) -> set[str]:
    """What a number counts: the words right after it; nothing where it stands alone, or points to what was named."""
    words = wording_of(re.split(r"[,.;:!?，。；！？]", after, maxsplit=1)[0]).words[:3]
    return {word for word in words if word not in _NAMELESS and word not in _EMPTY}


def _points(text: str, value: Value) -> bool:
    """Whether a number counts what a word such as "them" or "ones" points to."""
    return bool(re.match(r"\s*(?:of (?:them|those|these)|(?:new |more |other )?ones)\b", text[value.end :], re.I))


def _named(clause: str) -> set[str]:
    return {value.key[0] for value in values_of(clause) if value.sort == "name" and not value.weak}
