"""The recorder's contract: everything that is logged is kept or counted, and nothing raises."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hindlake.memory_store.capture.events import Event, Trace
from hindlake.memory_store.capture.traces import read_traces
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.errors import SettingsError
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.inbox import inbox_paths
from hindlake.memory_store.settings import Settings
from hindlake.sdk.recorder import Recorder


def recorder_of(tmp_path: Path, **more: object) -> Recorder:
    """A recorder of a home of its own."""
    return Recorder(Settings.load(home=str(tmp_path / "home")), **more)  # type: ignore[arg-type]


def trace_in_lake(recorder: Recorder, trace_id: str) -> Trace:
    """One trace, read back from Parquet."""
    assert recorder.flush(timeout=60)
    [trace] = read_traces(Lake.open(recorder.settings), recorder.namespace, [trace_id])
    return trace


def test_a_task_becomes_one_trace_in_the_order_of_its_events(tmp_path: Path) -> None:
    """type, place and content of each event survive the way into the lake."""
    recorder = recorder_of(tmp_path, subject="user:1", agent="shop")
    with recorder.task("Where is my parcel?", task_type="logistics", subject="user:42") as task:
        assert task.user("It should be here by now")
        with task.tool("get_order", {"id": 7}) as call:
            call.retries = 2
            call.result({"status": "delayed"})
        assert task.tool_call("notify", arguments={"to": "user"}, error_code="TIMEOUT", error_message="30 s", retries=1)
        assert task.agent("It is delayed")
        assert task.feedback("thanks", score=1.0)
        assert task.outcome("success", reason="answered", score=0.5)
    trace = trace_in_lake(recorder, task.trace_id)
    assert [(e.seq, e.type, e.role, e.tool) for e in trace.events] == [
        (0, "task", "", ""),
        (1, "message", "user", ""),
        (2, "tool_call", "", "get_order"),
        (3, "tool_call", "", "notify"),
        (4, "message", "agent", ""),
        (5, "feedback", "user", ""),
        (6, "outcome", "", ""),
    ]
    assert trace.goal == "Where is my parcel?"
    assert trace.outcome == "success"
    order = trace.events[2]
    assert (order.arguments, order.result, order.retries) == ('{"id":7}', '{"status":"delayed"}', 2)
    assert order.latency_us is not None
    assert {(e.subject, e.agent, e.task_type, e.source) for e in trace.events} == {
        ("user:42", "shop", "logistics", "recorder")
    }
    assert recorder.status().logged == 7
    assert recorder.status().waiting_events == 0


def test_an_exception_in_a_task_is_a_failure_and_is_raised_again(tmp_path: Path) -> None:
    """The agent's own error is not swallowed."""
    recorder = recorder_of(tmp_path)
    with pytest.raises(ValueError, match="no such order"), recorder.task("x") as task:
        raise ValueError("no such order")
    trace = trace_in_lake(recorder, task.trace_id)
    assert trace.outcome == "failure"
    assert trace.events[-1].content == "ValueError: no such order"


def test_a_task_that_no_one_judged_has_an_unknown_outcome(tmp_path: Path) -> None:
    """It is ended, but nobody said how."""
    recorder = recorder_of(tmp_path)
    with recorder.task("x") as task:
        task.user("hello")
    trace = trace_in_lake(recorder, task.trace_id)
    assert (trace.is_ended, trace.outcome) == (True, "unknown")


def test_a_process_that_is_told_to_end_did_not_fail_at_its_task(tmp_path: Path) -> None:
    """SystemExit and cancellation say nothing about the work."""
    recorder = recorder_of(tmp_path)
    with pytest.raises(SystemExit), recorder.task("x") as task:
        sys.exit(0)
    assert trace_in_lake(recorder, task.trace_id).outcome == "unknown"


def test_an_exception_in_a_tool_call_is_recorded_as_its_error_and_raised_again(tmp_path: Path) -> None:
    """error_code is the class, error_message the words."""
    recorder = recorder_of(tmp_path)
    with recorder.task("x") as task:
        with pytest.raises(KeyError), task.tool("find", {"id": 1}):
            raise KeyError("id")
        with pytest.raises(TimeoutError), task.tool("find") as call:
            call.error("E_SLOW", "30 s")
            raise TimeoutError
    found = trace_in_lake(recorder, task.trace_id).tool_calls
    assert [(e.error_code, e.error_message) for e in found] == [("KeyError", "'id'"), ("E_SLOW", "30 s")]


