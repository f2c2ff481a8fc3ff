"""A user's message as clauses, each marked with what makes it no statement: a question, an "if", another's words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

#: Of a longer message only this much of its beginning and of its end is read: the middle is something pasted.
_ENDS = 1500
#: A message that is longer is a document or a prompt that someone pasted, at least in part.
DOCUMENT = 3000
#: A clause longer than this says more than a rule can read.
_LONGEST = 300

_FENCED = re.compile(r"```.*?(?:```|\Z)|<[a-z_]+>.*?</[a-z_]+>", re.S | re.I)
_PASTED_LINE = re.compile(
    r"^\s*(?:>|\||From:|To:|Subject:|Date:|Sent:|发件人|收件人|主题|日期|[{}\[\]<]|\w+\s*[:=]\s*[{\[]).*$", re.M
)
_QUOTED = re.compile(r"[\"“「『]([^\"”」』\n]{1,400})[\"”」』]")
_SENTENCE = re.compile(r"(?<=[!?])\s+|(?<=[A-Za-z0-9)\]'\"’”]\.)\s+|(?<=[。！？；])|\n+|(?<=[^\d\s]);\s*")
_CLAUSE = re.compile(
    r"\s*[,;—–]\s*(?=(?:and|but|so|can|could|would|will|please|i|i'm|i've|i'd|my|we|our|what|which|who|where|when|is|"
    r"are|"
    r"do|does|how|that|because|since|though|although|if|then|it|it's|you|let|let's|thanks|thank|don't|also|email|call)"
    r"\b)|\s+(?:and|but|so)\s+(?=(?:i|i'm|i've|i'd|my|we|our|please|can|could|don't)\b)|\s*[，；]\s*|\s+[-–—]\s+",
    re.I,
)
_ABBREVIATED = re.compile(r"\b(?:Dr|Mr|Mrs|Ms|St|Prof|No|vs|e\.g|i\.e|approx|Inc|Ltd|Co|Ave|Apt|Jr|Sr)\.$", re.I)
_ASKS = re.compile(
    r"^(?:so |and |but |then |ok |okay |hi |hello |hey |also |please )*(?:what|how|where|who|whose|why|which|when|is|"
    r"are|"
    r"am|was|were|do|does|did|can|could|would|will|shall|should|may|might|have|has|had|isn't|aren't|didn't|"
    r"doesn't|can't|any|don't (?=you|we|they))\b(?! (?:i|my) \w+ (?:is|has)\b)",
    re.I,
)
_ASKS_CHINESE = re.compile(
    r"(?:吗|呢(?=[?？])|么|没有|不是|对吧|是吧|行吗|好吗|多少|几[个点天次]|什么|怎么|为什么|哪[里个些儿]|谁|是否|能不能|"
    r"可不可以|是不是|有没有)[?？\s。]*$"
)
_SUPPOSES = re.compile(
    r"^(?:and |but |so |or |hi |hello |well |ok |even |only )*(?:if|suppose|supposing|imagine|assuming|assume|pretend|"
    r"let's say|say that|what if|in case|unless|as if|whether|hypothetically)\b|"
    r"\b(?:for example|for instance|e\.g\.|hypothetically|would be|would have|could be|might be|may be|maybe|perhaps|"
    r"i wish|not sure|i guess|i think it(?:'s| is)|probably|possibly|pretending)\b|"
    r"如果|假如|假设|假使|要是|万一|倘若|若是|比如|例如|比方|譬如|可能|也许|大概|或许|好像|似乎|不确定|假装|扮演",
    re.I,
)
_REPORTS = re.compile(
    r"\b(?!i\b)\w+\s+(?:said|says|told|tells|wrote|writes|claims|claimed|thinks|thought|asked|mentioned|stated|"
    r"states)\b|"
    r"\b(?:they|people|you) (?:say|claim|think)\b|according to|(?:他|她|他们|她们|老板|经理|别人|有人|朋友|同事|网上|"
    r"文章|客服|你)(?:们)?(?:说|告诉|觉得|认为|写|问|提到)",
    re.I,
)


#: How frameworks hand the result of a call back under the user's name.
_OBSERVATION = re.compile(
    r"^\W*(?:(?:call id|tool call id)\W.{0,60}\s+)?(?:observations?|execution logs?|(?:tool|function|code) "
    r"(?:result|output|response|call)s?|calling tools?|exit ?code|stdout|stderr|"
    r"traceback \(most recent|error when executing|"
    r"工具(?:返回|结果|输出)|执行结果|观察)\s*[:：(\d]",
    re.I,
)


def is_observation(text: str) -> bool:
    """Whether a message under the user's name is a result that a framework hands back, and nobody's words.

    >>> is_observation("Observation: 3 rows"), is_observation("My observation: you forgot the rows")
    (True, False)
    """
    return _OBSERVATION.match(text[:200]) is not None


@dataclass(frozen=True)
class Clause:
    """A part of a user's message that can say one thing."""

    text: str
    #: The sentence that it is part of
    sentence: str
    #: It asks
    question: bool
    #: It is an "if", an example, a guess or someone else's words
    hypothetical: bool


def own_words(text: str) -> str:
    """The message without what was pasted or quoted: code, quoted lines, long quotations, the middle of a long text."""
    if len(text) > 3 * _ENDS:
        text = f"{text[:_ENDS]}\n{text[-_ENDS:]}"
    text = _FENCED.sub("\n", text)
    text = _PASTED_LINE.sub("\n", text)
    return _QUOTED.sub(lambda m: m.group(1) if _is_short(m.group(1)) else " … ", text)


def clauses_of(text: str) -> Iterator[Clause]:
    """The clauses of a user's message, in order, without quotations and pasted parts.

    >>> [(c.text, c.question) for c in clauses_of("My budget is 8000, can you find a room?")]
    [('My budget is 8000', False), ('can you find a room?', True)]
    """
    for sentence in sentences_of(own_words(text)):
        asks = sentence.endswith(("?", "？"))
        supposes = is_hypothetical(sentence)
        parts = [part.strip() for part in _CLAUSE.split(sentence)]
        parts = [part for part in parts if part]
        asking = False
        for i, part in enumerate(parts):
            asking = asking or bool(_ASKS.search(part))
            last = i == len(parts) - 1
            question = asking or bool(_ASKS_CHINESE.search(part)) or (asks and last)
            if len(part) <= _LONGEST:
                yield Clause(part, sentence, question, supposes)


def is_hypothetical(sentence: str) -> bool:
    """Whether a sentence is an "if", an example, a guess or someone else's words.

    >>> is_hypothetical("If I go on Friday, it rains"), is_hypothetical("I go on Friday")
    (True, False)
    """
    return bool(_SUPPOSES.search(sentence)) or bool(_REPORTS.search(sentence))


def sentences_of(text: str) -> list[str]:
    """Sentences of English and Chinese text; a dot after an abbreviation or inside a number ends none.

    >>> sentences_of("Ask Dr. Moe at 3.30. 谢谢！好的。")
    ['Ask Dr. Moe at 3.30.', '谢谢！', '好的。']
    """
    found: list[str] = []
    for part in _SENTENCE.split(text):
        part = part.strip()
        if not part:
            continue
        if found and _ABBREVIATED.search(found[-1]):
            found[-1] = f"{found[-1]} {part}"
        else:
            found.append(part)
    return found


def _is_short(quoted: str) -> bool:
    """A quotation that can be a value (a name, a word) and no statement."""
    return len(quoted.split()) <= 3 and len(quoted) <= 30 and not re.search(r"[是了。]|\bis\b", quoted)
