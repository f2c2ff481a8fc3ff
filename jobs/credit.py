"""The job `credit`: the outcomes of tasks credit or debit the memories that were put before them (N5).

A memory is compared with what its tasks would have been without it: the success rate of the other tasks of the same
`task_type`. So an easy kind of task credits nobody, and one failure in it weighs. What a memory adds is a difference
of two rates,

    p1   the share of its tasks that succeeded (a partial success is half a one)
    p2   the share that was to be expected: the rate of the other tasks of each type, weighted by how many of its
         tasks are of that type (direct standardisation), known as well as from
         m = n² / Σ nₜ² / oₜ tasks, where nₜ of its n tasks and oₜ others are of type t

and lies between the bounds of Newcombe's hybrid score interval (Newcombe 1998, Statistics in Medicine 17, 873-890,
method 10), made of the Wilson score intervals [l, u] of both rates (Wilson 1927):

    low  = p1 - p2 - √((p1 - l1)² + (u2 - p2)²)
    high = p1 - p2 + √((u1 - p1)² + (p2 - l2)²)

Few tasks, or few others to compare with, make it wide. Tasks of a type that has no others say nothing, and those
whose outcome is unknown don't either. All of it is computed anew from the reads and the outcomes, late ones included.
It can't tell a memory that does harm from one that is only shown where things go wrong anyway, if the task type does
not; that is why quarantine asks for more certainty, and can be taken back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from ..memory_store.capture.traces import read_trace_files
from ..memory_store.clock import Clock
from ..memory_store.files.lake import Lake
from ..memory_store.history.touches import restored_at
from ..memory_store.records.usage import heirs, inherited, read_usage, write_credit
from ..memory_store.schema import conform
from ..memory_store.settings import CreditSettings, Settings
from .deciding.decide import Decided, DecideReport, View, decide

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Reals = npt.NDArray[np.float64]

#: What an outcome counts; unknown ones say nothing.
WORTH = {"success": 1.0, "partial": 0.5, "failure": 0.0}
#: A task that went this much better or worse than its kind does was helped, or misled.
CLEARLY = 0.25
#: Kinds that are never quarantined: an episode says what happened, whatever came of reading it.
_RECORDS = ("episode",)


def credit(
    lake: Lake,
    settings: Settings,
    clock: Clock,
    *,
    version: str,
    namespaces: Sequence[str] | None = None,
    dry_run: bool = False,
) -> DecideReport:
    """Compute usage and usefulness of every memory anew, and quarantine those that surely mislead.

    With `dry_run` nothing is written, the numbers included. Raises when the lake or the store fail.
    """
    return decide(
        lake, settings, clock, partial(rule, write=not dry_run), job="credit", version=version, namespaces=namespaces,
        dry_run=dry_run,
    )  # fmt: skip


def rule(view: View, *, write: bool) -> Iterator[Decided]:
    """The numbers of one namespace, kept with `write`, and what they say about its memories."""
    settings = view.settings.credit
    into = heirs(view.lake, view.namespace)
    usage = inherited(read_usage(view.lake, view.namespace, write=write), into)
    if not usage.num_rows:
        return
    outcomes = task_outcomes(view.lake, view.namespace, view.now - timedelta(days=settings.window_days))
    numbers = credit_table(usage, outcomes, settings)
    if write:
        write_credit(view.lake, view.namespace, numbers)
    decided = Decided()
    decided.counts["memories"] = numbers.num_rows
    decided.counts["compared"] = numbers.num_rows - numbers.column("low").null_count
    decided.counts["useful"] = sum((low or 0) > 0 for low in numbers.column("low").to_pylist())
    suspects = [row for row in numbers.to_pylist() if misleads(row, settings)]
    active = _active(view, [row["id"] for row in suspects])
    back = restored_at(view.lake, view.namespace, [row["id"] for row in suspects])
    for row in suspects:
        if row["id"] not in active:
            decided.counts["misleading_and_away"] += 1
        elif row["id"] in back and not _since(row["id"], back[row["id"]], usage, outcomes, settings):
            decided.counts["misleading_and_brought_back"] += 1
        else:
            decided.acts.append([_quarantine(row)])
    yield decided


def misleads(row: dict[str, Any], settings: CreditSettings) -> bool:
    """Whether a memory (row of the table `credit`) surely spoils more of its tasks than the margin."""
    return row["surely"] is not None and row["surely"] < -settings.quarantine_margin


def _quarantine(row: dict[str, Any]) -> dict[str, Any]:
    reason = (
        f"{row['misled']} of the {row['tasks']} tasks that it was put before went worse than their kind does; it "
        f"costs at least {-row['surely']:.0%} of them"
    )
    return {"decision": "quarantine", "id": row["id"], "state": "quarantined", "reason": reason}


def _active(view: View, ids: Sequence[str]) -> set[str]:
    if not ids:
        return set()
    found = view.memories(["id"], ids=tuple(ids), states=("pending", "active"), not_kinds=_RECORDS)
    return set(found.column("id").to_pylist())


def _since(id: str, at: datetime, usage: pa.Table, outcomes: pa.Table, settings: CreditSettings) -> bool:
    """Whether a memory misleads by what happened since it was brought back, which is all that counts then."""
    import pyarrow.compute as pc

    mine = usage.filter(pc.equal(usage.column("id"), id))
    is_new = pc.greater(mine.column("last_at"), at)
    new, old = mine.filter(is_new), mine.filter(pc.invert(is_new)).column("trace_id").combine_chunks()
    later = outcomes.filter(pc.invert(pc.is_in(outcomes.column("trace_id"), value_set=old)))
    return any(misleads(row, settings) for row in credit_table(new, later, settings).to_pylist())


def task_outcomes(lake: Lake, namespace: str, since: datetime) -> pa.Table:
    """Columns `trace_id`, `task_type` and `worth` (see `WORTH`) of each task that began after `since` and whose outcome
    is known: the last that was said. What was said in the task is not read.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = ["trace_id", "event_id", "seq", "at", "type", "outcome", "task_type"]
    begun, types, ended = [], [], []
    for _, raw in read_trace_files(lake, namespace, columns):
        rows = conform(raw, "events").select(columns)
        late = pc.is_in(rows.column("type"), value_set=pa.array(["outcome", "feedback"]))
        begun.append(rows.filter(pc.invert(late)).group_by("trace_id").aggregate([("at", "min")]))
        typed = rows.filter(pc.greater(pc.binary_length(pc.fill_null(rows.column("task_type"), "")), 0))
        types.append(typed.group_by("trace_id").aggregate([("task_type", "min")]))
        said = pc.greater(pc.binary_length(pc.fill_null(rows.column("outcome"), "")), 0)
        ended.append(rows.filter(said).select(["trace_id", "seq", "at", "event_id", "outcome"]))
    if not begun:
        return _outcomes([], [], [])
    first = _each(pa.concat_tables(begun), "at_min")
    type_of = _each(pa.concat_tables(types), "task_type_min")
    order = [(name, "ascending") for name in ("trace_id", "seq", "at", "event_id")]
    last = pa.concat_tables(ended).sort_by(order)
    outcome_of = dict(zip(last.column("trace_id").to_pylist(), last.column("outcome").to_pylist(), strict=True))
    ids = [id for id in sorted(outcome_of) if outcome_of[id] in WORTH and id in first and first[id] >= since]
    return _outcomes(ids, [type_of.get(id, "") for id in ids], [WORTH[outcome_of[id]] for id in ids])


