"""How two memories relate (N6): same, refines, complements, supersedes, conflicts or distinct; with the reason. Pure.

Guards come first: two texts whose values differ are never the same, whatever their vectors say; a value on one side
only refines. Then a judge, where a model is configured, for what no guard decided; else a careful rule. In doubt:
distinct.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from ...memory_store.text.calibration import SAME, SAME_TOPIC, language_of_pair
from ..reflecting.rules.attributes import is_known
from .asking import ASKED_ALIKE, asked_alike, asks_for_more
from .opposites import Stance, stance_of
from .quoting import quoted
from .updates import Slot, change_between, has_cue, measures_alike, slot_of
from .values import WRITTEN_FREELY, Differences, differences, normal, without, written_alike
from .wording import WordDifference, normal_text, word_difference

PairType = Literal["same", "refines", "complements", "supersedes", "conflicts", "distinct"]
#: Columns of a memory that typing looks at; all but `text` may be missing.
COLUMNS = (
    "id", "kind", "subject", "text", "attribute", "value", "valid_from", "tool", "error_code", "outcome", "task_type",
)  # fmt: skip

#: Kinds of which one may say what the other says.
FAMILIES = {"fact": "statement", "preference": "statement", "rule": "rule", "experience": "experience"}
#: Columns in which two experiences that say the same do not differ (R22).
_SITUATION = ("tool", "error_code", "outcome", "task_type")
#: What the odds that two texts say the same are multiplied by where their words relate so. These are no likelihood
#: ratios: they are the largest of 1, 2, 3, 5, 8, 12, 18, 25 with which, on the half of LCQMC and STS-B that is for
#: fitting, 95 % of what is joined is right, over both embedded embedders together (see docs/similarity.md). No weight
#: reaches that for "within", which joins only where the fuller text keeps all; it stays below 1.
_WORTH = {"same": 12.0, "turned": 3.0, "moved": 3.0, "within": 0.6}
#: In a statement of so few words, one that moved past no other changes nothing.
_SHORT = 5
#: In a text of more words, one that is left out hardly moves the vector, whatever it says.
_LONG = 14
#: The fuller of two wordings keeps all that the other one says, so less certainty is asked.
_REFINES = 0.9
#: What is said about getting in touch is about one thing, however it is worded.
_TOUCH = (
    "email", "e-mail", "phone", "sms", "wechat", "contact", "reply", "replies", "call", "message", "answer", "联系",
    "邮件", "电话", "短信", "微信", "回复", "沟通", "答复", "消息",
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """Two memories of one namespace, and what the calibration makes of their cosine."""

    #: A row of `COLUMNS`
    first: Mapping[str, Any]
    #: Another one
    second: Mapping[str, Any]
    #: Probability that they say the same, by `Calibration.same`; 0 where there is no vector or no calibration
    same: float = 0.0
    #: Probability that they are about one thing, by `Calibration.same_topic`
    topic: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """What two memories are to each other."""

    type: PairType
    #: Why, in words for people
    reason: str
    #: Which one stands: 0 the first, 1 the second; of "refines" the fuller, of "supersedes" the newer; None: both do
    stands: int | None = None

    @property
    def joins(self) -> bool:
        """Whether one of the two can be retired without losing anything."""
        return self.type in ("same", "refines")


class Judge(Protocol):
    """Decides on pairs that no guard has decided, such as a language model."""

    def judge(self, pairs: Sequence[Pair]) -> Sequence[Verdict | None]:
        """One verdict a pair, in order; None where it can't tell, so that the rule decides."""
        ...


@dataclass(frozen=True)
class Reading:
    """What the guards have read of a pair."""

    values: Differences
    words: WordDifference
    stances: tuple[Stance, Stance]
    #: Why the two can't say the same; empty if they may
    barred: str


