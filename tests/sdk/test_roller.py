"""The way into an object store, and what happens when it can't be reached."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hindlake.memory_store.capture.traces import read_traces
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.inbox import inbox_paths
from hindlake.memory_store.settings import RecorderSettings, S3Settings, Settings
from hindlake.sdk.recorder import Recorder


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that accepts connections and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(64)
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def unreachable(tmp_path: Path, endpoint: str, **recorder: object) -> Settings:
    return Settings.load(
        home="s3://bucket/prefix",
        spool=str(tmp_path / "spool"),
        s3=S3Settings(endpoint=endpoint, access_key_id="a", secret_access_key="b"),  # type: ignore[arg-type]
        recorder=RecorderSettings(**recorder),  # type: ignore[arg-type]
    )


def test_a_task_that_ends_remotely_durable_is_in_the_bucket(s3_settings: Settings) -> None:
    """Trace and episode both, when the block has ended."""
    recorder = Recorder(s3_settings)
    with recorder.task("x", subject="u", durable="remote") as task:
        task.user("hello")
        task.outcome("success")
    lake = Lake.open(s3_settings)
    [trace] = read_traces(lake, "default", [task.trace_id])
    assert trace.outcome == "success"
    assert len(inbox_paths(lake, "default", user_only=True)) == 1
    assert recorder.status().waiting_events == 0


def test_in_serverless_remote_is_the_default(s3_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "f")
    with Recorder(s3_settings).task("x") as task:
        task.user("hello")
    assert len(read_traces(Lake.open(s3_settings), "default", [task.trace_id])) == 1


def test_the_end_of_the_process_uploads_what_waits(s3_settings: Settings) -> None:
    """No call to close, no durable task."""
    code = (
        "import sys; from hindlake.memory_store.settings import Settings\n"
        "from hindlake.sdk.recorder import Recorder\n"
        "with Recorder(Settings.load()).task('x') as task: task.user('hello')\n"
        "print(task.trace_id)"
    )
    s3 = s3_settings.s3
    env = os.environ | {
        "HINDLAKE_HOME": s3_settings.home,
        "HINDLAKE_S3_ENDPOINT": s3.endpoint,
        "HINDLAKE_S3_ACCESS_KEY_ID": s3.access_key_id,
        "HINDLAKE_S3_SECRET_ACCESS_KEY": s3.secret_access_key.get_secret_value(),
    }
    done = subprocess.run([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True, check=True)
    assert len(read_traces(Lake.open(s3_settings), "default", [done.stdout.strip()])) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_after_fork_reaches_the_bucket_too(s3_settings: Settings) -> None:
    """The parent's connections are of no use to it."""
    code = (
        "import os; from hindlake.memory_store.settings import Settings\n"
        "from hindlake.sdk.recorder import Recorder\n"
        "recorder = Recorder(Settings.load())\n"
        "assert recorder.feedback('parent', 'x') and recorder.flush(60)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    kept = recorder.feedback('child', 'y') and recorder.flush(30)\n"
        "    os._exit(0 if kept else 3)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    s3 = s3_settings.s3
    env = os.environ | {
        "HINDLAKE_HOME": s3_settings.home,
        "HINDLAKE_S3_ENDPOINT": s3.endpoint,
        "HINDLAKE_S3_ACCESS_KEY_ID": s3.access_key_id,
        "HINDLAKE_S3_SECRET_ACCESS_KEY": s3.secret_access_key.get_secret_value(),
    }
    done = subprocess.run([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.strip() == "0"
    assert len(read_traces(Lake.open(s3_settings), "default", ["parent", "child"])) == 2


def test_a_store_that_does_not_answer_costs_the_agent_nothing(tmp_path: Path, silent: str) -> None:
    """Everything is kept on this disk, and status says that it waits."""
    recorder = Recorder(unreachable(tmp_path, silent))
    with recorder.task("x", subject="u") as task:
        assert task.user("hello")
        assert task.outcome("success")
    assert recorder.flush(timeout=0.2) is False
    assert recorder.close(timeout=0.1) is False
    status = recorder.status()
    assert (status.logged, status.failed, status.waiting_events) == (3, 0, 3)
    assert status.oldest_waiting is not None


def test_a_store_that_refuses_connections_is_named_in_the_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A remotely durable task that can't reach it counts as failed, and still does not raise."""
    monkeypatch.setattr("hindlake.sdk.tasks.REMOTE_SECONDS", 0.5)
    recorder = Recorder(unreachable(tmp_path, "http://127.0.0.1:9", durable="remote"))
    with recorder.task("x") as task:
        assert task.user("hello")
    status = recorder.status()
    assert (status.logged, status.failed, status.waiting_events) == (3, 1, 3)
    assert task.trace_id in status.last_error


def test_a_lake_that_comes_back_gets_what_waited(tmp_path: Path) -> None:
    """A file stands where the lake should be; when it is gone, the next pass carries on."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "lake").write_text("in the way")
    recorder = Recorder(Settings.load(home=str(home)))
    assert recorder.feedback("t", "hello")
    assert recorder.flush(timeout=30) is False
    assert "LakeError" in recorder.status().last_error
    (home / "lake").unlink()
    assert recorder.flush(timeout=30)
    assert recorder.status().last_error == ""
    assert len(read_traces(Lake.open(recorder.settings), "default", ["t"])) == 1
