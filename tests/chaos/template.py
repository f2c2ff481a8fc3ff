"""The home that each round begins with: memories, reads and traces of some months, so that every job has work."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

from chaos.ledger import Ledger
from hindlake.flows.maintenance import run_steps
from hindlake.jobs.collect import collect
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.bucket import Bucket
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.files.s3 import s3_options
from hindlake.memory_store.settings import Settings
from hindlake.sdk.memory import Memory
from hindlake.sdk.recorder import Recorder

#: What was said half a year ago, and what yesterday: text, kind, subject, importance.
_OLD = (
    ("Likes e-mail.", "preference", "user-0", 0.9),
    ("no phone calls", "preference", "user-0", 0.9),
    ("wants fast replies", "preference", "user-0", 0.9),
    ("Lives in Oslo.", "fact", "user-1", 0.9),
    ("A passing remark on the weather.", "fact", "user-1", 0.15),
)
_NEW = (
    ("likes e-mail", "preference", "user-0", 0.9),
    ("Lives in  Oslo", "fact", "user-1", 0.9),
    ("When the pump stalls, close valve 7 first.", "experience", "", 0.9),
    ("when the pump stalls, close valve 7 first", "experience", "", 0.9),
    ("Owns a boat.", "fact", "user-1", 0.9),
)


class Template:
    """A home and its ledger, made once, to be copied."""

    def __init__(self, folder: Path) -> None:
        self.home, self._ledger = folder / "home", folder / "ledger"
        self._ledger.mkdir(parents=True)
        ledger = Ledger(self._ledger, "template")
        settings = Settings.load(home=str(self.home), embedder="wordllama")
        now = datetime.now(UTC)
        for said, days in ((_OLD, 200), (_NEW, 1)):
            clock = ManualClock(now - timedelta(days=days))
            with Memory(settings, clock=clock) as memory, Recorder(settings, clock=clock) as recorder:
                for text, kind, subject, importance in said:
                    memory.remember(text, kind, subject=subject, importance=importance)  # type: ignore[arg-type]
                hits = memory.search("Oslo", subject="user-1", limit=1)
                with recorder.task("plan a trip", subject="user-1", task_type="trip") as task:
                    ledger.note(
                        "event" if task.agent(f"days {days}") else "not kept", text=f"days {days}", trace=task.trace_id
                    )
                    task.user("I prefer e-mail.")
                    memory.used(hits, trace=task.trace_id)
                    task.outcome("success")
            collect(Lake.open(settings), settings, clock)
            if days > 1:
                run_steps(("settle", "resolve"), settings, clock, version="chaos")

    def copy(self, settings: Settings, desk: Path) -> None:
        """Make the home of a round, and its first ledger."""
        shutil.copytree(self._ledger, desk, dirs_exist_ok=True)
        if not settings.is_remote:
            shutil.copytree(self.home, settings.home)
            return
        bucket = Bucket(settings.home, s3_options(settings))
        files = [path for part in ("lake", "store") for path in (self.home / part).rglob("*") if path.is_file()]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda path: bucket.put(path.relative_to(self.home).as_posix(), path.read_bytes()), files))
