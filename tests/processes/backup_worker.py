"""A process of the tests of backups: it writes as agents and jobs do, or it makes a backup, until it is killed.

A writer prints each memory and trace only after its write has returned: that is what it acknowledged. Usage:

    backup_worker.py write HOME NAME
    backup_worker.py backup HOME PLACE SECONDS_SINCE_1970
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

from hindlake.jobs.backup import backup
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.backups import Backups
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.log import settle
from hindlake.memory_store.settings import Settings

sys.path.insert(0, str(Path(__file__).parents[1]))
from kept_home import reflect_on, remember


def write(lake: Lake, name: str) -> None:
    """Remember, reflect and settle without a pause."""
    number = 0
    while True:
        trace = f"{name}-{number:05d}"
        remember(lake, f"user-{trace}")
        print(f"user-{trace}", flush=True)
        reflect_on(lake, trace, settled=number % 2 == 0)
        print(f"of-{trace}", flush=True)
        if number % 3 == 0:
            settle(lake, "default")
        number += 1


def main(role: str, home: str, *rest: str) -> None:
    """Be a writer, or make one backup."""
    settings = Settings.load(home=home)
    if role == "write":
        write(Lake.open(settings), rest[0])
    else:
        clock = ManualClock(datetime.fromtimestamp(int(rest[1]), UTC))
        print("ready", flush=True)
        report = backup(Lake.open(settings), Backups(settings, rest[0], make=True), settings, clock)
        print(report.name, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
