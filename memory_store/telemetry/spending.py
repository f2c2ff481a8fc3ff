"""What calls to models use, by purpose and model: counted where a call ends, whatever asks it, and kept with its run.

A run, a shard of it and each test of a prompt has a `Ledger` of its own, which lives in the context: threads of a pool
have it by `in_this_run`, workers of Ray send theirs back with the shard.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import astuple, dataclass, fields


@dataclass(frozen=True)
class Usage:
    """What calls to a model have used."""

    #: Calls, failed ones included
    calls: int = 0
    #: Calls that gave no answer
    failed_calls: int = 0
    #: Calls whose tokens are estimated, because no answer said how many
    estimated_calls: int = 0
    #: Calls that were paid for before and made again after a kill
    repeated_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    #: Micro-dollars
    cost: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, other: Usage) -> Usage:
        return Usage(*(mine - theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))


#: Names of what is counted of calls.
USED = tuple(item.name for item in fields(Usage))
#: What was used, by purpose (reflect, judge, patterns, embed) and name of the model.
Parts = dict[tuple[str, str], Usage]


class Ledger:
    """What was used, by purpose and model. Share one between threads."""

    def __init__(self) -> None:
        self._parts: Parts = {}
        self._lock = threading.Lock()

    def add(self, parts: Parts) -> None:
        """Count what calls have used."""
        with self._lock:
            for key, usage in parts.items():
                self._parts[key] = self._parts.get(key, Usage()) + usage

    @property
    def parts(self) -> Parts:
        """What was used until now."""
        with self._lock:
            return dict(self._parts)


_CURRENT: ContextVar[Ledger | None] = ContextVar("hindlake_ledger", default=None)


@contextmanager
def counted_in(ledger: Ledger) -> Iterator[Ledger]:
    """Calls of this block are counted in a ledger, and in no other one."""
    token = _CURRENT.set(ledger)
    try:
        yield ledger
    finally:
        _CURRENT.reset(token)


def spend(parts: Parts) -> None:
    """Count what calls have used, where someone keeps it."""
    if (ledger := _CURRENT.get()) is not None:
        ledger.add(parts)
