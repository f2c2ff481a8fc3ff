"""Costs: sums of what runs say, in a period."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.ids import sortable_id
from hindlake.memory_store.records.costs import costs
from hindlake.memory_store.records.runs import Run, write_run

NOW = datetime(2026, 3, 10, tzinfo=UTC)


def ran(lake: Lake, days_ago: float, job: str, namespace: str = "a", cost: int = 0, calls: int = 0) -> None:
    at = NOW - timedelta(days=days_ago)
    run = Run(
        run_id=sortable_id(int(at.timestamp() * 1000)), job=job, namespace=namespace, version="t", started_at=at,
        status="stopped" if cost == 7 else "done", counts={"calls": calls, "failed_calls": calls // 2},
        input_tokens=10 * cost, output_tokens=cost, cost=cost,
    )  # fmt: skip
    write_run(lake, run)


def test_runs_of_the_period_that_asked_a_model_are_summed_whole_and_in_parts(lake: Lake) -> None:
    ran(lake, 40, "reflect", cost=1000, calls=9)
    ran(lake, 3, "reflect", cost=5, calls=4)
    ran(lake, 2, "reflect", "b", cost=7, calls=1)
    ran(lake, 2, "patterns", cost=2, calls=2)
    ran(lake, 1, "decay")
    ran(lake, -1, "reflect", cost=3, calls=1)
    found = costs(lake, ["a", "b"], NOW - timedelta(days=30), NOW)
    assert (found.whole.runs, found.whole.cost, found.whole.calls, found.whole.failed_calls) == (3, 14, 7, 3)
    assert (found.whole.input_tokens, found.whole.output_tokens, found.whole.stopped) == (140, 14, 1)
    assert {name: cost.cost for name, cost in found.by_job.items()} == {"reflect": 12, "patterns": 2}
    assert {name: cost.cost for name, cost in found.by_day.items()} == {"2026-03-07": 5, "2026-03-08": 9}
    assert {name: cost.cost for name, cost in found.by_namespace.items()} == {"a": 7, "b": 7}
    for parts in (found.by_job, found.by_day, found.by_namespace):
        assert sum(part.cost for part in parts.values()) == found.whole.cost


def test_a_lake_without_runs_costs_nothing(lake: Lake) -> None:
    assert costs(lake, ["a"], NOW, NOW).whole.runs == 0
