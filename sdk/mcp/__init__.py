"""The MCP server: memory for any agent that speaks the Model Context Protocol (R29).

The only place that imports `mcp`. It answers what tools there are without opening the memory; a namespace is opened
by the first call that needs it.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...memory_store.settings import Settings

__all__ = ["serve_http", "serve_stdio"]


def serve_stdio(settings: Settings) -> None:
    """Serve over standard input and output until the input ends. Raises `MissingExtra` without the extra `mcp`."""
    from .doorstep import doorstep

    here = doorstep()  # answers the first request while the rest is imported
    _prepare(settings)
    from .callers import stdio_caller
    from .server import MemoryServer
    from .stdio import serve

    gc.enable()
    caller = stdio_caller(settings)
    serve(MemoryServer(settings, lambda context: caller), here)


def serve_http(settings: Settings, listening: Callable[[str], None]) -> None:
    """Serve over HTTP until the process is told to end; `listening` is told the address.

    Raises `SettingsError` without a token or for an address that can't be listened on, and `MissingExtra` without the
    extra `mcp`.
    """
    _prepare(settings)
    from .http import requesting, serve
    from .server import MemoryServer

    gc.enable()
    serve(MemoryServer(settings, requesting), settings, listening)


def _prepare(settings: Settings) -> None:
    """Log to standard error, tell OpenTelemetry if that is asked for, and import the protocol without collecting
    garbage: that takes a quarter off its time.
    """
    import logging

    from ...memory_store.telemetry import logs, otel

    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(name)s %(levelname)s %(message)s"
    )
    logs.start(settings)
    otel.start(settings)
    gc.disable()
    try:
        import mcp.server.lowlevel  # noqa: F401
    except ModuleNotFoundError as error:
        gc.enable()
        if error.name != "mcp":
            raise
        from ...memory_store.errors import MissingExtra

        raise MissingExtra.needs("mcp", "mcp") from None
