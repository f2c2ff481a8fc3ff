"""From candidates to decisions in the log: resolve, propose, settle, look at the verdicts, try again what changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from ...memory_store.clock import Clock
from ...memory_store.embedders import Embedder
from ...memory_store.files.lake import Lake
from ...memory_store.history.inbox import Row
from ...memory_store.history.log import read_keys, settle
from ...memory_store.ids import derive_id
from ...memory_store.recall.predicates import Filter
from ...memory_store.store.generations import fold_to_head
from ...memory_store.store.tables import Tables
from ..comparing.pairs import COLUMNS as PAIR_COLUMNS
from ..comparing.pairs import Judge
from .decide import ROUNDS, propose
from .meet import Scale
from .meetings import Meeting, meetings
from .resolve import COLUMNS, STATES, resolve

#: Kinds that resolve compares; an episode is its trace and needs no comparing.
KINDS = ("experience", "fact", "preference", "rule")
#: Subjects of one condition.
_SUBJECTS = 2_000
#: Columns of a pending memory: it is compared by its vector too.
PENDING_COLUMNS = tuple(dict.fromkeys([*COLUMNS, *PAIR_COLUMNS, "vector"]))


@dataclass
class Outcome:
    """What became of what was proposed."""

    counts: Counter[str] = field(default_factory=Counter)
    rows: list[Row] = field(default_factory=list)


class Proposer:
    """Proposes for one run in one namespace, against the tables of the generation in use."""

    def __init__(
        self,
        lake: Lake,
        tables: Tables,
        embedder: Embedder,
        namespace: str,
        run_id: str,
        clock: Clock,
        judge: Judge | None = None,
    ) -> None:
        self._lake, self._tables, self._embedder = lake, tables, embedder
        self._namespace, self._run_id, self._clock, self._judge = namespace, run_id, clock, judge
        #: Place in the log up to which decisions are based
        self.read_to = 0

    def catch_up(self) -> None:
        """Settle what waits and fold it, so that decisions rest on all that is known."""
        settle(self._lake, self._namespace)
        self.read_to = fold_to_head(self._lake, self._tables, self._namespace, self._embedder)

    def pending(self) -> list[Row]:
        """Memories that were written and not compared with the others yet."""
        return self._stored(("pending",), PENDING_COLUMNS)

    def propose(
        self,
        candidates: Sequence[Row],
        pending: Sequence[Row],
        plain: Sequence[Row],
        *,
        holds_many: Callable[[str], bool],
        dry_run: bool = False,
    ) -> Outcome:
        """Decide on candidates and pending memories, and put the decisions into the log.

        `plain` are acts that need no comparing (episodes, refusals), one row each. Of the counts, candidates =
        added + merged + superseded + known, and pending = activated + pending_merged + pending_superseded. Those of
        `pending` that are so no more, since someone changed them after they were read, are left out and not counted.
        """
        self.catch_up()
        waiting = self._still(pending)
        outcome = Outcome()
        todo = list({row["id"]: row for row in candidates}.values())
        outcome.counts.update(candidates=len(candidates), known=len(candidates) - len(todo), pending=len(waiting))
        existing = self._existing(todo)
        outcome.counts["known"] += len(existing)
        todo = [row for row in todo if row["id"] not in existing]
        plain = list({row["id"]: row for row in plain}.values())
        existing = self._existing(plain)
        fresh = [row for row in plain if row["id"] not in existing]
        self._submit([self._act([row]) for row in fresh], dry_run, outcome)
        outcome.counts["episodes"] = sum(row["decision"] == "add" for row in fresh)
        outcome.counts["refused"] = sum(row["decision"] == "refuse" for row in fresh)
        for _ in range(ROUNDS):
            met = self._meetings([*todo, *waiting], holds_many)
            around = self._around([*todo, *waiting], met)
            decided = resolve(todo, waiting, around, holds_many=holds_many, met=met)
            acts = {id: self._act(rows, id) for id, rows in decided.items()}
            refused = self._submit(list(acts.values()), dry_run, outcome)
            new = {row["id"] for row in todo}
            _count(outcome.counts, {id: rows for id, rows in acts.items() if rows[0]["act"] not in refused}, new)
            again = {id for id, rows in acts.items() if rows[0]["act"] in refused}
            todo = [row for row in todo if row["id"] in again]
            waiting = [row for row in waiting if row["id"] in again]
            if not todo and not waiting:
                break
            self.catch_up()
            gone = self._existing(todo)
            outcome.counts["known"] += len(gone)
            todo = [row for row in todo if row["id"] not in gone]
            waiting = self._still(waiting)
        outcome.counts["unsettled"] = len(todo) + len(waiting)
        return outcome

    def _still(self, rows: Sequence[Row]) -> list[Row]:
        """Those of some memories that were pending that are so yet."""
        pending = {row["id"] for row in self.pending()} if rows else set()
        return [row for row in rows if row["id"] in pending]

    def _stored(self, states: tuple[str, ...], columns: Sequence[str] = COLUMNS) -> list[Row]:
        where = Filter(namespaces=(self._namespace,), kinds=KINDS, states=states)
        rows: list[Row] = self._tables.scan(where, columns).to_pylist()
        return rows

    def _around(self, rows: Sequence[Row], met: Mapping[str, Sequence[Meeting]]) -> list[Row]:
        """All that resolving can touch: memories of the same subjects, and those that are met."""
        subjects = sorted({row["subject"] or "" for row in rows} - {""})
        found: dict[str, Row] = {}
        for start in range(0, len(subjects), _SUBJECTS):
            where = Filter(
                (self._namespace,), kinds=KINDS, states=STATES,
                own_subjects=tuple(subjects[start : start + _SUBJECTS]),
            )  # fmt: skip
            found |= {row["id"]: row for row in self._tables.scan(where, COLUMNS).to_pylist()}
        others = {meeting.other for meetings in met.values() for meeting in meetings}.difference(found)
        rows_met = self._tables.rows(self._namespace, sorted(others), COLUMNS).to_pylist()
        return [*found.values(), *(row for row in rows_met if row["state"] in STATES)]

    def _meetings(self, rows: list[Row], holds_many: Callable[[str], bool]) -> dict[str, list[Meeting]]:
        scale = Scale(self._embedder.name, self._lake)
        return meetings(self._tables, self._namespace, rows, scale, judge=self._judge, holds_many=holds_many)

    def _existing(self, rows: Sequence[Row]) -> set[str]:
        """Ids of rows that the log holds: memories added before, and refusals made before."""
        if not rows:
            return set()
        decisions = pa.array(sorted({row["decision"] for row in rows}), pa.string())
        ids = pa.array([row["id"] for row in rows], pa.string())
        known: set[str] = set()
        for keys in read_keys(self._lake, self._namespace):
            keys = keys.filter(pc.is_in(keys.column("id"), value_set=ids))
            keys = keys.filter(pc.equal(keys.column("verdict"), "accepted"))
            keys = keys.filter(pc.is_in(keys.column("decision"), value_set=decisions))
            known.update(keys.column("id").to_pylist())
        return known

    def _act(self, rows: list[Row], about: str = "") -> list[Row]:
        """Rows as one act, named for what it is about and for what was known: decided anew, it is a new act."""
        act = rows[0].get("act") or derive_id(self._namespace, "act", about or rows[0]["id"], self.read_to)
        envelope = {"act": act, "at": self._clock.now(), "run": self._run_id, "read_to": self.read_to}
        return [{**row, **envelope} for row in rows]

    def _submit(self, acts: list[list[Row]], dry_run: bool, outcome: Outcome) -> set[str]:
        """Write acts into the inbox, settle, and return those that were refused."""
        rows = [row for act in acts for row in act]
        outcome.rows += rows
        if not rows or dry_run:
            return set()
        return set(propose(self._lake, self._namespace, acts, self.read_to))


def _count(counts: Counter[str], acts: dict[str, list[Row]], new: set[str]) -> None:
    for id, rows in acts.items():
        own = [row for row in rows if row["id"] == id and row["decision"] != "add"]
        end = own[-1]["state"]
        name = {"active": "added", "merged": "merged", "superseded": "superseded"}[end]
        counts[name if id in new else {"added": "activated"}.get(name, f"pending_{name}")] += 1
        counts["superseding"] += any(row["decision"] == "supersede" and row["id"] != id for row in rows)
