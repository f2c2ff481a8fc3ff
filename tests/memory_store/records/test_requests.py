"""Requests for reflection: how they stand, whoever works on them and however that ends."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hindlake.flows.pipeline import run_reflect
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.errors import UsageError
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.records.requests import KEPT_DAYS, ask_for_reflection, request_of, taken_up
from hindlake.memory_store.settings import Settings
from hindlake.sdk.recorder import Recorder


def test_a_request_waits_until_a_run_has_done_it(lake: Lake, clock: ManualClock) -> None:
    id = ask_for_reflection(lake, "acme", clock)
    assert request_of(lake, "acme", id).state == "waiting"
    with taken_up(lake, ["acme"], clock) as taken:
        assert taken.requests == (("acme", id),)
        assert request_of(lake, "acme", id).state == "running"
        taken.done_by("run1", stopped=True)
    told = request_of(lake, "acme", id)
    assert (told.state, told.run, told.stopped) == ("done", "run1", True)
    with taken_up(lake, ["acme"], clock) as taken:
        assert taken.requests == ()


def test_what_failed_or_was_killed_is_taken_up_by_the_next_run(lake: Lake, clock: ManualClock) -> None:
    id = ask_for_reflection(lake, "acme", clock)
    with pytest.raises(OSError, match="secret"), taken_up(lake, ["acme"], clock):
        raise OSError("secret")
    told = request_of(lake, "acme", id)
    assert (told.state, told.error) == ("failed", "OSError")
    killed = taken_up(lake, ["acme"], clock)
    killed.__enter__()  # and never left
    assert request_of(lake, "acme", id).state == "running"
    with taken_up(lake, ["acme"], clock) as taken:
        taken.done_by("run2")
    assert request_of(lake, "acme", id).state == "done"


@pytest.mark.parametrize("id", ["", "../../format", "0" * 26, "0" * 25 + "/", "x", "0" * 5000])
def test_an_id_of_none_is_told_so(lake: Lake, clock: ManualClock, id: str) -> None:
    ask_for_reflection(lake, "acme", clock)
    with pytest.raises(UsageError, match="no request"):
        request_of(lake, "acme", id)


def test_a_request_is_its_namespaces_own(lake: Lake, clock: ManualClock) -> None:
    id = ask_for_reflection(lake, "acme", clock)
    with pytest.raises(UsageError, match="no request"):
        request_of(lake, "other", id)


def test_what_was_done_long_ago_is_cleared_away(
    lake: Lake, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = ask_for_reflection(lake, "acme", clock)
    with taken_up(lake, ["acme"], clock) as taken:
        taken.done_by("run1")
    now = clock.now() + timedelta(days=KEPT_DAYS + 20_000)
    monkeypatch.setattr("time.time", lambda: now.timestamp())
    with taken_up(lake, ["acme"], clock):
        pass
    with pytest.raises(UsageError, match="no request"):
        request_of(lake, "acme", id)


def test_reflecting_takes_requests_up_and_a_dry_run_does_not(
    settings: Settings, lake: Lake, clock: ManualClock
) -> None:
    with (
        Recorder(settings, namespace="acme") as recorder,
        recorder.task("Send it again", durable="remote") as task,
    ):
        task.user("My budget is 8000 now")
    id = ask_for_reflection(lake, "acme", clock)
    run_reflect(settings, clock, version="1", reflector="rules", dry_run=True)
    assert request_of(lake, "acme", id).state == "waiting"
    report = run_reflect(settings, clock, version="1", reflector="rules")
    told = request_of(lake, "acme", id)
    assert (told.state, told.run) == ("done", report.run_id)
    assert told.counts["traces"] == 1
