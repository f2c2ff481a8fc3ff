"""The flow patterns, as a worker would run it, without a server."""

from __future__ import annotations

from hindlake.memory_store.settings import Settings
from patterns_home import log


def test_what_prefect_keeps_are_ids_and_counts_and_a_task_that_is_not_due_does_nothing(settings: Settings) -> None:
    from hindlake.flows.patterns import patterns_task

    log(settings, "ab")
    result = patterns_task.fn(settings.home, None, "rules", "loop", 3)
    assert (result["not_due"], result["counts"]["traces"]) == (["default"], 0)
    log(settings, "c")
    result = patterns_task.fn(settings.home, ["default"], "rules", "loop", 3)
    assert result["not_due"] == []
    assert all(type(count) is int for count in result["counts"].values())
    assert "crane" not in str(result)