def test_the_episode_is_readable_by_another_process_when_the_block_has_ended(tmp_path: Path) -> None:
    """R1: the digest is there at once, under its subject, before any job."""
    recorder = recorder_of(tmp_path)
    with recorder.task("Where is order WX-48213?", subject="user:42") as task:
        task.tool_call("get_order", arguments={"id": "WX-48213"}, result={"status": "delayed"})
        task.outcome("partial")
    code = (
        "import sys\n"
        "from hindlake.memory_store.files.lake import Lake\n"
        "from hindlake.memory_store.settings import Settings\n"
        "from hindlake.memory_store.history.inbox import inbox_paths\n"
        "lake = Lake.open(Settings.load(home=sys.argv[1]))\n"
        "[path] = inbox_paths(lake, 'default', user_only=True)\n"
        "[row] = lake.read_table(path).to_pylist()\n"
        "print(row['kind'], row['subject'], row['outcome'], row['text'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, recorder.settings.home], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("episode user:42 partial ")
    assert "WX-48213" in done.stdout


def test_a_trace_of_ten_thousand_events_still_has_its_episode(tmp_path: Path) -> None:
    """Memory holds its beginning and its end only."""
    recorder = recorder_of(tmp_path)
    with recorder.task("count", subject="user:1") as task:
        for number in range(10_000):
            task.step("n", str(number))
        task.outcome("success")
    lake = Lake.open(recorder.settings)
    [path] = inbox_paths(lake, "default")
    assert lake.read_table(path).column("outcome").to_pylist() == ["success"]
    assert len(trace_in_lake(recorder, task.trace_id).events) == 10_002


def test_feedback_and_outcome_days_later_come_after_everything_in_the_trace(tmp_path: Path) -> None:
    """Another process, another day: only the trace id is known."""
    clock = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
    recorder = recorder_of(tmp_path, clock=clock)
    with recorder.task("x") as task:
        task.user("hello")
        task.outcome("success")
    clock.advance(days=3)
    later = Recorder(recorder.settings, clock=clock)
    assert later.feedback(task.trace_id, "it never arrived", score=-1.0)
    clock.advance(days=1)
    assert later.outcome(task.trace_id, "failure", reason="not delivered")
    assert later.flush(timeout=60)
    trace = trace_in_lake(recorder, task.trace_id)
    assert [e.type for e in trace.events] == ["task", "message", "outcome", "feedback", "outcome"]
    assert trace.outcome == "failure"
    days = {path.split("day=")[1][:10] for path in Lake.open(recorder.settings).names("ns=default/traces")}
    assert days == {"2026-03-01", "2026-03-04", "2026-03-05"}


def test_a_clock_that_jumps_back_does_not_change_the_order(tmp_path: Path) -> None:
    """Events keep their place; the age of what waits is never negative."""
    clock = ManualClock(datetime(2026, 3, 2, tzinfo=UTC))
    recorder = recorder_of(tmp_path, clock=clock)
    with recorder.task("x") as task:
        task.user("first")
        clock.advance(hours=-30)
        task.user("second")
        assert recorder.status().oldest_waiting_seconds >= 0
        task.outcome("success")
    trace = trace_in_lake(recorder, task.trace_id)
    assert [e.content for e in trace.events] == ["x", "first", "second", ""]
    ids = [e.event_id for e in trace.events]
    assert ids == sorted(ids)


def test_a_folder_that_cannot_be_written_costs_the_event_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """log() is False, counted, warned of once; the agent's own result comes through."""
    (tmp_path / "file").write_text("not a folder")
    recorder = Recorder(Settings.load(home=str(tmp_path / "file" / "home")))

    @recorder.traced()
    def answer(question: str) -> int:
        task = recorder.current_task()
        assert task is not None
        assert task.user(question) is False
        with task.tool("t") as call:
            call.result(1)
        return 42

    assert answer("why?") == 42
    assert recorder.feedback("t", "bad") is False
    assert recorder.flush(timeout=10) is False
    status = recorder.status()
    assert status.logged == 0
    assert status.failed >= 5
    assert "NotADirectoryError" in status.last_error or "LakeError" in status.last_error
    assert len([r for r in caplog.records if r.name == "hindlake" and r.levelname == "WARNING"]) == 1


def test_a_wrong_setting_is_said_when_the_recorder_is_made(tmp_path: Path) -> None:
    """The one thing that raises, before any agent runs."""
    with pytest.raises(SettingsError, match="namespace"):
        Recorder(home=tmp_path, namespace="No Spaces!")


@pytest.mark.skipif(sys.platform == "win32", reason="needs file size limits")
def test_a_full_disk_costs_events_and_never_tears_one(tmp_path: Path) -> None:
    """Under a file size limit a write is cut short: that event is refused, the acknowledged ones are whole."""
    code = (
        "import resource, sys\n"
        "from hindlake.sdk.recorder import Recorder\n"
        "recorder = Recorder(home=sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))\n"
        "task = recorder.task('x')\n"
        "kept = sum(task.user('x' * 250) for _ in range(40))\n"
        "import json; print(json.dumps([kept, recorder.status().failed, recorder.status().logged]))\n"
        "sys.stdout.flush(); import os; os._exit(0)\n"
    )
    home = tmp_path / "home"
    done = subprocess.run([sys.executable, "-c", code, str(home)], capture_output=True, text=True, check=True)
    kept, failed, logged = json.loads(done.stdout)
    assert 0 < kept < 40
    assert failed == 40 - kept
    recorder = Recorder(home=home)
    assert recorder.status().waiting_events == logged == kept + 1
    assert recorder.flush(timeout=60)
    assert recorder.status().waiting_events == 0


def test_tasks_of_many_threads_never_mix(tmp_path: Path) -> None:
    """Each thread's events are in its own trace, each place once."""
    recorder = recorder_of(tmp_path)
    ids: dict[int, str] = {}

    def work(number: int) -> None:
        with recorder.task(f"task {number}") as task:
            ids[number] = task.trace_id
            for step in range(200):
                current = recorder.current_task()
                assert current is task
                current.user(f"{number}:{step}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recorder.flush(timeout=60)
    traces = {t.trace_id: t for t in read_traces(Lake.open(recorder.settings), "default", ids.values())}
    for number, trace_id in ids.items():
        events = traces[trace_id].events
        assert [e.seq for e in events] == list(range(202))
        assert [e.content for e in events[1:201]] == [f"{number}:{step}" for step in range(200)]


def test_a_segment_that_is_full_makes_room_for_the_next(tmp_path: Path) -> None:
    """Many segments, one after another, and every event in the lake once."""
    recorder = recorder_of(tmp_path)
    recorder._spool._limit = 2_000
    with recorder.task("x") as task:
        for _ in range(100):
            task.user("y" * 300)
    assert len(trace_in_lake(recorder, task.trace_id).events) == 102


def test_what_is_logged_after_close_is_kept_and_rolled_by_the_next_flush(tmp_path: Path) -> None:
    """Nothing hangs on a thread that has ended."""
    recorder = recorder_of(tmp_path)
    assert recorder.feedback("t", "before")
    assert recorder.close(timeout=60)
    assert recorder.feedback("t", "after")
    assert recorder.status().waiting_events == 1
    assert recorder.flush()
    assert recorder.close()
    assert [e.content for e in trace_in_lake(recorder, "t").events] == ["before", "after"]


def test_importing_the_recorder_loads_nothing_heavy() -> None:
    """An agent that logs pays for no database, no scheduler, no model client."""
    code = (
        "import sys; from hindlake.sdk.recorder import Recorder\n"
        "heavy = 'ray prefect lancedb polars duckdb openai pyarrow numpy pandas mcp opentelemetry'.split()\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_recorder_that_is_let_go_or_a_process_that_ends_leaves_nothing_in_the_spool(tmp_path: Path) -> None:
    """No call to close: the end of the process is enough."""
    code = (
        "import sys; from hindlake.sdk.recorder import Recorder\n"
        "with Recorder(home=sys.argv[1]).task('x') as task: task.user('hello')\n"
        "print(task.trace_id)"
    )
    home = str(tmp_path / "home")
    done = subprocess.run([sys.executable, "-c", code, home], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    [trace] = read_traces(Lake.open(Settings.load(home=home)), "default", [done.stdout.strip()])
    assert len(trace.events) == 3
    assert list((tmp_path / "home" / "spool").iterdir()) == []


def test_an_event_keeps_its_fields_across_the_spool(tmp_path: Path) -> None:
    """Model and tokens of a message, attributes as JSON."""
    recorder = recorder_of(tmp_path)
    with recorder.task("x", attributes={"tenant": "a"}, task_id="t-1", language="de") as task:
        task.agent("hi", model="m-1", input_tokens=10, output_tokens=3, attributes={"k": [1, 2]})
    trace = trace_in_lake(recorder, task.trace_id)
    said: Event = trace.events[1]
    assert (said.model, said.input_tokens, said.output_tokens, said.attributes) == ("m-1", 10, 3, '{"k":[1,2]}')
    assert (said.task_id, said.language, trace.events[0].attributes) == ("t-1", "de", '{"tenant":"a"}')


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_after_fork_logs_into_a_spool_of_its_own(tmp_path: Path) -> None:
    """The thread is dead there and the parent's file is the parent's; both lose nothing."""
    code = (
        "import os, sys\n"
        "from hindlake.sdk.recorder import Recorder\n"
        "recorder = Recorder(home=sys.argv[1])\n"
        "with recorder.task('parent') as parent:\n"
        "    parent.user('before')\n"
        "    assert recorder.flush(30)\n"
        "    parent.user('waiting')\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        with recorder.task('child') as child:\n"
        "            child.user('from the child')\n"
        "        assert recorder.flush(30)\n"
        "        assert recorder.status().logged == 3\n"
        "        print(child.trace_id, flush=True)\n"
        "        os._exit(0)\n"
        "    assert os.waitpid(pid, 0)[1] == 0\n"
        "    parent.user('after')\n"
        "print(parent.trace_id)\n"
    )
    home = str(tmp_path / "home")
    done = subprocess.run([sys.executable, "-c", code, home], stdout=subprocess.PIPE, text=True, check=True)
    child, parent = done.stdout.split()
    traces = {t.trace_id: t for t in read_traces(Lake.open(Settings.load(home=home)), "default", [child, parent])}
    assert [e.content for e in traces[child].events] == ["child", "from the child", ""]
    assert [e.content for e in traces[parent].events] == ["parent", "before", "waiting", "after", ""]
    assert traces[child].first("parent_trace_id") == parent