def _each(rows: pa.Table, column: str) -> dict[str, Any]:
    """The least value of a column by trace."""
    least = rows.group_by("trace_id").aggregate([(column, "min")])
    return dict(zip(least.column("trace_id").to_pylist(), least.column(f"{column}_min").to_pylist(), strict=True))


def _outcomes(ids: list[str], types: list[str], worths: list[float]) -> pa.Table:
    import pyarrow as pa

    return pa.table(
        {
            "trace_id": pa.array(ids, pa.string()),
            "task_type": pa.array(types, pa.string()),
            "worth": pa.array(worths, pa.float64()),
        }
    )


def credit_table(usage: pa.Table, outcomes: pa.Table, settings: CreditSettings) -> pa.Table:
    """Usage (schema `usage`) and outcomes (see `task_outcomes`) as rows of the table `credit`, by id."""
    import pyarrow as pa
    import pyarrow.compute as pc

    total = usage.group_by("id").aggregate([("reads", "sum"), ("last_at", "max")])
    total = total.rename_columns({"reads_sum": "accesses", "last_at_max": "last_at"})
    pairs = usage.group_by(["id", "trace_id"]).aggregate([]).join(outcomes, "trace_id", join_type="inner")
    for name, worth in (("good", 1.0), ("half", 0.5), ("bad", 0.0)):
        pairs = pairs.append_column(name, pc.cast(pc.equal(pairs.column("worth"), worth), pa.int64()))
    by_type = pairs.group_by(["id", "task_type"]).aggregate(
        [("worth", "sum"), ("worth", "count"), ("good", "sum"), ("half", "sum"), ("bad", "sum")]
    )
    kinds = outcomes.group_by("task_type").aggregate([("worth", "sum"), ("worth", "count")])
    kinds = kinds.rename_columns({"worth_sum": "all_sum", "worth_count": "all_count"})
    compared = _compared(by_type.join(kinds, "task_type", join_type="inner"))
    sums = compared.group_by("id").aggregate(
        [(name, "sum") for name in ("n", "worth", "expected", "spread", "helped", "neutral", "misled")]
    )
    rows = total.join(_bounded(sums, settings), "id", join_type="left outer").sort_by("id")
    for name in ("tasks", "helped", "neutral", "misled"):
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, name, pc.fill_null(rows.column(name), 0))
    return conform(rows, "credit").combine_chunks()


