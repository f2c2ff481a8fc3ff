"""Where a user says that the agent got it wrong (R6): "no", "again", "不对", "重新来"; and bad feedback."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ....memory_store.capture.events import Event, Trace
from .sentences import is_observation

#: A feedback of this score or less is a complaint; scores run from 0 to 1, or from -1.
BAD_SCORE = 0.4

_STRONG = re.compile(
    r"\b(?:that'?s|that is|this is|it'?s|you'?re|you are|you were|is) (?:still |completely |totally |just |"
    r"simply )?(?:wrong|incorrect|not right|not correct|not "
    r"what i|mistaken|inaccurate)|\bnot what i (?:asked|wanted|meant|said|need)|\bi (?:said|meant|asked for|"
    r"already told|already said|told you|"
    r"did ?n.t (?:ask|say|want|mean)|never (?:asked|said|wanted))\b|\byou (?:misunderst\w+|forgot|missed|ignored|"
    r"got (?:it|that|this) wrong|made a mistake|"
    r"did ?n.t (?:do|listen|answer|include|follow))|\b(?:try|do it|do that|start) (?:it )?(?:again|over)\b|\bredo\b|"
    r"\bstill (?:not|does ?n.t|is ?n.t|wrong|failing|broken|"
    r"the same)|\bdoes ?n.t work\b|\bdid ?n.t work\b|\bnot working\b|\bwrong (?:one|item|order|date|file|answer|"
    r"flight|name|number|version)\b|\bincorrect\b",
    re.I,
)
_LEADING_NO = re.compile(
    r"^(?:no|nope|wrong|incorrect|not that|not this|again|stop|wait)\b(?!\W*(?:problem|worries|thanks|thank|need|"
    r"rush|issue|that'?s (?:all|it)|"
    r"i(?:'m| am) (?:good|fine|all set)|more|other|idea))[\s,.!:-]+\S",
    re.I,
)
_CHINESE = re.compile(
    r"不对|错了|弄错|搞错|说错|理解错|答错|做错|有误|不正确|不是这个|不是这样|不是我(?:要|想|说)|我说的是|我要的是|"
    r"我的意思是|我不是(?:说|要|问)|重新来|重来|重新(?:做|写|查|算|试|回答|生成)|"
    r"再(?:试|来|查|做|算)一[次遍下]|还是(?:不行|不对|错|没|一样)|没(?:听懂|解决|看懂|按)|你(?:忘了|漏了|没有?按|"
    r"没理解|误会)|答非所问|不行[，,。!！]"
)
#: Apostrophes as keyboards of phones write them.
_APOSTROPHES = str.maketrans("’‘ʼ＇", "''''")
_ASKS_YES_NO = re.compile(r"\?\s*$|？\s*$|吗[?？]?\s*$")


@dataclass(frozen=True)
class Correction:
    """A user's objection, and the agent's event that it is about."""

    event: Event
    #: The agent's last message or call before it; None if there was none
    about: Event | None


def is_correction(text: str, *, answers_question: bool = False) -> bool:
    """Whether a user's words say that the agent got it wrong.

    After a question of the agent a plain "no" is an answer, and only stronger words count.

    >>> is_correction("No, I said economy"), is_correction("No, thanks"), is_correction("不对，重新来")
    (True, False, True)
    >>> is_correction("No, I don't have it", answers_question=True)
    False
    """
    head = text.strip()[:400].translate(_APOSTROPHES)
    if _STRONG.search(head) or _CHINESE.search(head):
        return True
    return not answers_question and bool(_LEADING_NO.match(head))


def corrections_of(trace: Trace) -> list[Correction]:
    """The corrections in a trace, in order: messages of the user after one of the agent, and bad feedback."""
    found: list[Correction] = []
    about: Event | None = None
    spoken: Event | None = None
    for event in trace.events:
        if event.type == "feedback":
            if (event.score is not None and event.score <= BAD_SCORE) or is_correction(event.content):
                found.append(Correction(event, about))
        elif event.type == "message" and event.role == "user":
            if is_observation(event.content):
                continue
            asked = spoken is not None and bool(_ASKS_YES_NO.search(spoken.content.rstrip()))
            if spoken is not None and is_correction(event.content, answers_question=asked):
                found.append(Correction(event, about))
        elif event.role == "agent" or event.type in ("tool_call", "step"):
            about = event
            spoken = event if event.type == "message" else spoken
    return found
