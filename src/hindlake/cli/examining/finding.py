"""A finding, and the patient that it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ...memory_store.clock import Clock
from ...memory_store.files.lake import Lake
from ...memory_store.settings import Settings

#: broken: something does not work, or data is at risk; doubtful: it works, and will cost you; note: good to know.
Level = Literal["broken", "doubtful", "note"]


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be, and what to do."""

    #: What kind of finding: a section of docs/troubleshooting.md
    code: str
    level: Level
    #: What was found
    says: str
    #: What to do
    fix: str


class Patient:
    """What is examined: one namespace of one home."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.settings = settings
        self.clock = clock

    @cached_property
    def lake(self) -> Lake:
        """The lake of the home. Raises what opening it raises."""
        return Lake.open(self.settings)

    @property
    def namespace(self) -> str:
        """The namespace of the settings."""
        return self.settings.namespace


#: A look at one side of the system.
Check = Callable[[Patient], Iterable[Finding]]
