"""A night that is killed at any point and started again leaves the store that an uninterrupted one leaves."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hindlake.flows.maintenance import run_steps
from hindlake.jobs.collect import collect
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from hindlake.sdk.memory import Memory
from story_home import TODAY, store_rows

WORKER = Path(__file__).parents[1] / "processes" / "nightly_worker.py"
NIGHT = TODAY + timedelta(days=200)
#: What each night says: text, kind, subject.
OLD = (
    ("Likes e-mail.", "preference", "ann"),
    ("no phone calls", "preference", "ann"),
    ("wants fast replies", "preference", "ann"),
    ("Lives in Oslo.", "fact", "bo"),
    ("A passing remark on the weather.", "fact", "bo"),
)
NEW = (
    ("likes e-mail", "preference", "ann"),
    ("Lives in  Oslo", "fact", "bo"),
    ("When the pump stalls, close valve 7 first.", "experience", ""),
    ("when the pump stalls, close valve 7 first", "experience", ""),
    ("Owns a boat.", "fact", "bo"),
)


@pytest.fixture(scope="module")
def evening(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home before the night: old memories that were compared, others that wait, reads of the last months."""
    home = tmp_path_factory.mktemp("evening") / "home"
    settings = Settings.load(home=str(home), embedder="wordllama")
    with Memory(settings, clock=ManualClock(TODAY)) as memory:
        for text, kind, subject in OLD:
            memory.remember(text, kind=kind, subject=subject, importance=0.15 if "weather" in text else 0.9)
    run_steps(("settle", "resolve"), settings, ManualClock(TODAY), version="test")
    later = ManualClock(NIGHT - timedelta(days=1))
    with Memory(settings, clock=later) as memory:
        memory.used(memory.search("Oslo", subject="bo", limit=1))
        for text, kind, subject in NEW:
            memory.remember(text, kind=kind, subject=subject)
    collect(Lake.open(settings), settings, later)
    return home


def night(home: Path) -> subprocess.Popen[str]:
    """A night that has begun."""
    arguments = [sys.executable, str(WORKER), str(home), str(int(NIGHT.timestamp()))]
    worker = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert worker.stdout and worker.stdout.readline() == "ready\n"
    return worker


def finished(home: Path) -> None:
    assert night(home).communicate(timeout=200)[0] == "failed:\n"


def memories(home: Path) -> list[dict[str, Any]]:
    """The store, but for places in the log, which depend on how many tries there were."""
    settings = Settings.load(home=str(home), embedder="wordllama")
    rows = store_rows(settings)
    return [{name: value for name, value in row.items() if name not in ("seq", "added_seq")} for row in rows]


@pytest.fixture(scope="module")
def morning(evening: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], float]:
    """What an uninterrupted night leaves, and the seconds that it took."""
    home = tmp_path_factory.mktemp("morning") / "home"
    shutil.copytree(evening, home)
    started = time.monotonic()
    finished(home)
    return memories(home), time.monotonic() - started


def killed_and_finished(evening: Path, home: Path, seconds: float, seed: int, kills: int) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    shutil.copytree(evening, home)
    for _ in range(kills):
        worker = night(home)
        time.sleep(chance.uniform(0, seconds))
        worker.kill()
        worker.communicate()
    finished(home)
    return memories(home)


def test_the_night_has_work_for_its_steps(morning: tuple[list[dict[str, Any]], float]) -> None:
    states = {row["text"]: row["state"] for row in morning[0]}
    assert states["A passing remark on the weather."] == "archived"
    assert states["Likes e-mail."] == "merged"
    assert "composed" in {tag for row in morning[0] for tag in row["tags"] or ()}


def test_a_night_that_was_killed_is_finished_by_starting_it_again(
    evening: Path, morning: tuple[list[dict[str, Any]], float], home: Path
) -> None:
    assert killed_and_finished(evening, home, morning[1], 1, kills=1) == morning[0]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(2, 6))
def test_a_night_that_was_killed_anywhere_is_finished_by_starting_it_again(
    evening: Path, morning: tuple[list[dict[str, Any]], float], home: Path, seed: int
) -> None:
    assert killed_and_finished(evening, home, morning[1], seed, kills=2) == morning[0]
