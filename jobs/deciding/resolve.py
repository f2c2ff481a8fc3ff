"""Resolve: memories that want in meet those that are there. Pure: rows in, decisions out.

Only what is sure is joined: the same words are merged into the memory that had them first; a new value of an
attribute of the same subject supersedes the old one; and what meetings say is the same, fuller or newer is treated so.
Everything else stands beside what is there (in doubt, distinct).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ...memory_store.clock import END_OF_TIME
from ...memory_store.history.inbox import Row
from ..comparing.wording import normal_text as normal_text
from .meetings import Meeting

#: Columns of the store that resolving looks at.
COLUMNS = (
    "id", "seq", "kind", "subject", "text", "attribute", "value", "state", "valid_from", "valid_to", "superseded_by",
)  # fmt: skip
#: States of the memories that resolving looks at; those that are pending come as candidates do.
STATES = ("active", "superseded", "merged")
_LIVE = ("pending", "active")
_REPLACED = ("superseded", "merged")
_SLOT_KINDS = ("fact", "preference")


@dataclass
class _Slot:
    """The values that one attribute of one subject has had, by the time since when they hold."""

    rows: list[Row]

    def around(self, since: datetime, passed: Callable[[Row], bool]) -> tuple[Row | None, Row | None]:
        """The value before a time (or at it), and the next one after it, some being passed over."""
        place = bisect_right([row["valid_from"] for row in self.rows], since)
        before = (self.rows[n] for n in range(place - 1, -1, -1) if not passed(self.rows[n]))
        after = (self.rows[n] for n in range(place, len(self.rows)) if not passed(self.rows[n]))
        return next(before, None), next(after, None)

    def standing(self, row: Row | None) -> Row | None:
        """The row, or the one that it merely repeats: the last one up to it that is no repetition."""
        if row is None:
            return None
        own = {other["id"] for other in self.rows}
        place = next(place for place, other in enumerate(self.rows) if other is row)
        while place and self.rows[place]["state"] == "merged" and self.rows[place]["superseded_by"] in own:
            place -= 1
        return self.rows[place]

    def insert(self, row: Row) -> None:
        place = bisect_right([other["valid_from"] for other in self.rows], row["valid_from"])
        self.rows.insert(place, row)


class _Known:
    """What is in the store, and what this call has decided since."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.twins: dict[tuple[str, str, str], Row] = {}
        self.live: dict[str, Row] = {}
        self.slots: dict[tuple[str, str], _Slot] = defaultdict(lambda: _Slot([]))
        self.rows: dict[str, Row] = {}
        # Of values since one moment, the one that still holds comes last, whatever the ids.
        for row in sorted(rows, key=lambda row: (row["valid_from"], row["valid_to"], row["id"])):
            self.take(dict(row))

    def take(self, row: Row) -> None:
        self.rows[row["id"]] = row
        if row["state"] in _LIVE:
            self.twins.setdefault(_twin_key(row), row)
            self.live[row["id"]] = row
        if _has_slot(row) and row["state"] in (*_LIVE, "superseded", "merged"):
            self.slots[_slot_key(row)].insert(row)

    def retire(self, row: Row) -> None:
        """Take away a memory that no longer stands."""
        self.live.pop(row["id"], None)
        if self.twins.get(_twin_key(row)) is row:
            del self.twins[_twin_key(row)]

    def leads_to(self, row: Row | None, end: Row | None) -> bool:
        """Whether a memory, or what took its place in turn, was replaced by another one."""
        seen: set[str] = set()
        while row is not None and end is not None and row["state"] in _REPLACED and row["id"] not in seen:
            if row["superseded_by"] == end["id"]:
                return True
            seen.add(row["id"])
            row = self.rows.get(row["superseded_by"])
        return False


def _order(row: Row) -> tuple[datetime, str]:
    return row["valid_from"], row["id"]


def _twin_key(row: Row) -> tuple[str, str, str]:
    return row["kind"], row["subject"], normal_text(row["text"])


def _has_slot(row: Row) -> bool:
    return row["kind"] in _SLOT_KINDS and bool(row["subject"] and row["attribute"] and row["value"])


def _slot_key(row: Row) -> tuple[str, str]:
    return row["subject"], row["attribute"]


def resolve(
    candidates: Sequence[Row],
    pending: Sequence[Row],
    known: Sequence[Row],
    *,
    holds_many: Callable[[str], bool],
    met: Mapping[str, Sequence[Meeting]] | None = None,
) -> dict[str, list[Row]]:
    """Decide on candidates (rows that add a memory) and on pending memories (rows of the store).

    Returns, by memory id, the rows that the decision on it consists of, without `act`, `run`, `at` and `read_to`.
    `known` are the memories of the same kinds that the store holds, in the states `STATES`.
    `holds_many` says of an attribute whether several values of it hold at once, so that none supersedes another.
    `met` says, by id, what candidates and pending memories are to others (see `meetings`).
    Earlier statements are decided first, so that the result does not depend on the order given.
    """
    store = _Known(known)
    decided: dict[str, list[Row]] = {}
    incoming = [(row, True) for row in candidates] + [(row, False) for row in pending]
    for row, is_new in sorted(incoming, key=lambda pair: _order(pair[0])):
        if row["id"] in decided:
            continue
        rows = [dict(row)] if is_new else []
        rows += _decide(dict(row), store, holds_many, (met or {}).get(row["id"], ()))
        if rows:
            decided[row["id"]] = rows
    return decided


