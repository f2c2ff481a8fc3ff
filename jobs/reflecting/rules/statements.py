"""What users state about themselves: facts, preferences and rules, and changes of them (R6, R7).

Only what is said outright counts. A question, an "if", a guess, a quotation, someone else's words and what holds for
one order or one day are passed over: precision before recall.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from .attributes import Attribute, attribute_of, common, holds_many, is_secret

StatementKind = Literal["fact", "preference", "rule"]

#: Attributes whose value is what someone likes best, and not what is the case.
_PREFERENCES = frozenset(("seat", "diet", "contact_channel", "language", "payment_method", "nickname"))


@dataclass(frozen=True)
class Statement:
    """One thing that a user says is so, wants always, or likes."""

    kind: StatementKind
    #: Their words, self-contained
    text: str
    #: The words as they stand in the message
    quote: str
    attribute: str = ""
    value: str = ""
    importance: float = 0.5
    confidence: float = 0.7
    #: Whether they say that it was otherwise before
    changed: bool = False
    #: Whether it is a secret, which is to be refused
    secret: bool = False
    #: What they did by saying it (decision, goal, agreement, …); empty: they stated something
    tag: str = ""


def state(words: str, value: str, quote: str, *, changed: bool = False) -> Statement | None:
    """What "my WORDS is VALUE" states; None when the words name nothing lasting or the value can't be theirs."""
    value = clean_value(value)
    if not value:
        return None
    if is_secret(words):
        return Statement("fact", f"{words}: [secret]", "", attribute="secret", secret=True)
    attribute = attribute_of(words)
    if attribute is None or not _fits(attribute, value):
        return None
    if attribute.pick and not value.startswith("not "):
        picked = re.search(attribute.pick, value)
        if picked is None:
            return None
        value = picked.group()
    known = bool(attribute.words)
    return of_attribute(attribute, value, quote, changed=changed, confidence=0.9 if known else 0.7)


def of_attribute(
    attribute: Attribute | str,
    value: str,
    quote: str,
    *,
    changed: bool = False,
    confidence: float = 0.9,
    kind: StatementKind | None = None,
) -> Statement:
    """A statement about a known attribute. What holds many values has one attribute a value, so none ends another."""
    known = common(attribute) if isinstance(attribute, str) else attribute
    name = known.name
    if holds_many(name):
        name = f"{name}:{slug(value)}"
    kind = kind or ("preference" if known.name in _PREFERENCES or known.name.startswith("fav") else "fact")
    return Statement(kind, quote, quote, name, value, known.importance, confidence, changed)


def liking(thing: str, verdict: str, quote: str, *, changed: bool = False) -> Statement | None:
    """The preference in "I like THING"; None when the thing is only pointed at."""
    thing = clean_value(thing)
    if not thing or _POINTED.match(thing) or len(thing) > 60:
        return None
    if channel := channel_of(thing):
        value = channel if verdict in ("likes", "prefers") else f"not {channel}"
        return of_attribute("contact_channel", value, quote, changed=changed)
    if verdict == "prefers" and (seat := _SEAT.search(thing)):
        return of_attribute("seat", seat.group().casefold(), quote, changed=changed)
    return Statement("preference", quote, quote, f"liking:{slug(thing)}", verdict, 0.6, 0.8, changed)


_POINTED = re.compile(
    r"(?:it|that|this|these|those|them|one|the|your|you|to (?:know|see|be|have|get|go|thank|make|do)|how|what|when|so|"
    r"both|all|a lot|any|either|nothing|everything|option|some|my)\b"
    r"|(?:这|那|它|你|您|前者|后者|第[一二三]|哪)",
    re.I,
)
_SEAT = re.compile(r"\b(?:window|aisle|middle)\b|靠窗|靠过道|过道", re.I)
_CHANNELS = (
    ("email", re.compile(r"\be-?mails?\b|邮件|电邮|邮箱|email", re.I)),
    ("phone", re.compile(r"\b(?:phone|calls?|calling|telephone|phoned)\b|电话|来电|通话", re.I)),
    ("sms", re.compile(r"\b(?:sms|texts?|texting|text messages?)\b|短信", re.I)),
    ("wechat", re.compile(r"\bwechat\b|微信", re.I)),
    ("chat", re.compile(r"\b(?:slack|whatsapp|telegram|teams|chat)\b|在线聊天|钉钉|飞书", re.I)),
)


def channel_of(text: str) -> str:
    """The contact channel that a text names first; empty if none."""
    found = [(match.start(), name) for name, pattern in _CHANNELS if (match := pattern.search(text))]
    return min(found)[1] if found else ""


_TRAILING = re.compile(
    r"(?:\s+(?:now|please|thanks|thank you|by the way|btw|actually|instead|though|as well|too|anymore|any more|"
    r"right now|"
    r"from now on|at the moment|ok|okay)|[了吧啊呢哦呀嘛哈]|谢谢|现在|左右)+$",
    re.I,
)
_EDGES = " \t,.;:!?，。；：！？、\"'“”‘’()（）*_`~"


