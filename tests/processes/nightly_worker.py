"""A process of the kill test of the nightly jobs: one night over a home. It prints when it begins and what failed.

nightly_worker.py HOME SECONDS_SINCE_1970
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from hindlake.flows.maintenance import WEEKLY, run_steps
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.settings import Settings


def main(home: str, at: str) -> None:
    """Run the night once."""
    settings = Settings.load(home=home, embedder="wordllama")
    print("ready", flush=True)
    report = run_steps(WEEKLY, settings, ManualClock(datetime.fromtimestamp(int(at), UTC)), version="test")
    print("failed:", *report.failed, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
