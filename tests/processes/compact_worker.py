"""A process of the kill test of compaction: it compacts again and again until it is killed. Usage:

compact_worker.py HOME
"""

from __future__ import annotations

import sys

from hindlake.jobs.compact import compact
from hindlake.memory_store.clock import SystemClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings


def main() -> None:
    """Say when it begins; never end by itself."""
    jobs = {"compact_min_age_minutes": 0, "compact_grace_minutes": 0}
    settings = Settings.load(home=sys.argv[1], jobs=jobs)
    lake = Lake.open(settings)
    print("ready", flush=True)
    while True:
        compact(lake, settings, SystemClock(), version="test")


if __name__ == "__main__":
    main()