def clean_value(value: str) -> str:
    """A value without what only ends the sentence.

    >>> clean_value("8,000 euros now, please."), clean_value("8000了。")
    ('8,000 euros', '8000')
    """
    value = value.strip(_EDGES)
    while (shorter := _TRAILING.sub("", value).strip(_EDGES)) != value:
        value = shorter
    return value if len(value) <= 120 else ""


#: What follows "my WORDS is" and is no value: states of the moment, the start of a clause.
_NO_VALUE = re.compile(
    r"^(?:a bit|so|too|very|really|quite|still|just|only|going|being|getting|trying|that|to |because|when|if|what|"
    r"how|why|where|who|whether|unfortunately|probably|actually|right|wrong|correct|incorrect|late|delayed|broken|"
    r"missing|lost|stuck|slow|down|locked|blocked|here|there|ready|done|fine|ok|okay|good|bad|great|urgent|flexible|"
    r"tight|limited|unclear|unknown|different|same|the same|in|on|at|as follows|below|above|attached|"
    r"been|gone|always|never|under|over |about to)\b|^(?:这|那|什么|怎么|多少|谁|不|没|很|太|非常|比较|正在|已经|还)",
    re.I,
)
#: What an attribute that isn't a common one may be: a number, a name; a kind of person, if it is one.
_DEFINITE = re.compile(r"^(?:called |named |about |only )?[$€£¥]?[\dA-Z\u4e00-\u9fff@#]")
_RELATION = re.compile(
    r"(?:^|_)(?:wife|husband|partner|spouse|son|daughter|child|kid|kids|children|mother|father|mom|mum|dad|"
    r"parents?|brother|sister|boss|manager|friend|colleague|dog|cat|fianc[eé]e?|girlfriend|boyfriend)$"
)


def _fits(attribute: Attribute, value: str) -> bool:
    negated = value.lower().startswith("not ")
    plain = value[4:] if negated else value
    if _NO_VALUE.search(plain) or not re.search(attribute.value, plain):
        return False
    if attribute.name == "name":
        return len(plain.split()) <= (4 if plain[0].isupper() else 2) and len(plain) <= 40
    if attribute.words or attribute.name.startswith("fav"):
        return True
    if len(plain.split()) > 5 or len(plain) > 50:
        return False
    if _RELATION.search(attribute.name) and re.match(r"an? ", plain):
        return True
    return _DEFINITE.match(plain) is not None


def slug(text: str) -> str:
    """A short name made of a text.

    >>> slug("Black coffee, no sugar")
    'black_coffee_no_sugar'
    """
    text = re.sub(r"^(?:(?:a|an|the|any|all|some|my|eating|drinking)\s+|[吃喝看听用])", "", text.casefold())
    parts = re.findall(r"[a-z0-9\u00c0-\u024f]+|[\u3400-\u9fff\u3040-\u30ff\uac00-\ud7af]+", text)
    return "_".join(parts)[:40].strip("_")


_NOT_BUT = (
    re.compile(
        r"\bnot\s+(?P<old>[$€£¥]?[\w.,@-]{1,40}(?: [\w-]+){0,2}?)\s*[,;]?\s*(?:but|it's|it is|"
        r"rather)\s+(?P<new>[^,;.!?]{1,60})",
        re.I,
    ),
    re.compile(r"\bnot\s+(?P<old>[$€£¥]?\d[\w.,-]{0,20})\s*[,;]\s*(?P<new>[$€£¥]?\d[\w.,-]{0,20})", re.I),
    re.compile(r"(?P<new>[$€£¥]?[\w.,@-]{1,40})\s*[,;]\s*not\s+(?P<old>[$€£¥]?[\w.,@-]{1,40})", re.I),
    re.compile(r"不是(?P<old>[^，。,;；是]{1,20})[，,、\s]*(?:而是|应该是|是)(?P<new>[^，。,;；!！?？]{1,30})"),
    re.compile(r"(?<!不)是(?P<new>[^，。,;；不是]{1,30})[，,、\s]*(?:而)?不是(?P<old>[^，。,;；!！?？]{1,20})"),
)


def correction_of(sentence: str, known: Mapping[str, Statement]) -> Statement | None:
    """The change in "not 5000, 8000", of the attribute whose value was 5000; None if no known value is meant.

    `known` are the user's statements so far, by attribute.
    """
    for pattern in _NOT_BUT:
        for match in pattern.finditer(sentence):
            old, new = _plain(match["old"]), clean_value(match["new"])
            for attribute, before in known.items():
                if old and new and _plain(before.value) == old and _plain(new) != old:
                    words = re.sub(r"[_:]", " ", attribute)
                    text = f"{words}: {new} (not {clean_value(match['old'])})"
                    return replace(
                        before, text=text, quote=match.group().strip(), value=new, changed=True, confidence=0.7
                    )
    return None


def _plain(value: str) -> str:
    return re.sub(r"[\s,$€£¥]|了$", "", clean_value(value).casefold())
