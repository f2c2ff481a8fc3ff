"""The job reflect: wherever it runs, however often, however it dies, the store is the same and the counts add up."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hindlake.flows.pipeline import run_collect
from hindlake.jobs.reflect import ReflectReport, reflect
from hindlake.jobs.reflecting.candidates import Candidate, Evidence, Reflection, Refusal, TraceGroup
from hindlake.jobs.reflecting.gate import TRIGGERS
from hindlake.jobs.reflecting.plan import gated_traces
from hindlake.jobs.reflecting.rules_reflector import RulesReflector
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.errors import BudgetExceeded, ModelError
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.log import read_log
from hindlake.memory_store.records.runs import last_runs
from hindlake.memory_store.settings import Settings
from hindlake.sdk.memory import Memory
from hindlake.sdk.recorder import Recorder
from story_home import TODAY, log_rows, log_story, store_rows


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that holds the story's traces; copied by each test."""
    home = tmp_path_factory.mktemp("told") / "home"
    settings = Settings.load(home=str(home))
    log_story(settings)
    run_collect(settings, ManualClock(TODAY))
    return home


@pytest.fixture
def settings(told: Path, home: Path) -> Settings:
    shutil.copytree(told, home)
    return Settings.load(home=str(home))


def run(settings: Settings, reflector: Any = None, **options: Any) -> ReflectReport:
    clock = options.pop("clock", ManualClock(TODAY + timedelta(days=1)))
    return reflect(Lake.open(settings), settings, clock, reflector or RulesReflector(), version="test", **options)


def check_counts(report: ReflectReport) -> None:
    counts = report.counts
    assert counts["traces"] == counts["reflected"] + counts["skipped"] + counts["failed"]
    assert counts["candidates"] == counts["added"] + counts["merged"] + counts["superseded"] + counts["known"]
    assert counts["pending"] == counts["activated"] + counts["pending_merged"] + counts["pending_superseded"]
    assert counts["unsettled"] == 0


def test_a_run_learns_from_the_story_and_its_counts_add_up(settings: Settings) -> None:
    report = run(settings, engine="loop")
    check_counts(report)
    assert report.counts["traces"] == 9
    assert report.counts["added"] >= 6
    assert report.workers == {f"{os.uname().nodename}:{os.getpid()}"}
    memory = Memory(settings)
    assert any("pay" in hit.text for hit in memory.search("the card has expired", tool="pay"))
    (budget,) = [hit for hit in memory.search("预算", subject="user:mei") if "8000" in hit.text]
    assert budget.state == "active"
    (old,) = [hit for hit in memory.search("预算", subject="user:mei", states=["superseded"]) if "5000" in hit.text]
    assert old.valid_to == budget.valid_from


def test_a_second_run_changes_nothing(settings: Settings) -> None:
    run(settings)
    log, store = log_rows(settings), store_rows(settings)
    report = run(settings)
    assert not +report.counts
    assert (log_rows(settings), store_rows(settings)) == (log, store)


def test_a_dry_run_shows_the_decisions_and_writes_none(settings: Settings) -> None:
    report = run(settings, dry_run=True)
    check_counts(report)
    shown = {(row["decision"], row["id"]) for row in report.decisions}
    assert {"add", "activate", "supersede"} <= {decision for decision, _ in shown}
    lake = Lake.open(settings)
    assert [row["run"] for row in read_log(lake, "default").to_pylist() if row["run"]] == []
    assert last_runs(lake, "default") == []
    run(settings)
    assert shown == {(row["decision"], row["id"]) for row in log_rows(settings) if row["reflector"] != "episode@1"}


def test_every_refusal_is_a_row_of_the_log_with_its_reason(settings: Settings) -> None:
    report = run(settings)
    refused = [row for row in log_rows(settings) if row["decision"] == "refuse"]
    assert len(refused) == report.counts["refused"]
    assert all(row["reason"] and row["evidence"] for row in refused)


