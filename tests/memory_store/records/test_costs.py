"""Costs: sums of what runs say, in a period; and how what calls have used comes into a run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.ids import sortable_id
from hindlake.memory_store.records.costs import costs
from hindlake.memory_store.records.runs import Run, Spent, accounted, read_run, spent_kept, write_run
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.telemetry.events import in_this_run
from hindlake.memory_store.telemetry.spending import Usage, spend

NOW = datetime(2026, 3, 10, tzinfo=UTC)


def began(days_ago: float, job: str, namespace: str = "a") -> Run:
    at = NOW - timedelta(days=days_ago)
    return Run(run_id=sortable_id(int(at.timestamp() * 1000)), job=job, namespace=namespace, version="t", started_at=at)


def ran(lake: Lake, days_ago: float, job: str, namespace: str = "a", **spent: tuple[int, int]) -> None:
    """A run that has used so many calls and so much money for each purpose, of the model "m-" and the purpose."""
    run = began(days_ago, job, namespace)
    run.status = "stopped" if any(cost == 7 for _, cost in spent.values()) else "done"
    run.spent = [
        Spent(
            purpose=purpose, model=f"m-{purpose[0]}", calls=calls, failed_calls=calls // 2, input_tokens=10 * cost,
            output_tokens=cost, cost=cost,
        )
        for purpose, (calls, cost) in spent.items()
    ]  # fmt: skip
    write_run(lake, run)


def test_runs_of_the_period_that_asked_a_model_are_summed_whole_and_in_parts(lake: Lake) -> None:
    ran(lake, 40, "reflect", reflect=(9, 1000))
    ran(lake, 3, "reflect", reflect=(3, 4), judge=(1, 1))
    ran(lake, 2, "reflect", "b", reflect=(1, 7))
    ran(lake, 2, "dedup", judge=(2, 2))
    ran(lake, 1, "decay")
    ran(lake, -1, "reflect", reflect=(1, 3))
    found = costs(lake, ["a", "b"], NOW - timedelta(days=30), NOW)
    assert (found.whole.runs, found.whole.cost, found.whole.calls, found.whole.failed_calls) == (3, 14, 7, 2)
    assert (found.whole.input_tokens, found.whole.output_tokens, found.whole.stopped) == (140, 14, 1)
    assert {name: cost.cost for name, cost in found.by_job.items()} == {"reflect": 12, "dedup": 2}
    assert {name: (cost.runs, cost.cost) for name, cost in found.by_purpose.items()} == {
        "reflect": (2, 11), "judge": (2, 3),
    }  # fmt: skip
    assert {name: cost.calls for name, cost in found.by_model.items()} == {"m-r": 4, "m-j": 3}
    assert {name: cost.cost for name, cost in found.by_day.items()} == {"2026-03-07": 5, "2026-03-08": 9}
    assert {name: cost.cost for name, cost in found.by_namespace.items()} == {"a": 7, "b": 7}
    assert sorted(cost.cost for cost in found.by_run.values()) == [2, 5, 7]
    for parts in (found.by_job, found.by_purpose, found.by_model, found.by_day, found.by_namespace, found.by_run):
        assert sum(part.cost for part in parts.values()) == found.whole.cost
        assert sum(part.calls for part in parts.values()) == found.whole.calls


def test_a_lake_without_runs_costs_nothing(lake: Lake) -> None:
    assert costs(lake, ["a"], NOW, NOW).whole.runs == 0


CALL = {("judge", "m"): Usage(calls=1, input_tokens=10, cost=3)}


def test_a_run_says_what_calls_in_its_block_have_used_whatever_thread_made_them(lake: Lake) -> None:
    run, other = began(1, "dedup"), began(1, "resolve")
    with accounted(lake, run, ManualClock(NOW)):
        spend(CALL)
        write_run(lake, run)
        assert read_run(lake, "a", run.run_id) == run
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(in_this_run(lambda _: spend(CALL)), range(4)))
        write_run(lake, other)
    spend(CALL)
    kept = read_run(lake, "a", run.run_id)
    assert kept is not None and (kept.status, kept.cost, kept.input_tokens) == ("done", 15, 50)
    assert kept.spent == [Spent(purpose="judge", model="m", calls=5, input_tokens=50, cost=15)]
    assert other.spent == []


def test_what_a_dry_run_or_one_that_fails_has_used_is_kept_and_no_other_one_of_them(lake: Lake) -> None:
    dry, free, failed = began(3, "reflect"), began(2, "reflect"), began(1, "reflect")
    with accounted(lake, dry, ManualClock(NOW), dry_run=True):
        spend(CALL)
    with accounted(lake, free, ManualClock(NOW), dry_run=True):
        pass
    with pytest.raises(ZeroDivisionError), accounted(lake, failed, ManualClock(NOW)):
        spend(CALL)
        _ = 1 / 0
    assert read_run(lake, "a", free.run_id) is None
    found = costs(lake, ["a"], NOW - timedelta(days=9), NOW)
    assert {name: cost.calls for name, cost in found.by_job.items()} == {"reflect-dry-run": 1, "reflect": 1}


def test_what_no_run_counts_is_kept_as_one_of_its_own(lake: Lake, settings: Settings) -> None:
    with spent_kept(settings, "settle", ["acme"]):
        spend(CALL)
        with accounted(lake, began(1, "dedup"), ManualClock(NOW)):
            spend(CALL)
    found = costs(lake, ["a", "acme"], datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))
    assert {name: cost.calls for name, cost in found.by_namespace.items()} == {"a": 1, "acme": 1}
    assert found.by_job["settle"].calls == 1