def type_pairs(
    pairs: Sequence[Pair], judge: Judge | None = None, *, holds_many: Callable[[str], bool] = lambda attribute: False
) -> list[Verdict]:
    """The type of each pair, in order.

    `holds_many` says of an attribute whether several values of it hold at once. A judge is asked only about pairs that
    are about one thing and that no guard decided; what it calls the same in spite of a guard is distinct.
    """
    verdicts = [type_pair(pair, holds_many=holds_many) for pair in pairs]
    if judge is None:
        return verdicts
    open_places = [
        place
        for place, (pair, verdict) in enumerate(zip(pairs, verdicts, strict=True))
        if verdict.type in ("distinct", "complements") and pair.topic >= SAME_TOPIC and _may_meet(pair) == ""
    ]
    asked = judge.judge([pairs[place] for place in open_places]) if open_places else []
    for place, said in zip(open_places, asked, strict=True):
        if said is None:
            continue
        barred = read_pair(pairs[place]).barred
        if said.joins and barred:
            said = Verdict("distinct", f"judged {said.type}, but {barred}")
        if said.type == "supersedes":
            said = _superseding(pairs[place], said.reason)
        verdicts[place] = said
    return verdicts


def type_pair(pair: Pair, *, holds_many: Callable[[str], bool] = lambda attribute: False) -> Verdict:
    """The type of a pair by guards and the careful rule, without a judge."""
    if apart := _may_meet(pair):
        return Verdict("distinct", apart)
    first, second = str(pair.first["text"]), str(pair.second["text"])
    if normal_text(first) == normal_text(second) and first.strip():
        return Verdict("same", "the same words", _older(pair))
    fuller = quoted(first, second)
    if fuller is not None and _time((pair.first, pair.second)[fuller]) >= _time((pair.first, pair.second)[1 - fuller]):
        return Verdict("refines", "the other one says all of it, word for word, and more", fuller)
    if (slots := _slots(pair)) and not holds_many(slots[0].attribute):
        said = _by_slot(pair, *slots)
        if said is not None:
            return said
    reading = read_pair(pair)
    if change := _change(pair, reading):
        return change
    if not reading.barred:
        joined = _join(pair, reading)
        if joined is not None:
            return joined
    return _beside(pair, reading)


def read_pair(pair: Pair) -> Reading:
    """What the guards read of a pair."""
    first, second = str(pair.first["text"]), str(pair.second["text"])
    found = differences(first, second)
    stances = stance_of(normal(first)), stance_of(normal(second))
    agreed = [pair for pair in found.agreed if pair[0].sort in WRITTEN_FREELY]
    words = word_difference(
        without(normal(first), [one for one, _ in agreed]), without(normal(second), [two for _, two in agreed])
    )
    return Reading(found, words, stances, _barred(found, words, *stances))


def _may_meet(pair: Pair) -> str:
    """Why two memories have nothing to do with each other by their columns; empty if they may."""
    first, second = pair.first, pair.second
    if (first.get("subject") or "") != (second.get("subject") or ""):
        return "they are about different subjects"
    kinds = [str(row.get("kind") or "fact") for row in (first, second)]
    families = [FAMILIES.get(kind, kind) for kind in kinds]
    if families[0] != families[1] or "episode" in families:
        return f"one is a {kinds[0]}, the other a {kinds[1]}"
    if families[0] == "experience":
        for column in _SITUATION:
            one, two = first.get(column) or "", second.get(column) or ""
            if one and two and one != two:
                return f"{column} differs: {one}, {two}"
    return ""


def _barred(found: Differences, words: WordDifference, one: Stance, two: Stance) -> str:
    """The first guard that forbids to call two texts the same; empty if none does."""
    if found.clash:
        first, second = found.clash[0]
        return f"{first.sort} differs: {first}, {second}"
    if found.first_only and found.second_only:
        return f"each says what the other does not: {found.first_only[0]}, {found.second_only[0]}"
    if found.swapped or words.order == "crossed":
        return "the same things stand in other places"
    if (one.denials > 0) != (two.denials > 0):
        return "one denies what the other says"
    both_ask = one.asks and two.asks
    for name, differs in (
        ("hedged", one.hedged != two.hedged),
        ("what is over", one.over != two.over),
        ("conditional", one.conditional != two.conditional),
        ("a question", one.asks != two.asks),
    ):
        if differs and (not both_ask or name == "what is over"):
            return f"only one is {name}"
    return ""