def test_every_trace_has_a_gate_row_with_its_trigger(settings: Settings) -> None:
    report = run(settings)
    lake = Lake.open(settings)
    rows = [row for _, table in lake.read_tables(lake.names("ns=default/gate")) for row in table.to_pylist()]
    assert len({row["trace_id"] for row in rows}) == len(rows) == report.counts["traces"]
    assert all(row["trigger"] and row["run"] == report.run_id for row in rows)
    assert sum(row["reflected"] for row in rows) == report.counts["reflected"]


def test_a_run_is_kept_as_a_value(settings: Settings) -> None:
    report = run(settings)
    (kept,) = last_runs(Lake.open(settings), "default")
    assert (kept.run_id, kept.status, kept.job, kept.reflector) == (report.run_id, "done", "reflect", "rules@2")
    assert kept.counts == dict(report.counts)


def test_a_trace_that_is_still_going_on_waits_until_it_ends_or_is_abandoned(settings: Settings) -> None:
    clock = ManualClock(TODAY + timedelta(days=2))
    recorder = Recorder(settings, clock=clock)
    task = recorder.task("Pay the phone bill", subject="user:ann")
    task.__enter__()
    task.user("my budget is now 90")
    recorder.flush()
    run(settings, clock=clock)
    traces = run(settings, clock=clock).counts["traces"]
    clock.advance(hours=25)
    assert (traces, run(settings, clock=clock).counts["traces"]) == (0, 1)


def test_feedback_that_comes_days_later_is_reflected_on(settings: Settings) -> None:
    clock = ManualClock(TODAY + timedelta(days=2))
    recorder = Recorder(settings, clock=clock)
    with recorder.task("What is 2 + 2?", task_type="sums") as task:
        task.user("What is 2 + 2?")
        task.agent("5")
        task.outcome("success")
    recorder.flush()
    assert run(settings, clock=clock).counts["traces"] == 10
    clock.advance(days=3)
    recorder.feedback(task.trace_id, "wrong, that is not what I asked", score=-1)
    recorder.close()
    report = run(settings, clock=clock)
    assert (report.counts["traces"], report.counts["reflected"]) == (1, 1)


@dataclass(frozen=True)
class Scripted:
    """A reflector that says one thing of each trace, fails on one, or stops at a budget."""

    fail_on: str = ""
    stop_on: str = ""
    unreachable_on: str = ""
    name: str = "scripted@1"
    concurrency: int = 2

    def share(self, parts: int) -> Scripted:
        return self

    def reflect(self, group: TraceGroup) -> Reflection:
        trace = group.fresh[0]
        if self.fail_on and self.fail_on in trace.goal:
            raise ValueError("could not make sense of it")
        if self.stop_on and self.stop_on in trace.goal:
            raise BudgetExceeded("that would be too much")
        if self.unreachable_on and self.unreachable_on in trace.goal:
            raise ModelError("no one answers: check the endpoint")
        event = trace.events[0]
        evidence = (Evidence(trace.trace_id, event.event_id, event.content),)
        said = Candidate("rule", f"Lesson of {trace.trace_id}", evidence, trace.ended_at)
        vague = Candidate("rule", "Mind the API", evidence, trace.ended_at)
        return Reflection((said,), (Refusal(vague, "a platitude"),), reply="{}", calls=1, input_tokens=10, cost=5)


def test_a_group_on_which_the_reflector_fails_is_a_row_with_the_reason_and_the_others_go_on(
    settings: Settings,
) -> None:
    report = run(settings, Scripted(fail_on="yen"))
    check_counts(report)
    assert (report.counts["failed"], report.cost) == (1, 5 * (report.counts["added"]))
    lake = Lake.open(settings)
    rows = [row for _, table in lake.read_tables(lake.names("ns=default/reflections")) for row in table.to_pylist()]
    assert [row["error"] for row in rows if row["error"]] == ["ValueError: could not make sense of it"]
    again = run(settings, Scripted())
    assert (again.counts["traces"], again.counts["reflected"], again.counts["added"]) == (1, 1, 1)


