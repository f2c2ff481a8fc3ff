"""From a branch to the lake: what the log must say so that the store becomes what the branch shows. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from ...memory_store.history.cold import COLD
from ...memory_store.history.inbox import Row
from ...memory_store.ids import derive_id
from ...memory_store.schema import CONTENT, STATE

_STATE = tuple(column.name for column in STATE)
#: Columns of a memory that the log sets.
COLUMNS = ("id", *(column.name for column in CONTENT), *_STATE)
#: The decision that brings a memory into a state.
_DECISIONS = {
    "active": "restore", "pending": "restore", "superseded": "supersede", "merged": "merge", "archived": "archive",
    "deleted": "forget", "quarantined": "quarantine",
}  # fmt: skip


def adopted(
    namespace: str,
    ours: Mapping[str, Row],
    theirs: Sequence[Row],
    replaced: Collection[str],
    added: Collection[str],
    *,
    run_id: str,
    read_to: int,
    at: datetime,
) -> list[list[Row]]:
    """Acts, one a memory, that make the store what the branch shows.

    `ours`: memories of the store by id; `theirs`: those of the branch; `replaced`: memories that rest on the
    reflections that were made again; `added`: every memory that the log has ever added, those in cold storage too.
    """
    acts: list[list[Row]] = []
    envelope: Row = {"at": at, "run": run_id, "read_to": read_to}

    def decide(row: Row) -> None:
        act = derive_id(namespace, "act", "rereflect", run_id, row["id"], read_to)
        acts.append([{**envelope, "act": act, **row}])

    here = {row["id"] for row in theirs}
    for row in theirs:
        old = ours.get(row["id"])
        if old is None and row["id"] not in added:
            decide({**row, "decision": "add", "reason": "reflected on again"})
            continue
        if old is None and row["state"] in COLD:
            continue  # it has left the store for cold storage, as it will leave the branch's
        changes = {name: row[name] for name in _STATE if old is None or old[name] != row[name]}
        if changes:
            decide({**changes, "decision": _DECISIONS[row["state"]], "id": row["id"], "reason": "reflected on again"})
    for id, old in ours.items():
        if id not in here and id in replaced and old["state"] not in COLD:
            decide({"decision": "archive", "id": id, "state": "archived", "reason": "reflected on again, without it"})
    return acts
