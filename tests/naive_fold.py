"""A fold of the log in ten obvious lines, and what must be true of a log: the oracle that stores are compared with."""

from __future__ import annotations

from typing import Any

from hindlake.memory_store.schema import ADDING, CONTENT, STATE

Row = dict[str, Any]

TEXTS = [column.name for column in (*CONTENT, *STATE) if column.type == "text"]
CHANGING = [column.name for column in STATE]
FIXED = [column.name for column in CONTENT if column.name not in ("embedder", "vector")]
STATES = {"pending", "active", "superseded", "merged", "archived", "deleted", "quarantined"}
AWAY = {"archived", "deleted", "quarantined"}
KINDS = ["episode", "experience", "fact", "preference", "rule"]


def accepted(log: list[Row]) -> list[Row]:
    return [row for row in log if row["verdict"] == "accepted" and row["decision"] != "refuse"]


def naive_fold(log: list[Row]) -> dict[str, Row]:
    """Every memory that the log has added, each column as the last row said that named it."""
    memories: dict[str, Row] = {}
    for row in accepted(log):
        if row["decision"] == "cool":
            continue
        assert row["decision"] != "add" or row["id"] not in memories, "added twice"
        if row["decision"] in ADDING and row["id"] not in memories:  # an alias may be said again
            memories[row["id"]] = {
                **{name: row[name] for name in ("id", "run", *FIXED)},
                "added_seq": row["seq"],
                "added_at": row["at"],
            }
        memory = memories[row["id"]]
        memory["seq"] = row["seq"]
        for name in CHANGING:
            if row[name] is not None:
                memory[name] = row[name]
    for memory in memories.values():
        for name in (*TEXTS, "run"):
            if name != "embedder":
                memory[name] = memory.get(name) or ""
    return memories


def in_store(log: list[Row], memories: dict[str, Row]) -> dict[str, Row]:
    """Those that have not gone to cold storage."""
    cooled = max((row["read_to"] for row in accepted(log) if row["decision"] == "cool"), default=0)
    return {
        id: memory
        for id, memory in memories.items()
        if not (memory["state"] in ("archived", "deleted") and memory["seq"] <= cooled)
    }


def numbered(log: list[Row], said: list[Row]) -> list[Row]:
    """The log with what users have said since, as the next settle would number it."""
    known = {row["act"] for row in log}
    fresh = [row for row in said if row["act"] not in known]
    return [*log, *({**row, "seq": len(log) + n, "verdict": "accepted"} for n, row in enumerate(fresh, 1))]


def overtaken(log: list[Row]) -> list[Row]:
    """Accepted proposals that set what had changed since their run had read, against the rule that they are refused."""
    setter: dict[tuple[str, str], Row] = {}
    wrong = []
    for row in accepted(log):
        for name in CHANGING:
            if row[name] is None:
                continue
            last = setter.get((row["id"], name))
            if row["read_to"] is not None and last is not None and last["seq"] > row["read_to"]:
                wrong += [] if (last["run"], last["read_to"]) == (row["run"], row["read_to"]) else [row]
            setter[row["id"], name] = row
    return wrong
