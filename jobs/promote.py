"""The job `promote`: what distinct traces confirm rises to knowledge (R4, R19).

A memory is confirmed by each trace that shows it: those of its own evidence, and those of the memories that were
merged into it. Being said twice in one trace is being said once, and what only a tool or a web page says is not
confirmed by being read again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from ..memory_store.clock import Clock
from ..memory_store.inbox import Row
from ..memory_store.lake import Lake
from ..memory_store.settings import Settings
from .decide import Decided, DecideReport, View, decide

#: Columns of the store that promoting looks at.
COLUMNS = ("id", "kind", "state", "confidence", "superseded_by", "evidence", "said_by", "tags")
#: Kinds that can rise.
KINDS = ("fact", "preference", "rule", "experience")
#: Who can't confirm by being read again.
_UNTRUSTED = ("tool", "web")
#: Memories that count how often they were shown themselves.
_COUNTS_ITSELF = "pattern"
#: A smaller gain in confidence is no decision.
_LEAST_GAIN = 0.01


def promote(
    lake: Lake,
    settings: Settings,
    clock: Clock,
    *,
    version: str,
    namespaces: Sequence[str] | None = None,
    dry_run: bool = False,
) -> DecideReport:
    """Raise the confidence of what enough traces confirm. Raises when the lake or the store fail."""
    return decide(
        lake, settings, clock, rule, job="promote", version=version, namespaces=namespaces, dry_run=dry_run
    )  # fmt: skip


def rule(view: View) -> Iterator[Decided]:
    """What the memories of one namespace deserve."""
    rows = view.memories(COLUMNS, kinds=KINDS, states=("active", "merged", "superseded"))
    yield promotions(rows.to_pylist(), view.settings.jobs.promote_traces)


def promotions(rows: Sequence[Row], least: int) -> Decided:
    """Decide on memories (columns `COLUMNS`): each active one that at least `least` traces confirm is promoted."""
    decided = Decided()
    for row, traces in confirmations(rows):
        if row["said_by"] in _UNTRUSTED:
            decided.counts["untrusted"] += 1
        elif _COUNTS_ITSELF in (row["tags"] or ()):
            decided.counts["patterns"] += 1
        elif len(traces) < least:
            decided.counts["unconfirmed"] += 1
        elif (confidence := confirmed(len(traces))) < row["confidence"] + _LEAST_GAIN:
            decided.counts["known"] += 1
        else:
            reason = f"{len(traces)} traces confirm it"
            decided.acts.append(
                [{"decision": "promote", "id": row["id"], "confidence": confidence, "reason": reason}]
            )  # fmt: skip
    return decided


def confirmed(traces: int) -> float:
    """Confidence in what this many traces show and none denies: Laplace's rule of succession, (n + 1) / (n + 2).

    >>> confirmed(2), confirmed(8)
    (0.75, 0.9)
    """
    return (traces + 1) / (traces + 2)


def confirmations(rows: Sequence[Row]) -> Iterator[tuple[Row, frozenset[str]]]:
    """Each active memory with the traces that show it, those of memories merged into it included."""
    by_id = {row["id"]: row for row in rows}
    shown: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        heir = _heir(row, by_id)
        if heir is not None:
            shown[heir["id"]].update(_traces(row))
    for row in rows:
        if row["state"] == "active":
            yield row, frozenset(shown[row["id"]])


def _heir(row: Row, by_id: dict[str, Row]) -> Row | None:
    """The active memory that a memory was merged into, itself if it is active; None where there is none."""
    seen: set[str] = set()
    while row["state"] == "merged" and row["id"] not in seen:
        seen.add(row["id"])
        into = by_id.get(row["superseded_by"])
        if into is None:
            return None
        row = into
    return row if row["state"] == "active" else None


def _traces(row: Row) -> set[str]:
    evidence: list[dict[str, Any]] = row["evidence"] or []
    return {item["trace_id"] for item in evidence if item["trace_id"]}
