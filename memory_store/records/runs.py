"""Runs: one execution of a job, kept as a value beside what it made."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Literal

import msgspec

from ..files.lake import Lake, namespace_path
from ..ids import sortable_id
from ..telemetry.events import claimed_id

#: Files read at once.
_READERS = 8


class Run(msgspec.Struct, kw_only=True):
    """One execution of a job over one namespace: what went in, what came out, what it cost."""

    #: Id, shared by the namespaces that one call worked on
    run_id: str
    #: Name of the job
    job: str
    namespace: str
    #: Version of hindlake
    version: str
    started_at: datetime
    ended_at: datetime | None = None
    #: running · done · stopped (at its budget) · failed
    status: Literal["running", "done", "stopped", "failed"] = "running"
    #: What it was called with
    parameters: dict[str, str | int | float | bool] = {}
    #: What reflected: rules or a model, with version
    reflector: str = ""
    prompt_hash: str = ""
    #: loop or ray, and the worker processes as host:pid
    engine: str = ""
    workers: list[str] = []
    #: Place in the log up to which it had read
    read_to: int = 0
    #: What it did, by name
    counts: dict[str, int] = {}
    input_tokens: int = 0
    output_tokens: int = 0
    #: Micro-dollars
    cost: int = 0
    #: Why it failed
    error: str = ""


def new_run_id() -> str:
    """A new id; runs sort by when they began."""
    return claimed_id() or sortable_id()


def write_run(lake: Lake, run: Run) -> None:
    """Keep a run; the same run written again, further on, replaces what was kept."""
    lake.put(_path(run.namespace, run.run_id), msgspec.json.encode(run))


def read_run(lake: Lake, namespace: str, run_id: str) -> Run | None:
    """A run by its id, None if there is none."""
    try:
        return msgspec.json.decode(lake.get(_path(namespace, run_id)), type=Run)
    except FileNotFoundError:
        return None


def last_runs(lake: Lake, namespace: str, limit: int = 5) -> list[Run]:
    """The newest runs of a namespace, newest first."""
    paths = lake.names(namespace_path(namespace, "runs"))[-limit:]
    return [msgspec.json.decode(lake.get(path), type=Run) for path in reversed(paths)]


def all_runs(lake: Lake, namespace: str) -> list[Run]:
    """Every run of a namespace, oldest first."""
    paths = lake.names(namespace_path(namespace, "runs"))
    with ThreadPoolExecutor(_READERS) as pool:
        return [msgspec.json.decode(data, type=Run) for data in pool.map(lake.get, paths)]


def _path(namespace: str, run_id: str) -> str:
    return namespace_path(namespace, "runs", f"{run_id}.json")
