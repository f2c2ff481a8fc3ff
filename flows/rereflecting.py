"""Reflecting again on history, as plain functions for the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..jobs.reflect import Announcement, ReflectReport, reflect
from ..jobs.reflecting.reflectors import Name, reflector_of
from ..jobs.rereflect import finish, keep_costs, prepare
from ..jobs.shards import Engine
from ..memory_store.clock import Clock
from ..memory_store.errors import UsageError
from ..memory_store.files.lake import Lake
from ..memory_store.settings import Settings
from ..memory_store.telemetry.observing import observing
from .leased import leased


@dataclass
class RereflectReport:
    """What a run did in its branch."""

    #: Id of the branch: the run that it becomes once it is adopted
    branch: str
    #: Number of the generation that shows it
    generation: int
    #: Whether nothing is left to reflect on, so that it can be adopted
    complete: bool
    reflect: ReflectReport

    def summary(self) -> dict[str, Any]:
        """The report as plain values: ids and counts, never the text of a memory."""
        return {**vars(self), "reflect": self.reflect.summary()}


@observing("rereflect")
def run_rereflect(
    settings: Settings,
    clock: Clock,
    *,
    version: str,
    reflector: Name = "auto",
    engine: Engine = "auto",
    progress: Callable[[int, int], None] | None = None,
    announce: Callable[[Announcement], None] | None = None,
) -> RereflectReport:
    """Reflect again on all that was reflected on, into a branch and the generation that shows it; readers see nothing.

    Raises `UsageError` while another run does the same.
    """
    lake = Lake.open(settings)
    chosen = reflector_of(settings, reflector)
    with leased(lake, settings, clock, "rereflect", None, progress=progress) as mine:
        if mine.busy:
            who = next(iter(mine.busy.values()))
            raise UsageError(f"another run reflects again ({who}): wait for it")
        prepared = prepare(lake, settings, clock, chosen.name)
        try:
            done = reflect(
                prepared.lake, settings, clock, chosen, version=version, namespaces=sorted(prepared.among),
                engine=engine, among=prepared.among, progress=mine.progress, announce=announce,
            )  # fmt: skip
        finally:
            keep_costs(lake, prepared, version, clock)
        complete = not done.stopped and not done.counts["waiting"]
        finish(lake, settings, prepared, complete=complete)
    return RereflectReport(prepared.branch.branch, prepared.branch.generation, complete, done)
