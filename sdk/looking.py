"""What a `Memory` tells of itself: why a memory is there, and what a past moment had."""

from __future__ import annotations

from ..memory_store.as_of import past
from ..memory_store.explain import Explanation
from ..memory_store.explain import explain as explain_memory
from ..memory_store.lake import Lake
from ..memory_store.moments import Moment
from ..memory_store.predicates import READABLE


class Looking:
    """The part of `Memory` that looks back; a base class, made by no one."""

    #: The namespace that is read
    namespace: str
    _lake: Lake

    def count_purged(self, as_of: Moment) -> int:
        """Memories that were readable at a moment and were purged since: a search as of then can't show them."""
        purged = past(self._lake, self.namespace, as_of).purged
        return sum(count for state, count in purged.items() if state in READABLE)

    def explain(self, id: str, as_of: Moment | None = None) -> Explanation:
        """Why a memory is there: evidence with the events quoted, run, decisions so far, or until a moment.

        Raises `UnknownMemory`.
        """
        return explain_memory(self._lake, self.namespace, id, as_of)
