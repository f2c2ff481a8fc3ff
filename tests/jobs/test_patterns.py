"""The job patterns: however often it runs, one memory a pattern, and nothing found vanishes from the counts."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hindlake.memory_store.capture.events import Event
from hindlake.memory_store.capture.traces import write_events
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.records.runs import last_runs
from hindlake.memory_store.settings import Settings
from hindlake.sdk.memory import Memory
from patterns_home import FAILED, NOW, ends, lessons, log, run
from story_home import log_rows, store_rows


def test_what_recurs_over_three_tasks_becomes_one_experience_with_its_evidence(settings: Settings) -> None:
    log(settings, "abcdefg")
    report = run(settings)
    assert ends(report) == {"added": 1}
    assert (report.counts["traces"], report.counts["tasks"], report.counts["found"]) == (7, 7, 1)
    (row,) = lessons(settings)
    assert row["text"].startswith("When crane fails with “the slip number is unknown here” (slip_unknown): go on with")
    assert (row["task_type"], row["tool"], row["outcome"]) == ("mooring", "crane", "success")
    assert row["tags"][:2] == ["pattern", "recurring_failure"]
    assert len({item["trace_id"] for item in row["evidence"]}) == 5
    assert row["about"] and row["need"] and row["offer"]
    (hit, *_) = Memory(settings).search("the slip is unknown", kinds=["experience"])
    assert hit.id == row["id"]


def test_a_second_run_changes_nothing(settings: Settings) -> None:
    log(settings, "abc")
    log(settings, "de", then="winch", kind="")
    log(settings, "xy", then="row")
    run(settings)
    log_before, store_before = log_rows(settings), store_rows(settings)
    again = run(settings, clock=ManualClock(NOW + timedelta(days=1)))
    assert (log_rows(settings), store_rows(settings)) == (log_before, store_before)
    assert not again.decisions


def test_a_dry_run_shows_the_decisions_and_writes_none(settings: Settings) -> None:
    log(settings, "abc")
    shown = [(row["decision"], row["id"]) for row in run(settings, dry_run=True).decisions]
    assert log_rows(settings) == []
    assert last_runs(Lake.open(settings), "default") == []
    run(settings)
    assert shown == [(row["decision"], row["id"]) for row in log_rows(settings)]


def test_more_tasks_raise_the_confidence_of_the_same_memory(settings: Settings) -> None:
    log(settings, "abc")
    run(settings)
    (before,) = lessons(settings)
    log(settings, "defghij")
    assert ends(run(settings)) == {"raised": 1}
    (after,) = lessons(settings)
    assert (before["id"], before["text"]) == (after["id"], after["text"])
    assert before["confidence"] < after["confidence"]
    last = log_rows(settings)[-1]
    assert last["decision"] == "promote"
    assert last["reason"] == "seen in 10 distinct tasks of the last 30 days; its advice held in 10 of 10"


def test_the_same_task_run_again_raises_nothing(settings: Settings) -> None:
    log(settings, "abc")
    run(settings)
    log(settings, "defghij", task="a")
    report = run(settings)
    assert (report.counts["traces"], report.counts["tasks"]) == (10, 3)
    assert ends(report) == {"unchanged": 1}


def test_advice_that_failed_lately_lowers_the_confidence(settings: Settings) -> None:
    log(settings, "abcdef")
    run(settings)
    log(settings, ["v", "w", "x", "y", "z"], then="crane2", kind="mooring")
    assert ends(run(settings)) == {"lowered": 1}
    assert log_rows(settings)[-1]["decision"] == "downrank"


def test_other_advice_supersedes_the_memory_and_comes_back_as_a_new_one(settings: Settings) -> None:
    log(settings, "abc")
    run(settings)
    (first,) = lessons(settings)
    log(settings, "defgh", then="winch")
    assert ends(run(settings)) == {"replaced": 1}
    (second,) = lessons(settings)
    assert "winch" in second["text"]
    (old,) = lessons(settings, "superseded")
    assert (old["id"], old["superseded_by"], old["valid_to"]) == (first["id"], second["id"], second["valid_from"])
    log(settings, "ijklmn")
    assert ends(run(settings)) == {"replaced": 1}
    (third,) = lessons(settings)
    assert third["text"] == first["text"]
    assert len({first["id"], second["id"], third["id"]}) == 3
    assert ends(run(settings)) == {"unchanged": 1}


def test_a_second_task_type_widens_the_memory_and_never_narrows_it_again(settings: Settings) -> None:
    log(settings, "abc", at=NOW - timedelta(days=29))
    run(settings)
    log(settings, "def", kind="towing")
    assert ends(run(settings)) == {"replaced": 1}
    (wide,) = lessons(settings)
    assert wide["task_type"] == ""
    later = run(settings, clock=ManualClock(NOW + timedelta(days=10)))
    assert later.counts["traces"] == 3
    assert [row["id"] for row in lessons(settings)] == [wide["id"]]


def test_what_a_user_has_forgotten_stays_forgotten(settings: Settings) -> None:
    log(settings, "abc")
    run(settings)
    (row,) = lessons(settings)
    Memory(settings).forget(row["id"])
    log(settings, "defghij")
    assert ends(run(settings)) == {"kept_out": 1}
    assert lessons(settings) == []


def test_what_is_too_rare_is_a_row_with_its_reason_once(settings: Settings) -> None:
    log(settings, "ab")
    assert ends(run(settings)) == {"refused": 1}
    assert ends(run(settings)) == {"refused_before": 1}
    (row,) = log_rows(settings)
    assert (row["decision"], row["reason"]) == ("refuse", "seen in 2 distinct tasks, 3 are needed")
    assert row["evidence"]
    log(settings, "c")
    assert ends(run(settings)) == {"added": 1}


def test_a_memory_that_says_so_already_is_named(settings: Settings) -> None:
    log(settings, "abc")
    (row,) = [row for row in run(settings, dry_run=True).decisions if row["decision"] == "add"]
    known = Memory(settings).remember(row["text"], kind="experience")
    from hindlake.flows.pipeline import run_reflect

    run_reflect(settings, ManualClock(NOW), version="test", reflector="rules")
    report = run(settings)
    assert ends(report) == {"refused": 1}
    assert report.decisions[0]["reason"] == f"a memory says so in the same words: {known}"


def test_two_tenants_never_support_each_other(settings: Settings) -> None:
    log(settings, "ab", namespace="acme")
    log(settings, "cd", namespace="zeta")
    assert ends(run(settings)) == {"refused": 2}


def test_only_the_window_is_looked_at_and_what_goes_on_is_left(settings: Settings) -> None:
    log(settings, "ab", at=NOW - timedelta(days=40))
    log(settings, "c")
    running = Event("default", "d", "d-0", 0, NOW - timedelta(minutes=5), type="tool_call", **FAILED)
    write_events(Lake.open(settings), [running])
    assert run(settings).counts["traces"] == 1
    assert run(settings, days=0).counts["traces"] == 3
    assert run(settings, days=60, clock=ManualClock(NOW + timedelta(days=2))).counts["traces"] == 4


def test_after_so_many_tasks_it_is_due(settings: Settings) -> None:
    log(settings, "abc")
    assert run(settings, every=4).not_due == ["default"]
    assert run(settings, every=3).not_due == []
    log(settings, "def", at=NOW - timedelta(days=20))
    log(settings, "ghij", task="a")
    assert run(settings, every=4).not_due == ["default"]
    assert run(settings, every=3).not_due == []


def test_a_run_is_kept_as_a_value(settings: Settings) -> None:
    log(settings, "abc")
    report = run(settings)
    (kept,) = last_runs(Lake.open(settings), "default")
    assert (kept.run_id, kept.job, kept.status, kept.reflector) == (report.run_id, "patterns", "done", "patterns@1")
    assert kept.counts == dict(report.counts)
    assert kept.parameters == {"days": 30, "tasks": 3}


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_on_ray_it_finds_the_same(settings: Settings) -> None:
    log(settings, "abcdefg")
    log(settings, "xyz", then="winch", kind="towing")
    small = settings.model_copy(update={"jobs": settings.jobs.model_copy(update={"shard_traces": 2})})
    shown = [row["id"] for row in run(small, dry_run=True, engine="loop").decisions]
    report = run(small, engine="ray")
    assert report.engine == "ray"
    assert [row["id"] for row in report.decisions] == shown
