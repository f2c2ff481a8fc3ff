"""Invariant 1: what was acknowledged is in the lake exactly once, whatever dies when."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

WRITERS = Path(__file__).with_name("kill_writers.py")


def killed(home: Path, kills: int, seed: int) -> dict[str, int]:
    """Run the writers and count."""
    done = subprocess.run(
        [sys.executable, str(WRITERS), str(home), str(kills), str(seed)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    counts: dict[str, int] = json.loads(done.stdout)
    return counts


def test_what_was_acknowledged_survives_twenty_kills(tmp_path: Path) -> None:
    counts = killed(tmp_path / "home", kills=20, seed=1)
    assert counts["acknowledged"] > 100
    assert (counts["lost"], counts["doubled"]) == (0, 0)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_was_acknowledged_survives_three_hundred_kills(tmp_path: Path) -> None:
    counts = killed(tmp_path / "home", kills=300, seed=2)
    assert counts["acknowledged"] > 10_000
    assert (counts["lost"], counts["doubled"]) == (0, 0)
