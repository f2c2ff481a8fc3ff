"""Where calls are worked on: in a few threads, so that the event loop never waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from ...memory_store.errors import UsageError

_T = TypeVar("_T")
#: Calls that may wait for each thread; more are sent away.
_WAITING = 32


class Workers:
    """A few threads. A call that is cancelled before its turn is dropped; one that is being worked on is finished."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="hindlake-mcp")
        self._room = threading.BoundedSemaphore(threads * (1 + _WAITING))

    async def run(self, act: Callable[[], _T]) -> _T:
        """Do something in a thread, and return or raise what it does. Raises `UsageError` if too much waits."""
        if not self._room.acquire(blocking=False):
            raise UsageError("the memory is busy: wait a second and call again")
        future: Future[_T] = self._pool.submit(act)
        future.add_done_callback(lambda _: self._room.release())
        return await asyncio.wrap_future(future)

    def begin(self, act: Callable[[], None]) -> None:
        """Do something in a thread, for which no one waits but `close`."""
        self._pool.submit(act)

    def close(self) -> None:
        """Finish what is being worked on, and drop what waits."""
        self._pool.shutdown(wait=True, cancel_futures=True)
