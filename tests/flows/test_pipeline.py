"""The flow reflect as a plain function: what is asked for is done, and nothing else."""

from __future__ import annotations

from hindlake.flows.pipeline import run_collect, run_reflect
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.records.requests import ask_for_reflection, request_of
from hindlake.memory_store.settings import Settings
from story_home import TODAY, log_story


def test_requests_are_taken_up_where_they_are_open_and_other_namespaces_are_left_alone(settings: Settings) -> None:
    clock = ManualClock(TODAY)
    log_story(settings)
    log_story(settings.model_copy(update={"namespace": "acme"}))
    run_collect(settings, clock)
    lake = Lake.open(settings)
    assert sorted(lake.namespaces()) == ["acme", "default"]

    nothing = run_reflect(settings, clock, version="test", requested=True)
    assert (nothing.counts["traces"], nothing.busy) == (0, {})

    request = ask_for_reflection(lake, "acme", clock)
    done = run_reflect(settings, clock, version="test", requested=True)
    assert done.counts["traces"] > 0
    assert request_of(lake, "acme", request).state == "done"
    assert not lake.names("ns=default/gate")

    again = run_reflect(settings, clock, version="test", requested=True)
    assert again.counts["traces"] == 0


def test_one_trace_that_is_asked_for_answers_no_request(settings: Settings) -> None:
    clock = ManualClock(TODAY)
    log_story(settings)
    run_collect(settings, clock)
    lake = Lake.open(settings)
    request = ask_for_reflection(lake, "default", clock)
    report = run_reflect(settings, clock, version="test", traces=["no such trace"])
    assert report.counts["traces"] == 0
    assert request_of(lake, "default", request).state == "waiting"
