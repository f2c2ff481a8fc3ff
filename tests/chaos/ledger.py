"""What processes were told is kept, written outside of the home and forced to the disk, one line an act."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Entry = dict[str, Any]


class Ledger:
    """The acts of one process. What `note` returned for survives it."""

    def __init__(self, folder: Path, name: str) -> None:
        self._fd = os.open(folder / f"{name}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, what: str, **more: Any) -> None:
        """Keep a line; `at` is on the clock that all processes of a machine share."""
        line = json.dumps({"what": what, "at": time.monotonic(), **more}, ensure_ascii=False)
        os.write(self._fd, f"{line}\n".encode())
        os.fsync(self._fd)


def read_ledgers(folder: Path) -> list[Entry]:
    """Every whole line of every process, in the order of time."""
    return sorted(_lines(folder), key=lambda entry: entry["at"])


def _lines(folder: Path) -> Iterator[Entry]:
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").rpartition("\n")[0].splitlines():
            yield json.loads(line)
