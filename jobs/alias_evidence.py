"""What speaks for an alias in what is known: words that say so, and spelling. Pure: rows in, proposals out.

Only what is sure is proposed: a memory that says that two names are one ("short for", "also known as", 又叫, 简称), and
names that differ in accents, hyphens, dots and spaces alone. What only may be one is a suggestion, for a person to
decide. Names of one subject's memories never meet those of another subject's: two users' Bobs are two people.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..memory_store.text.entities import find_entities
from ..memory_store.text.names import Likeness, is_identifier, is_organised, likeness, name_key, without_kind

Row = Mapping[str, Any]

#: Columns of a memory that are looked at.
COLUMNS = ("id", "subject", "text", "entities", "evidence", "said_by")
#: Memories, and events of them, that a proposal cites.
_CITED = 5
#: Names that share something and are compared, all with all; what more share tells nothing.
_ALIKE = 50
#: Who can't make two names one by saying so.
_UNTRUSTED = ("tool", "web")

#: Words between two names that say that they are one: pattern, and whether the left name is the usual one.
_MARKERS: tuple[tuple[re.Pattern[str], bool], ...] = (
    (
        re.compile(
            r",?\s*\(?(?:is |was )?(?:also known as|better known as|also called|a\.k\.a\.|aka|nicknamed|"
            r"formerly(?: known as| called)?|previously called|abbreviated (?:as|to)|goes by(?: the name(?: of)?)?)\s+",
            re.I,
        ),
        True,
    ),
    (
        re.compile(
            r",?\s*\(?(?:is |was )?(?:short for|stands for|an abbreviation (?:of|for)|the nickname of)\s+", re.I
        ),
        False,
    ),
    (
        re.compile(
            r"的?[,，（(]?(?:又称|又名|又叫|也叫|亦称|亦名|也称|简称|昵称|小名|别名|绰号|外号|俗称|曾用名|英文名|中文名)"
            r"(?:是|叫|为|作)?[:：]?"
        ),
        True,
    ),
    (re.compile(r"的?[,，（(]?(?:全称|全名|本名|真名)(?:是|叫|为)?[:：]?"), False),
)
_ANY_MARKER = re.compile(
    r"known as|also called|a\.k\.a|\baka\b|nicknam|formerly|previously called|abbreviat|goes by|short for|stands for|"
    r"又称|又名|又叫|也叫|亦称|亦名|也称|简称|昵称|小名|别名|绰号|外号|俗称|曾用名|英文名|中文名|全称|全名|本名|真名",
    re.I,
)
_IN_BRACKETS = re.compile(r"\s?[(（]([A-Z][A-Za-z.]{1,9})[)）]")
_CAPITALISED = r"[A-Z][\w'’-]{1,30}(?: [A-Z][\w'’-]{1,30}){0,4}"
#: A name that no rule knows as one, right before such words, and right after.
_BEFORE = re.compile(rf"(?:^|[^\w])({_CAPITALISED})$")
_AFTER = re.compile(rf"[“\"「『《']?([\u4e00-\u9fff·]{{2,8}}?|{_CAPITALISED})(?=[”\"」』》',，。.;；、)）!！?？\n]|$)")
_PRONOUNS = frozenset(["he", "she", "it", "they", "we", "you", "this", "that", "there", "who", "which", "the", "one"])


@dataclass(frozen=True)
class Proposal:
    """That a name stands for another one, and what speaks for it."""

    name: str
    of: str
    #: In whose memories; empty: in what is shared
    subject: str
    reason: str
    #: Memories that it was learned from
    memories: tuple[str, ...]
    #: Trace and event ids, with the quoted span
    evidence: tuple[Mapping[str, str], ...]


def proposals(rows: Sequence[Row]) -> list[Proposal]:
    """What memories (columns `COLUMNS`) say for sure, each pair of names once, in the order of subjects and names."""
    found: dict[tuple[str, str], Proposal] = {}
    for proposal in (*_said(rows), *_spelled(rows)):
        found.setdefault((proposal.subject, name_key(proposal.name)), proposal)
    return sorted(found.values(), key=lambda one: (one.subject, name_key(one.name)))


def suggestions(rows: Sequence[Row]) -> list[tuple[Proposal, Likeness]]:
    """Names that may be one: a first name, initials or a slip of one other name of the same scope, and of no second."""
    found: list[tuple[Proposal, Likeness]] = []
    for subject, places in sorted(_scopes(rows).items()):
        buckets: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for key in sorted(places):
            for handle in _handles(key, places[key][0]):
                buckets[handle].append(key)
        alike: dict[str, set[str]] = defaultdict(set)
        for keys in buckets.values():
            for key in keys if 1 < len(keys) <= _ALIKE else ():
                alike[key].update(keys)
        for key, others in sorted(alike.items()):
            name, mentions = places[key]
            likes = [
                (other, like)
                for other in sorted(others - {key})
                if (like := likeness(name, places[other][0])) in ("slip", "short form", "letters")
            ]
            if len(likes) != 1:
                continue  # of two names that it may be short for, it may be either
            other, like = likes[0]
            full, its = places[other]
            if (like == "slip" and (len(mentions), key) > (len(its), other)) or (
                like != "slip" and len(name) > len(full)
            ):
                continue
            found.append((_proposal(name, full, subject, f"may be one: {like}", [*mentions[:2], *its[:2]]), like))
    return found


def _handles(key: str, name: str) -> set[tuple[str, ...]]:
    """What a name shares with those that it may be one with: names that share nothing of this need not be compared."""
    words = key.split(" ")
    handles: set[tuple[str, ...]] = {("is", key)}
    for place in range(1, len(words)):
        handles |= {("is", " ".join(words[:place])), ("is", " ".join(words[place:]))}
    if len(words) > 1:
        handles |= {("initials", words[-1], words[0][:1], str(len(words)))}
    capitals = [word[0] for word in re.split(r"[\s-]+", name) if word[:1].isupper()]
    handles.add(("letters", name.replace(".", "") if name.isupper() else "".join(capitals)))
    return handles | {("turned", "".join(sorted(key))), ("doubled", re.sub(r"(.)\1+", r"\1", key))}


def _said(rows: Iterable[Row]) -> Iterator[Proposal]:
    for row in rows:
        text = unicodedata.normalize("NFKC", row["text"] or "")
        if row["said_by"] in _UNTRUSTED or not (_ANY_MARKER.search(text) or _IN_BRACKETS.search(text)):
            continue
        for name, of, words in _pairs(text, row["entities"] or ()):
            if _speaks_against(name, of):
                continue
            yield _proposal(name, of, row["subject"] or "", f"a memory says so: {words}", [row])


def _pairs(text: str, entities: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Pairs of name, usual name and the words that join them."""
    spans = {(entity.start, entity.start + len(entity.text)) for entity in find_entities(text)}
    for name in entities:
        known = unicodedata.normalize("NFKC", name)
        spans |= {(place, place + len(known)) for place in _places(text, known)}
    for marker, left_is_usual in _MARKERS:
        for match in marker.finditer(text):
            left = _ending_at(spans, text, match.start())
            right = _starting_at(spans, text, match.end())
            if left and right:
                words = match.group().strip(" ,，(（")
                yield (right, left, words) if left_is_usual else (left, right, words)
    for match in _IN_BRACKETS.finditer(text):
        full = _ending_at(spans, text, match.start())
        if full and likeness(match.group(1), full) == "letters":
            yield match.group(1), full, f"({match.group(1)})"


