"""Leases: who is at work on a job, so that no second run pays for the same work.

    lease/<job>/<namespace>/<epoch>.json        and "_all" for a run over every namespace

A run claims the next epoch by *create*, renews its own file while it works, and says at its end that it is done. A run
that finds a lease watches it: whoever does not renew for as long as the lease lasts, by the watcher's own clock, is
taken to be dead, and the next epoch is free. On one machine a dead process is known at once.

Correctness never rests on it. A run that lost its lease and does not know yet proposes what settle refuses, or what
is there already; it only pays twice.
"""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from ..clock import Clock
from ..errors import LakeError, LeaseLost
from ..ids import sortable_id
from ..telemetry.events import tell
from .lake import Lake

_T = TypeVar("_T")

#: In the place of a namespace: a run over all of them.
EVERY = "_all"
#: How many looks at the lease of another run fit into the time that it lasts.
_LOOKS = 12
#: Leases that are watched at once.
_WATCHES = 16


class Holder(msgspec.Struct, kw_only=True):
    """Who holds a lease."""

    #: A name of its own
    id: str
    #: Machine, and what processes it numbers together
    machine: str
    pid: int
    since: datetime
    #: How often it was renewed
    beats: int = 0
    #: Whether its run has ended
    is_done: bool = False

    def __str__(self) -> str:
        return f"process {self.pid} on {self.machine.split('/', 1)[0]} since {self.since:%Y-%m-%d %H:%M} UTC"

    @property
    def is_dead(self) -> bool:
        """Whether it is a process of this machine that is no more. A living one may be held up: that takes a watch."""
        return self.machine == _machine() and is_gone(self.pid)


class Lease:
    """A lease that this process holds. Renewed by a thread until `hold` is left."""

    def __init__(self, lake: Lake, path: str, holder: Holder, seconds: float) -> None:
        self._lake, self._path, self._holder, self._seconds = lake, path, holder, seconds
        self._renewed = time.monotonic()
        self._is_lost = False
        self._lock = threading.Lock()

    @property
    def about(self) -> str:
        """The namespace that it is about, or `EVERY`."""
        return self._path.split("/")[2]

    def check(self) -> None:
        """Raise `LeaseLost` if another run has taken over: what comes next would be paid for twice."""
        if not self._is_lost and time.monotonic() - self._renewed > self._seconds:
            self.renew()  # held up for long: look before going on
        if self._is_lost:
            tell("lease_lost", namespace=self.about)
            raise LeaseLost(f"another run has taken over {self._path.rsplit('/', 1)[0]}: this one was held up for long")

    def renew(self) -> None:
        """Say that the run is still at work, unless another one has taken over."""
        with self._lock:
            folder = self._path.rsplit("/", 1)[0]
            if self._lake.names(folder, after=self._path):
                self._is_lost = True
                return
            self._holder.beats += 1
            self._lake.put(self._path, msgspec.json.encode(self._holder))
            self._renewed = time.monotonic()

    def release(self) -> None:
        """Say that the run has ended."""
        with self._lock:
            self._holder.is_done = True
            self._lake.put(self._path, msgspec.json.encode(self._holder))


@dataclass(frozen=True)
class Held:
    """What a run may work on."""

    #: The namespaces that no other run works on
    namespaces: list[str]
    #: Who works on the others, by namespace
    others: dict[str, Holder]
    #: Call it before what costs: raises `LeaseLost` once another run has taken over
    check: Callable[[], None]


@contextmanager
def hold(lake: Lake, job: str, namespaces: Sequence[str] | None, clock: Clock, seconds: float) -> Iterator[Held]:
    """Hold the leases of a job over the namespaces named, or with None over all, while the block runs.

    `seconds`: how long one lasts without being renewed; 0: none is taken. Namespaces that another run works on are
    left out. Waits for `seconds` at most, and only where a lease was not given back. Raises `LakeError`, and
    `UsageError` for a namespace that has no file.
    """
    chosen = lake.chosen(namespaces)
    if not seconds:
        yield Held(chosen, {}, lambda: None)
        return
    leases: list[Lease] = []
    try:
        others = _claim(lake, job, chosen, namespaces is None, clock, seconds, leases)
        free = [name for name in chosen if name not in others]
        for lease in leases:
            tell("lease_taken", namespace=lease.about)
        for name, holder in others.items():
            tell("namespace_skipped", namespace=name, reason="another run works on it", holder=str(holder))

        def check() -> None:
            for lease in leases:
                lease.check()

        with _renewing(leases, seconds):
            yield Held(free, others, check)
    finally:
        for lease in leases:
            with suppress(LakeError):  # not given back, it ends by itself
                lease.release()


