"""The whole pipeline with the lake in a bucket and the work on a Ray cluster gives the log that a folder gives."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from composed import free_ports
from hindlake.flows.maintenance import WEEKLY, MaintenanceReport, run_steps
from hindlake.flows.pipeline import run_collect, run_reflect
from hindlake.jobs.ingest import ingest
from hindlake.jobs.reflect import ReflectReport
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.fingerprint import point
from hindlake.memory_store.settings import Settings
from servers.s3 import S3Server, s3_home
from story_home import TODAY, log_rows, log_story

EXAMPLE = Path(__file__).parents[2] / "examples" / "support.jsonl"


@contextmanager
def cluster() -> Iterator[str]:
    """A head without processors and a worker with two, as processes of their own; the address of the cluster."""
    (port,) = free_ports(1)
    folder = Path(tempfile.mkdtemp(prefix="hlr", dir="/tmp"))  # the paths of Ray's sockets must be short
    environment = {**os.environ, "RAY_TMPDIR": str(folder), "RAY_USAGE_STATS_ENABLED": "0"}
    ray, rest = str(Path(sys.executable).parent / "ray"), ("--object-store-memory=104857600", "--block")
    address = f"127.0.0.1:{port}"
    commands = [
        [ray, "start", "--head", f"--port={port}", "--node-ip-address=127.0.0.1", "--num-cpus=0",
         "--include-dashboard=false", *rest],
        [ray, "start", f"--address={address}", "--node-ip-address=127.0.0.1", "--num-cpus=2", *rest],
    ]  # fmt: skip
    started: list[subprocess.Popen[bytes]] = []
    try:
        with (folder / "log").open("ab") as log:
            for command in commands:
                started.append(
                    subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                     start_new_session=True)
                )  # fmt: skip
                _await_gcs(ray, address, environment, started[-1], folder / "log")
        yield address
    finally:
        for process in reversed(started):
            with suppress(ProcessLookupError):
                process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
        for one in Path("/proc").iterdir():  # what Ray has started lies in sessions of its own
            with suppress(OSError, ValueError):
                if str(folder) in (one / "cmdline").read_text(errors="replace"):
                    os.kill(int(one.name), signal.SIGKILL)
        for process in started:
            process.wait(20)
        shutil.rmtree(folder, ignore_errors=True)


def _await_gcs(
    ray: str, address: str, environment: dict[str, str], process: subprocess.Popen[bytes], log: Path
) -> None:
    until = time.monotonic() + 180
    while time.monotonic() < until and process.poll() is None:
        check = [ray, "health-check", "--address", address]
        if subprocess.run(check, env=environment, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0:
            return
        time.sleep(1)
    raise AssertionError(log.read_text(errors="replace")[-3000:])


def _copy(source: Settings, target: Settings) -> None:
    """The same lake in another place: keys and traces."""
    lake = Lake.open(target)
    root = Path(source.home) / "lake"
    for file in sorted(root.rglob("*")):
        if file.is_file():
            lake.put(file.relative_to(root).as_posix(), file.read_bytes())


def _run(settings: Settings) -> tuple[ReflectReport, MaintenanceReport]:
    later = ManualClock(TODAY + timedelta(days=200))
    ingest(Lake.open(settings), [EXAMPLE], settings, ManualClock(TODAY), namespace="default")
    learnt = run_reflect(settings, ManualClock(TODAY + timedelta(days=1)), version="test")
    return learnt, run_steps(WEEKLY, settings, later, version="test")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_bucket_and_a_cluster_give_the_log_of_a_folder(s3: S3Server, tmp_path: Path) -> None:
    told = Settings.load(home=str(tmp_path / "told"), embedder="wordllama")
    log_story(told)
    run_collect(told, ManualClock(TODAY))
    jobs = told.jobs.model_copy(update={"shard_traces": 4})  # several shards
    folder = told.model_copy(update={"home": str(tmp_path / "folder"), "jobs": jobs})
    shutil.copytree(told.home, folder.home)
    bucket = s3_home(s3.endpoint).model_copy(update={"embedder": "wordllama", "jobs": jobs})
    _copy(told, bucket)

    began = time.monotonic()
    learnt, night = _run(folder)
    between = time.monotonic()
    with cluster() as address:
        ready = time.monotonic()
        far_learnt, far_night = _run(bucket.model_copy(update={"ray_address": address}))
        ended = time.monotonic()
    print(f"folder, one process: {between - began:.1f} s; S3 and Ray: {ended - ready:.1f} s")

    assert (learnt.engine, far_learnt.engine) == ("loop", "ray")
    assert far_learnt.workers and f"{os.uname().nodename}:{os.getpid()}" not in far_learnt.workers
    assert night.failed == far_night.failed == []
    assert learnt.counts == far_learnt.counts and learnt.counts["added"] > 5
    assert [step.counts for step in night.steps] == [step.counts for step in far_night.steps]
    points = []
    for settings in (folder, bucket):
        lake = Lake.open(settings)
        points.append(point(lake, "default", lake.names("ns=default/log")))
    assert points[0].seq == points[1].seq > 10
    assert points[0].fingerprint == points[1].fingerprint
    assert log_rows(folder) == log_rows(bucket)
