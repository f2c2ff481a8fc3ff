"""What a user settles in a longer undertaking: decisions, goals, appointments, progress, and forms that they fill in.

A sentence counts only if it holds something definite (a number, a day, a name, a title): "let's do it" settles
nothing that could be told apart later. Where the agent carries the wish out by a call that changes something, what
was settled holds for that one order, and the episode keeps it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ....memory_store.capture.events import Event, Trace
from .attributes import attribute_of, is_secret
from .calls import is_write
from .corrections import is_correction
from .generalise import content_words
from .sentences import DOCUMENT, is_hypothetical, own_words, sentences_of
from .statements import Statement, state

#: Most of these of one message.
LIMIT = 8
#: A sentence or line that is longer says several things.
_LONGEST = 240
_WORDS = 4

_LEAD = (
    r"^\W*(?:(?:okay|ok|alright|right|yes|yeah|good|great|perfect|so|and|but|well|also|then|now|first|actually|"
    r"for now|sure|excellent|thanks)[\s,.!:]+)*"
)
_DAY = (
    r"\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|daily|weekly|monthly|yearly|every|each|tonight|tomorrow|"
    r"next (?:week|month|year)|january|february|march|april|may(?= \d)|june|july|august|september|october|november|"
    r"december)s?\b"
)
_DEFINITE = re.compile(
    rf"\d|(?<=[a-z,] )[A-Z\u00c0-\u00de][A-Za-z]+|\*\*|`|[\"“'‘][A-Z]|{_DAY}|"
    r"每[天周月年日晚早]|周[一二三四五六日末]|星期|月底|月初|明[天年]|下[周月]|[《“「][^》”」]+[》”」]|"
    r"(?<=[\u4e00-\u9fff])[A-Za-z]{2,}",
)
_POINTED = r"(?! ?(?:it|that|this|them|these|those|one|you|the (?:first|second|last|latter|former))\b)"
#: Kind of settling, its pattern, importance, confidence.
_KINDS: tuple[tuple[str, re.Pattern[str], float, float], ...] = (
    (
        "decision",
        re.compile(
            _LEAD + r"let'?s (?:go with|use|stick (?:to|with)|lock(?: in)?|set|schedule|keep|make it|aim for|target|"
            rf"finali[sz]e|say|choose|book|call it)\b{_POINTED}|"
            r"\b(?:i|we)(?:'ve| have)? ?(?:now |just |finally )?(?:decided|chosen|settled|agreed|picked|opted|"
            rf"committed)\b{_POINTED}|"
            + _LEAD
            + rf"(?:i|we)(?:'ll| will)? (?:go with|choose|pick|opt for|settle on|stick (?:to|with))\b{_POINTED}|"
            r"(?:那?就(?:定|选|用|按)|我们?(?:最后|最终|已经)?(?:决定|选定|敲定|商定|选了|定了)|(?:时间|日子|日期)?定[在于]|咱们就)",
            re.I,
        ),
        0.5,
        0.65,
    ),
    (
        "goal",
        re.compile(
            r"\b(?:the|my|our) (?:\w+ ){0,2}(?:goal|aim|target|objective|priority|deadline|mission|milestone)s? "
            r"(?:is|are|will be|remains?)\b|"
            r"(?:我们?的?|项目|这次|主要)(?:\w{0,4}的)?(?:目标|重点|截止日期|期限|计划)(?:就?是|为|定)",
            re.I,
        ),
        0.5,
        0.65,
    ),
    (
        "appointment",
        re.compile(
            r"\b(?:(?:is|are|was|were|got|been) (?:\w+ )?(?:confirmed|scheduled|booked|locked in|finali[sz]ed|"
            r"approved|postponed|cancelled|due)|(?:is|are) set for|on hold)\b|"
            r"(?:已经?|都)(?:确认|定好|订好|排好|安排好|批准|推迟)|安排在|推迟到|改到|约在",
            re.I,
        ),
        0.5,
        0.6,
    ),
    (
        "figure",
        re.compile(
            _LEAD + r"(?:my|our)\b(?! (?:\w+ )?(?:flight|order|booking|reservation|ticket|parcel|package|delivery)s?\b)"
            r".{2,80}\b(?:is|are|was|were|costs?|takes?|comes? to|went (?:up|down) to|at|of)\b.{0,40}\d|"
            + _LEAD
            + r"(?:i|we)(?:'ve| have|'m|'re)?(?: also| currently| still| now| only| just)* (?:pay|paid|earn|earned|"
            r"make|made|spend|spent|owe|save|saved|own|run|ran|work|worked|sleep|slept|train|trained|weigh|get|got|have|"
            r"do|did|wake)\b.{0,60}\d|"
            r"我(?:们|家|每|一)?[^，。]{0,16}(?:花|付|赚|挣|存|欠|睡|跑|走|练|重|工作)了?[^，。]{0,8}\d",
            re.I,
        ),
        0.35,
        0.55,
    ),
    (
        "intention",
        re.compile(
            _LEAD + rf"(?:i|we)(?:'ll| will|'m going to|'re going to| am going to)\b(?! (?:need|want|let you|tell you|"
            rf"wait|try|see|think|give you|send you|write|check|be right)\b){_POINTED}|"
            r"^\W*(?:[\u4e00-\u9fff]{0,8}[,，]?)?我们?(?:会|将|打算|计划|准备|接下来|明天|下周)(?!不)",
            re.I,
        ),
        0.35,
        0.55,
    ),
    (
        "progress",
        re.compile(
            _LEAD + r"(?:i|we)(?:'ve| have)?(?: also| just| already| finally| recently)* (?:finished|completed|created|"
            r"drafted|submitted|managed|set up|implemented|reached|logged|recorded|secured|signed|put|spent|passed|"
            rf"launched|moved|hired|joined|enrolled)\b{_POINTED}|"
            r"我们?(?:已经?|刚刚?|今天|昨天|终于)?(?:完成|提交|做完|写完|搞定|报名|签|看完|学完|通过|存)(?:好)?了",
            re.I,
        ),
        0.35,
        0.55,
    ),
)
_WHEN = re.compile(rf"\d|{_DAY}|每[天周月年]|周[一二三四五六日末]|星期|月底|月初|明年|下[周月]", re.I)
_FLEETING = re.compile(
    r"\b(?:now|immediately|right away|today|tonight|later|soon|asap|in a (?:minute|moment|bit)|once)\b|"
    r"现在|马上|立刻|今[天晚]|待会|一会儿",
    re.I,
)
#: A number that names one order, flight or ticket.
_ONE_ORDER = re.compile(r"\b[A-Z]{2,}[-_]?\d{3,}\b|#\w*\d{3,}|\b\d{7,}\b|_\d{4,}\b")
#: "**Label:** value", or "- Label: value" in a list.
_LABEL = re.compile(
    r"^\s*(?:[-*•·]|\d+[.)、])?\s*\*\*(?P<bold>[^*:：\n]{2,50}?)\s*[:：]?\*\*\s*[:：]?\s*(?P<bold_value>\S.*)$|"
    r"^\s*(?:[-*•·]|\d+[.)、])\s+(?P<plain>[A-Z\u4e00-\u9fff][\w /&'()\u4e00-\u9fff-]{1,40})[:：]"
    r"\s*(?P<plain_value>\S.*)$"
)
#: Labels of a report on a fault, of one order, or of a message: they say nothing about an undertaking.
_NO_LABEL = re.compile(
    r"\b(?:error|exception|warning|stack|trace|log|status|code|id|ids|number|no|order|booking|reservation|ticket|"
    r"tracking|invoice|url|link|subject|from|to|cc|re|note|ps|p\.s|example|input|output|question|answer|task|prompt|"
    r"role|context|instructions?|constraints?|user|assistant|system|expected|actual)\b|"
    r"错误|异常|状态|编号|单号|订单|主题|问题|答案|示例|输入|输出|要求",
    re.I,
)


@dataclass(frozen=True)
class Settled:
    """Something that a user settled, and where they said so."""

    event: Event
    said: Statement


def is_definite(text: str) -> bool:
    """Whether a text names something that can be told apart: a number, a day, a name, a title.

    >>> is_definite("let's meet on Friday"), is_definite("let's do that"), is_definite("每周三开会")
    (True, False, True)
    """
    return _DEFINITE.search(text) is not None


def is_carried_out(trace: Trace) -> bool:
    """Whether the agent of a trace changed something by a call."""
    return any(is_write(call.tool) for call in trace.tool_calls)


def settled_in(text: str) -> list[Statement]:
    """What a user's message settles, in order, at most `LIMIT`: lines of a form, and sentences that decide.

    >>> [said.text for said in settled_in("Let's go with the Ferrara hostel for May 4. Sounds good?")]
    ["Let's go with the Ferrara hostel for May 4."]
    >>> [said.text for said in settled_in("- **Weekly budget**: 90 euros\\n- **Cook**: Ines, on Sundays")]
    ['Weekly budget: 90 euros', 'Cook: Ines, on Sundays']
    """
    found: dict[str, Statement] = {}
    if len(text) > DOCUMENT:
        return []
    own = own_words(text)
    labelled = labelled_lines(own)
    for line, label, value in labelled:
        if said := _of_label(label, value, line):
            found.setdefault(said.text.casefold(), said)
    if len(labelled) > 2 * LIMIT:  # a document that they pasted
        found.clear()
    rest = "\n".join(line for line in own.splitlines() if not _LABEL.match(line))
    for sentence in sentences_of(rest):
        if said := _of_sentence(sentence):
            found.setdefault(said.text.casefold(), said)
    # A sentence from which a quotation was taken out is not as they wrote it
    return [said for said in found.values() if said.quote in text][:LIMIT]


def settled_of(trace: Trace, events: Iterable[Event]) -> list[Settled]:
    """What the user settled in these events of a trace; nothing where the agent carried their wishes out."""
    if is_carried_out(trace):
        return []
    return [Settled(event, said) for event in events for said in settled_in(event.content)]


def labelled_lines(text: str) -> list[tuple[str, str, str]]:
    """Lines of the form "Label: value", each as line, label and value; a single plain one is no form."""
    found = []
    plain = 0
    for line in text.splitlines():
        if match := _LABEL.match(line):
            plain += bool(match["plain"])
            label, value = match["bold"] or match["plain"], match["bold_value"] or match["plain_value"]
            found.append((line.strip(), label.strip(), value.replace("**", "").strip()))
    return [] if len(found) == 1 and plain else found


def _lasts(intention: str) -> bool:
    """Whether what someone means to do has a day or a number, and is not over by tomorrow."""
    return _FLEETING.search(intention) is None and _WHEN.search(intention) is not None


def _of_label(label: str, value: str, line: str) -> Statement | None:
    if is_secret(label):
        return Statement("fact", f"{label}: [secret]", "", attribute="secret", secret=True)
    known = attribute_of(label)
    if known is not None and known.words and (said := state(label, value, line)):
        return said
    text = f"{label}: {value}"
    if (
        _NO_LABEL.search(label)
        or value.endswith(("?", "？", ":", "："))
        or len(text) > _LONGEST
        or is_hypothetical(value)
        or len(content_words(text)) < 2
    ):
        return None
    return Statement("fact", text, line, importance=0.5, confidence=0.6)


def _of_sentence(sentence: str) -> Statement | None:
    if (
        sentence.endswith(("?", "？", ":", "："))
        or len(sentence) > _LONGEST
        or not is_definite(sentence)
        or len(content_words(sentence)) < _WORDS
        or is_hypothetical(sentence)
        or _ONE_ORDER.search(sentence)
        or is_correction(sentence)
    ):
        return None
    for kind, pattern, importance, confidence in _KINDS:
        if pattern.search(sentence) and (kind != "intention" or _lasts(sentence)):
            return Statement("fact", sentence, sentence, importance=importance, confidence=confidence, tag=kind)
    return None
