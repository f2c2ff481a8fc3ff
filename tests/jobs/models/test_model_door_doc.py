"""The fault matrix in the docs names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_every_test_that_the_fault_matrix_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "model-door.md").read_text(encoding="utf-8")))
    there = {
        name
        for file in (ROOT / "tests" / "jobs").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.M)
    }
    assert len(named) > 40
    assert named <= there
