"""The decisions of a purge: each memory that it names is hidden from every reader, in the order of the log."""

from __future__ import annotations

from ...memory_store.clock import END_OF_TIME, Clock
from ...memory_store.files.lake import Lake
from ...memory_store.history.inbox import Row, write_user_act
from ...memory_store.history.log import read_keys, settle
from ...memory_store.ids import derive_id
from ...memory_store.records.purged import Purge
from ...memory_store.schema import ADDING


def decide(lake: Lake, clock: Clock, purge: Purge) -> None:
    """Put `purge` decisions into the log, for memories that it has and has not purged yet."""
    namespace = purge.namespace
    added: set[str] = set()
    gone: set[str] = set()
    for keys in read_keys(lake, namespace):
        for known in keys.select(["id", "decision", "verdict"]).to_pylist():
            if known["verdict"] == "accepted" and known["decision"] in (*ADDING, "purge"):
                (gone if known["decision"] == "purge" else added).add(known["id"])
    for id in purge.ids:
        if id in added - gone:
            act = derive_id(namespace, "act", "purge", purge.purge_id, id)
            row: Row = {"act": act, "at": clock.now(), "decision": "purge", "id": id, "state": "deleted"}
            write_user_act(lake, namespace, [{**row, "reason": f"purge {purge.purge_id}"}], act)
    for id in purge.restored:
        act = derive_id(namespace, "act", "purge", "restore", purge.purge_id, id)
        back: Row = {"act": act, "at": clock.now(), "decision": "restore", "id": id, "state": "pending"}
        back |= {"superseded_by": "", "valid_to": END_OF_TIME, "reason": "what it had been merged into was purged"}
        write_user_act(lake, namespace, [back], act)
    settle(lake, namespace)