def _compared(rows: pa.Table) -> pa.Table:
    """By memory and task type: its tasks, their worth, what was expected, and how many were helped and misled."""
    import numpy as np
    import pyarrow as pa

    def of(name: str) -> Reals:
        return np.asarray(rows.column(name).to_numpy(), dtype=np.float64)

    n, worth = of("worth_count"), of("worth_sum")
    others = of("all_count") - n
    can = others > 0
    rate = np.divide(of("all_sum") - worth, others, out=np.zeros_like(n), where=can)
    parts = (("good_sum", 1.0), ("half_sum", 0.5), ("bad_sum", 0.0))
    helped = sum((of(name) * (value - rate >= CLEARLY) for name, value in parts), np.zeros_like(n))
    misled = sum((of(name) * (rate - value >= CLEARLY) for name, value in parts), np.zeros_like(n))
    table = pa.table(
        {
            "id": rows.column("id"),
            "n": n,
            "worth": worth,
            "expected": n * rate,
            "spread": np.divide(n * n, others, out=np.zeros_like(n), where=can),
            "helped": helped,
            "neutral": n - helped - misled,
            "misled": misled,
        }
    )
    return table.filter(pa.array(can))


def _bounded(sums: pa.Table, settings: CreditSettings) -> pa.Table:
    """By memory: its tasks by what came of them, and the bounds of what it adds."""
    import numpy as np
    import pyarrow as pa

    def of(name: str) -> Reals:
        return np.asarray(sums.column(f"{name}_sum").to_numpy(), dtype=np.float64)

    n, spread = of("n"), of("spread")
    mine, expected, known = of("worth") / n, of("expected") / n, n * n / spread
    # Rounded, so that sums of another order are the same numbers.
    low, high = np.round(difference(mine, n, expected, known, settings.z), 9)
    surely = np.round(difference(mine, n, expected, known, settings.quarantine_z)[1], 9)
    counts = {name: of(name).astype(np.int64) for name in ("helped", "neutral", "misled")}
    return pa.table(
        {"id": sums.column("id"), "tasks": n.astype(np.int64), **counts, "low": low, "high": high, "surely": surely}
    )


def difference(p1: Reals, n1: Reals, p2: Reals, n2: Reals, z: float) -> tuple[Reals, Reals]:
    """Bounds of p1 - p2, two rates seen in n1 and n2 tasks: Newcombe's hybrid score interval; see the module."""
    import numpy as np

    low1, high1 = wilson(p1, n1, z)
    low2, high2 = wilson(p2, n2, z)
    gap = p1 - p2
    return gap - np.hypot(p1 - low1, high2 - p2), gap + np.hypot(high1 - p1, p2 - low2)


def wilson(p: Reals, n: Reals, z: float) -> tuple[Reals, Reals]:
    """Bounds of a rate that was seen in n tasks: the Wilson score interval."""
    import numpy as np

    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return np.minimum(middle - half, p), np.maximum(middle + half, p)
