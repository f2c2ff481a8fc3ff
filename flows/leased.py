"""Who works where: a run leaves alone the namespaces that another run of the same job works on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ..memory_store.clock import Clock
from ..memory_store.files.lake import Lake
from ..memory_store.files.leases import hold
from ..memory_store.settings import Settings

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Leased:
    """The part of a run that no other run does."""

    #: The namespaces to work on
    namespaces: list[str]
    #: Those left alone, each with who works on it
    busy: dict[str, str]
    #: Told what is done; raises `LeaseLost` once another run has taken over
    progress: Progress


@contextmanager
def leased(
    lake: Lake,
    settings: Settings,
    clock: Clock,
    job: str,
    namespaces: Sequence[str] | None,
    *,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Iterator[Leased]:
    """Hold the leases of a job while the block runs; see `memory_store.files.leases`. A dry run takes none."""
    seconds = 0.0 if dry_run else settings.jobs.lease_seconds
    with hold(lake, job, namespaces, clock, seconds) as held:

        def told(done: int, total: int) -> None:
            held.check()
            if progress is not None:
                progress(done, total)

        yield Leased(held.namespaces, {name: str(holder) for name, holder in held.others.items()}, told)
