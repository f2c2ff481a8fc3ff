"""Flows on a real Prefect server (SQLite) with a real worker, all started by the one command of the docs."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest

from composed import DEPLOY, ask, free_ports
from hindlake.flows.maintenance import NIGHTLY
from hindlake.flows.pipeline import run_reflect
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from patterns_home import NOW, log
from story_home import store_rows

_Found = TypeVar("_Found")
#: A trace a name.
NAMES = [f"n{number}" for number in range(60)]


@dataclass
class Server:
    """Prefect as `serve-flows` starts it."""

    folder: Path
    api: str

    def ask(self, path: str, body: Any = None) -> Any:
        """What the API answers."""
        return ask(f"{self.api}/{path}", body)

    def begin(self, deployment: str, **parameters: Any) -> str:
        """Ask for a run of a deployment, and return its id."""
        id = self.ask(f"deployments/name/{deployment}")["id"]
        run: str = self.ask(f"deployments/{id}/create_flow_run", {"parameters": parameters})["id"]
        return run

    def ended(self, run: str) -> Any:
        """How a run ended."""
        ends = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
        return until(lambda: found if (found := self.ask(f"flow_runs/{run}"))["state_type"] in ends else None)

    def artifacts(self, run: str) -> dict[str, Any]:
        """What a run shows, by key."""
        found = self.ask("artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [run]}}})
        return {one["key"]: one["data"] for one in found}

    def processes(self, *words: str, run: str = "") -> list[int]:
        """Processes of this server's whose command has all of some words, or that work on a run."""
        return [
            pid
            for pid, command, environment in _processes()
            if f"PREFECT_HOME={self.folder}/prefect" in environment
            and all(word in command for word in words)
            and (not run or f"PREFECT__FLOW_RUN_ID={run}" in environment)
        ]


def _processes() -> Iterator[tuple[int, str, str]]:
    for one in Path("/proc").iterdir():
        if one.name.isdigit():
            with suppress(OSError):
                command = (one / "cmdline").read_text(errors="replace").replace("\0", " ")
                yield int(one.name), command, (one / "environ").read_text(errors="replace")


