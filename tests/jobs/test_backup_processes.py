"""Backups with real processes: writers that never pause, and a backup that is killed anywhere and made again."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hindlake.jobs.backup import backup
from hindlake.jobs.safekeeping.check import verify
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.backups import Backups
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from kept_home import NOW, assert_consistent, kept, known_ids, night, reflect_on

WORKER = Path(__file__).parents[1] / "processes" / "backup_worker.py"


@contextmanager
def writers(settings: Settings, folder: Path, count: int) -> Iterator[list[Path]]:
    """Processes that write; what each acknowledged is in its file."""
    said = [folder / f"w{number}.txt" for number in range(count)]
    running = []
    for path in said:
        with path.open("w") as out:
            running.append(subprocess.Popen([sys.executable, WORKER, "write", settings.home, path.stem], stdout=out))
    try:
        while not all(path.stat().st_size for path in said):
            assert all(one.poll() is None for one in running)
            time.sleep(0.02)
        yield said
        assert all(one.poll() is None for one in running)
    finally:
        for one in running:
            one.kill()
            one.wait()


def acknowledged(said: list[Path]) -> set[str]:
    """What writers had said by now; a line that is being written is none."""
    return {line for path in said for line in path.read_text().rpartition("\n")[0].splitlines()}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_backup_has_all_that_writers_acknowledged_before_it_began(settings: Settings, tmp_path: Path) -> None:
    lake, clock = Lake.open(settings), ManualClock(NOW)
    backups = Backups(settings, str(tmp_path / "backups"), make=True)
    with writers(settings, tmp_path, 3) as said:
        for number in range(6):
            before = acknowledged(said)
            backup(lake, backups, settings, night(clock))
            manifest, view = kept(backups)
            assert before <= known_ids(view)
            assert_consistent(view)
            assert verify(backups, manifest, Lake.open(Settings.load(home=str(tmp_path / f"s{number}")))).is_whole
    assert acknowledged(said) > before


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_backup_that_is_killed_anywhere_is_finished_by_the_next(settings: Settings, tmp_path: Path) -> None:
    lake = Lake.open(settings)
    for number in range(30):
        reflect_on(lake, f"t{number}")
    place, rounds = str(tmp_path / "backups"), random.Random(7)

    def run(day: int) -> subprocess.Popen[str]:
        at = str(int(NOW.timestamp()) + 86_400 * day)
        ran = subprocess.Popen(
            [sys.executable, WORKER, "backup", settings.home, place, at], stdout=subprocess.PIPE, text=True
        )
        assert ran.stdout is not None and ran.stdout.readline() == "ready\n"
        return ran

    began = time.monotonic()
    with run(0) as first:
        first.communicate()
    whole = time.monotonic() - began
    killed = 0
    for day in range(1, 9):
        reflect_on(lake, f"new{day}")
        lake.put("ns=default/runs/r.json", b'{"run": %d}' % day)
        with run(day) as ran:
            time.sleep(rounds.uniform(0, whole / 2))
            killed += ran.poll() is None
            ran.kill()
        backups = Backups(settings, place)
        scratch = Lake.open(Settings.load(home=str(tmp_path / "scratch" / str(day))))
        assert verify(backups, backups.manifest(), scratch).is_whole
    assert killed
    with run(9) as last:
        last.communicate()
    assert last.returncode == 0
    manifest, view = kept(Backups(settings, place))
    assert len(backups.names()) <= 7
    assert manifest.name.startswith("20260310")
    assert known_ids(view) == known_ids(lake)
    assert_consistent(view)
