"""What a search returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class Hit:
    """A memory that answers a query."""

    #: The id that explain, update and forget take
    id: str
    #: episode · experience · fact · preference · rule
    kind: str
    text: str
    #: 0 to 1: how well it answers, on one scale for all queries
    score: float
    #: pending · active · …
    state: str
    #: Whom it is about; empty: shared
    subject: str
    entities: tuple[str, ...]
    task_type: str
    tool: str
    outcome: str
    error_code: str
    agent_role: str
    #: user · agent · tool · web · reflection
    said_by: str
    #: Since when it holds
    valid_from: datetime
    #: Until when it holds; 9999-12-31 while it does
    valid_to: datetime
    importance: float
    confidence: float
    #: What it rests on: dicts of trace_id, event_id, quote
    evidence: tuple[dict[str, str], ...] = ()
    #: Which legs found it, at which rank and with which raw score, and the factors on its rank
    why: dict[str, Any] = field(default_factory=dict)
