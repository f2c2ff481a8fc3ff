"""What the lake holds of the measuring data equals what an independent program counts in the raw files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hindlake.jobs.ingest import IngestReport, ingest
from hindlake.memory_store.capture.traces import scan_events
from hindlake.memory_store.clock import SystemClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("HINDLAKE_DATA") or ROOT.parent / "shared" / "data")
TEXT = ["content", "arguments", "result", "attributes", "error_message"]
SETS = [name for name in ("agentrx", "otel", "sweagent", "taubench", "trail", "whowhen") if (DATA / name).is_dir()]

pytestmark = pytest.mark.skipif(not SETS, reason="no measuring data: name its folder in HINDLAKE_DATA")


@pytest.fixture(scope="module")
def raw() -> dict[str, dict[str, int]]:
    """The independent counts."""
    program = [sys.executable, str(ROOT / "bench" / "raw_counts.py"), "--data", str(DATA)]
    counts: dict[str, dict[str, int]] = json.loads(subprocess.run(program, capture_output=True, check=True).stdout)
    return counts


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lake, Settings, dict[str, IngestReport]]]:
    """A lake with each set in a namespace of its name."""
    settings = Settings.load(home=str(tmp_path_factory.mktemp("home")))
    lake = Lake.open(settings)
    yield lake, settings, {name: ingest(lake, [DATA / name], settings, SystemClock(), namespace=name) for name in SETS}


@pytest.mark.parametrize("name", SETS)
def test_counts_in_the_lake_equal_counts_in_the_raw_files(
    name: str, raw: dict[str, dict[str, int]], loaded: tuple[Lake, Settings, dict[str, IngestReport]]
) -> None:
    lake, _, reports = loaded
    rows = scan_events(lake, name, ["type", "error_code", "attributes"]).to_pylist()
    spans = [row for row in rows if row["attributes"].startswith('{"span_id"')]
    calls = [row for row in rows if row["type"] == "tool_call"]
    assert reports[name].loaded == raw[name]["traces"]
    assert raw[name] == {
        "traces": len({row["trace_id"] for row in rows}),
        "spans": len(spans),
        "span_errors": sum(bool(row["error_code"]) for row in spans),
        "tool_calls": len(calls),
        "tool_errors": sum(bool(row["error_code"]) for row in calls),
    }


@pytest.mark.parametrize("name", ["otel", "sweagent", "taubench"])
def test_a_set_that_is_loaded_again_adds_nothing(
    name: str, loaded: tuple[Lake, Settings, dict[str, IngestReport]]
) -> None:
    lake, settings, reports = loaded
    again = ingest(lake, [DATA / name], settings, SystemClock(), namespace=name)
    assert (again.loaded, again.known, again.events) == (0, reports[name].loaded, 0)


def test_no_label_is_loaded(loaded: tuple[Lake, Settings, dict[str, IngestReport]]) -> None:
    lake = loaded[0]
    keys = ("true_answer", "Annotator Metadata", "mistake_step", "mistake_reason", "ground_truth", "gt_data_hash",
            "reliability_score", "root_cause", "failure_category")  # fmt: skip
    for name in SETS:
        rows = scan_events(lake, name, TEXT)
        for column in TEXT:
            values = rows.column(column).to_pylist()
            found = {key for key in keys for value in values if f'{key}":' in value or f"{key}':" in value}
            assert not found, (name, column)
