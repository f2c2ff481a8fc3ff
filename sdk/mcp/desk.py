"""What a call works with: the caller, and the memory, recorder and lake of their namespace, opened when first used."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING

from ...memory_store.clock import Clock
from ...memory_store.errors import NoGeneration, UnknownMemory, UsageError
from ...memory_store.files.lake import Lake
from ...memory_store.settings import Settings
from .callers import Caller, unknown

if TYPE_CHECKING:
    from ...memory_store.history.explain import Explanation
    from ..memory import Memory
    from ..recorder import Recorder


class Opened:
    """What is open of one namespace. Safe to share between threads; nothing is imported before it is asked for."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.settings, self.clock = settings, clock
        self._lock = threading.Lock()
        self._memory: Memory | None = None
        self._recorder: Recorder | None = None

    @property
    def memory(self) -> Memory:
        """Its memories."""
        with self._lock:
            if self._memory is None:
                from ..memory import Memory

                self._memory = Memory(self.settings, clock=self.clock)
            return self._memory

    @property
    def recorder(self) -> Recorder:
        """What logs its episodes."""
        with self._lock:
            if self._recorder is None:
                from ..recorder import Recorder

                self._recorder = Recorder(self.settings, clock=self.clock)
            return self._recorder

    @property
    def lake(self) -> Lake:
        """Its lake."""
        return Lake.open(self.settings)

    def warm(self) -> None:
        """Load and open what a search needs, so that the first one is quick. Where there is no store, none is made.

        Raises `NoGeneration` for that.
        """
        from ...memory_store.store.registry import current

        if not self.settings.is_remote and not Path(self.settings.home).expanduser().exists():
            raise NoGeneration("there is no store yet")
        current(self.lake)
        self.memory.search("", limit=1, log_read=False)

    def close(self) -> None:
        """Bring what was logged into the lake."""
        with self._lock:
            for one in (self._memory, self._recorder):
                if one is not None:
                    one.close()


@dataclass(frozen=True)
class _Place:
    """Where a search goes on."""

    caller: str
    cursor: str
    since: datetime | None


class Places:
    """Where searches go on, by short names: a cursor holds what is left of a ranking, too much for a model to copy."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: OrderedDict[str, _Place] = OrderedDict()

    def keep(self, caller: Caller, cursor: str, since: datetime | None) -> str:
        """A name for where a search of a caller goes on; empty where it ends."""
        if not cursor:
            return ""
        name = token_urlsafe(9)
        with self._lock:
            self._places[name] = _Place(caller.name, cursor, since)
            if len(self._places) > _PLACES:
                self._places.popitem(last=False)
        return name

    def find(self, caller: Caller, name: str) -> tuple[str, datetime | None]:
        """The cursor of a name, and since when memories are wanted. Raises `UsageError` for a name of none."""
        with self._lock:
            place = self._places.get(name)
        if place is None or place.caller != caller.name:
            raise UsageError("this cursor is not known, or too old: call again without cursor")
        return place.cursor, place.since


#: Places that are kept: some kilobytes each.
_PLACES = 1_000


@dataclass(frozen=True)
class Desk:
    """What the acts of a tool work with."""

    caller: Caller
    opened: Opened
    places: Places

    @property
    def memory(self) -> Memory:
        """The memories of the caller's namespace."""
        return self.opened.memory

    @property
    def now(self) -> datetime:
        """The time."""
        return self.opened.clock.now()

    def explained(self, id: str) -> Explanation:
        """Why a memory is there. Raises `UnknownMemory` for one that the caller may not see, as for one that is not."""
        try:
            found = self.memory.explain(id)
        except UnknownMemory:
            raise UnknownMemory(unknown(id, self.caller.namespace)) from None
        is_purged = any(step.decision == "purge" and step.verdict != "refused" for step in found.decisions)
        # Of what was purged, no one knows any more whom it was about.
        subject = "?" if is_purged else found.memory["subject"] or ""
        self.caller.check_may_see(id, subject, found.memory["kind"] or "")
        return found

    def may_quote(self, subject: str) -> bool:
        """Whether the caller may read what a memory rests on: a shared lesson rests on someone's conversation."""
        return not self.caller.subject or subject == self.caller.subject