def _decide(row: Row, store: _Known, holds_many: Callable[[str], bool], met: Sequence[Meeting]) -> list[Row]:
    store.rows[row["id"]] = row
    rows: list[Row] = []
    if _has_slot(row) and not holds_many(row["attribute"]):
        rows = _decide_slot(row, store)
        if row["state"] in ("merged", "superseded"):
            return rows
    else:
        twin = store.twins.get(_twin_key(row))
        if twin is not None and twin["id"] != row["id"]:
            return [_merged(row, twin, "says the same in the same words"), _stands(twin, row)]
    doubts = []
    for meeting in sorted(met, key=lambda meeting: (_FIRST.index(meeting.verdict.type), meeting.other)):
        other, reason = store.live.get(meeting.other), meeting.verdict.reason
        if other is None or other["id"] == row["id"]:
            continue
        if meeting.verdict.type == "conflicts":
            doubts.append(f"conflicts with {other['id']}: {reason}")
        elif meeting.verdict.type == "supersedes":
            newer, older = (other, row) if meeting.other_stands else (row, other)
            rows.append(_superseded(older, newer["id"], newer["valid_from"], reason))
            older.update(state="superseded", superseded_by=newer["id"], valid_to=newer["valid_from"])
            store.retire(older)
        elif meeting.verdict.type == "same" or meeting.other_stands:
            return [*rows, _merged(row, other, reason), _stands(other, row)]
        else:
            rows.append(_merged(other, row, reason))
            other.update(state="merged", superseded_by=row["id"])
            store.retire(other)
        if row["state"] == "superseded":
            return rows
    return [*rows, *_activated(row, store, "; ".join(doubts) or "nothing there says otherwise")]


#: In which order what a memory is to others is looked at.
_FIRST = ("same", "refines", "supersedes", "conflicts", "complements", "distinct")


def _decide_slot(row: Row, store: _Known) -> list[Row]:
    """Give a value its place among those that its attribute has had; the state in the row says how that ended."""
    slot = store.slots[_slot_key(row)]
    # A user may have put this one in the place of others: it never goes back under those.
    before, after = slot.around(row["valid_from"], lambda other: store.leads_to(other, row))
    stood = slot.standing(before)
    if after is not None and after["state"] == "superseded" and store.leads_to(after, stood):
        after = None
    if stood is not None and normal_text(stood["value"]) == normal_text(row["value"]):
        row.update(state="merged", superseded_by=stood["id"])
        slot.insert(row)
        return [_merged(row, stood, f"{row['attribute']} was {row['value']} already"), _stands(stood, row)]
    rows: list[Row] = []
    if stood is not None and after is not None and after["state"] == "merged":
        # What comes between a statement and its repetition ends the one and makes the other count again.
        again = {name: stood[name] for name in ("state", "superseded_by", "valid_to")}
        after.update(again)
        rows.append({"decision": "restore", "id": after["id"], "reason": f"{row['id']} was said before it", **again})
    if stood is not None:
        rows.append(_superseded(stood, row["id"], row["valid_from"], _changed(stood, row)))
        store.retire(stood)
        stood.update(state="superseded", superseded_by=row["id"], valid_to=row["valid_from"])
    if after is not None:
        rows.append(_superseded(row, after["id"], after["valid_from"], _changed(row, after)))
        row.update(state="superseded", superseded_by=after["id"], valid_to=after["valid_from"])
    slot.insert(row)
    return rows


def _merged(row: Row, into: Row, why: str) -> Row:
    return {
        "decision": "merge",
        "id": row["id"],
        "state": "merged",
        "superseded_by": into["id"],
        "reason": f"{why}: {into['id']}",
    }


def _stands(other: Row, row: Row) -> Row:
    """That the memory which stands for another one still does: if it no longer does, the act is refused."""
    return {"decision": "merge", "id": other["id"], "state": other["state"], "reason": f"stands for {row['id']}"}


def _superseded(old: Row, successor: str, until: datetime, reason: str) -> Row:
    return {
        "decision": "supersede",
        "id": old["id"],
        "state": "superseded",
        "superseded_by": successor,
        "valid_to": min(until, END_OF_TIME),
        "reason": reason,
    }


def _changed(old: Row, new: Row) -> str:
    return f"{old['attribute']} changed from {old['value']} to {new['value']}"


def _activated(row: Row, store: _Known, reason: str) -> list[Row]:
    row["state"] = "active"
    store.twins.setdefault(_twin_key(row), row)
    store.live[row["id"]] = row
    return [{"decision": "activate", "id": row["id"], "state": "active", "reason": reason}]
