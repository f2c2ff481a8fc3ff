"""What a `Memory` tells of itself: why a memory is there, what a past moment had, and what happened in a period."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ..memory_store.as_of import past
from ..memory_store.clock import Clock
from ..memory_store.explain import Explanation
from ..memory_store.explain import explain as explain_memory
from ..memory_store.lake import Lake
from ..memory_store.moments import Moment, period_of
from ..memory_store.predicates import READABLE
from ..memory_store.replay import Replay, Selection


class Looking:
    """The part of `Memory` that looks back; a base class, made by no one."""

    #: The namespace that is read
    namespace: str
    _lake: Lake
    _clock: Clock

    def count_purged(self, as_of: Moment) -> int:
        """Memories that were readable at a moment and were purged since: a search as of then can't show them."""
        purged = past(self._lake, self.namespace, as_of).purged
        return sum(count for state, count in purged.items() if state in READABLE)

    def explain(self, id: str, as_of: Moment | None = None) -> Explanation:
        """Why a memory is there: evidence with the events quoted, run, decisions so far, or until a moment.

        Raises `UnknownMemory`.
        """
        return explain_memory(self._lake, self.namespace, id, as_of)

    def replay(
        self,
        since: datetime | str,
        until: datetime | str = "now",
        *,
        trace: str = "",
        memory: str = "",
        subject: str = "",
        kinds: Sequence[str] = (),
    ) -> Replay:
        """What was written, read and decided in a period, as entries in the order of time; iterate over it (R32).

        A time may be written as `hindlake replay` takes it: `2d`, `yesterday`, `2026-03-01`. `trace` is a trace or a
        task_id, and brings the task's steps too; `kinds` are those of `KINDS` in `memory_store.timeline`. What still
        waits on a disk is not in it. Raises `UsageError` for what can't be meant.
        """
        named = (time if isinstance(time, str) else time.isoformat() for time in (since, until))
        start, end = period_of(*named, self._clock.now())
        return Replay(self._lake, self.namespace, start, end, Selection(trace, memory, subject, tuple(kinds)))
