"""Going to another generation, and what becomes of those that were left: folded for a while, then dropped."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from datetime import timedelta

from ..clock import Clock
from ..embedders import embedder_named
from ..errors import EmbedderError, StoreError, UsageError
from ..files.lake import Lake
from ..files.leases import is_gone
from ..history.branch import branches, remove_branch
from ..settings import Settings
from .generations import catch_up, open_tables
from .registry import Generation, current, drop, find, known, switch, usable


def use(lake: Lake, settings: Settings, clock: Clock, number: int) -> Generation:
    """Switch readers to a generation that is there, once it has folded what it lacks.

    Raises `UsageError` for one that can't be used, with the reason, and `StoreError` if readers were switched
    elsewhere meanwhile.
    """
    one = find(lake, number)
    if one.state == "in use":
        return current(lake)
    if one.claim.branch:
        raise UsageError(f"generation {number} shows a re-reflection: `hindlake generations use {number}` adopts it")
    if why := usable(lake, settings, one):
        raise UsageError(why)
    switches = len(lake.names("current"))
    catch_up(lake, open_tables(settings, one.claim), embedder_named(one.claim.embedder, settings))
    if generation := switch(lake, clock, one.claim, switches, f"back to {number}" if one.used_at else ""):
        return generation
    raise StoreError(f"readers were switched to generation {current(lake).number} meanwhile: look, and say it again")


def discard(lake: Lake, settings: Settings, number: int) -> None:
    """Delete the tables of a generation, and the branch that it shows, if it shows one. What embedders and models gave
    is kept, and not paid for again. Raises `UsageError` for the one in use.
    """
    one = find(lake, number)
    drop(lake, settings, one)
    if one.claim.branch:
        remove_branch(lake, one.claim.branch)


@dataclass
class GraceReport:
    """What was done about the generations that readers don't use."""

    #: Numbers of those that were brought up to the log
    folded: list[int] = field(default_factory=list)
    #: Numbers of those whose tables were deleted
    dropped: list[int] = field(default_factory=list)
    #: Why others could not be folded, by number
    failed: dict[int, str] = field(default_factory=dict)


def keep_up(
    lake: Lake,
    settings: Settings,
    clock: Clock,
    *,
    dry_run: bool = False,
) -> GraceReport:
    """Fold every generation that readers left lately, so that going back to it is no step back; drop the others.

    They are kept for `jobs.generation_days`. What a builder that died has left goes at once, if it was of this machine.
    Doing it twice changes nothing.
    """
    report = GraceReport()
    days = timedelta(days=settings.jobs.generation_days)
    begun = {branch.branch for branch in branches(lake)}
    for one in known(lake):
        number = one.claim.number
        if one.state in ("in use", "dropped"):
            continue
        since = one.left_at or one.claim.claimed_at
        is_begun = one.claim.branch in begun  # a re-reflection that stopped is gone on with by whoever runs it next
        is_dead = one.state == "building" and not is_begun and _is_dead(one.claim.builder)
        if is_dead or clock.now() - since >= days:
            report.dropped.append(number)
            if not dry_run:
                discard(lake, settings, number)
        elif one.state == "ready" and not one.claim.branch and not usable(lake, settings, one):
            report.folded.append(number)
            if not dry_run:
                try:
                    catch_up(lake, open_tables(settings, one.claim), embedder_named(one.claim.embedder, settings))
                except (EmbedderError, StoreError) as error:
                    report.folded.remove(number)
                    report.failed[number] = str(error)
    return report


def _is_dead(builder: str) -> bool:
    """Whether a builder was a process of this machine, and is no more."""
    host, _, pid = builder.rpartition(":")
    return host == socket.gethostname() and pid.isdigit() and is_gone(int(pid))
