"""A run that is killed amid its calls and resumed pays again for no more than were in flight, and says how many."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hindlake.jobs.models.replies import LakeReplies
from hindlake.jobs.models.scripted_model import ScriptedModel, say
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings

WORKER = Path(__file__).parents[2] / "processes" / "reflect_worker.py"
#: Requests that the worker has in flight at most.
IN_FLIGHT = 4
LESSON = {
    "event": "e1", "quote": "warehouse is required", "quality": 4, "trigger": "stock is looked up",
    "action": "pass warehouse to find_stock", "text": "When stock is looked up, pass warehouse to find_stock.",
}  # fmt: skip


def start(home: Path, model: ScriptedModel, traces: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, str(WORKER), str(home), model.url, str(traces)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def kill_and_resume(home: Path, traces: int, kills: list[int]) -> dict[str, int]:
    """Kill the worker when the server has seen so many requests, each time; let the last one finish."""
    settings = Settings.load(home=str(home))
    replies, left = LakeReplies(settings), 0
    with ScriptedModel([say({"experiences": [LESSON]}, usage=(1000, 100), seconds=0.02)]) as model:
        for requests in kills:
            worker = start(home, model, traces)
            while len(model.requests) < requests:
                assert worker.poll() is None
                time.sleep(0.002)
            worker.kill()
            worker.communicate()
            left += replies.unanswered("default")
        worker = start(home, model, traces)
        said, _ = worker.communicate(timeout=100)
        paid = len(model.requests)
        again = start(home, model, traces)
        said_again, _ = again.communicate(timeout=100)
        assert len(model.requests) == paid, "a run over what is done calls no one"
    assert json.loads(said_again) == {"lessons": traces, "calls": 0, "repeated": 0, "cost": 0}
    result: dict[str, int] = {**json.loads(said), "paid": paid, "left": left}
    names = Lake.open(settings).names("ns=default/replies")
    assert sum(name.endswith(".json") for name in names) == traces
    assert replies.unanswered("default") == 0
    return result


def test_sixty_calls_killed_in_the_middle_are_resumed(home: Path) -> None:
    result = kill_and_resume(home, 60, [25])
    assert result["lessons"] == 60
    assert result["repeated"] == result["left"] <= IN_FLIGHT
    assert 60 <= result["paid"] <= 60 + result["left"]


@pytest.mark.slow
def test_a_thousand_calls_killed_three_times_are_resumed(home: Path) -> None:
    result = kill_and_resume(home, 1000, [250, 500, 750])
    assert result["lessons"] == 1000
    assert 1000 <= result["paid"] <= 1000 + 3 * IN_FLIGHT
    assert result["paid"] <= 1000 + result["left"]  # a call can be killed before its request is sent
