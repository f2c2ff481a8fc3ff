"""Names of things in a text: identifiers, files, addresses, people, places and organisations; English and Chinese.

By rule only, so that the same text gives the same entities on every machine. What the rules can't see: Chinese
names without a title or an introduction, and a single English name at the start of a sentence.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

EntityKind = Literal["url", "email", "file", "identifier", "error", "code", "name", "quoted"]

#: Most entities of one text.
LIMIT = 32
#: Text beyond this many characters is not looked at.
_LOOK = 20_000


@dataclass(frozen=True)
class Entity:
    """Something that a text names."""

    #: As it was written, NFKC-normalised
    text: str
    kind: EntityKind
    #: Where it stands in the normalised text
    start: int


#: Patterns in order of precedence: what one has taken, a later one doesn't touch. None uses nested repetition.
_PATTERNS: tuple[tuple[EntityKind, re.Pattern[str]], ...] = (
    (
        "url",
        re.compile(
            r"\b(?:https?|s3|ftp|wss?|postgres(?:ql)?|mysql|redis|mongodb)://[^\s<>\"'`，。；、）)\]]{1,300}", re.A
        ),
    ),
    ("email", re.compile(r"(?<![\w.+-])[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,4}", re.A)),
    (
        "file",
        re.compile(
            r"(?<![\w/.])(?:~|\.{1,2}|/[\w.-]{1,64}|[A-Za-z]:)?(?:[/\\][\w.@-]{1,64}){1,12}/?"
            r"|(?<![\w/.-])(?:[\w.-]{1,64}/){0,12}[A-Za-z_][\w-]{0,63}\.(?:py|pyi|js|ts|tsx|jsx|java|go|rs|rb|php|c|cc|cpp|h|hpp|cs|swift|kt|sh|"
            r"sql|md|txt|csv|tsv|json|jsonl|ya?ml|toml|ini|cfg|conf|xml|html?|css|log|pdf|docx?|xlsx?|pptx?|png|jpe?g|gif|"
            r"svg|zip|gz|tar|parquet|ipynb|lock|env|exe|dll|so|whl)\b",
            re.A,
        ),
    ),
    (
        "error",
        re.compile(
            r"\b(?:E[A-Z]{4,20}|[A-Z][A-Za-z0-9]{1,40}(?:Error|Exception|Timeout|Warning|Failure)|"
            r"(?:ERR|SIG)_?[A-Z][A-Z0-9_]{2,30}|[45]\d\d(?= (?:error|status|Not Found|Forbidden|Unauthorized|Bad|Too|"
            r"Internal|Service|Gateway)))(?![A-Za-z0-9_])",
            re.A,
        ),
    ),
    (
        "identifier",
        re.compile(  # letters and digits mixed: ORD-12345, HAT017, sofia_kim_7287, #W123, uuids, hashes
            r"(?<![\w-])#?(?=[\w-]{0,60}\d)(?=[\w-]{0,60}[A-Za-z])[A-Za-z0-9]{1,40}(?:[_-][A-Za-z0-9]{1,40}){0,7}(?![\w-])"
            r"|(?<![\w-])#\d{2,12}\b|(?<![\w.,-])\d{6,20}(?![\w.,-])",
            re.A,
        ),
    ),
    (
        "code",
        re.compile(  # snake_case, dotted.names, camelCase, CamelCase, CONSTANT_NAMES, kebab-case-names
            r"(?<![\w.])[A-Za-z_]{2,40}(?:\.[A-Za-z_]{2,40}){1,5}\b(?!\.\w)|\b[a-zA-Z]{1,40}(?:_[a-zA-Z0-9]{1,40}){1,7}\b"
            r"|\b[a-z]{2,30}[A-Z][a-z]{1,30}(?:[A-Z][a-z]{1,30}){0,4}\b|\b[A-Z][a-z]{1,30}(?:[A-Z][a-z]{1,30}){1,4}\b",
            re.A,
        ),
    ),
    ("quoted", re.compile(r"[《「『【]([^》」』】\n]{1,40})[》」』】]")),
)
_CAPITALS = re.compile(
    r"(?<![\w'])[A-Z\u00c0-\u00de][\w'\u2019.&-]{0,30}"
    r"(?:\s(?:(?:of|de|la|van|von|der|bin|al|and|the)\s)?[A-Z\u00c0-\u00de][\w'\u2019&-]{0,30}){0,4}"
)
_ORDINARY = frozenset(
    str.split(
        "a an the i i'm i'd i'll i've it it's he she we they you your my our his her their this that these those "
        "there here what when where who why how which is are was were be been am do does did can could will would "
        "should may might must have has had not no yes ok okay please thanks thank hi hello hey dear sorry sure "
        "great good also and or but so if then else for from to in on at by with without as of about after before "
        "because while since until let let's don't can't won't just now today tomorrow yesterday monday tuesday "
        "wednesday thursday friday saturday sunday january february march april june july august september "
        "october november december jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun "
        "pm error warning info debug note step task user agent assistant system tool result output input final "
        "answer action thought observation true false none null yeah well however actually first second third "
        "next finally once all any some every each never always use make get set add check run try see given "
        "based using according one two three oh um hmm got right perfect fine alright certainly absolutely "
        "understood unfortunately additionally moreover therefore i’d i’m i’ll i’ve it’s ask tell call contact "
        "email meet find show book change cancel buy send open close create update delete remove search look help "
        "need want go move visit fly order pay keep import return def class response request success failure "
        "failed status code message data id url api http https json xml html sql csv pdf usd eur gbp cny"
    )
)
#: The commonest Chinese surnames of one character.
SURNAMES = (
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何林高罗郑梁谢宋唐许韩冯邓曹彭曾萧田董袁潘蔡蒋余于杜叶程魏苏吕丁任卢姚沈钟姜崔谭陆范汪廖石金贾夏"
    "付方邹熊白孟秦邱侯江尹薛闫段雷龙黎史陶贺毛郝顾龚邵万覃武钱戴严莫孔向常"
)
_CHINESE = (
    # a surname with a title
    re.compile(
        rf"[{SURNAMES}][\u4e00-\u9fff]{{0,2}}?(?:先生|女士|小姐|经理|老师|医生|总监|主任|教授|师傅|同学|律师|阿姨|叔叔|工)"
        r"(?![\u4e00-\u9fff]?(?:作|具|程))"
    ),
    # someone is introduced
    re.compile(
        rf"(?:我叫|名叫|叫做|名字是|名字叫|姓名[是为:：]|同事|朋友|客户|联系人[是为:：]?)\s?"
        rf"((?:欧阳|司马|上官|诸葛|[{SURNAMES}])[\u4e00-\u9fff]{{1,2}}?)(?=[,，。.!！?？、;；:：\s的是在说和也]|$)"
    ),
    # a place or organisation by its ending; what leads up to it is cut off by `_LEADING`
    re.compile(
        r"([\u4e00-\u9fff]{2,12}?(?:公司|集团|银行|医院|大学|学院|中学|小学|酒店|宾馆|餐厅|饭店|机场|车站|火车站|"
        r"博物馆|图书馆|公园|广场|商场|超市|大厦|小区|(?:路|街|区|市|省|县|镇)(?![上长民域别由径线场面分块略钱心事定])))"
    ),
)
_LEADING = re.compile(r"^.*[在去到从往向给与跟于是住为的了至个家叫]")
_CHINESE_COMMON = frozenset(
    str.split("我们公司 你们公司 贵公司 本公司 子公司 城市 超市 地区 小区 酒店 医院 银行 学校 道路 思路 网路 电路 线路")
)
#: What is followed by a colon is the label of a form or a list, not a name.
_LABEL = re.compile(r"\*{0,2}\s?:")
_SENTENCE_START = re.compile(r"(?:^|[.!?:;\n•*>\-–—)\]\"“]\s*)$")


def find_entities(text: str, limit: int = LIMIT) -> tuple[Entity, ...]:
    """The entities of a text, in order, each once (case apart), at most `limit`.

    >>> [e.kind for e in find_entities("ORD-12345 failed in http_client.py with ECONNRESET")]
    ['identifier', 'file', 'error']
    """
    text = unicodedata.normalize("NFKC", text[:_LOOK])
    taken = bytearray(len(text))
    found: list[Entity] = []

    def take(kind: EntityKind, start: int, end: int) -> None:
        if start < end and not any(taken[start:end]):
            taken[start:end] = b"\1" * (end - start)
            found.append(Entity(text[start:end], kind, start))

    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(text):
            group = 1 if pattern.groups and match.group(1) is not None else 0
            end = match.end(group)
            while kind in ("url", "file") and end > match.start(group) and text[end - 1] in ".,;:!?":
                end -= 1
            take(kind, match.start(group), end)
    for pattern in _CHINESE:
        for match in pattern.finditer(text):
            group = 1 if pattern.groups else 0
            name = _LEADING.sub("", match.group(group)) if pattern is _CHINESE[-1] else match.group(group)
            shortest = 2 if pattern is _CHINESE[1] or name[-1:] in "市省县" else 3
            if len(name) >= shortest and name not in _CHINESE_COMMON:
                take("name", match.end(group) - len(name), match.end(group))
    rest = "".join("\0" if used else character for used, character in zip(taken, text, strict=True))
    for start, end in _capitalised(rest):
        take("name", start, end)
    found.sort(key=lambda entity: entity.start)
    unique: dict[str, Entity] = {}
    for entity in found:
        unique.setdefault(entity.text.casefold(), entity)
    return tuple(unique.values())[:limit]


def entities_of(text: str, limit: int = LIMIT) -> tuple[str, ...]:
    """What a text names, as strings; see `find_entities`.

    >>> entities_of("Ask Sarah Connor about the Berlin office")
    ('Sarah Connor', 'Berlin')
    >>> entities_of("请联系王经理，地址在上海市")
    ('王经理', '上海市')
    """
    return tuple(entity.text for entity in find_entities(text, limit))


def merge_entities(groups: Iterable[Iterable[str]], limit: int = LIMIT) -> tuple[str, ...]:
    """Entities of several texts as one list, each once (case apart), in order of appearance.

    >>> merge_entities([["Berlin", "API-1"], ["berlin", "Rome"]])
    ('Berlin', 'API-1', 'Rome')
    """
    unique: dict[str, str] = {}
    for group in groups:
        for name in group:
            unique.setdefault(name.casefold(), name)
    return tuple(unique.values())[:limit]


def _capitalised(text: str) -> list[tuple[int, int]]:
    """Spans of capitalised English names. A single word that opens a sentence counts only if it comes again inside."""
    spans: list[tuple[int, int, bool]] = []
    inside: set[str] = set()
    for match in _CAPITALS.finditer(text):
        start = match.start()
        words = match.group().split()
        opens = bool(_SENTENCE_START.search(text[max(0, start - 12) : start]))
        while words and words[0].casefold().rstrip(".") in _ORDINARY:
            start += len(words[0]) + 1
            words.pop(0)
            opens = False
        while words and (words[-1].casefold().rstrip(".") in _ORDINARY or words[-1][0].islower()):
            words.pop()
        if not words:
            continue
        if _LABEL.match(text, match.end()):
            continue
        name = " ".join(words).rstrip(".'’-&")
        name = name.removesuffix("'s").removesuffix("’s")
        if len(name) < 2 or (name.isupper() and len(name) > 12):
            continue
        doubtful = opens and len(words) == 1
        if not doubtful:
            inside.add(name)
        spans.append((start, start + len(name), doubtful))
    return [(start, end) for start, end, doubtful in spans if not doubtful or text[start:end] in inside]
