"""Reflected memories in a log, and the traces that they rest on, for the tests of reviews and prompts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hindlake.memory_store.capture.events import Event
from hindlake.memory_store.capture.traces import write_events
from hindlake.memory_store.clock import END_OF_TIME
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.inbox import Row, write_proposals
from hindlake.memory_store.history.log import settle

#: In the middle of a month that is over by `NOW`.
MADE = datetime(2026, 2, 10, tzinfo=UTC)
NOW = datetime(2026, 3, 5, tzinfo=UTC)


def log_trace(lake: Lake, id: str, *extra: dict[str, Any], task_id: str = "", outcome: str = "failure") -> None:
    """A run that fails for want of a warehouse: e0 task, e1 user, e2 find_stock, e3 agent, e4 outcome, then extra."""
    rows: list[dict[str, Any]] = [
        {"type": "task", "content": "Look up the stock", "task_id": task_id},
        {"role": "user", "content": "I'm Dora Quint. Please always write e-mails."},
        {"type": "tool_call", "tool": "find_stock", "arguments": '{"code": "K-2291"}', "error_code": "BAD_WAREHOUSE",
         "error_message": "warehouse is required when region is not given"},
        {"role": "agent", "content": f"I could not find it ({id})."},
        {"type": "outcome", "outcome": outcome},
        *extra,
    ]  # fmt: skip
    write_events(
        lake,
        [
            Event("default", id, f"{id}-e{seq}", seq, MADE + timedelta(seconds=seq), **{"type": "message", **row})
            for seq, row in enumerate(rows)
        ],
    )


def lesson(id: str, trace: str = "t1", at: datetime = MADE, **columns: Any) -> Row:
    """A row of the log that adds a lesson of a trace of `log_trace`."""
    return {
        "act": f"act-{id}", "at": at, "run": "run-1", "read_to": 0, "decision": "add", "id": id, "reason": "proposed",
        "kind": "experience", "text": f"When stock is looked up in a {id} shop, pass warehouse to find_stock.",
        "trigger": f"stock is looked up in a {id} shop", "action": "pass warehouse to find_stock", "tool": "find_stock",
        "subject": "", "entities": [], "tags": [], "derived_from": [], "said_by": "reflection", "quality": 4,
        "importance": 0.5, "confidence": 0.8, "strength": 1.0, "state": "active", "valid_from": at,
        "valid_to": END_OF_TIME, "superseded_by": "", "reflector": "openai:scripted@reflect.v1", "prompt_hash": "h1",
        "evidence": [{"trace_id": trace, "event_id": f"{trace}-e2", "quote": "warehouse is required"}], **columns,
    }  # fmt: skip


def keep(lake: Lake, *rows: Row) -> None:
    """Put rows into the log."""
    write_proposals(lake, "default", rows)
    settle(lake, "default")
