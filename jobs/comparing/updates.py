"""What a later statement changes: "budget 5000", then "my budget is now 8000"; "likes", then "no longer likes".

Only statements about the same thing change each other: the same attribute, or the same words around one value that
differs. Numbers that name a thing ("room 101", "order 55") are no values of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from ..reflecting.rules.attributes import is_known
from ..reflecting.rules.chinese import chinese_statement
from ..reflecting.rules.english import english_statement
from ..reflecting.rules.statements import Statement
from .frames import recounted
from .opposites import stance_of
from .values import Differences, Value, normal, values_of, without
from .wording import word_difference, wording_of

#: Words by which a statement says that something has changed, or that it holds at the time.
_CUE = re.compile(
    r"\b(?:now|currently|just|recently|lately|these days|nowadays|so far|already|no longer|any ?more|instead|changed|"
    r"moved|switched|updated|upgraded|increased|decreased|raised|lowered|reduced|replaced|became|new|newly|latest|"
    r"at present|as of|today|actually|finally|reached|up to|down to|in total|a total of|dropped|relocated|added)\b"
    r"|现在|目前|如今|改成|改为|改到|换成|换了|换到|搬到|搬去|搬家|搬了|不再|已经|刚|最近|更新|变成|变为|调整|升到|涨到|降到|"
    r"提高到|增加到|减少到|新的|总共|一共|至今|改用|转到",
    re.I,
)
_THE_USER = (
    (re.compile(r"^(?:the )?user's\b|^(?:his|her|their)\b", re.I), "my"),
    (re.compile(r"^(?:(?:the )?user|he|she) (?:now )?is\b", re.I), "I am"),
    (re.compile(r"^(?:(?:the )?user|he|she) (?:now )?has\b", re.I), "I have"),
    (re.compile(r"^(?:(?:the )?user|he|she) (no longer |now |currently |really )?"
                r"(like|love|hate|prefer|live|work|dislike|enjoy|speak|use)s\b", re.I), r"I \1\2"),
    (re.compile(r"^(?:(?:the )?user|he|she) (?:does not|doesn't)\b", re.I), "I don't"),
    (re.compile(r"^(?:(?:the )?user|he|she) (?=moved|relocated|wants|likes|prefers)", re.I), "I "),
    (re.compile(r"^(?:该|这位)?(?:用户|客户)的"), "我的"),
    (re.compile(r"^(?:该|这位)?(?:用户|客户)"), "我"),
    (re.compile(r"^(likes|loves|hates|prefers|enjoys|dislikes) ", re.I), lambda match: f"I {match[1][:-1].lower()} "),
    (re.compile(r"^(no longer) (like|love|enjoy|prefer|hate)s? ", re.I), r"I \1 \2 "),
    (re.compile(r"^(?:喜欢|讨厌|不再喜欢|不喜欢)"), lambda match: f"我{match[0]}"),
    (re.compile(r"^(?:the |new |current )*(budget|address|email|phone|city|job|age|diet|deadline|timezone)"
                r"(?: is|:)? (?:now )?(?=\S)", re.I), r"my \1 is "),
    (re.compile(r"^(?:新的?|当前)?(预算|地址|住址|邮箱|电话|手机号|城市|职业|年龄)"
                r"(?:现在|已经)?(?:是|为|：|:)?(?=[\w\d])"), r"我的\1是"),
)  # fmt: skip
#: What stands before a number that only names something.
_NAMING = re.compile(
    r"\b(?:room|order|flight|gate|seat|number|no\.?|version|line|chapter|page|step|section|floor|apartment|apt|unit|"
    r"building|bus|route|ticket|issue|pr|port|error|code|status|table|group|level|phase|part|day|week|season|"
    r"episode|track|platform|python|java|node|model|iphone|windows)\s*#?\s*$|第\s*$|[A-Za-z]$",
    re.I,
)
#: What stands after one.
_NAMING_AFTER = re.compile(r"^\s*(?:号(?!码)|号线|楼|栋|单元|室|章|页|班|路|版)")
#: What happened once, rather than how things are.
_EVENT = re.compile(
    r"\b(?!moved|scheduled|based|planned|changed)(?:\w{2,}ed|ran|went|had|met|saw|did|made|took|got|bought|came|won|ate|gave|was|were)\b|[了过]",
    re.I,
)
#: What stands before a name that says where or what something is, rather than which one is meant.
_PLACED = re.compile(r"\b(?:in|at|to|near|is|are|by|for|on|uses?|prefers?)\s+(?:the )?$", re.I)
#: Groups of opposites in which a change is a change of the thing, and not another thing.
_OF_STATE = (
    "taste",
    "frequency",
    "switch",
    "verdict",
    "seat",
    "channel",
    "change",
    "level",
    "price",
    "time",
    "part of day",
    "day",
)


@dataclass(frozen=True)
class Slot:
    """What a text gives a value to."""

    attribute: str
    value: str


@lru_cache(maxsize=1 << 15)
def slot_of(text: str) -> Slot | None:
    """The attribute and value that a text states of its subject; None if it states none that rules can read.

    >>> slot_of("User's budget is 8000"), slot_of("我搬到上海了").attribute
    (Slot(attribute='budget', value='8000'), 'city')
    """
    plain = normal(text).strip().rstrip(".。!！")
    parts = [part for part in _PARTS.split(plain) if part]
    # Of a part only what everybody has one of counts, if it is all that the text gives a value to.
    found = [slot for part in parts if len(parts) > 1 and (slot := _stated(part)) and is_known(slot.attribute)]
    return found[0] if len(found) == 1 else _stated(plain)


def _stated(plain: str) -> Slot | None:
    """The attribute and value of one clause."""
    plain = _LEAD.sub("", plain, count=1)
    for pattern, first_person in _THE_USER:
        changed = pattern.sub(first_person, plain, count=1)
        if changed != plain:
            plain = changed
            break
    plain = _AT_A_TIME.sub("", _MOVED.sub(_now_is, plain, count=1), count=1)
    for attribute, pattern in _LIFE:
        if match := pattern.search(plain):
            return Slot(attribute, match["value"].strip())
    if match := _RANK.search(plain):
        return Slot(f"{(match['of'] or '').strip()} {match['what']}".strip().casefold(), match["value"].casefold())
    readers: tuple[Callable[[str], Statement | None], ...] = (english_statement, chinese_statement)
    for reader in readers:
        said = reader(plain)
        if said is not None and said.attribute and said.value:
            return Slot(said.attribute, said.value)
    return None


#: Where one clause of a text ends and another one begins.
_PARTS = re.compile(
    r"\s*[,;:]\s+(?:and |but |so )?(?=(?:i|i'm|i've|my|our|now|it|the|new)\b)|"
    r"\s+(?:and|but|so)\s+(?=(?:i|i'm|i've|my|our)\b)|"
    r"(?<=[A-Za-z0-9)][.!])\s+(?=[A-Z])|(?<=[\u3400-\u9fff])\s*[,;!]\s*|\s*。\s*|\s[-–—]\s",
    re.I,
)
#: Words in front of a clause that only say when it holds.
_LEAD = re.compile(
    r"^(?:现在的?|目前的?|如今的?|以后|所以|因此|now[, ]+|currently[, ]+|by now[, ]+|these days[, ]+)(?=\S)", re.I
)
#: A thing was moved to another time or place.
_MOVED = re.compile(
    r"(?<=\w)\s+(?:(?:has|have|was|were|is|got)(?: just| now)? (?:been )?(?:moved|rescheduled|shifted|pushed back|"
    r"postponed|brought forward|changed|switched)(?: from [\w: ]+?)?|"
    r"(?<!\bi )(?<!\bwe )(?<!he )(?<!they )(?:moved|switched)) to\b|(?:推迟|提前|延期|挪|调|移|换)(?:到|至)了?",
    re.I,
)
#: What stands before the time of something.
_AT_A_TIME = re.compile(r"(?<=\bis )(?:now )?at (?=\d)|(?<=\bis now )at (?=\d)", re.I)
#: What someone does, what they are ranked as: the attribute and how it is said.
_LIFE = (
    (
        "job",
        re.compile(
            r"^i(?:'ve|'m| have| was| am| got| just)*(?: (?:been|just|recently|now))*(?: (?:got|been))? "
            r"(?:promoted to|hired as|working as|(?:started|got|took|accepted|landed)(?: on)? a (?:new )?job as|"
            r"started (?:working )?as|work now as|now work as) "
            r"(?:an? |the )?(?P<value>[a-z][\w /-]{2,40}?)(?: (?:at|for|in|with) .+)?$",
            re.I,
        ),
    ),
    (
        "job",
        re.compile(
            r"^我(?:已经|最近|刚刚?|被)*(?:升职为|升任|升为|晋升为|转行做了?|转岗为|改行做了?)"
            r"(?P<value>[\u4e00-\u9fffA-Za-z]{2,12}?)了?$"
        ),
    ),
    (
        "employer",
        re.compile(
            r"^i(?:'ve|'m| have| just| am)*(?: (?:just|recently|now))* (?:joined|"
            r"(?:started|got|took) a (?:new )?job (?:at|with)|moved over to|"
            r"started (?:working )?(?:at|for)) (?P<value>[A-Z][\w .&'-]{1,40})$",
            re.I,
        ),
    ),
    (
        "employer",
        re.compile(
            r"^我(?:已经|最近|刚刚?)*(?:跳槽到|跳槽去|入职|加入)了?(?P<value>[\u4e00-\u9fffA-Za-z0-9]{2,20}?)了?$"
        ),
    ),
)


#: A rank that someone has: "just reached Premier Gold status".
_RANK = re.compile(
    r"\bI(?:'ve|'m| have| am| was| just| finally| now| got)*[\w ]{0,20}?\b(?:reached|hit|earned|got|have|am|"
    r"eligible for|upgraded to|promoted to|hold|made) (?:an? |the )?(?P<of>(?:[A-Z]\w+ )*)(?P<value>[A-Z]\w+|\w+) "
    r"(?P<what>status|tier|membership|rank|belt)\b"
)
#: That what a text says was replaced, and by what.
_REPLACED_BY = re.compile(
    r"\b(?:replaced (?:by|with)|superseded by|succeeded by|gave way to|given up for)\s+(?P<new>[^.;,]{2,60})"
    r"|(?:被|由)(?P<by>[^，。,]{1,30}?)(?:所)?(?:取代|替代|代替|替换)",
    re.I,
)


def _says_it_was_replaced(older: str, newer: str) -> bool:
    """Whether the older text itself says by what it was replaced, and the newer one is about that."""
    match = list(_REPLACED_BY.finditer(older))
    if not match:
        return False
    successor = set(wording_of(match[-1]["new"] or match[-1]["by"]).words) - {"with", "by", "and"}
    return (
        bool(successor)
        and successor <= set(wording_of(newer).words)
        and not successor <= set(wording_of(older[: match[-1].start()]).words)
    )


def _now_is(match: re.Match[str]) -> str:
    return " is now" if match.group().isascii() else "改到"


def has_cue(text: str) -> bool:
    """Whether a text says that something changed or is so by now.

    >>> has_cue("my budget is now 8000"), has_cue("预算改成8000"), has_cue("my budget is 8000")
    (True, True, False)
    """
    return bool(_CUE.search(normal(text)))


def change_between(older: str, newer: str, found: Differences) -> str:
    """Why the newer of two statements about one subject changes the older one; empty if it does not.

    `found` are the differences of their values, the older one's first.
    """
    if _says_it_was_replaced(normal(older), normal(newer)):
        return "it says itself that it was replaced by this"
    if recount := recounted(older, newer):
        return f"{recount[0]} then, {recount[1]} now"
    plain_old, plain_new = normal(older), normal(newer)
    was, now = stance_of(plain_old), stance_of(plain_new)
    if was.asks or now.asks or was.conditional or now.conditional or now.hedged:
        return ""
    values = [(one, two) for one, two in found.clash if _is_value(one, plain_old) and _is_value(two, plain_new)]
    others = [pair for pair in found.clash if pair not in values]
    words = word_difference(_bare(plain_old, [one for one, _ in values]), _bare(plain_new, [two for _, two in values]))
    count = len(set(wording_of(_bare(plain_old, [one for one, _ in values])).words)) - len(set(words.left))
    is_exact = not words.left and not words.right and words.order in ("same", "turned", "moved")
    cue = has_cue(plain_new)
    if values and not others:
        one, two = values[0]
        said = f"{one} then, {two} now"
        if not measures_alike(one, two) or (not is_exact and _introduces(plain_new)):
            return ""
        if count >= 1 and (is_exact or (not (words.left and words.right) and (cue or words.shared == 1.0))):
            return said
        counts = one.sort == "number" and _same_noun(one, two, plain_old, plain_new)
        if cue and count >= 2 and words.shared >= 0.4 and (counts or one.sort in _OF_STATE[:4]):
            return said
        if counts and count >= 3 and words.shared >= 0.3 and _share_a_name(older, newer):
            return said
    if not found.clash and was.denials % 2 != now.denials % 2:
        hushed = word_difference(_without_denial(plain_old), _without_denial(plain_new))
        more = len(hushed.left) + len(hushed.right)
        if not (hushed.left and hushed.right) and more <= 2 and hushed.order in ("same", "turned", "within"):
            return "no longer so" if now.denials else "so again"
    return ""


#: Units of money; an amount without one is of the same unit as the one with it.
_MONEY = ("usd", "eur", "gbp", "cny", "yen")
#: How someone or something is named for the first time, so that it is not what was spoken of before.
_INTRODUCED = re.compile(
    r"(?:有|一|另)[个位名]|\b(?:another|one of (?:my|our|the)|an? (?:friend|colleague|cousin|neighbou?r)"
    r"(?: of (?:mine|ours))?)\b",
    re.I,
)


def measures_alike(one: Value, two: Value) -> bool:
    """Whether two values measure the same: an age is no height, and neither is a phone number."""
    if one.sort != "number" or one.key[1] == two.key[1]:
        return True
    return "" in (one.key[1], two.key[1]) and (one.key[1] or two.key[1]) in _MONEY


def _introduces(text: str) -> bool:
    return bool(_INTRODUCED.search(text))


def _share_a_name(first: str, second: str) -> bool:
    """Whether both name the same person or thing, by a name that is no guess."""
    names = [
        {value.key[0] for value in values_of(text) if value.sort == "name" and not value.weak}
        for text in (first, second)
    ]
    return bool(names[0] & names[1])


_DENIAL = re.compile(
    r"\b(?:do not|does not|did not|don't|doesn't|didn't|isn't|aren't|not|no longer|never|any ?more|stopped|quit)\b|"
    r"不再|再也不|不|没有|没|别|了",
    re.I,
)


def _without_denial(text: str) -> str:
    return _CUE.sub(" ", _DENIAL.sub(" ", text))


def _bare(text: str, values: list[Value]) -> str:
    """A text without some values and without the words that only say that something changed."""
    return _CUE.sub(" ", without(text, values))


def _is_value(value: Value, text: str) -> bool:
    """Whether a value says how something is, rather than which thing is meant."""
    if value.sort == "number":
        return not (_NAMING.search(text[: value.start]) or _NAMING_AFTER.match(text[value.end :]))
    if value.sort == "identifier":
        return "@" in value.key[0]
    if value.sort in ("date", "time", "day", "part of day"):  # of two events, neither changes the other
        return not _EVENT.search(text)
    if value.sort == "name":
        return not value.weak and bool(_PLACED.search(text[: value.start]))
    return value.sort in _OF_STATE


_AFTER = re.compile(r"^[\s-]*(?:\w+[\s-]+){0,2}?([A-Za-z\u4e00-\u9fff]+)")


def _same_noun(one: Value, two: Value, first: str, second: str) -> bool:
    """Whether two numbers count the same: one unit, or one noun right after them, or none after one of them."""
    if one.sort != "number":
        return True
    if one.key[1] or two.key[1]:
        return one.key[1] == two.key[1]
    after = [wording_of(text[value.end : value.end + 40]).words[:2] for value, text in ((one, first), (two, second))]
    return not after[0] or not after[1] or bool(set(after[0]) & set(after[1]))
