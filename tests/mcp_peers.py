"""Both ends of the MCP server: the official client, and the server as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from hindlake.memory_store.settings import McpToken, Settings
from hindlake.sdk.mcp.callers import Caller, new_token, stdio_caller
from hindlake.sdk.mcp.registry import Registry
from hindlake.sdk.mcp.server import MemoryServer
from hindlake.sdk.mcp.tools import TOOLS


def environment(home: Path, more: Mapping[str, str] = {}) -> dict[str, str]:
    """Variables of a server whose home is `home`, with the fast embedder."""
    return {**os.environ, "HINDLAKE_HOME": str(home), "HINDLAKE_EMBEDDER": "wordllama", **more}


def over_stdio(home: Path, *options: str, more: Mapping[str, str] = {}, cwd: Path | None = None) -> Client:
    """A client of a `hindlake mcp` that it starts."""
    arguments = ["-m", "hindlake.cli", "mcp", *options]
    return Client(StdioServerParameters(command=sys.executable, args=arguments, env=environment(home, more), cwd=cwd))


def over_http(url: str, token: str = "", mode: str = "auto") -> Client:
    """A client that sends a token."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}

    @asynccontextmanager
    async def transport() -> AsyncIterator[Any]:
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            streamable_http_client(url, http_client=http) as streams,
        ):
            yield streams

    return Client(transport(), mode=mode)


@contextmanager
def inside(settings: Settings, caller: Caller | None = None, tools: Registry = TOOLS) -> Iterator[Client]:
    """A client of a server in this process."""
    served = caller or stdio_caller(settings)
    server = MemoryServer(settings, lambda context: served, tools=tools)
    try:
        yield Client(server.protocol)
    finally:
        server.close()


def talk(client: Client, conversation: Callable[[Client], Awaitable[Any]]) -> Any:
    """What a conversation with a server comes to."""

    async def run() -> Any:
        async with client:
            return await conversation(client)

    return anyio.run(run)


def token_for(namespace: str, **more: Any) -> tuple[str, McpToken]:
    """A new token, and what the settings say of it."""
    token, digest = new_token()
    return token, McpToken(sha256=digest, namespace=namespace, **more)


@contextmanager
def http_server(home: Path, tokens: Mapping[str, McpToken], *options: str, cwd: Path) -> Iterator[tuple[str, Any]]:
    """A `hindlake mcp --http` on a free port; its address, and its process."""
    lines = []
    for name, token in tokens.items():
        said = token.model_dump(mode="json", exclude_defaults=True)
        lines += [
            f"[mcp.tokens.{name}]",
            *(f"{key} = {str(value).lower() if value is True else repr(value)}" for key, value in said.items()),
        ]
    (cwd / "hindlake.toml").write_text("\n".join(lines), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "hindlake.cli", "mcp", "--http", "--port", "0", *options],
        env=environment(home), cwd=cwd, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if "listening on " in line:
                yield line.split("listening on ")[1].strip(), process
                break
        else:
            raise AssertionError("the server ended")
    finally:
        process.terminate()
        process.wait(30)
        process.stderr.close()