def _places(text: str, name: str) -> Iterator[int]:
    start = text.find(name) if name else -1
    while start >= 0:
        yield start
        start = text.find(name, start + 1)


def _ending_at(spans: Iterable[tuple[int, int]], text: str, place: int) -> str:
    """The longest name that ends here, quotes and a space apart."""
    ends = [(start, end) for start, end in spans if end <= place and not text[end:place].strip(" ”\"」』》'")]
    if ends:
        return text[min(ends)[0] : min(ends)[1]]
    alone = _BEFORE.search(text, max(place - 160, 0), place)
    return alone.group(1) if alone and alone.group(1).split()[0].casefold() not in _PRONOUNS else ""


def _starting_at(spans: Iterable[tuple[int, int]], text: str, place: int) -> str:
    """The longest name that starts here, else what stands alone up to the next punctuation."""
    starts = [(end, start) for start, end in spans if start >= place and not text[place:start].strip(" “\"「『《'")]
    introduced = _AFTER.match(text, place)
    known = text[max(starts)[1] : max(starts)[0]] if starts else ""
    alone = introduced.group(1) if introduced else ""
    return max(known, alone, key=len)


def _speaks_against(name: str, of: str) -> bool:
    """Whether two names can't be one whatever is said: they are one already, one is a number or a code, or one is the
    company of the other's name.
    """
    one, two = name_key(name), name_key(of)
    if not one or not two or one == two or is_identifier(name) or is_identifier(of):
        return True
    return is_organised(name) != is_organised(of) and without_kind(one) == without_kind(two)


def _spelled(rows: Sequence[Row]) -> Iterator[Proposal]:
    """Names of one scope that differ in accents, hyphens, dots and spaces; what is used more is the usual one."""
    for subject, places in _scopes(rows).items():
        alike: dict[str, list[str]] = defaultdict(list)
        for key in places:
            letters = "".join(sign for sign in unicodedata.normalize("NFKD", key) if sign.isalnum())
            alike[letters].append(key)
        for keys in alike.values():
            first, *others = sorted(keys, key=lambda key: (-len(places[key][1]), key))
            for key in others:
                (name, mentions), (of, usual) = places[key], places[first]
                if likeness(name, of) == "spelling":
                    yield _proposal(name, of, subject, f"spelled as {of}, signs and spaces apart", [*mentions, *usual])


def _scopes(rows: Iterable[Row]) -> dict[str, dict[str, tuple[str, list[Row]]]]:
    """Names by subject and compared form: how it is mostly written, and the memories that mention it."""
    written: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    mentions: dict[tuple[str, str], list[Row]] = defaultdict(list)
    keys: dict[str, str] = {}
    for row in rows:
        subject = row["subject"] or ""
        for name in row["entities"] or ():
            if name not in keys:
                keys[name] = name_key(name)
            key = keys[name]
            if key:
                written[subject, key][name] += 1
                mentions[subject, key].append(row)
    scopes: dict[str, dict[str, tuple[str, list[Row]]]] = defaultdict(dict)
    for (subject, key), names in written.items():
        usual = min(names, key=lambda name: (-names[name], name))
        scopes[subject][key] = (usual, mentions[subject, key])
    return scopes


def _proposal(name: str, of: str, subject: str, reason: str, rows: Sequence[Row]) -> Proposal:
    unique = list({row["id"]: row for row in rows}.values())[:_CITED]
    evidence = [item for row in unique for item in row["evidence"] or ()][:_CITED]
    return Proposal(name, of, subject, reason, tuple(row["id"] for row in unique), tuple(evidence))
