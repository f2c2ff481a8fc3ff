"""Standard input and output, taken for the protocol before anything slow is imported: who asks first is answered here.

What the protocol answers to a client's first request is known beforehand: which versions are spoken, what is offered,
the instructions. So it is answered at once, while the protocol is still being imported. The protocol gets the request
too, and its answer, the same, is dropped. This module imports little, and that of the standard library: `hindlake mcp`
begins with it, before its options and settings are read.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import AsyncIterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from . import teaching

if TYPE_CHECKING:
    import asyncio

#: Most bytes of a message; a longer one is answered like one that is no JSON.
MESSAGE_BYTES = 4 << 20
#: Versions of the protocol that begin with `initialize`, and those that begin with `server/discover`
HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
DISCOVER_VERSIONS = ("2026-07-28",)
_META = "io.modelcontextprotocol/"
_OFFERED = {
    "prompts": {"listChanged": False},
    "resources": {"listChanged": False, "subscribe": False},
    "tools": {"listChanged": False},
}


@cache
def hindlake_version() -> str:
    """The version of hindlake that is installed."""
    try:
        return version("hindlake")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "0"


def greeting(line: str) -> dict[str, Any] | None:
    """What the protocol answers to a first request; None where it has to be asked."""
    try:
        asked = json.loads(line)
        id, method, params = asked["id"], asked["method"], asked["params"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if not isinstance(params, dict) or type(id) not in (int, str):
        return None
    server = {"name": "hindlake", "version": hindlake_version()}
    known: tuple[str, ...]
    result: dict[str, Any] = {"capabilities": _OFFERED, "instructions": teaching.INSTRUCTIONS}
    if method == "initialize":
        spoken, told, offered = params.get("protocolVersion"), params.get("clientInfo"), params.get("capabilities")
        known = HANDSHAKE_VERSIONS
        result |= {"protocolVersion": spoken, "serverInfo": server}
    elif method == "server/discover" and isinstance(meta := params.get("_meta"), dict):
        spoken, told, offered = (
            meta.get(_META + name) for name in ("protocolVersion", "clientInfo", "clientCapabilities")
        )
        known = DISCOVER_VERSIONS
        result |= {"cacheScope": "private", "resultType": "complete", "supportedVersions": list(known), "ttlMs": 0}
        result |= {"_meta": {_META + "serverInfo": server}}
    else:
        return None
    is_named = isinstance(told, dict) and all(isinstance(told.get(name), str) for name in ("name", "version"))
    if spoken not in known or not is_named or not isinstance(offered, dict):
        return None
    return {"jsonrpc": "2.0", "id": id, "result": result}


class Doorstep:
    """The client's lines, and where answers to it are written.

    From the moment that this is made, descriptor 0 is empty and 1 leads to standard error, for this process and its
    children: what libraries print never reaches the client.
    """

    def __init__(self) -> None:
        self._source = os.fdopen(_taken(0, os.open(os.devnull, os.O_RDONLY)), "rb")
        self._wire = _taken(1, os.dup(2))
        self._greeted: dict[str, Any] | None = None
        self._lines: asyncio.Queue[str | None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_open = threading.Event()
        hindlake_version()  # what a thread imports would wait for what is being imported
        # It ends with the process, so that waiting for a line can be cancelled.
        threading.Thread(target=self._read, name="hindlake-mcp-input", daemon=True).start()

    async def __aiter__(self) -> AsyncIterator[str]:
        import asyncio

        self._loop, self._lines = asyncio.get_running_loop(), asyncio.Queue(64)
        self._is_open.set()
        while (line := await self._lines.get()) is not None:
            yield line

    async def write(self, line: str) -> None:
        """Write an answer of the protocol; but for the one that was given already."""
        import asyncio
        import logging

        if self._greeted is not None:
            given, self._greeted = self._greeted, None
            if (answer := json.loads(line)) == given:
                return
            if answer.get("id") == given["id"]:
                logging.getLogger("hindlake.mcp").warning(
                    "the first request was answered as %s, and is answered as %s", given, answer
                )
            else:
                self._greeted = given
        with contextlib.suppress(BrokenPipeError):  # the client is gone, and its input ends next
            await asyncio.to_thread(self._put_out, line.encode())

    async def flush(self) -> None:
        """Nothing: what is written is out."""

    def _read(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            with contextlib.suppress(OSError, ValueError):  # the client is gone, or the descriptor is closed
                self._read_lines()
            self._pass_on(None)

    def _read_lines(self) -> None:
        is_first = True
        while line := self._source.readline(MESSAGE_BYTES):
            if len(line) == MESSAGE_BYTES and not line.endswith(b"\n"):
                while (rest := self._source.readline(MESSAGE_BYTES)) and not rest.endswith(b"\n"):
                    pass
                line = b"(too long)\n"
            if text := line.decode("utf-8", "replace").strip():
                if is_first and (told := greeting(text)):
                    self._greeted = told
                    self._put_out(json.dumps(told, ensure_ascii=False).encode() + b"\n")
                is_first = False
                self._pass_on(text)

    def _pass_on(self, line: str | None) -> None:
        self._is_open.wait()
        import asyncio

        assert self._loop is not None and self._lines is not None
        asyncio.run_coroutine_threadsafe(self._lines.put(line), self._loop).result()

    def _put_out(self, told: bytes) -> None:
        while told:
            told = told[os.write(self._wire, told) :]


@cache
def doorstep() -> Doorstep:
    """That of this process, made when it is first asked for."""
    return Doorstep()


def _taken(descriptor: int, instead: int) -> int:
    """A descriptor under a number of its own; another one takes its place."""
    private = os.dup(descriptor)
    os.dup2(instead, descriptor)
    os.close(instead)
    return private
