"""What is in lake and store, what waits, and what ran last."""

from __future__ import annotations

import contextlib
from collections import Counter
from datetime import timedelta
from typing import Any

import msgspec

from .capture.traces import scan_events
from .clock import Clock
from .errors import NoGeneration
from .files.lake import Lake
from .history.cold import cold_count
from .history.inbox import inbox_paths
from .history.log import head
from .history.overlay import OverlayReader
from .history.touches import quarantined
from .recall.predicates import READABLE
from .records.batches import questions_out
from .records.gated import looked_at, over
from .records.runs import last_runs
from .settings import Settings
from .store.generations import current, open_tables


def status(lake: Lake, settings: Settings, clock: Clock) -> dict[str, Any]:
    """The state of one namespace as nested dicts of plain values; see the keys below. Reads only."""
    namespace = settings.namespace
    events = scan_events(lake, namespace, ["type", "error_code", "at"])
    return {
        "home": settings.home,
        "namespace": namespace,
        "namespaces": lake.namespaces(),
        "lake": _lake_counts(events),
        "store": _store_counts(lake, settings, namespace),
        "quarantined": [{"id": id, "reason": reason} for id, reason in quarantined(lake, namespace).items()],
        "waiting": _waiting(lake, settings, namespace, events, clock),
        "runs": [msgspec.structs.asdict(run) for run in last_runs(lake, namespace)],
    }


def _lake_counts(events: Any) -> dict[str, int]:
    errors = sum(
        type == "tool_call" and bool(code)
        for type, code in zip(events.column("type").to_pylist(), events.column("error_code").to_pylist(), strict=True)
    )
    return {
        "traces": len(events.column("trace_id").unique()),
        "events": events.num_rows,
        "tool_errors": errors,
    }


def _store_counts(lake: Lake, settings: Settings, namespace: str) -> dict[str, Any]:
    """Memories by kind and by state as a search would see them now, what is not folded yet included."""
    try:
        generation = current(lake)
    except NoGeneration:
        counts: Counter[tuple[str, str]] = Counter()
        overlay = OverlayReader(lake, namespace).read(0)
        name, embedder, folded_to, cold = "", "", 0, 0
        stored: dict[str, tuple[str, str]] = {}
    else:
        tables = open_tables(settings, generation)
        folded_to = tables.folded_to(namespace)
        overlay = OverlayReader(lake, namespace).read(folded_to)
        counts = Counter(tables.counts(namespace))
        cold = cold_count(lake, tables, namespace)
        name, embedder = generation.name, generation.embedder
        rows = (
            tables.rows(namespace, sorted(overlay.states), ["id", "kind", "state"]).to_pylist()
            if overlay.states
            else []
        )
        stored = {row["id"]: (row["kind"], row["state"]) for row in rows}
    for id, (kind, state) in stored.items():
        counts[kind, state] -= 1
        counts[kind, overlay.states[id]] += 1
    added = zip(*(overlay.added.column(column).to_pylist() for column in ("id", "kind", "state")), strict=True)
    counts.update((kind, state) for id, kind, state in added if id not in stored)
    live: Counter[str] = Counter()
    states: Counter[str] = Counter()
    for (kind, state), count in counts.items():
        states[state] += count
        if state in READABLE:
            live[kind] += count
    return {
        "memories": {kind: count for kind, count in sorted(live.items()) if count},
        "states": {state: count for state, count in sorted(states.items()) if count},
        "pending": states["pending"],
        "cold": cold,
        "generation": name,
        "embedder": embedder,
        "folded_to": folded_to,
    }


def _waiting(lake: Lake, settings: Settings, namespace: str, events: Any, clock: Clock) -> dict[str, Any]:
    from .capture.spool import waiting as spooled

    abandoned = timedelta(hours=settings.gate.abandoned_hours)
    ready = over(events, clock.now(), abandoned) - looked_at(lake, namespace).keys()
    spool = spooled(settings.spool_folder)
    seq = head(lake, namespace)[1]
    folded = 0
    with contextlib.suppress(NoGeneration):
        folded = open_tables(settings, current(lake)).folded_to(namespace)
    return {
        "events": spool.events,
        "oldest": spool.oldest,
        "inbox": len(inbox_paths(lake, namespace)),
        "log": seq - folded,
        "traces": len(ready),
        "questions": questions_out(lake, namespace),
    }
