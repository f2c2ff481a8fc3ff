"""What an agent laid out and the user accepted: a plan with a title and named parts, and the definite parts of it.

The agent's words alone are never kept; the user's acceptance makes them theirs, and both turns are the evidence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ....memory_store.capture.events import Event, Trace
from .corrections import is_correction
from .failures import commands
from .generalise import content_words
from .plans import is_carried_out, labelled_lines
from .reader import is_from_user
from .sentences import sentences_of
from .statements import Statement

#: Most agreements of one acceptance: the plan, and its most definite parts.
LIMIT = 5
#: Most parts of a plan that are named, and the longest name, in characters.
_PARTS = 4
_LONGEST = 180
#: Sentences of a message in which someone accepts, or has reserves.
_HEAD = 3
#: Characters in which a message says what it is, and that are read of it.
_BEGINNING, _READ = 500, 20_000

_OPENING = (
    r"^\W*(?:(?:well|okay|ok|alright|right|ah|oh|hm+|now|good|so|fine|great|perfect|excellent|thanks|thank you|"
    r"my \w+)[\s,.!:…]+)*"
)
_ACCEPTS = re.compile(
    _OPENING + r"(?:yes\b|yeah\b|yep\b|sure\b|absolutely|exactly|agreed|approved|confirmed|deal\b|perfect|excellent|"
    r"(?:this|that|it|these|those|(?:the|this|that|these|those|your) "
    r"[\w'“”\" -]{2,60}?)(?:'s| is| are| all| really| definitely)* "
    r"(?:looks?|sounds?|seems?|is|are)? ?(?:really |very |so |all |much |pretty )?(?:works?|good|great|perfect|solid|"
    r"fine|clear|sharp|spot on|exactly|(?:much )?better|reasonable|proper|an? (?:solid|good|great|perfect|excellent) "
    r"\w+|makes? sense|right|on point|what i (?:need|want|asked|was looking))\b|[^.!?]{0,60}\bexactly what i "
    r"(?:need|want|asked|was looking)|"
    r"let'?s (?:do|go with|go ahead|proceed|start with|implement) |do (?:it|that|this)\b|go ahead|sounds (?:good|great|"
    r"perfect|fine)|looks (?:good|great|perfect|solid)|works for me|i (?:really )?(?:like|agree|accept|approve|love) )"
    r"|^\W*(?:好(?:的|啊|呀|，|。|！|$)|可以|行(?:，|。|！|啊|$)|没问题|同意|就这(?:么|样)(?:定|办|做)|就按(?:这|你)|听起来不错|"
    r"看起来不错|很好|完美|太好了|确认|就这个)",
    re.I,
)
#: Said after a yes, it takes the yes back, or asks for something else.
_RESERVES = re.compile(
    r"\b(?:but (?:not|i|can|could|please|change|make|without)|however|instead|except|rather|not (?:quite|really|yet|"
    r"exactly)|no longer|change|wrong|missing|too (?:much|many|long|complicated|vague|generic))\b|"
    r"但是?|不过|换成|改成|除了|太(?:多|长|复杂)|不要|还没",
    re.I,
)
_BUT = re.compile(r"\b(?:but|though|only if|as long as)\b", re.I)
#: A choice laid out: who likes it has not chosen yet.
_CHOICE = re.compile(
    r"\b(?:options?|ideas?|suggestions?|alternatives?|recommendations?|recommended|tips|examples?|recipes?|"
    r"(?:here|these) are (?:some|a few|several|a couple|many)|"
    r"(?:some|a few|several|many) (?:great |good |popular |\w+ )?ways)\b|"
    r"选项|几个(?:建议|方案|选择)|一些|例如|推荐|备选|方案[一二A-C1-3]",
    re.I,
)
_HEADING = re.compile(r"^\s*#{1,6}\s+(?P<mark>.+?)\s*#*$|^\s*\*\*(?P<bold>[^*\n]{6,140})\*\*\s*$")
_CODE = re.compile(r"```.*?(?:```|\Z)", re.S)


@dataclass(frozen=True)
class Agreement:
    """A statement of an agent that the user made theirs."""

    said: Statement
    proposal: Event
    #: The span of the proposal
    quote: str
    acceptance: Event


def is_acceptance(text: str) -> bool:
    """Whether a user's words accept what was laid out before them, without reserve.

    >>> is_acceptance("Yes, let's do that."), is_acceptance("Yes, but change the second day"), is_acceptance("Why?")
    (True, False, False)
    >>> is_acceptance("好的，就这么定了"), is_acceptance("可以，但是换成周三")
    (True, False)
    """
    head = sentences_of(text[:1200])[:_HEAD]
    opening = " ".join(head)
    accepting = next((sentence for sentence in head if _ACCEPTS.match(sentence)), "")
    if not accepting or _BUT.search(accepting):
        return False
    return not _RESERVES.search(opening) and not is_correction(opening)


def agreements_of(trace: Trace) -> list[Agreement]:
    """What the user accepted of what the agent laid out, in order.

    Nothing where the agent carries the user's wishes out by calls, and nothing of a proposal that reads like an
    instruction from a tool or a page (N11).
    """
    if is_carried_out(trace):
        return []
    found: list[Agreement] = []
    proposal: Event | None = None
    for event in trace.events:
        if event.type == "message" and event.role == "agent" and event.content.strip():
            proposal = event
        elif is_from_user(event) and event.type == "message":
            if proposal is not None and is_acceptance(event.content):
                found += [Agreement(said, proposal, said.quote, event) for said in _laid_out(proposal.content)]
            proposal = None
    return found


def _laid_out(text: str) -> list[Statement]:
    """The plan that a message lays out, and its definite parts."""
    plain = _CODE.sub("\n", text[:_READ])
    if _CHOICE.search(plain[:_BEGINNING]):
        return []
    headings = [
        (_plain(match["mark"] or match["bold"]), line.strip())
        for line in plain.splitlines()
        if (match := _HEADING.match(line))
    ]
    parts = labelled_lines(plain)
    found: list[Statement] = []
    if headings and len(headings) + len(parts) >= 3:
        title, quote = headings[0]
        names = list(dict.fromkeys([*(name for name, _ in headings[1:]), *(_plain(label) for _, label, _ in parts)]))
        line = f"agreed: {title}"
        for name in names[:_PARTS]:
            longer = f"{line}; {name}" if line != f"agreed: {title}" else f"{line} ({name}"
            if len(longer) > _LONGEST:
                break
            line = longer
        line += ")" if "(" in line[len(title) + 8 :] else ""
        if len(content_words(title)) >= 2:
            found.append(_agreed(line, quote))
    for line, label, value in parts:
        said = f"agreed: {_plain(label)}: {_plain(value)}"
        says = re.search(r"\d", value) and not value.endswith(("?", "？")) and len(content_words(said)) >= 4
        if says and len(said) <= _LONGEST:
            found.append(_agreed(said, line))
    return [said for said in found if not commands(said.text)][:LIMIT]


def _agreed(text: str, quote: str) -> Statement:
    return Statement("fact", text, quote, importance=0.5, confidence=0.6, tag="agreement")


def _plain(text: str) -> str:
    """A line without its marks."""
    return re.sub(r"[*_`#]+", "", text).strip(" :：")
