"""Keep a small lake of this version in tests/fixtures/lakes, to be run once for each release.

    python tools/keep_lake.py 0.1.0

It holds traces, reflections, decisions, a purge and reads, and what waits in the inbox. Tests open, search, fold and
rebuild every lake that lies there, so that a later version can't forget how to.
"""

from __future__ import annotations

import shutil
import socket
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from hindlake.flows.maintenance import WEEKLY, run_steps
from hindlake.jobs.collect import collect
from hindlake.jobs.purge import purge
from hindlake.jobs.reflect import reflect
from hindlake.jobs.reflecting.reflectors import reflector_of
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from hindlake.sdk.memory import Memory
from hindlake.sdk.recorder import Recorder

ROOT = Path(__file__).parent.parent
#: Folders that say nothing that is kept.
_PASSING = ("lease", "probe", ".unborn")
#: The day on which it is all said to have happened.
TODAY = datetime(2026, 3, 9, tzinfo=UTC)


def _log(settings: Settings, clock: ManualClock) -> None:
    with Recorder(settings, agent_role="executor", clock=clock) as recorder:
        for number, code in enumerate(("timeout", "timeout", "not_found")):
            with recorder.task("Where is my parcel?", task_type="logistics", subject="user:ann") as task:
                task.user("It should be here by now. Please write to me by e-mail only, never by phone.")
                with task.tool("get_order", {"id": number}) as call:
                    call.error(code, f"the shop says {code}")
                with task.tool("get_order", {"id": number, "archive": True}) as call:
                    call.result('{"state": "shipped"}')
                task.agent("It was shipped and comes on Friday.")
                task.outcome("success")


def main(version: str) -> None:
    """Make the lake and put it into its place."""
    target = ROOT / "tests" / "fixtures" / "lakes" / version
    clock = ManualClock(TODAY)
    socket.gethostname = lambda: "host"  # what is kept names no machine
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings.load(home=f"{folder}/home", embedder="wordllama")
        lake = Lake.open(settings)
        _log(settings, clock)
        collect(lake, settings, clock)
        reflect(lake, settings, clock, reflector_of(settings, "rules"), version=version, engine="loop")
        with Memory(settings, clock=clock) as memory:
            old = memory.remember("The budget of the trip is 5000", subject="user:ann")
            memory.update(old, "The budget of the trip is 8000")
            gone = memory.remember("The door code of the blue house is 4711, until May", subject="user:ann")
            memory.forget(memory.remember("The kettle in the kitchen leaks"))
            memory.search("budget", subject="user:ann")
        run_steps(WEEKLY, settings, clock, version=version)
        purge(lake, settings, clock, "default", ids=[gone], now=True)
        remembered = Memory(settings, clock=clock)
        remembered.remember("This one waits in the inbox", subject="user:ann")
        remembered.close()
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(f"{settings.home}/lake", target, ignore=shutil.ignore_patterns(*_PASSING))
    files = [path for path in target.rglob("*") if path.is_file()]
    print(f"{target.relative_to(ROOT)}: {len(files)} files, {sum(path.stat().st_size for path in files)} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
