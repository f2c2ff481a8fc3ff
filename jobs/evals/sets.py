"""Labelled sets as traces: files as ingest would load them, and dialogues as conversations."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ...memory_store.capture.events import Event, Trace, trace_of
from ...memory_store.formats import Broken, RecordError, Stamp, detect, finish, open_sources, read_records

#: The time of everything that has none.
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def traces_in(path: Path) -> Iterator[tuple[Any, Trace]]:
    """Each record of a file with the trace it holds, as ingest would load it; what ingest refuses is left out."""
    stamp = Stamp(namespace="eval", now=NOW)
    for source in open_sources([path]):
        for record in read_records(source):
            if isinstance(record, Broken) or (format := detect(record.value)) is None:
                continue
            for key, part in format.split(record):
                try:
                    events = finish(format.join(key, [part]), stamp, format.name)
                except RecordError:
                    continue
                yield record.value, trace_of(events)


def json_of(path: Path) -> Any:
    """The value of a compressed JSON file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def json_lines_of(path: Path) -> Iterator[Any]:
    """The values of a compressed file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            if line.strip():
                yield json.loads(line)


def dialogue_of(subject: str, number: int, turns: Sequence[tuple[bool, str]]) -> Trace | None:
    """A conversation as a trace; each turn says whether the user speaks. None without turns."""
    events = [
        Event(
            "eval",
            f"{subject}-{number}",
            f"{subject}-{number}-{i}",
            i,
            NOW + timedelta(seconds=i),
            "message",
            role="user" if is_user else "agent",
            content=content,
            subject=subject,
        )
        for i, (is_user, content) in enumerate(turns)
    ]
    return trace_of(events) if events else None
