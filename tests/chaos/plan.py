"""What happens in a round, drawn from its seed: where the home lies, who works, which faults strike when."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from servers.faulty import KINDS

#: Every fault of the suite, but for those of the proxy, which are `servers.faulty.KINDS`.
FAULTS = ("kill", "zombie", "disk full", "clock skew", "two schedulers", "two collectors", "two nights", "two laptops")
#: Jobs of a scheduler, as `hindlake` is called, and how often each comes.
JOBS: tuple[tuple[int, tuple[str, ...]], ...] = (
    (4, ("run", "collect")),
    (4, ("run", "reflect", "--reflector", "rules", "--loop")),
    (5, ("run", "nightly", "--reflector", "rules", "--loop")),
    (2, ("run", "weekly", "--reflector", "rules", "--loop")),
    (2, ("run", "compact",)),
    (1, ("run", "passages")),
    (2, ("rebuild",)),
    (3, ("backup", "create", "--json")),
    (1, ("reindex", "--embedder", "openai:a", "--loop")),
    (2, ("purge",)),
)  # fmt: skip
_NIGHT = JOBS[2][1]
_COLLECT = JOBS[0][1]
#: Seconds by which a clock may be wrong: a second, hours, days, a month.
_SKEWS = (-1.0, 3_600.0, -7_200.0, 200_000.0, -260_000.0, 2_600_000.0)


@dataclass(frozen=True)
class Strike:
    """One fault at one moment."""

    #: Seconds since the round began
    at: float
    #: kill · zombie · disk full
    kind: str
    #: Which of those that run, as a share
    which: float
    #: Seconds that it lasts, where it lasts
    seconds: float


@dataclass(frozen=True)
class Plan:
    """One round."""

    seed: int
    #: folder · s3
    place: str
    #: Seconds that the faults go on
    seconds: float
    agents: int
    readers: int
    has_mcp: bool
    #: Jobs that each scheduler runs one after the other, over and over
    schedulers: tuple[tuple[tuple[str, ...], ...], ...]
    laptops: int
    #: Seconds that the clock of each laptop is ahead
    skews: tuple[float, ...]
    strikes: tuple[Strike, ...]
    #: Share of requests that meet each fault of the proxy
    rates: dict[str, float] = field(default_factory=dict)

    @property
    def faults(self) -> frozenset[str]:
        """The kinds of fault that the round is about."""
        kinds = {strike.kind for strike in self.strikes} | set(self.rates)
        kinds |= {"two schedulers"} if len(self.schedulers) > 1 else set()
        kinds |= {"two laptops"} if self.laptops > 1 else set()
        kinds |= {"clock skew"} if any(self.skews) else set()
        for name, jobs in (("two nights", (_NIGHT,)), ("two collectors", (_COLLECT,))):
            kinds |= {name} if self.schedulers.count(jobs) > 1 else set()
        return frozenset(kinds)


def draw(seed: int, *, can_fill: bool) -> Plan:
    """The plan of a seed; `can_fill`: whether a disk can be filled here."""
    chance = random.Random(f"hindlake chaos {seed}")
    place = "s3" if chance.random() < 0.3 else "folder"
    seconds = chance.uniform(2.0, 3.0) if place == "folder" else chance.uniform(3.5, 5.0)
    strikes = [
        Strike(chance.uniform(0.2, seconds), "kill", chance.random(), 0.0) for _ in range(chance.randint(2, 7))
    ]  # fmt: skip
    if chance.random() < 0.4:
        strikes += [
            Strike(chance.uniform(0.2, seconds - 0.5), "zombie", chance.random(), 0.0)
            for _ in range(chance.randint(1, 2))
        ]
    fills = place == "folder" and chance.random() < 0.3
    if fills and can_fill:
        strikes += [
            Strike(chance.uniform(0.3, seconds - 0.5), "disk full", 0.0, chance.uniform(0.2, 0.8))
            for _ in range(chance.randint(1, 2))
        ]
    rates = {}
    if place == "s3":
        rates = {kind: chance.choice((0.005, 0.02, 0.05)) for kind in KINDS if chance.random() < 0.6}
    two = chance.random()
    schedulers = [_jobs(chance)]
    if two < 0.15:
        schedulers = [(_NIGHT,), (_NIGHT,)]
    elif two < 0.3:
        schedulers = [(_COLLECT,), (_COLLECT,), _jobs(chance)]
    elif two < 0.5:
        schedulers.append(_jobs(chance))
    laptops = 2 if place == "s3" and chance.random() < 0.5 else 1
    skews = tuple(chance.choice(_SKEWS) if chance.random() < 0.4 else 0.0 for _ in range(max(laptops, 2)))
    return Plan(
        seed, place, seconds, chance.randint(1, 2), chance.randint(0, 1), chance.random() < 0.25, tuple(schedulers),
        laptops, skews, tuple(sorted(strikes, key=lambda strike: strike.at)), rates,
    )  # fmt: skip


def _jobs(chance: random.Random) -> tuple[tuple[str, ...], ...]:
    weights, jobs = zip(*JOBS, strict=True)
    return tuple(chance.choices(jobs, weights, k=8))
