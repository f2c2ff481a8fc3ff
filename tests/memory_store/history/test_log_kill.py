"""Writers and settlers are killed at random points: what was acknowledged is in the log exactly once."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.inbox import inbox_paths
from hindlake.memory_store.history.log import read_log, settle
from hindlake.memory_store.settings import Settings
from servers.lossy import lossy_proxy

WORKER = Path(__file__).parents[2] / "processes" / "log_worker.py"
ROLES = ("write", "write", "write", "settle", "settle")


class Worker:
    """A process, and what it has acknowledged."""

    def __init__(self, role: str, arguments: list[str]) -> None:
        self.role = role
        self.acknowledged: list[str] = []
        self.errors = ""
        self.at_work = threading.Event()
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), role, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None and self.process.stderr is not None
        with self.process.stdout as lines, self.process.stderr as errors:
            for line in lines:
                if self.role == "write" and line.endswith("\n"):
                    self.acknowledged.append(line.strip())
                self.at_work.set()
            self.errors = errors.read()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._listener.join()

    def kill(self) -> None:
        self.end()
        assert "Traceback" not in self.errors, self.errors


class Crowd:
    """Writers and settlers; each that is killed is followed by another one under a new name."""

    def __init__(self, home: str, namespace: str, endpoint: str, seed: int) -> None:
        self.home, self.namespace, self.endpoint = home, namespace, endpoint
        self.random = random.Random(seed)
        self.acknowledged: list[str] = []
        self.kills = 0
        self._started = 0

    def _start(self, role: str) -> Worker:
        self._started += 1
        return Worker(role, [self.home, self.namespace, f"w{self._started:04d}", self.endpoint])

    def _kill(self, worker: Worker) -> None:
        """Kill a worker somewhere in its work, not while Python starts."""
        if not worker.at_work.wait(60):
            worker.end()
            raise AssertionError(f"a process that should {worker.role} did nothing for a minute: {worker.errors}")
        time.sleep(self.random.uniform(0, 0.3))
        worker.kill()
        self.acknowledged += worker.acknowledged
        self.kills += 1

    def run(self, kills: int) -> None:
        """Kill one process after the other until `kills` are dead, and then all."""
        alive = [self._start(role) for role in ROLES]
        try:
            while self.kills < kills - len(ROLES):
                place = self.random.randrange(len(alive))
                role = alive[place].role
                self._kill(alive[place])
                alive[place] = self._start(role)
            for worker in alive:
                self._kill(worker)
        finally:
            for worker in alive:
                worker.end()


def lost_and_doubled(acknowledged: list[str], logged: list[str]) -> tuple[list[str], list[str]]:
    """Acts that were acknowledged and are not in the log, and acts that are in it more than once."""
    counts = Counter(logged)
    return [act for act in acknowledged if not counts[act]], [act for act, count in counts.items() if count > 1]


def check(crowd: Crowd, lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    settle(lake, crowd.namespace)
    rows = read_log(lake, crowd.namespace, 0, ["act", "verdict"]).to_pylist()
    lost, doubled = lost_and_doubled(crowd.acknowledged, [row["act"] for row in rows])
    with capsys.disabled():
        print(
            f"\n{lake.url[:5]}… {crowd.kills} kills: acknowledged {len(crowd.acknowledged)}, "
            f"lost {len(lost)}, doubled {len(doubled)}, in the log {len(rows)}"
        )
    assert crowd.acknowledged
    assert not lost
    assert not doubled
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    assert {row["verdict"] for row in rows} == {"accepted"}
    assert inbox_paths(lake, crowd.namespace) == []


def test_a_planted_loss_and_a_planted_duplicate_are_found() -> None:
    assert lost_and_doubled(["a", "b", "c"], ["a", "c", "c", "d"]) == (["b"], ["c"])


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [9, pytest.param(150, marks=pytest.mark.slow)])
def test_on_a_folder_nothing_acknowledged_is_lost_or_doubled(
    lake: Lake, settings: Settings, kills: int, capsys: pytest.CaptureFixture[str]
) -> None:
    crowd = Crowd(settings.home, "default", "", seed=kills)
    crowd.run(kills)
    check(crowd, lake, capsys)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [7, pytest.param(100, marks=pytest.mark.slow)])
def test_on_s3_that_loses_replies_nothing_acknowledged_is_lost_or_doubled(
    s3_settings: Settings, kills: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with lossy_proxy(s3_settings.s3.endpoint, reply_rate=0.05, request_rate=0.02) as losses:
        crowd = Crowd(s3_settings.home, "default", losses.endpoint, seed=kills)
        crowd.run(kills)
        assert losses.replies_lost > 0
    check(crowd, Lake.open(s3_settings), capsys)