def is_gone(pid: int) -> bool:
    """Whether this machine has no process of that number; one that belongs to someone else is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def holders(lake: Lake) -> dict[str, Holder]:
    """The newest holder of every lease, by "<job>/<namespace>"; those that have ended too."""
    newest = {path.rsplit("/", 1)[0]: path for path in lake.names("lease")}
    found = {folder.removeprefix("lease/"): _holder(lake, path) for folder, path in newest.items()}
    return {name: holder for name, holder in found.items() if holder is not None}


def _claim(
    lake: Lake, job: str, chosen: Sequence[str], is_all: bool, clock: Clock, seconds: float, leases: list[Lease]
) -> dict[str, Holder]:
    """Take what is free; the holders of the rest, by namespace."""
    if is_all:
        whole = _take(lake, f"lease/{job}/{EVERY}", clock, seconds)
        if isinstance(whole, Holder):
            return dict.fromkeys(chosen, whole)
        leases.append(whole)
        # Runs over single namespaces look for this lease after they have taken theirs, so none is overlooked.
        named = {path.split("/")[2] for path in lake.names(f"lease/{job}")}
        found = _each(lambda name: _alive(lake, f"lease/{job}/{name}", seconds), named & set(chosen))
        return {name: holder for name, holder in found.items() if holder is not None}
    taken = _each(lambda name: _take(lake, f"lease/{job}/{name}", clock, seconds), chosen)
    leases += [one for one in taken.values() if isinstance(one, Lease)]
    if (all_holder := _alive(lake, f"lease/{job}/{EVERY}", seconds)) is not None:
        return dict.fromkeys(chosen, all_holder)
    return {name: one for name, one in taken.items() if isinstance(one, Holder)}


def _each(ask: Callable[[str], _T], names: Iterable[str]) -> dict[str, _T]:
    """What is said of each name. All are asked at once: some may have to be watched."""
    some = sorted(names)
    if not some:
        return {}
    with ThreadPoolExecutor(min(len(some), _WATCHES)) as pool:
        return dict(zip(some, pool.map(ask, some), strict=True))


def _take(lake: Lake, folder: str, clock: Clock, seconds: float) -> Lease | Holder:
    """The lease, or who holds it."""
    holder, epochs = _watch(lake, folder, seconds)
    if holder is not None:
        return holder
    last = int(epochs[-1].rsplit("/", 1)[1].removesuffix(".json")) if epochs else 0
    path = f"{folder}/{last + 1:012d}.json"
    own = Holder(id=sortable_id(), machine=_machine(), pid=os.getpid(), since=clock.now())
    lake.create(path, msgspec.json.encode(own))
    newest = lake.names(folder)[-1]
    holder = _holder(lake, newest)
    if holder is not None and holder.id != own.id:
        return holder  # someone was faster
    lake.delete(epochs)
    return Lease(lake, path, own, seconds)


def _alive(lake: Lake, folder: str, seconds: float) -> Holder | None:
    """Who holds a lease; None if it is free."""
    return _watch(lake, folder, seconds)[0]


def _watch(lake: Lake, folder: str, seconds: float) -> tuple[Holder | None, list[str]]:
    """Who holds a lease and renews it, None if it is free; and the epochs that this was seen of.

    One that was not given back is watched.
    """
    first: Holder | None = None
    began = time.monotonic()
    while True:
        epochs = lake.names(folder)
        holder = _holder(lake, epochs[-1]) if epochs else None
        if holder is None or holder.is_done or holder.is_dead:
            return None, epochs
        if first is not None and (holder.id, holder.beats) != (first.id, first.beats):
            return holder, epochs
        if time.monotonic() - began > seconds:
            return None, epochs
        first = first or holder
        time.sleep(seconds / _LOOKS)


def _holder(lake: Lake, path: str) -> Holder | None:
    try:
        return msgspec.json.decode(lake.get(path), type=Holder)
    except FileNotFoundError:
        return None


@contextmanager
def _renewing(leases: Sequence[Lease], seconds: float) -> Iterator[None]:
    """A thread that renews leases, three times as often as they must be."""
    if not leases:
        yield
        return
    stop = threading.Event()

    def renew() -> None:
        while not stop.wait(seconds / 3):
            for lease in leases:
                try:
                    lease.renew()
                except LakeError:
                    continue  # the next time may do better; if not, `check` tells

    thread = threading.Thread(target=renew, name="hindlake-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _machine() -> str:
    """What process ids can be compared within: host, boot, and the numbering that containers have of their own."""
    parts = [platform.node()]
    for read in (_boot, _numbering):
        try:
            parts.append(read())
        except OSError:  # not on Linux
            parts.append("")
    return "/".join(parts)


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


def _numbering() -> str:
    return os.readlink("/proc/self/ns/pid")
