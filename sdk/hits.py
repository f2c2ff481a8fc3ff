"""What a search returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import structs

if TYPE_CHECKING:
    from ..memory_store.recall.search import Hit as Found


@dataclass(frozen=True)
class Hit:
    """A memory that answers a query."""

    #: The id that explain, update and forget take
    id: str
    #: episode · experience · fact · preference · rule · passage
    kind: str
    text: str
    #: What the order is by: 0 to 1, how well it answers; 0 where an empty query listed the newest
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
    #: Labels that it was written with
    tags: tuple[str, ...] = ()
    #: What it rests on: dicts of trace_id, event_id, quote
    evidence: tuple[dict[str, str], ...] = ()
    #: How relevant it is by itself, 0 to 1, factors left out
    relevance: float = 0.0
    #: Where each leg had it: rank, raw score, share of the best, relevance
    legs: dict[str, Any] = field(default_factory=dict)
    #: What its rank was multiplied by: confidence, decay, strength
    factors: dict[str, float] = field(default_factory=dict)
    #: A passage's neighbours in its conversation: the turn before it; empty: none
    before: str = ""
    #: The turn after it
    after: str = ""
    #: The read that it was returned by; empty if reads are not logged
    read_id: str = ""
    #: Why a reranker that was asked had no say in the order; empty: it had, or none is set
    rerank_error: str = ""


@dataclass(frozen=True)
class Page:
    """Some of what a search found."""

    #: Best first, or newest first
    hits: tuple[Hit, ...]
    #: Where the next page begins; empty: this was the last
    cursor: str


def hit_of(found: Found, read_id: str = "") -> Hit:
    """What was found in the store, as an agent is given it."""
    row = found.row
    return Hit(
        id=row["id"],
        kind=row["kind"],
        text=row["text"],
        score=round(found.score, 4),
        state=row["state"],
        subject=row["subject"],
        entities=tuple(row["entities"] or ()),
        task_type=row["task_type"],
        tool=row["tool"],
        outcome=row["outcome"],
        error_code=row["error_code"],
        agent_role=row["agent_role"],
        said_by=row["said_by"],
        valid_from=row["valid_from"],
        valid_to=row["valid_to"],
        importance=row["importance"] or 0.0,
        confidence=row["confidence"] or 0.0,
        tags=tuple(row["tags"] or ()),
        evidence=tuple(row["evidence"] or ()),
        relevance=round(found.relevance, 4),
        legs={name: structs.asdict(place) for name, place in found.legs.items()},
        factors=dict(found.factors),
        before=found.beside[0],
        after=found.beside[1],
        read_id=read_id,
        rerank_error=found.rerank_error,
    )