def until(look: Callable[[], _Found | None], seconds: float = 600) -> _Found:
    """The first answer that is one."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(OSError):  # a server that is not up yet
            if (found := look()) is not None:
                return found
        time.sleep(0.3)
    raise AssertionError(f"nothing after {seconds} s")


@contextmanager
def served(folder: Path, home: Path) -> Iterator[Server]:
    """The command of the docs, in a folder, as long as the block lasts."""
    port, health = free_ports(2)
    work = folder / "work"
    work.mkdir(exist_ok=True)
    deployed = (DEPLOY.parent / "prefect.yaml").read_text()
    assert deployed.count('cron: "35 * * * *"') == 1
    # One comes every minute, and none of the others into what the test begins.
    crons = re.sub(r'cron: "(?!35 )[^"]*"', 'cron: "0 0 29 2 *"', deployed)
    (work / "prefect.yaml").write_text(crons.replace('cron: "35 * * * *"', 'cron: "* * * * *"'))
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PREFECT_HOME": f"{folder}/prefect",
        "PREFECT_SERVER_API_PORT": str(port),
        "PREFECT_SERVER_UI_ENABLED": "false",
        "PREFECT_SERVER_CONCURRENCY_INITIAL_DEPLOYMENT_LEASE_DURATION": "30",
        "PREFECT_WORKER_WEBSERVER_PORT": str(health),
        "FLOWS_AT_ONCE": "2",
        "HINDLAKE_HOME": str(home),
        "HINDLAKE_EMBEDDER": "wordllama",
        "HINDLAKE_JOBS_SHARD_TRACES": "1",
        "HINDLAKE_JOBS_LEASE_SECONDS": "5",
    }
    with (folder / "served.log").open("ab") as said:
        command = subprocess.Popen(
            [DEPLOY / "bin" / "serve-flows"], cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=said,
            stderr=said, start_new_session=True,
        )  # fmt: skip
    server = Server(folder, f"http://127.0.0.1:{port}/api")
    try:
        until(lambda: True if server.processes("worker start") and server.ask("health") else None)
        yield server
    except BaseException:
        print((folder / "served.log").read_text(errors="replace")[-5000:])
        raise
    finally:
        command.terminate()
        with suppress(subprocess.TimeoutExpired):
            command.wait(30)
        for pid in server.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        command.wait(30)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_scheduled_runs_complete_and_show_what_they_did_and_what_is_killed_is_made_up_for(tmp_path: Path) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    settings = Settings.load(home=str(home), embedder="wordllama")
    log(settings, NAMES)
    shutil.copytree(home, other)

    with served(tmp_path, home) as server:
        # A run in the middle of its work is killed: the worker says so, and the next run does the rest.
        first = server.begin("reflect/hourly", reflector="rules", engine="loop")
        lake = Lake.open(settings)
        until(lambda: True if len(lake.names("ns=default/gate")) > 3 else None)
        for pid in server.processes(run=first):
            os.kill(pid, signal.SIGKILL)
        assert server.ended(first)["state_type"] == "CRASHED"
        seen = len(lake.names("ns=default/gate"))
        assert 3 < seen < len(NAMES)
        waiting = server.begin("reflect/hourly", reflector="rules", engine="loop")
        # The worker goes, and with it the command that started it; the run waits.
        for pid in server.processes("worker start"):
            os.kill(pid, signal.SIGKILL)
        until(lambda: None if server.processes() else True)

    with served(tmp_path, home) as server:
        done = server.ended(waiting)
        if done["state_type"] == "CANCELLED":  # the place of the killed run was not given back yet
            done = until(lambda: _completed(server, server.begin("reflect/hourly", reflector="rules", engine="loop")))
        assert done["state_type"] == "COMPLETED"
        shown = server.artifacts(done["id"])
        assert {"reflect-progress", "reflect-counts", "reflect-result"} == set(shown)
        counts = {row["what"]: row["count"] for row in json.loads(shown["reflect-counts"])}
        assert counts["traces"] == counts["reflected"] + counts["skipped"] <= len(NAMES) - seen

        night = server.ended(server.begin("nightly/nightly"))
        assert night["state_type"] == "COMPLETED"
        shown = server.artifacts(night["id"])
        assert {"nightly-counts", "nightly-result"} <= set(shown)
        assert [line.split(" | ")[0][2:] for line in shown["nightly-result"].splitlines()[6:16]] == list(NIGHTLY)

        # The scheduler's own run, a minute after it was deployed at the latest.
        scheduled = until(lambda: _scheduled(server))
        assert {"collect-counts", "collect-result"} <= set(server.artifacts(scheduled["id"]))

        # What a person gives in the form is checked before anything runs.
        with pytest.raises(urllib.error.HTTPError) as refused:
            server.begin("reflect/hourly", engine="spark")
        assert refused.value.code == 409

        texts = {row["text"] for row in store_rows(settings)}
        kept = json.dumps(server.ask("artifacts/filter", {}), ensure_ascii=False)
        assert texts and not any(text in kept for text in texts)

    run_reflect(
        Settings.load(home=str(other), embedder="wordllama"), ManualClock(NOW + timedelta(days=1)), version="test",
        reflector="rules", engine="loop",
    )  # fmt: skip
    learnt = [store_rows(Settings.load(home=str(one), embedder="wordllama")) for one in (home, other)]
    assert _statements(learnt[0]) == _statements(learnt[1])


def _completed(server: Server, run: str) -> Any:
    found = server.ended(run)
    return None if found["state_type"] == "CANCELLED" else found


def _scheduled(server: Server) -> Any:
    found = server.ask(
        "flow_runs/filter",
        {"flows": {"name": {"any_": ["collect"]}}, "flow_runs": {"state": {"type": {"any_": ["COMPLETED"]}}}},
    )
    return next((one for one in found if one["auto_scheduled"]), None)


def _statements(rows: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
    return {(row["id"], row["kind"], row["text"]) for row in rows}
