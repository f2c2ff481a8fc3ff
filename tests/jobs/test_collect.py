"""The job collect."""

from __future__ import annotations

import os
import subprocess
import sys

from hindlake.jobs.collect import collect
from hindlake.memory_store.capture.traces import read_traces, trace_paths
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from hindlake.sdk.recorder import Recorder

DIES = (
    "import os, sys\n"
    "from hindlake.sdk.recorder import Recorder\n"
    "task = Recorder(home=sys.argv[1], namespace='acme').task('ship it')\n"
    "assert task.user('please')\n"
    "assert task.tool_call('ship', arguments={'id': 1}, result='ok')\n"
    "print(task.trace_id, flush=True)\n"
    "os.abort()\n"
)


def test_collecting_what_a_dead_process_acknowledged_twice_is_collecting_it_once(
    settings: Settings, clock: ManualClock
) -> None:
    died = subprocess.run([sys.executable, "-c", DIES, settings.home], stdout=subprocess.PIPE, text=True)
    assert died.returncode != 0
    lake = Lake.open(settings)
    report = collect(lake, settings, clock)
    assert (report.segments, report.events, report.waiting, report.at) == (1, 3, 0, clock.now())
    [trace] = read_traces(lake, "acme", [died.stdout.strip()])
    assert [e.type for e in trace.events] == ["task", "message", "tool_call"]
    paths = trace_paths(lake, "acme")
    again = collect(lake, settings, clock)
    assert (again.segments, again.events) == (0, 0)
    assert trace_paths(lake, "acme") == paths


def test_a_live_recorder_keeps_what_it_is_writing(settings: Settings, clock: ManualClock) -> None:
    """Its events are counted as waiting, and are not taken from it."""
    recorder = Recorder(settings)
    recorder._roller._stopped = True  # no thread: what is written stays open
    assert recorder.task("x").user("hello")
    report = collect(Lake.open(settings), settings, clock)
    assert (report.held, report.events, report.waiting) == (1, 0, 2)
    recorder._spool.seal()
    assert collect(Lake.open(settings), settings, clock).events == 2


def test_collecting_where_nothing_was_ever_logged_is_fine(settings: Settings, clock: ManualClock) -> None:
    assert collect(Lake.open(settings), settings, clock).segments == 0


def test_what_waits_for_a_bucket_is_collected_into_it(s3_settings: Settings, clock: ManualClock) -> None:
    """The spool of a remote home lies in the user's state folder; the job takes it from there."""
    recorder = Recorder(s3_settings)
    recorder._roller._stopped = True
    assert recorder.feedback("trace-1", "good")
    recorder._spool.seal()
    lake = Lake.open(s3_settings)
    assert collect(lake, s3_settings, clock).events == 1
    [trace] = read_traces(lake, s3_settings.namespace, ["trace-1"])
    assert trace.events[0].content == "good"
    assert os.listdir(s3_settings.spool_folder) == []