def _join(pair: Pair, reading: Reading) -> Verdict | None:
    """Same or refines, if that is sure enough."""
    found, words = reading.values, reading.words
    if language_of_pair(str(pair.first["text"]), str(pair.second["text"])) == "mixed":
        return _join_across(pair, found)
    if all(stance.asks for stance in reading.stances):
        return _join_questions(pair, reading)
    order, worth = words.order, _WORTH.get(words.order, 0.0)
    # In a statement, what moved may change who does what.
    if order == "moved" and words.count > _SHORT:
        worth = 0.0
    certainty = _certainty(pair.same, worth)
    fuller = _fuller(found, words)
    if fuller is None and not found.none:
        return None
    if (order == "within" or not found.none) and words.count > _LONG:
        return None
    if order == "within" or not found.none:
        return (
            Verdict("refines", f"the other one says more ({certainty:.2f})", fuller) if certainty >= _REFINES else None
        )
    if certainty >= SAME:
        return Verdict("same", f"the same but for the wording ({certainty:.2f})", _older(pair))
    return None


def _join_questions(pair: Pair, reading: Reading) -> Verdict | None:
    """The same of two questions: one of them may have more words, in any place, but none may be replaced by another."""
    found, words = reading.values, reading.words
    fuller = _fuller(found, words)
    is_fuller = bool(words.left or words.right) or not found.none
    certainty = asked_alike(pair.same, words)
    if certainty < ASKED_ALIKE or (is_fuller and (fuller is None or words.count > _LONG)):
        return None
    if is_fuller and asks_for_more(words, (str(pair.first["text"]), str(pair.second["text"]))):
        return None
    if is_fuller:
        return Verdict("refines", f"the other question says more ({certainty:.2f})", fuller)
    return Verdict("same", f"the same question but for the wording ({certainty:.2f})", _older(pair))


def _join_across(pair: Pair, found: Differences) -> Verdict | None:
    """The same of texts in two languages, whose words can't be compared: the vectors and the values decide."""
    if pair.same < _REFINES or not _shares_terms(str(pair.first["text"]), str(pair.second["text"])):
        return None
    if found.none and pair.same < SAME:
        return None
    if found.none:
        return Verdict("same", f"the same in two languages ({pair.same:.2f})", _older(pair))
    return Verdict(
        "refines", f"the same in two languages, one says more ({pair.same:.2f})", 1 if found.second_only else 0
    )


_TERM = re.compile(r"[a-z][a-z0-9._-]+")


def _shares_terms(first: str, second: str) -> bool:
    """Whether the Latin words of the Chinese text, such as API, stand in the English one too."""
    chinese, english = sorted((first, second), key=lambda text: -len(_HAN.findall(text)))
    have = set(_TERM.findall(normal(english).casefold()))
    return all(term in have or term.rstrip("s") in have for term in _TERM.findall(normal(chinese).casefold()))


_HAN = re.compile("[\u3400-\u9fff]")


def _certainty(same: float, worth: float) -> float:
    """Probability that two texts say the same, by their cosine and by how their words relate (Bayes, odds form)."""
    if same >= 1 or worth <= 0:
        return same if worth > 0 else 0.0
    odds = same / (1 - same) * worth
    return odds / (1 + odds)


def _fuller(found: Differences, words: WordDifference) -> int | None:
    """Which text says all that the other one says and more; None if neither does."""
    more_first = bool(found.first_only) or bool(words.left)
    more_second = bool(found.second_only) or bool(words.right)
    return None if more_first == more_second else 0 if more_first else 1


def _time(row: Mapping[str, Any]) -> datetime:
    time = row.get("valid_from")
    return time if isinstance(time, datetime) else datetime.min


def _older(pair: Pair) -> int:
    return int(_time(pair.first) > _time(pair.second))


def _slots(pair: Pair) -> tuple[Slot, Slot] | None:
    """What both memories give a value to, if it is the same thing of a subject."""
    found: list[Slot] = []
    for row in (pair.first, pair.second):
        attribute, value = row.get("attribute") or "", row.get("value") or ""
        slot = Slot(attribute, value) if attribute and value else slot_of(str(row["text"]))
        if slot is None:
            return None
        found.append(slot)
    if found[0].attribute != found[1].attribute or FAMILIES.get(str(pair.first.get("kind") or "fact")) != "statement":
        return None
    return found[0], found[1]


