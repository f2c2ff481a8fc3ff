"""Two runs of one job: the second leaves the work to the first, and one that wakes late is told so and refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hindlake.flows.maintenance import run_step
from hindlake.flows.pipeline import run_patterns, run_reflect
from hindlake.jobs.models.scripted_model import ScriptedModel, say
from hindlake.memory_store.clock import SystemClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.files.leases import hold
from hindlake.memory_store.settings import Settings
from hindlake.sdk.memory import Memory
from hindlake.sdk.recorder import Recorder

CLOCK = SystemClock()
LESSON = {
    "event": "e2", "quote": "warehouse is required", "quality": 4, "trigger": "stock is looked up",
    "action": "pass warehouse to find_stock", "text": "When stock is looked up, pass warehouse to find_stock.",
}  # fmt: skip


def log(settings: Settings, tasks: int) -> None:
    """Tasks that failed, each in its own words."""
    with Recorder(settings) as recorder:
        for number in range(tasks):
            with recorder.task(f"Please do task {number}.", task_type="stock") as task:
                with task.tool("find_stock", {"item": number}) as call:
                    call.error("400", "warehouse is required")
                task.outcome("failure")


def test_a_namespace_that_another_run_works_on_is_left_to_it_and_named(settings: Settings) -> None:
    log(settings, 2)
    Memory(settings).remember("the lift is out of order")
    run_reflect(settings, CLOCK, version="t", namespaces=None, dry_run=True)
    lake = Lake.open(settings)
    for job in ("reflect", "patterns", "dedup"):
        with hold(lake, job, None, CLOCK, 3) as held:
            assert held.namespaces == ["default"]
            if job == "dedup":
                step = run_step("dedup", settings, CLOCK, version="t")
                assert (list(step.busy), step.summary()["busy"]) == (["default"], ["default"])
                continue
            run = run_reflect if job == "reflect" else run_patterns
            report = run(settings, CLOCK, version="t")  # type: ignore[operator]
            assert f"process {os.getpid()} on" in report.busy["default"]
            assert report.counts["traces"] == 0
    assert run_reflect(settings, CLOCK, version="t").counts["traces"] == 2


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="this system can't hold up a process")
def test_a_run_that_is_held_up_is_succeeded_and_when_it_wakes_it_adds_nothing_and_pays_for_little(home: Path) -> None:
    tasks, in_flight = 40, 4
    with ScriptedModel([say({"experiences": [LESSON]}, usage=(1000, 100), seconds=0.05)]) as model:
        told = {
            "HINDLAKE_HOME": str(home), "HINDLAKE_EMBEDDER": "wordllama", "HINDLAKE_MODEL_BASE_URL": model.url,
            "HINDLAKE_MODEL_CALLS": "on", "HINDLAKE_MODEL_CONCURRENCY": str(in_flight),
            "HINDLAKE_JOBS_LEASE_SECONDS": "1",
        }  # fmt: skip
        settings = Settings.load(home=str(home), embedder="wordllama")
        log(settings, tasks)
        command = [sys.executable, "-m", "hindlake.cli", "run", "reflect"]
        environment = {**os.environ, **told}
        late = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            while len(model.requests) < tasks // 4:
                assert late.poll() is None, late.communicate()
                time.sleep(0.01)
            late.send_signal(signal.SIGSTOP)
            second = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
            assert (second.returncode, f"{tasks} reflected on" in second.stdout) == (0, True), second.stderr
        finally:
            late.send_signal(signal.SIGCONT)
        _, said = late.communicate(timeout=300)
        assert (late.returncode, "another run has taken over" in said) == (1, True), said
        assert tasks <= len(model.requests) <= tasks + in_flight
    memories = Memory(settings)
    found = {hit.id for hit in memories.search("", kinds=["experience"], limit=100)}
    rebuilt = subprocess.run([*command[:3], "rebuild"], env=environment, capture_output=True, text=True, timeout=300)
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert {hit.id for hit in Memory(settings).search("", kinds=["experience"], limit=100)} == found
