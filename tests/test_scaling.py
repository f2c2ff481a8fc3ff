"""The page on scaling shows what its script reckons, and the script agrees with what was measured."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def scaling() -> ModuleType:
    spec = importlib.util.spec_from_file_location("scaling", ROOT / "bench" / "scaling.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules["scaling"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_the_page_is_the_one_of_the_script(scaling: ModuleType) -> None:
    needs = [scaling.need(memories, 16, scaling.Prices()) for memories in (10**6, 10**7, 10**9)]
    assert "\n".join(scaling.table(needs)) in (ROOT / "docs" / "scaling.md").read_text("utf-8")


def test_of_what_was_measured_it_reckons_what_was_measured(scaling: ModuleType) -> None:
    seconds = {step.name: scaling.hours(step, 1_000_000) * 3600 for step in scaling.MEASURED}
    page = (ROOT / "docs" / "maintenance.md").read_text("utf-8")
    for name in ("settle", "credit", "decay", "cool", "promote", "dedup"):
        row = next(line for line in page.splitlines() if line.startswith(f"| {name} |") and line.count("|") == 9)
        assert seconds[name] == pytest.approx(float(row.split("|")[6])), row