def _by_slot(pair: Pair, one: Slot, two: Slot) -> Verdict | None:
    """The type of two values of one attribute; None when they are the same: the texts decide what more is said."""
    values = [normal_text(_LEADING.sub("", slot.value)) for slot in (one, two)]
    denied = [value.removeprefix("not") for value in values]
    stances = [stance_of(normal(str(row["text"]))) for row in (pair.first, pair.second)]
    is_given = all(row.get("attribute") and row.get("value") for row in (pair.first, pair.second))
    if not is_given and any(stance.asks or stance.conditional or stance.hedged for stance in stances):
        return None
    reading = read_pair(pair)
    if values[0] == values[1] or written_alike(one.value, two.value):
        if reading.barred or reading.words.order in ("crossed", "other"):
            return None
        fuller = _fuller(reading.values, reading.words)
        if fuller is None:
            same = Verdict("same", f"{one.attribute} is {one.value} in both", _older(pair))
            return same if reading.values.none else None
        return Verdict("refines", f"{one.attribute} is {one.value} in both, one says more", fuller)
    if denied != values and denied[0] != denied[1] and one.attribute in _SEVERAL_DENIED:
        return Verdict("complements", f"both are about {one.attribute}: {one.value}; {two.value}")
    if not is_given and not all(measures_alike(*clash) for clash in differences(one.value, two.value).clash):
        return None
    rows = sorted((pair.first, pair.second), key=_time)
    if not is_given and not _holds_one(one.attribute) and not has_cue(str(rows[1]["text"])):
        return None
    if (values[0] in values[1] or values[1] in values[0]) and not reading.barred and is_known(one.attribute):
        return Verdict("refines", f"{one.attribute}: {one.value}; {two.value}", 0 if values[1] in values[0] else 1)
    return _superseding(pair, f"{one.attribute}: {one.value}; {two.value}")


def _holds_one(attribute: str) -> bool:
    """Whether an attribute that rules read from a text has one value at a time: a common one, or what one makes of a
    named thing. Of colleagues, cousins and dogs one may have several, so what is said of them is said of others.
    """
    return is_known(attribute) or attribute.startswith(("liking:", "diet:", "allergy:", "fav"))


_LEADING = re.compile(
    r"^(?:called|named|about|around|only|now|currently|just|a|an|the)\s+|^(?:叫做?|名叫|大约|现在)", re.I
)
#: Attributes of which one value may be wanted while another one is not.
_SEVERAL_DENIED = ("contact_channel", "diet", "language", "seat", "payment_method")


def _superseding(pair: Pair, reason: str) -> Verdict:
    """Of two statements that exclude each other, the one made later stands; of two made at once, none does."""
    times = _time(pair.first), _time(pair.second)
    if times[0] == times[1]:
        return Verdict("conflicts", reason)
    return Verdict("supersedes", reason, 0 if times[0] > times[1] else 1)


def _change(pair: Pair, reading: Reading) -> Verdict | None:
    """Supersedes or conflicts, if one statement changes what the other says."""
    swap = _time(pair.first) > _time(pair.second)
    rows = (pair.second, pair.first) if swap else (pair.first, pair.second)
    older, newer = (str(row["text"]) for row in rows)
    why = change_between(older, newer, differences(older, newer) if swap else reading.values)
    if not why:
        return None
    if _family_of(pair) == "experience":
        return Verdict("conflicts", f"one lesson says otherwise: {why}")
    return _superseding(pair, why)


def _beside(pair: Pair, reading: Reading) -> Verdict:
    """Complements or distinct."""
    why = reading.barred or "nothing shows that they say the same"
    texts = [normal(str(row["text"])).casefold() for row in (pair.first, pair.second)]
    one_is_unwanted = (reading.stances[0].denials > 0) != (reading.stances[1].denials > 0)
    sorts = {first.sort for first, _ in reading.values.clash}
    if (
        _family_of(pair) == "statement"
        and (not sorts or (sorts <= {"channel"} and one_is_unwanted))
        and all(any(word in text for word in _TOUCH) for text in texts)
    ):
        return Verdict("complements", "both are about getting in touch")
    is_apart = bool(reading.values.clash) or reading.values.swapped or not pair.first.get("subject")
    if is_apart or _family_of(pair) != "statement":
        return Verdict("distinct", why)
    words = reading.words
    if len(words.left) in (1, 2) and len(words.right) in (1, 2) and words.shared >= 0.5:
        return Verdict("distinct", f"the same but for {' '.join(words.left)}; {' '.join(words.right)}")
    if pair.topic >= SAME_TOPIC and words.shared >= 0.5 and not reading.barred:
        return Verdict("complements", f"about one thing ({pair.topic:.2f}), each says something of its own")
    return Verdict("distinct", why)


def _family_of(pair: Pair) -> str:
    return FAMILIES.get(str(pair.first.get("kind") or "fact"), "")