def test_a_model_that_can_not_be_reached_fails_the_run_and_keeps_what_was_paid_for(settings: Settings) -> None:
    with pytest.raises(ModelError, match="check the endpoint"):
        run(settings, Scripted(unreachable_on="yen"))
    (kept,) = last_runs(Lake.open(settings), "default")
    assert (kept.status, kept.error) == ("failed", "no one answers: check the endpoint")
    assert kept.counts["added"] > 0
    assert run(settings, Scripted()).counts["traces"] == 9 - kept.counts["traces"]


def test_a_run_that_reaches_its_budget_stops_cleanly_and_the_next_one_goes_on(settings: Settings) -> None:
    first = run(settings, Scripted(stop_on="yen"))
    check_counts(first)
    assert first.stopped
    assert 0 < first.counts["traces"] < 9
    (kept,) = last_runs(Lake.open(settings), "default")
    assert kept.status == "stopped"
    second = run(settings, Scripted())
    assert first.counts["traces"] + second.counts["traces"] == 9


def test_two_runs_at_once_give_the_same_memories_as_one(settings: Settings, tmp_path: Path) -> None:
    alone = Settings.load(home=str(tmp_path / "alone"))
    shutil.copytree(settings.home, alone.home)
    run(alone)
    with ThreadPoolExecutor(2) as pool:
        for report in pool.map(lambda _: run(settings), range(2)):
            check_counts(report)
    run(settings)

    def essence(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        return [(row["id"], row["text"], row["state"], row["superseded_by"]) for row in rows]

    assert essence(store_rows(settings)) == essence(store_rows(alone))


@pytest.fixture
def killed(settings: Settings) -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.parametrize("rounds", [1, pytest.param(25, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
def test_a_run_that_is_killed_at_any_point_and_started_again_gives_the_same_store(
    settings: Settings, tmp_path: Path, killed: list[subprocess.Popen[bytes]], rounds: int
) -> None:
    small = Settings.load(home=settings.home, jobs={"shard_traces": 2})
    alone = Settings.load(home=str(tmp_path / "alone"), jobs={"shard_traces": 2})
    shutil.copytree(settings.home, alone.home)
    run(alone)
    for number in range(rounds):
        process = subprocess.Popen(
            [sys.executable, "-m", "hindlake.cli", "run", "reflect", "--home", settings.home, "--loop"],
            env={**os.environ, "HINDLAKE_JOBS_SHARD_TRACES": "2"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        killed.append(process)
        log = Path(settings.home, "lake", "ns=default")
        files = len(list(log.rglob("*.parquet")))
        for _ in range(400):  # let it get a little further than the one before, then kill it
            time.sleep(0.02)
            if process.poll() is not None or len(list(log.rglob("*.parquet"))) > files + number % 3:
                break
        process.send_signal(signal.SIGKILL)
        process.wait()
    run(small)

    def essence(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        return [(row["id"], row["text"], row["state"], row["superseded_by"], row["valid_to"]) for row in rows]

    assert essence(store_rows(settings)) == essence(store_rows(alone))
    added = [row["id"] for row in log_rows(settings) if row["decision"] == "add" and row["verdict"] == "accepted"]
    assert len(added) == len(set(added))


def test_a_trace_that_is_asked_for_is_reflected_on_alone_whatever_the_gate_said_and_once(settings: Settings) -> None:
    lake, off = Lake.open(settings), settings.gate.model_copy(update={"off": TRIGGERS})
    closed = settings.model_copy(update={"gate": off})
    first = run(closed)
    assert first.counts["skipped"] == first.counts["traces"] > 1
    asked = {sorted(gated_traces(lake, "default"))[0]}
    report = run(closed, asked=asked)
    assert (report.counts["traces"], report.counts["reflected"], report.counts["skipped"]) == (1, 1, 0)
    check_counts(report)
    rows = [row for _, table in lake.read_tables(lake.names("ns=default/gate")) for row in table.to_pylist()]
    assert {row["trace_id"] for row in rows if row["reflected"]} == asked
    assert {row["trigger"] for row in rows if row["reflected"]} == {"asked"}
    before = store_rows(settings)
    assert run(closed, asked=asked).counts["traces"] == 0
    assert run(closed).counts["traces"] == 0
    assert store_rows(settings) == before
