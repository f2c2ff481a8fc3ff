"""Which generations there are, and which one readers use.

    generations/<number>/claimed.json    what is built under this number, where, and by whom
    generations/<number>/ready.json      readers can be switched to it; what was found when it was checked
    generations/<number>/dropped.json    its tables are gone
    current/<number>.json                the switches of readers, one file each; the newest counts

Numbers are claimed by *create*, so no two builders have one in common. A switch is a create as well: who wants to
switch says how many switches there were when it began, and of two that began alike one wins.
"""

from __future__ import annotations

import os
import socket
from dataclasses import asdict, dataclass
from datetime import datetime
from secrets import token_hex
from typing import Any, Literal

import msgspec

from ..clock import Clock
from ..errors import NoGeneration, UsageError
from ..files.lake import Lake
from ..files.store_files import generation_folders, remove_generation
from ..records.purged import purges
from ..settings import Settings
from ..telemetry.events import tell

State = Literal["building", "ready", "in use", "dropped"]


@dataclass(frozen=True)
class Generation:
    """A generation as readers are told of it: what `current/<number>.json` says."""

    #: Its own number; going back to it gives it no other
    number: int
    #: Name of the folder below `store/`
    name: str
    #: Model that made its vectors
    embedder: str
    #: Length of a vector
    dim: int
    #: When readers were switched to it
    created_at: datetime
    #: Why it was built
    reason: str


class Claim(msgspec.Struct, kw_only=True, frozen=True):
    """A generation that is being built, or was."""

    number: int
    name: str
    embedder: str
    dim: int
    reason: str
    claimed_at: datetime
    #: How many switches there were when it was begun
    switches: int
    #: Host and process that builds it
    builder: str
    #: The re-reflection that it shows; empty for one that shows what the logs say
    branch: str = ""


@dataclass(frozen=True)
class Known:
    """A generation, and what became of it."""

    claim: Claim
    state: State
    #: When readers were switched to it last; None if they never were
    used_at: datetime | None = None
    #: When readers were last switched away from it; None if they never were, or are back
    left_at: datetime | None = None
    #: What its check found
    check: dict[str, Any] | None = None


def current(lake: Lake, seen: dict[str, Generation] | None = None) -> Generation:
    """The generation that readers use; switches that were `seen` are not read again, since their files never change.

    Raises `NoGeneration` if there is none.
    """
    paths = lake.names("current")
    if not paths:
        raise NoGeneration(f"{lake.url} has no store yet: run `hindlake run reflect` or `hindlake rebuild`")
    if seen is None or paths[-1] not in seen:
        found = msgspec.json.decode(lake.get(paths[-1]), type=Generation)
        if seen is None:
            return found
        seen[paths[-1]] = found
    return seen[paths[-1]]


def switches(lake: Lake) -> list[Generation]:
    """Every switch of readers, oldest first."""
    return [msgspec.json.decode(lake.get(path), type=Generation) for path in lake.names("current")]


def claim(lake: Lake, clock: Clock, embedder: str, dim: int, reason: str, branch: str = "") -> Claim:
    """Take the next number for a generation that is about to be built."""
    made = len(lake.names("current"))
    while True:
        taken = [int(path.split("/")[1]) for path in lake.names("generations")]
        number = max(taken, default=made) + 1
        one = Claim(
            number=number, name=f"g{number:06d}-{token_hex(4)}", embedder=embedder, dim=dim, reason=reason,
            claimed_at=clock.now(), switches=made, builder=f"{socket.gethostname()}:{os.getpid()}", branch=branch,
        )  # fmt: skip
        if lake.create(_path(number, "claimed"), msgspec.json.encode(one)):
            return one


def mark_ready(lake: Lake, claim: Claim, check: dict[str, Any] | None = None) -> None:
    """Say that readers can be switched to a generation."""
    lake.put(_path(claim.number, "ready"), msgspec.json.encode(check or {}))


def switch(lake: Lake, clock: Clock, claim: Claim, switches: int, reason: str = "") -> Generation | None:
    """Switch readers to a generation; None if someone switched them since there were so many switches."""
    generation = Generation(
        claim.number, claim.name, claim.embedder, claim.dim, clock.now(), reason or claim.reason
    )  # fmt: skip
    if lake.create(f"current/{switches + 1:06d}.json", msgspec.json.encode(asdict(generation))):
        tell("generation_switched", generation=claim.number, reason=generation.reason)
        return generation
    return None


def known(lake: Lake) -> list[Known]:
    """Every generation, by number, those of versions that claimed none included."""
    steps: dict[int, dict[str, bytes]] = {}
    for path in lake.names("generations"):
        _, folder, step = path.split("/")
        steps.setdefault(int(folder), {})[step.removesuffix(".json")] = lake.get(path)
    history = switches(lake)
    claims = {
        one.number: Claim(
            number=one.number, name=one.name, embedder=one.embedder, dim=one.dim, reason=one.reason,
            claimed_at=one.created_at, switches=place, builder="",
        )
        for place, one in reversed(list(enumerate(history)))
    }  # fmt: skip
    claims |= {
        number: msgspec.json.decode(files["claimed"], type=Claim)
        for number, files in steps.items()
        if "claimed" in files
    }
    found = []
    for number, claimed in sorted(claims.items()):
        files = steps.get(number, {})
        uses = [place for place, one in enumerate(history) if one.number == number]
        in_use = bool(uses) and uses[-1] == len(history) - 1
        state: State = "in use" if in_use else "ready" if uses or "ready" in files else "building"
        if "dropped" in files:
            state = "dropped"
        used_at = history[uses[-1]].created_at if uses else None
        left_at = history[uses[-1] + 1].created_at if uses and not in_use else None
        check = msgspec.json.decode(files["ready"]) if "ready" in files else None
        found.append(Known(claimed, state, used_at, left_at, check or None))
    return found


def find(lake: Lake, number: int) -> Known:
    """A generation by its number. Raises `UsageError` for one that is not there any more."""
    every = {one.claim.number: one for one in known(lake)}
    if number not in every:
        has = ", ".join(str(one) for one, value in every.items() if value.state != "dropped") or "none yet"
        raise UsageError(f"there is no generation {number}: there are {has}; `hindlake generations list` shows them")
    if every[number].state == "dropped":
        raise UsageError(f"generation {number} was dropped: build another with `hindlake reindex`")
    return every[number]


def usable(lake: Lake, settings: Settings, one: Known) -> str:
    """Why readers can't be switched to a generation; empty if they can."""
    number = one.claim.number
    if one.state == "building":
        return f"generation {number} is not finished: `hindlake reindex` builds another from what was embedded"
    if one.claim.name not in generation_folders(settings):
        return f"the tables of generation {number} are gone: `hindlake rebuild` makes others"
    for namespace in lake.namespaces():
        if any(one.claim.name in purge.generations for purge in purges(lake, namespace)):
            return f"generation {number} holds what was purged since: `hindlake reindex` builds one without it"
    return ""


def drop(lake: Lake, settings: Settings, one: Known) -> None:
    """Delete the tables of a generation. Raises `UsageError` for the one in use."""
    if one.state == "in use":
        raise UsageError(f"generation {one.claim.number} is in use: switch to another first (`generations use N`)")
    lake.put(_path(one.claim.number, "dropped"), b"{}")
    remove_generation(settings, one.claim.name)


def _path(number: int, step: str) -> str:
    return f"generations/{number:06d}/{step}.json"
