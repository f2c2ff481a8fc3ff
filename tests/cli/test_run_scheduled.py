"""What a schedule runs beside the night and the week, as commands."""

from __future__ import annotations

import pytest

from hindlake.memory_store.clock import SystemClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.records.requests import ask_for_reflection, request_of
from hindlake.memory_store.settings import Settings
from shell import Shell
from story_home import log_story


@pytest.fixture
def told(settings: Settings) -> Settings:
    """A home in whose spool the story lies."""
    log_story(settings)
    return settings


def test_an_hour_collects_joins_and_reflects_and_the_next_one_finds_nothing(told: Settings, shell: Shell) -> None:
    first = shell("run", "hourly", "--json").json
    assert first["run_id"] and first["cost"] == 0
    assert list(first["steps"]) == ["collect", "compact", "passages", "reflect"]
    assert first["steps"]["reflect"]["traces"] == 9
    assert shell("run", "hourly", "--json").json["steps"]["reflect"]["traces"] == 0
    assert "reflect: nothing to do" in shell("run", "hourly").out


def test_what_was_asked_for_is_done_and_one_trace_by_its_id(told: Settings, shell: Shell) -> None:
    assert shell("run", "collect").code == 0
    assert shell("run", "requested", "--json").json["counts"]["traces"] == 0
    lake = Lake.open(told)
    trace = lake.read_tables(lake.names("ns=default/traces"), ["trace_id"])
    id = next(iter(trace))[1].column("trace_id")[0].as_py()
    assert shell("run", "reflect", "--trace", id, "--json").json["counts"]["traces"] == 1
    request = ask_for_reflection(lake, "default", SystemClock())
    assert shell("run", "requested", "--json").json["counts"]["traces"] == 8
    assert request_of(lake, "default", request).state == "done"


def test_the_sample_of_a_month_is_drawn(told: Settings, shell: Shell) -> None:
    assert shell("run", "hourly").code == 0
    assert set(shell("run", "review", "--month", "2026-03", "--json").json["counts"]) >= {"drawn", "judged"}
