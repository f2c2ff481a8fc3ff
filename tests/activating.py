"""What was remembered becomes active as it is, so that only the job under test can join it."""

from __future__ import annotations

from collections.abc import Iterator

from hindlake.jobs.deciding.decide import Decided, View, decide
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from story_home import TODAY


def activate(settings: Settings) -> None:
    """Make every pending memory active, compared with nothing."""

    def rule(view: View) -> Iterator[Decided]:
        for row in view.memories(["id"], states=("pending",)).to_pylist():
            yield Decided([[{"decision": "activate", "id": row["id"], "state": "active", "reason": "test"}]])

    decide(Lake.open(settings), settings, ManualClock(TODAY), rule, job="activate", version="test")
