"""Memories that are there and are not found, and those of which there are too many."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from ...memory_store.capture.reads import read_days, scan_reads
from ...memory_store.errors import NoGeneration
from ...memory_store.recall.predicates import READABLE, Filter
from ...memory_store.records.gated import looked_at
from ...memory_store.store.generations import open_tables
from ...memory_store.store.registry import current
from ...memory_store.store.tables import Tables
from .finding import Finding, Patient

#: Memories of one kind of task that stay quick to search and easy to judge (R34).
_HOT = 1_000
#: Reads that are looked at for filters that hide everything.
_READS = 500
#: Share of traces that are reflected on, above which the gate saves little (R34 asks it to save 60 %), and of how many.
_OFTEN, _TRACES = 0.6, 50


def _tables(patient: Patient) -> Tables | None:
    try:
        return open_tables(patient.settings, current(patient.lake))
    except NoGeneration:
        return None


def namespace(patient: Patient) -> Iterator[Finding]:
    """Whether one looks where something is."""
    others = [name for name in patient.lake.namespaces() if name != patient.namespace]
    if others and patient.namespace not in patient.lake.namespaces():
        yield Finding(
            "namespace-empty", "doubtful",
            f"namespace {patient.namespace} holds nothing; there are {', '.join(others[:10])}",
            "name one with --namespace, or set HINDLAKE_NAMESPACE",
        )  # fmt: skip


def floors(patient: Patient) -> Iterator[Finding]:
    """Whether the settings of search let anything through."""
    search = patient.settings.search
    if search.floor > 0.5 or search.lone_floor > 0.95:
        yield Finding(
            "floor-high", "doubtful",
            f"search.floor is {search.floor}, search.lone_floor {search.lone_floor}: most hits are cut off",
            "leave HINDLAKE_SEARCH_FLOOR and HINDLAKE_SEARCH_LONE_FLOOR at their defaults, .1 and .7",
        )  # fmt: skip


def hidden(patient: Patient) -> Iterator[Finding]:
    """Whether facts and preferences are about subjects that searches don't name, and how many wait or are away."""
    if (tables := _tables(patient)) is None:
        return
    rows = tables.scan(Filter((patient.namespace,), kinds=("fact", "preference"), states=READABLE), ["subject"])
    about = sum(bool(subject) for subject in rows.column("subject").to_pylist())
    if about and about == rows.num_rows:
        yield Finding(
            "subject-needed", "note",
            f"all {about} facts and preferences are about a subject, and are returned only when a search names it",
            'give `subject`: `Memory.search(query, subject="ann")`, `hindlake search --subject ann`',
        )  # fmt: skip


def filters(patient: Patient) -> Iterator[Finding]:
    """Whether agents ask with filter values that no memory has, so that they get nothing."""
    if (tables := _tables(patient)) is None:
        return
    names = ("task_type", "tool", "agent_role", "outcome", "error_code")
    rows = tables.scan(Filter((patient.namespace,), states=READABLE), list(names))
    have = {name: set(rows.column(name).to_pylist()) for name in names}
    asked: Counter[tuple[str, str]] = Counter()
    for where in _asked(patient):
        for name in names:
            asked.update((name, value) for value in where.get(f"{name}s", ()) or ())
    for (name, value), times in sorted(asked.items()):
        if value not in have[name]:
            yield Finding(
                "filter-hides-all", "doubtful", f"{times} searches asked for {name} {value!r}, which no memory has",
                f"check the spelling, or map the name: `hindlake names task-type {value} --to NAME`"
                if name == "task_type"
                else "check the spelling, or leave the filter out",
            )  # fmt: skip


def growth(patient: Patient) -> Iterator[Finding]:
    """Whether the hot set stays small, and whether the gate saves calls."""
    if (tables := _tables(patient)) is not None:
        where = Filter((patient.namespace,), kinds=("experience",), states=READABLE)
        types = Counter(tables.scan(where, ["task_type"]).column("task_type").to_pylist())
        for task_type, count in types.most_common(3):
            if count > _HOT:
                yield Finding(
                    "hot-set-large", "doubtful", f"{count} experiences of task type {task_type or '(none)'} are live",
                    "run `hindlake run nightly`; shorten what is kept with HINDLAKE_RETENTION_OVERRIDES",
                )  # fmt: skip
    traces = looked_at(patient.lake, patient.namespace, patient.clock.now() - timedelta(days=30))
    share = sum(traces.values()) / max(len(traces), 1)
    if len(traces) >= _TRACES and share > _OFTEN:
        yield Finding(
            "over-reflection", "doubtful", f"{share:.0%} of the last month's {len(traces)} traces were reflected on",
            "raise HINDLAKE_GATE_COMPLEX_CALLS or lower HINDLAKE_GATE_COMPLEX_RATE",
        )  # fmt: skip


def _asked(patient: Patient) -> Iterator[dict[str, Any]]:
    """The filters of the newest reads that are in the lake."""
    left = _READS
    for _, paths in reversed(read_days(patient.lake, patient.namespace).items()):
        for rows in scan_reads(patient.lake, paths, ["filters"]):
            for filters in rows.column("filters").to_pylist()[:left]:
                if filters:
                    left -= 1
                    yield json.loads(filters)
        if left <= 0:
            return
