"""A folder as a store: whole files, claimed names, and no harm from a fork."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hindlake.memory_store.files.folder import Folder

BUSY = """
import faulthandler, os, sys, threading
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
settings = Settings.load(home=sys.argv[1])
lake = Lake.open(settings)
ended = False
def busy(number):
    while not ended:
        lake.put(f"{number}/x", b"1"); lake.get(f"{number}/x"); lake.names(str(number))
threads = [threading.Thread(target=busy, args=(number,)) for number in range(3)]
for thread in threads: thread.start()
results = []
for fork in range(10):
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(20, exit=True)
        for number in range(5):
            lake.put(f"c{fork}/{number}", b"2"); Lake.open(settings).create(f"c{fork}/x{number}", b"2"); lake.names("")
        os._exit(0)
    results.append(os.waitpid(child, 0)[1])
ended = True
for thread in threads: thread.join()
print(results == [0] * 10)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_of_a_busy_process_goes_on_using_the_lake(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", BUSY, str(tmp_path)], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "True\n"


def test_a_name_is_claimed_once(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.create("a/b", b"1")
    with pytest.raises(FileExistsError):
        folder.create("a/b", b"2")
    assert folder.get("a/b") == b"1"
    folder.put("a/b", b"3")
    assert (folder.get("a/b"), folder.size("a/b")) == (b"3", 1)


@pytest.mark.parametrize("act", ["put", "create"])
def test_a_file_that_a_process_whose_clock_is_days_ahead_removes_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    folder = Folder(tmp_path)
    named, now = {"put": os.replace, "create": os.link}[act], time.time()

    met: list[Path] = []

    def late(unborn: Path, target: Path) -> None:
        if not met:
            with monkeypatch.context() as ahead:
                ahead.setattr(time, "time", lambda: now + 200_000)
                Folder(tmp_path)  # what another process does when it starts
            assert not unborn.exists()
        met.append(unborn)
        named(unborn, target)

    monkeypatch.setattr(os, named.__name__, late)
    getattr(folder, act)("a/b", b"1")
    assert folder.get("a/b") == b"1"
    assert len(met) == 2 and not any((tmp_path / ".unborn").iterdir())


def test_half_written_files_are_never_listed_and_go_after_a_day(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.put("a/b", b"1")
    young, old = tmp_path / ".unborn" / "young", tmp_path / ".unborn" / "old"
    for path in (young, old):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    assert Folder(tmp_path).names("", "") == ["a/b"]
    assert folder.folders("") == ["a"]
    assert young.exists() and not old.exists()


def test_a_path_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="out of the lake"):
        Folder(tmp_path / "lake").put("a/../../x", b"1")
