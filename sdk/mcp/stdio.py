"""Serving over standard input and output, where nothing but the protocol is written."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import Any

import anyio
from mcp.server.stdio import stdio_server

from .doorstep import Doorstep
from .server import MemoryServer


def serve(server: MemoryServer, doorstep: Doorstep) -> None:
    """Serve until standard input ends, or the process is told to end. Calls that are being worked on are finished."""
    try:
        asyncio.run(_serve(server, doorstep))
    finally:
        server.close()


async def _serve(server: MemoryServer, doorstep: Any) -> None:
    with anyio.CancelScope() as scope:
        with contextlib.suppress(NotImplementedError):  # Windows has no handlers of the loop
            for name in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(name, scope.cancel)
        async with stdio_server(stdin=doorstep, stdout=doorstep) as (received, sent):
            protocol = server.protocol
            await protocol.run(received, sent, protocol.create_initialization_options())
