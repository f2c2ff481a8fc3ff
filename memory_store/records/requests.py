"""Requests: what an agent asks a job for. It lies in the lake, and the next run of the job takes it up.

    ns=<namespace>/requests/<request>.json              asked for
    ns=<namespace>/requests/<request>.try-<id>.json     a run began to work on it
    ns=<namespace>/requests/<request>.failed-<id>.json  that run failed; the next one tries again
    ns=<namespace>/requests/<request>.done.json         a run has done it

A request holds nobody up: a run that is killed leaves a try behind, and the next run takes the request up again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

import msgspec

from ..clock import Clock
from ..errors import UsageError
from ..files.lake import Lake, namespace_path
from ..ids import sortable_id, time_of
from .runs import read_run

#: Days that a request can be asked about after it was made.
KEPT_DAYS = 30
_ID = re.compile(r"[0-9a-hjkmnp-tv-z]{26}")

State = Literal["waiting", "running", "done", "failed"]


class _Mark(msgspec.Struct, omit_defaults=True):
    """What a file of a request says."""

    at: datetime
    #: The run that has done it
    run: str = ""
    #: Whether that run stopped at its budget, so that the next one goes on
    stopped: bool = False
    #: Why it failed: the error's class, no text of anyone's
    error: str = ""


@dataclass(frozen=True)
class Request:
    """A request, as it stands."""

    id: str
    #: waiting · running · done · failed (the next run tries again)
    state: State
    #: Since when it is in this state
    since: datetime
    #: The run that has done it
    run: str = ""
    #: Whether that run stopped at its budget
    stopped: bool = False
    #: Why the last try failed
    error: str = ""
    #: What the run did in this namespace, by name
    counts: dict[str, int] = field(default_factory=dict)


def ask_for_reflection(lake: Lake, namespace: str, clock: Clock) -> str:
    """Ask that the traces of a namespace be reflected on, and return the id of the request. It is in the lake then.

    Where a request waits already, its id is returned: the run that takes it up does what this one asks.
    """
    for waiting, names in _marks(lake, namespace).items():
        if names == {""}:
            return waiting
    id = sortable_id()
    lake.put(_path(namespace, id), msgspec.json.encode(_Mark(clock.now())))
    return id


def request_of(lake: Lake, namespace: str, id: str) -> Request:
    """How a request stands. Raises `UsageError` for an id of none."""
    marks = _marks(lake, namespace, f"{id}.") if _ID.fullmatch(id) else {}
    if id not in marks:
        raise UsageError(f"no request {id!r} in namespace {namespace}: give the id that asking for it returned")
    names = marks[id]

    def read(mark: str) -> _Mark:
        data = lake.get(_path(namespace, f"{id}.{mark}" if mark else id))
        return msgspec.json.decode(data, type=_Mark)

    if "done" in names:
        done = read("done")
        run = read_run(lake, namespace, done.run) if done.run else None
        counts = {} if run is None else {name: count for name, count in run.counts.items() if count}
        return Request(id, "done", done.at, done.run, done.stopped, counts=counts)
    tries = sorted(name.removeprefix("try-") for name in names if name.startswith("try-"))
    if not tries:
        return Request(id, "waiting", read("").at)
    if f"failed-{tries[-1]}" in names:
        failed = read(f"failed-{tries[-1]}")
        return Request(id, "failed", failed.at, error=failed.error)
    return Request(id, "running", read(f"try-{tries[-1]}").at)


class Taken:
    """The requests that a run has taken up."""

    def __init__(self, lake: Lake, clock: Clock, requests: Sequence[tuple[str, str]]) -> None:
        self._lake, self._clock = lake, clock
        #: Namespace and id of each
        self.requests = tuple(requests)

    def done_by(self, run: str, *, stopped: bool = False) -> None:
        """Mark them done. A mark that is there stays: the run that was first has done it."""
        self._mark("done", _Mark(self._clock.now(), run=run, stopped=stopped))

    def _mark(self, name: str, mark: _Mark) -> None:
        data = msgspec.json.encode(mark)
        for namespace, id in self.requests:
            self._lake.create(_path(namespace, f"{id}.{name}"), data)


def asked_for(lake: Lake, namespaces: Sequence[str]) -> list[str]:
    """Those namespaces in which a request is open."""
    return [
        name for name in namespaces if any("done" not in marks and "" in marks for marks in _marks(lake, name).values())
    ]


@contextmanager
def taken_up(lake: Lake, namespaces: Sequence[str], clock: Clock) -> Iterator[Taken]:
    """Take up the open requests of some namespaces while the block runs; one that raises leaves them failed.

    Those that were done long ago are cleared away.
    """
    oldest = time.time() * 1000 - KEPT_DAYS * 86_400_000
    found: list[tuple[str, str]] = []
    for namespace in namespaces:
        for id, names in _marks(lake, namespace).items():
            if "done" not in names and "" in names:
                found.append((namespace, id))
            elif time_of(id) < oldest:
                lake.delete(_path(namespace, f"{id}.{name}" if name else id) for name in sorted(names))
    taken, attempt = Taken(lake, clock, found), sortable_id()
    taken._mark(f"try-{attempt}", _Mark(clock.now()))
    try:
        yield taken
    except BaseException as error:
        taken._mark(f"failed-{attempt}", _Mark(clock.now(), error=type(error).__name__))
        raise


def _marks(lake: Lake, namespace: str, prefix: str = "") -> dict[str, set[str]]:
    """The names of the marks of each request; that it was asked for is the empty one."""
    found: dict[str, set[str]] = {}
    for path in lake.names(namespace_path(namespace, "requests")):
        id, _, mark = path.rpartition("/")[2].removesuffix(".json").partition(".")
        if _ID.fullmatch(id) and f"{id}.".startswith(prefix):
            found.setdefault(id, set()).add(mark)
    return found


def _path(namespace: str, name: str) -> str:
    return namespace_path(namespace, "requests", f"{name}.json")
