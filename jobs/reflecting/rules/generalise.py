"""From an instance to its kind: what is only this order's, this person's or this day's gives way to a placeholder."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ....memory_store.capture.events import Event, Trace
from ....memory_store.text.entities import Entity, find_entities
from ....memory_store.text.language import is_cjk
from .sentences import own_words, sentences_of

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    r"oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_DATE = re.compile(
    rf"(?<![\w-])\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}(?:[T ]\d{{1,2}}:\d{{2}}(?::\d{{2}})?(?:\.\d+)?Z?)?|"
    rf"(?<![\w.-])\d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{2,4}}\b(?![\w-])|"
    rf"\b{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?\b|\b\d{{1,2}}(?:st|nd|rd|"
    rf"th)?(?: of)? {_MONTH}\b(?:,? \d{{4}})?|"
    r"(?:\d{2,4}年)?\d{1,2}月\d{1,2}[日号]?|\d{4}年|[上下这本]?周[一二三四五六日天末]|星期[一二三四五六日天]|"
    r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\b(?:today|tomorrow|yesterday)\b|今天|明天|昨天|后天",
    re.I,
)
_TIME = re.compile(
    r"\b\d{1,2}(?::\d{2}){1,2}\s?(?:[ap]\.?m\.?)?(?![\w])|\b\d{1,2}\s?[ap]\.?m\b\.?|\d{1,2}[点时](?:\d{1,2}分|半)?",
    re.I,
)
_AMOUNT = re.compile(
    r"(?:[$€£¥]\s?|\b(?:USD|EUR|CNY|RMB)\s?)\d[\d,.]*\b|\b\d[\d,.]*\s?(?:dollars|euros|pounds|usd|eur|yuan)\b|"
    r"\d[\d,.]*\s?(?:元|块钱?|万元?|美元|人民币)",
    re.I,
)
_NUMBER = re.compile(
    r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w])|(?<=[\u4e00-\u9fff])\d{3,}(?![A-Za-z0-9_])|"
    r"(?<![\w.])\d{4,}(?=[\u4e00-\u9fff])"
)
_QUOTED = re.compile(r"\"[^\"\n]{1,80}\"|'[^'\n]{2,80}'(?!\w)|“[^”\n]{1,80}”|「[^」\n]{1,80}」|`[^`\n]{1,80}`")
_DOTS = re.compile(r"…(?:[\s,'\"/:-]*(?:and |or |和|与|、)?…)+")
_KIND_NAMES = {
    "en": {
        "date": "a date",
        "time": "a time",
        "amount": "an amount",
        "email": "an e-mail address",
        "url": "a link",
        "id": "an id",
    },
    "zh": {"date": "某日", "time": "某时", "amount": "某金额", "email": "某邮箱", "url": "某链接", "id": "某编号"},
}
#: Numbers up to this are counts (three bags) and stay.
_SMALL = 20


def generalise(text: str, *, placeholder: str = "", keep: Iterable[str] = ()) -> str:
    """A text without ids, names, dates, times, amounts and links; each becomes its kind, or `placeholder` if given.

    `keep` are words that stay although they look like names: tools, arguments.

    >>> generalise("Move order ORD-5521 of Priya Raman to May 27")
    'Move order … of … to a date'
    >>> generalise("把订单ORD-5521改到5月27日")
    '把订单…改到某日'
    """
    kinds = _KIND_NAMES["zh" if is_cjk(text) else "en"]
    kept = set(keep)

    def name(kind: str) -> str:
        return placeholder or kinds[kind]

    if placeholder:
        text = _QUOTED.sub(placeholder, text)
    for pattern, kind in ((_DATE, "date"), (_TIME, "time"), (_AMOUNT, "amount")):
        text = pattern.sub(name(kind), text)
    for entity in sorted(find_entities(text, 200), key=lambda item: -len(item.text)):
        if entity.text in kept:
            continue
        if entity.kind in ("email", "url"):
            text = text.replace(entity.text, name(entity.kind))
        elif _is_instance(entity):
            text = text.replace(entity.text, "…")
    text = _NUMBER.sub(lambda m: m.group() if _is_small(m.group()) else "…", text)
    return _DOTS.sub("…", re.sub(r"\s?[(（]…[)）]", "", text))


def instance_in(text: str, names: Iterable[str] = ()) -> str:
    """What in a text is an instance (an id, an address, a date, a name among `names`); empty if nothing is.

    >>> instance_in("call refund for ORD-5521"), instance_in("call get_user_details first")
    ('ORD-5521', '')
    """
    for entity in find_entities(text, 200):
        if entity.kind in ("email", "url", "identifier") and _is_instance(entity):
            return entity.text
    for pattern in (_DATE, _AMOUNT):
        if match := pattern.search(text):
            return match.group()
    for match in _NUMBER.finditer(text):
        if len(re.sub(r"\D", "", match.group())) >= 4:
            return match.group()
    for name in names:
        if len(name) > 1 and re.search(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])", text):
            return name
    return ""


#: Most words of a phrase that tells a situation.
_PHRASE = 14
_ASK = re.compile(
    r"\b(?:i(?:'d| would) (?:really )?(?:like|love|prefer) to|i (?:just |really |also )?(?:want|need|wish|have|"
    r"intend) to|i'm (?:trying|looking|hoping|"
    r"calling|planning|wanting) to|can you|could you|would you|would it be possible to|is it possible to|please|"
    r"help me(?: to)?|"
    r"how (?:do|can|could|would) i|am i able to|i need (?:some |your )?(?:help|assistance)(?: with| to| in)?|"
    r"i (?:want|need|would like|'d like)|"
    r"help with|assistance with|your task is to|you need to|you should)\s+(?P<what>[^.!?\n]{6,240})",
    re.I,
)
#: A text longer than this is a prompt with instructions in it, of which only the task itself is a wish.
_PROMPT = 900
_TASK = re.compile(
    r"(?:^|\n)\W{0,4}(?:general task|task description|task|question|goal|任务|问题|"
    r"目标)\W{0,4}[:：\n]\s*([^\n]{8,400})",
    re.I,
)
_ASK_CHINESE = re.compile(
    r"(?:我(?:们)?(?:想要?|要|需要|希望|打算|得)|请(?:你|您)?(?:帮我|帮忙|协助)?|帮(?:我|忙)|麻烦(?:你|您)?(?:帮我)?|"
    r"能不能|能否|可以(?:帮我)|可不可以|怎么|如何)(?P<what>[^。！？；\n，,]{3,60})"
)
_GREETING = re.compile(
    r"^(?:hi|hello|hey|good (?:morning|afternoon|evening)|there|dear \w+|thanks|thank you|ok|okay|sure|你好|"
    r"您好)[\s,!.，。！]*",
    re.I,
)
_TAIL = re.compile(
    r"[,;]?\s+(?:and|but|or|to|for|the|a|an|of|in|on|with|from|at|if|that|because|since|as|my|is|please|…)$", re.I
)
_OWN = (
    (re.compile(r"\bi['’]m\b", re.I), "the user is"),
    (re.compile(r"\bi['’]ll\b", re.I), "the user will"),
    (re.compile(r"\bi['’]ve\b", re.I), "the user has"),
    (re.compile(r"\bi['’]d\b", re.I), "the user would"),
    (re.compile(r"\bi am\b", re.I), "the user is"),
    (re.compile(r"\b(?:my|our)\b", re.I), "the"),
    (re.compile(r"\b(?:i|we)\b", re.I), "the user"),
    (re.compile(r"\bme\b", re.I), "the user"),
    (re.compile(r"\byou(?:r)?\b", re.I), "the agent"),
)
_EMPTY = frozenset(
    str.split(
        "the a an to of for in on with and or my me i you it this that some please help can could would like want "
        "need have be is are do so as at by from what how just also really user agent know get make … date time "
        "amount id about if all any new let"
    )
)


def situation_of(trace: Trace) -> str:
    """What the task asked for, as a kind of request: two phrases at most; empty if unclear.

    The user's first wish, and the one that says most among the goal and their first three messages. A phrase has at
    most 14 words, or 28 Chinese characters.
    """
    said: list[str] = [event.content for event in trace.events if event.type == "task" and event.content][:1]
    said += [event.content for event in _user_messages(trace)[:3]]
    wishes: list[str] = []
    for text in said:
        if len(text) > _PROMPT:
            wishes += (
                _TASK.findall(text[:20_000])[:2] + [s for s in sentences_of(text[:6000]) if s.endswith(("?", "？"))][:2]
            )
            continue
        for sentence in sentences_of(own_words(text)):
            wishes += [match["what"] for match in _ASK.finditer(sentence)]
            wishes += [match["what"] for match in _ASK_CHINESE.finditer(sentence)]
    if not wishes and said and len(said[0]) <= _PROMPT:
        wishes = sentences_of(own_words(said[0][:600]))[:2]
    phrases = [phrase for wish in wishes if (phrase := _phrase(wish))]
    if not phrases:
        return ""
    best = max(phrases, key=_weight)
    first = phrases[0]
    if first == best or set(content_words(first)) <= set(content_words(best)):
        return best
    joined = f"{first}; {best}"
    return joined if len(joined.split()) <= _PHRASE + 8 and not is_cjk(joined) else best


def content_words(text: str) -> list[str]:
    """The words of a text that say something; a Chinese character counts for half a word."""
    words = [word for word in re.findall(r"[a-z][a-z'_-]+", text.lower()) if word not in _EMPTY]
    han = re.findall(r"[\u4e00-\u9fff]{2}", text)
    return words + han


def _weight(phrase: str) -> float:
    """How much a phrase says: its content words, less its placeholders."""
    return len(content_words(phrase)) - 0.5 * phrase.count("…")


def _phrase(wish: str) -> str:
    text = _GREETING.sub("", generalise(wish.strip()))
    if is_cjk(text):
        text = re.sub(r"^(?:你|您|我)?(?:帮我|一下)?", "", text).strip("，。 的了吗呢")
        return text[:28] if len(text) >= 4 else ""
    for pattern, instead in _OWN:
        text = pattern.sub(instead, text)
    words = text.replace("*", "").split()[:_PHRASE]
    text = " ".join(words).strip(" ,;:-\"'")
    while (shorter := _TAIL.sub("", text)) != text:
        text = shorter
    text = text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text
    return text if len(content_words(text)) >= 2 else ""


def _user_messages(trace: Trace) -> list[Event]:
    return [e for e in trace.events if e.type == "message" and e.role == "user" and e.content.strip()]


def _is_instance(entity: Entity) -> bool:
    """Whether an entity is this one's only: a name, an id, an address, a path; a term or a file's name is not."""
    if entity.kind == "identifier":
        return not _is_plain(entity.text)
    return entity.kind in ("name", "quoted", "email", "url") or (
        entity.kind == "file" and ("/" in entity.text or "\\" in entity.text)
    )


def _is_plain(identifier: str) -> bool:
    """An identifier that is a term and no instance: utf-8, ipv4, sha256, 24-hour, s3, v2."""
    return (
        re.fullmatch(r"[a-z]{1,8}-?\d{1,3}|\d{1,3}-[a-z]+|\d{1,2}(?:st|nd|rd|th)|[A-Z]{2,5}-?\d", identifier)
        is not None
    )


def _is_small(number: str) -> bool:
    try:
        return float(number.replace(",", "")) <= _SMALL and "." not in number
    except ValueError:
        return False
