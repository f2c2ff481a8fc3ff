"""What a `Memory` tells of itself: why a memory is there, what a past moment had, and what happened in a period."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, overload

from ..memory_store.clock import Clock
from ..memory_store.errors import UsageError
from ..memory_store.files.lake import Lake
from ..memory_store.history.as_of import past
from ..memory_store.history.explain import Explanation
from ..memory_store.history.explain import explain as explain_memory
from ..memory_store.history.moments import Moment, period_of
from ..memory_store.history.replay import Replay, Selection
from ..memory_store.recall.predicates import READABLE
from ..memory_store.recall.why import QueryExplanation, explain_query
from ..memory_store.settings import Settings
from .arguments import filter_of, stored


class Looking:
    """The part of `Memory` that looks back; a base class, made by no one."""

    #: The settings in force
    settings: Settings
    #: The namespace that is read
    namespace: str
    _lake: Lake
    _clock: Clock

    def count_purged(self, as_of: Moment) -> int:
        """Memories that were readable at a moment and were purged since: a search as of then can't show them."""
        purged = past(self._lake, self.namespace, as_of).purged
        return sum(count for state, count in purged.items() if state in READABLE)

    @overload
    def explain(self, id: str, as_of: Moment | None = None) -> Explanation: ...

    @overload
    def explain(self, *, query: str, expected: str = "", limit: int = 5, **filters: Any) -> QueryExplanation: ...

    def explain(
        self,
        id: str = "",
        as_of: Moment | None = None,
        *,
        query: str | None = None,
        expected: str = "",
        limit: int = 5,
        **filters: Any,
    ) -> Explanation | QueryExplanation:
        """Why a memory is there: evidence with the events quoted, run, decisions so far, or until a moment.

        With `query`, why a search returned what it did (R33): each hit with legs, ranks, scores and factors, and why
        the nearest others did not come, or the one whose id is `expected`. `filters` are those of `search`; whose
        memories they are is told whatever they say, so this is for who looks after an agent. Such a search is not
        logged as read. Raises `UnknownMemory`, and `UsageError` for what can't be meant.
        """
        if query is None:
            return explain_memory(self._lake, self.namespace, id, as_of)
        if id or as_of is not None:
            raise UsageError("explain takes an id, or a query of now")
        where = filter_of(self.namespace, **filters)
        return explain_query(self._lake, self.settings, self._clock, stored(query), where, limit, expected)

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
        task_id, and brings the task's steps too; `kinds` are those of `KINDS` in `memory_store.history.timeline`. What
        still waits on a disk is not in it. Raises `UsageError` for what can't be meant.
        """
        first, last = (time if isinstance(time, str) else time.isoformat() for time in (since, until))
        start, end = period_of(first, last, self._clock.now())
        return Replay(self._lake, self.namespace, start, end, Selection(trace, memory, subject, tuple(kinds)))
