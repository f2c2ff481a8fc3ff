"""Memory for code that runs in an event loop: every call is a coroutine, and none blocks the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import update_wrapper
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from .memory import Memory

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _off_loop(
    method: Callable[Concatenate[Memory, _P], _T],
) -> Callable[Concatenate[AsyncMemory, _P], Coroutine[Any, Any, _T]]:
    async def call(self: AsyncMemory, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await asyncio.to_thread(method, self.memory, *args, **kwargs)

    update_wrapper(call, method)
    return call


class AsyncMemory:
    """A `Memory` whose methods are coroutines with the same arguments, results and errors.

    The work is done in threads of the loop's pool, in the caller's context, so that a read is logged for the task that
    a recorder runs there. A call that is cancelled goes on in its thread: what it was writing is written.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes what `Memory` takes; nothing is read before the first call."""
        #: The memory that is asked
        self.memory = Memory(*args, **kwargs)

    async def __aenter__(self) -> AsyncMemory:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    search = _off_loop(Memory.search)
    search_many = _off_loop(Memory.search_many)
    search_page = _off_loop(Memory.search_page)
    context = _off_loop(Memory.context)
    recent = _off_loop(Memory.recent)
    used = _off_loop(Memory.used)
    explain = _off_loop(Memory.explain)
    count_purged = _off_loop(Memory.count_purged)
    remember = _off_loop(Memory.remember)
    update = _off_loop(Memory.update)
    forget = _off_loop(Memory.forget)
    restore = _off_loop(Memory.restore)
    close = _off_loop(Memory.close)
