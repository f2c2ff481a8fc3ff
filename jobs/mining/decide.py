"""What becomes of patterns beside the memories that earlier runs made of them. Pure: patterns and rows in, acts out.

A pattern is known by its sort and signature, kept as a tag of its memory. The same advice again is the same memory,
whose confidence follows its support; another advice is a new memory, which supersedes the one before. What a user, or
a job, has taken away stays away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace

from ...memory_store.clock import END_OF_TIME
from ...memory_store.history.inbox import Row
from ...memory_store.ids import derive_id
from ..deciding.resolve import normal_text
from ..reflecting.candidates import Candidate
from .support import Pattern

#: Columns of the store that deciding looks at.
COLUMNS = ("id", "seq", "text", "tags", "state", "task_type", "confidence", "reflector")
#: The reflector of what no model has worded.
RULES = "patterns@1"
#: A smaller change in confidence is no decision.
LEAST_CHANGE = 0.02
#: States of a memory that can be recalled.
_LIVE = ("pending", "active")


@dataclass(frozen=True)
class Item:
    """A pattern with its words."""

    pattern: Pattern
    candidate: Candidate
    #: Why it is not kept; empty if nothing speaks against it
    refusal: str = ""
    #: rules or model, with version
    reflector: str = RULES
    prompt_hash: str = ""


@dataclass(frozen=True)
class Verdict:
    """What becomes of a pattern."""

    #: What it is counted as: added · replaced · raised · lowered · unchanged · kept_out · refused
    name: str
    #: The act, as rows without `act`, `run`, `at` and `read_to`; none when nothing changes
    rows: tuple[Row, ...] = ()


def key_of(namespace: str, pattern: Pattern) -> str:
    """The tag that a pattern's memories share."""
    return f"pattern:{derive_id(namespace, 'pattern', pattern.sort, *pattern.signature)}"


def advice_of(namespace: str, pattern: Pattern) -> str:
    """The tag of those that give the same advice."""
    return f"advice:{derive_id(namespace, 'advice', pattern.sort, *pattern.advice)}"


def needs_words(namespace: str, item: Item, stored: Sequence[Row], reflector: str) -> bool:
    """Whether a pattern has to be judged and worded by a reflector: what has its words already has not."""
    if item.refusal:
        return False
    mine = _mine(namespace, item.pattern, stored)
    live = _live(mine)
    if live is not None and _is_same(namespace, item.pattern, live):
        return bool(live["reflector"] != reflector)
    return not _is_kept_out(namespace, item.pattern, mine)


def judged_id(namespace: str, pattern: Pattern, reflector: str) -> str:
    """The id of the row that says that a reflector refused a pattern with this advice, whatever its reason."""
    return derive_id(namespace, "mem", key_of(namespace, pattern), advice_of(namespace, pattern), reflector)


def refused_id(namespace: str, item: Item) -> str:
    """The id of the row that says why a pattern is not kept."""
    if item.reflector != RULES:
        return judged_id(namespace, item.pattern, item.reflector)
    parts = (key_of(namespace, item.pattern), advice_of(namespace, item.pattern), item.refusal)
    return derive_id(namespace, "mem", *parts)


def decide_on(namespace: str, item: Item, stored: Sequence[Row], twins: Mapping[str, str], days: int) -> Verdict:
    """What becomes of one pattern.

    `stored` are memories of patterns (columns `COLUMNS`), in any state; `twins` are active experiences by their
    normal text. Words of the rules give way to those of a model, and those of a model to a newer one's, never to
    those of the rules.
    """
    pattern = item.pattern
    if item.refusal:
        return _refused(namespace, item)
    mine = _mine(namespace, pattern, stored)
    live = _live(mine)
    is_same = live is not None and _is_same(namespace, pattern, live)
    if live is not None and is_same and (item.reflector == RULES or live["reflector"] == item.reflector):
        return _followed(live, pattern, days)
    if _is_kept_out(namespace, pattern, mine):
        return Verdict("kept_out")
    twin = twins.get(normal_text(item.candidate.text), "")
    if twin and (live is None or twin != live["id"]):
        return _refused(namespace, replace(item, refusal=f"a memory says so in the same words: {twin}"))
    row = _row(namespace, item, "" if live is None else live["id"])
    active = {"decision": "activate", "id": row["id"], "state": "active", "reason": "nothing there says otherwise"}
    if live is None:
        return Verdict("added", (row, active))
    why = "its advice is worded anew" if is_same else "another advice has more support"
    old = {
        "decision": "supersede",
        "id": live["id"],
        "state": "superseded",
        "superseded_by": row["id"],
        "valid_to": row["valid_from"],
        "reason": why,
    }
    return Verdict("replaced", (row, active, old))


def _mine(namespace: str, pattern: Pattern, stored: Sequence[Row]) -> list[Row]:
    key = key_of(namespace, pattern)
    return [row for row in stored if key in (row["tags"] or ())]


def _live(mine: Sequence[Row]) -> Row | None:
    live = [row for row in mine if row["state"] in _LIVE]
    return max(live, key=lambda row: (row["seq"] or 0, row["id"]), default=None)


def _is_same(namespace: str, pattern: Pattern, row: Row) -> bool:
    """Whether a memory gives this advice, for these tasks or for all."""
    is_wide_enough = row["task_type"] in (pattern.task_type, "")
    return is_wide_enough and advice_of(namespace, pattern) in (row["tags"] or ())


def _is_kept_out(namespace: str, pattern: Pattern, mine: Sequence[Row]) -> bool:
    """Whether a memory of this advice was taken away, other than by its successor."""
    advice = advice_of(namespace, pattern)
    return any(row["state"] not in (*_LIVE, "superseded") and advice in (row["tags"] or ()) for row in mine)


def _followed(live: Row, pattern: Pattern, days: int) -> Verdict:
    """The confidence of a memory follows its support, both ways."""
    change = pattern.confidence - live["confidence"]
    if abs(change) < LEAST_CHANGE:
        return Verdict("unchanged")
    period = f" of the last {days} days" if days else ""
    held = f"; its advice held in {pattern.held} of {pattern.of}" if pattern.held else ""
    reason = f"seen in {pattern.tasks} distinct tasks{period}{held}"
    decision, name = ("promote", "raised") if change > 0 else ("downrank", "lowered")
    row = {"decision": decision, "id": live["id"], "confidence": pattern.confidence, "reason": reason}
    return Verdict(name, (row,))


def _refused(namespace: str, item: Item) -> Verdict:
    row = {**_row(namespace, item, ""), "id": refused_id(namespace, item), "decision": "refuse"}
    return Verdict("refused", ({**row, "reason": item.refusal},))


def _row(namespace: str, item: Item, replaced: str) -> Row:
    """The row that adds a pattern's memory: its id is derived from what it says and from what it replaces."""
    candidate, pattern = item.candidate, item.pattern
    key, advice = key_of(namespace, pattern), advice_of(namespace, pattern)
    said = normal_text(candidate.text) or candidate.text
    return {
        **{column.name: getattr(candidate, column.name) for column in fields(Candidate)},
        "entities": list(candidate.entities),
        "tags": [*candidate.tags, key, advice],
        "evidence": [asdict(item) for item in candidate.evidence],
        "derived_from": [],
        "decision": "add",
        "id": derive_id(namespace, "mem", key, said, candidate.task_type, replaced),
        "reason": f"proposed by {item.reflector}",
        "reflector": item.reflector,
        "prompt_hash": item.prompt_hash,
        "state": "pending",
        "strength": 1.0,
        "valid_to": END_OF_TIME,
        "superseded_by": "",
    }
