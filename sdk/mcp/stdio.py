"""Serving over standard input and output, where nothing but the protocol is written."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

import anyio
from mcp.server.stdio import stdio_server

from .server import MemoryServer

#: Most bytes of a message; a longer one is answered like one that is no JSON.
MESSAGE_BYTES = 4 << 20


def serve(server: MemoryServer) -> None:
    """Serve until standard input ends, or the process is told to end. Calls that are being worked on are finished."""
    try:
        asyncio.run(_serve(server))
    finally:
        server.close()


async def _serve(server: MemoryServer) -> None:
    with anyio.CancelScope() as scope:
        with contextlib.suppress(NotImplementedError):  # Windows has no handlers of the loop
            for name in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(name, scope.cancel)
        lines: Any = _Lines(_private_input())
        # The transport moves descriptor 1 to standard error; what Python buffers for it has to go there too.
        async with stdio_server(stdin=lines) as (received, sent):
            with contextlib.redirect_stdout(sys.stderr):
                protocol = server.protocol
                await protocol.run(received, sent, protocol.create_initialization_options())


def _private_input() -> int:
    """Standard input under a number of its own; 0 is empty from now on, for this process and its children."""
    private = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return private


class _Lines:
    """Lines of a descriptor. A thread waits for them that ends with the process, so that waiting can be cancelled."""

    def __init__(self, descriptor: int) -> None:
        self._source = os.fdopen(descriptor, "rb")
        self._lines: asyncio.Queue[str | None] = asyncio.Queue(64)
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, name="hindlake-mcp-input", daemon=True).start()

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self._lines.get()) is not None:
            yield line

    def _read(self) -> None:
        with contextlib.suppress(RuntimeError, OSError, ValueError):  # the loop has ended, or the descriptor is closed
            while line := self._source.readline(MESSAGE_BYTES):
                if len(line) == MESSAGE_BYTES and not line.endswith(b"\n"):
                    while (rest := self._source.readline(MESSAGE_BYTES)) and not rest.endswith(b"\n"):
                        pass
                    line = b"(too long)\n"
                if line.strip():
                    self._put(line.decode("utf-8", "replace"))
            self._put(None)

    def _put(self, line: str | None) -> None:
        asyncio.run_coroutine_threadsafe(self._lines.put(line), self._loop).result()
