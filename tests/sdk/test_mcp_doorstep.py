"""The first request is answered before anything slow is imported, as the protocol itself would answer it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.server.stdio import stdio_server
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from hindlake.memory_store.settings import Settings
from hindlake.sdk.mcp.callers import stdio_caller
from hindlake.sdk.mcp.doorstep import DISCOVER_VERSIONS, HANDSHAKE_VERSIONS, greeting
from hindlake.sdk.mcp.server import MemoryServer
from hindlake.sdk.mcp.tools import TOOLS
from mcp_peers import environment

CLIENT = {"name": "test", "version": "1"}


def _initialize(version: str, id: int | str = 1) -> dict[str, Any]:
    params = {"protocolVersion": version, "capabilities": {"roots": {}}, "clientInfo": CLIENT}
    return {"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params}


def _discover(version: str) -> dict[str, Any]:
    meta = {"protocolVersion": version, "clientInfo": CLIENT, "clientCapabilities": {}}
    named = {f"io.modelcontextprotocol/{name}": value for name, value in meta.items()}
    return {"jsonrpc": "2.0", "id": "a", "method": "server/discover", "params": {"_meta": named}}


class _Wire:
    """One request, and what is answered to it."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request, self.answers, self.answered = request, [], anyio.Event()  # type: ignore[var-annotated]

    async def __aiter__(self) -> AsyncIterator[str]:
        yield json.dumps(self.request)
        await self.answered.wait()

    async def write(self, text: str) -> None:
        self.answers.append(json.loads(text))
        self.answered.set()

    async def flush(self) -> None: ...


@pytest.mark.parametrize(
    "request_",
    [
        *map(_initialize, HANDSHAKE_VERSIONS),
        _initialize(HANDSHAKE_VERSIONS[0], "x"),
        *map(_discover, DISCOVER_VERSIONS),
    ],
    ids=lambda one: f"{one['method']}-{one['id']}",
)
def test_it_is_what_the_protocol_answers(home: Path, request_: dict[str, Any]) -> None:
    settings = Settings.load(home=str(home))
    server = MemoryServer(settings, lambda _: stdio_caller(settings))
    wire: Any = _Wire(request_)

    async def run() -> None:
        async with stdio_server(stdin=wire, stdout=wire) as (received, sent):
            await server.protocol.run(received, sent, server.protocol.create_initialization_options())

    anyio.run(run)
    server.close()
    assert wire.answers == [greeting(json.dumps(request_))]


def test_every_version_that_the_protocol_speaks_is_greeted() -> None:
    assert (HANDSHAKE_VERSIONS, DISCOVER_VERSIONS) == (HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS)


@pytest.mark.parametrize(
    "line",
    [
        "", "no json", "[]", "7", "[" * 100_000, json.dumps({"id": 1, "method": "initialize"}),
        json.dumps({**_initialize("2025-06-18"), "id": None}), json.dumps({**_initialize("2025-06-18"), "id": True}),
        json.dumps(_initialize("1999-01-01")), json.dumps({**_initialize("2025-06-18"), "params": []}),
        json.dumps({**_initialize("2025-06-18"), "method": "tools/list"}), json.dumps(_discover("2025-06-18")),
        json.dumps({"id": 1, "method": "server/discover", "params": {"_meta": 1}}),
    ],
    ids=lambda line: line[:24],
)  # fmt: skip
def test_whatever_else_comes_first_is_left_to_the_protocol(line: str) -> None:
    assert greeting(line) is None


WAITING = """
import os, sys, time
class Waiting:
    def find_spec(self, name, path=None, target=None):
        if name in os.environ["WAITS"].split():
            while not os.path.exists(os.environ["GO"]):
                time.sleep(0.01)
sys.meta_path.insert(0, Waiting())
"""


def test_the_first_request_is_answered_before_the_protocol_is_imported_and_once(home: Path, tmp_path: Path) -> None:
    """The imports wait until the answer is here."""
    (tmp_path / "sitecustomize.py").write_text(WAITING)
    more = {
        "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}", "GO": str(tmp_path / "go"),
        "WAITS": "mcp mcp_types anyio asyncio lancedb duckdb pyarrow numpy pydantic msgspec typer rich",
    }  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-m", "hindlake.cli", "mcp"], env=environment(home, more),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin and process.stdout

        def say(told: dict[str, Any]) -> None:
            process.stdin.write(json.dumps(told).encode() + b"\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]

        try:
            say(_initialize("2025-06-18"))
            first = json.loads(process.stdout.readline())
            assert first["id"] == 1 and first["result"]["serverInfo"]["name"] == "hindlake"
        finally:
            (tmp_path / "go").touch()
        say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        say({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
        second = json.loads(process.stdout.readline())
        assert second["id"] == 2 and len(second["result"]["tools"]) == len(list(TOOLS))
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.wait(60) == 0


def test_a_client_that_is_gone_before_its_answer_ends_the_server_without_an_error(home: Path, tmp_path: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "hindlake.cli", "mcp"], env=environment(home), cwd=tmp_path,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert server.stdin is not None and server.stdout is not None and server.stderr is not None
    with server.stdin as asked:
        asked.write(json.dumps(_initialize(HANDSHAKE_VERSIONS[-1])) + "\n")
        asked.flush()
        assert server.stdout.readline()
        server.stdout.close()
        asked.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}) + "\n")
        asked.write(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}) + "\n")
    with server.stderr as errors:
        said = errors.read()
    assert server.wait(60) == 0, said
    assert "Traceback" not in said


def test_a_client_that_is_gone_before_it_is_greeted_ends_the_server_without_an_error(
    home: Path, tmp_path: Path
) -> None:
    reads, writes = os.pipe()
    os.close(reads)  # nobody will ever read an answer
    request = json.dumps(_initialize(HANDSHAKE_VERSIONS[-1])) + "\n"
    done = subprocess.run(
        [sys.executable, "-m", "hindlake.cli", "mcp"], env=environment(home), cwd=tmp_path, timeout=60,
        input=request, stdout=writes, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    os.close(writes)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_a_setting_that_can_not_be_meant_ends_the_server_with_an_error_that_names_it(
    home: Path, tmp_path: Path
) -> None:
    """Nothing but the protocol is on standard output, even then."""
    done = subprocess.run(
        [sys.executable, "-m", "hindlake.cli", "mcp"], cwd=tmp_path, capture_output=True, text=True, timeout=120,
        env=environment(home, {"HINDLAKE_MCP_THREADS": "many"}), input=json.dumps(_initialize("2025-06-18")) + "\n",
    )  # fmt: skip
    assert (done.returncode, "mcp.threads" in done.stderr, "Traceback" in done.stderr) == (2, True, False)
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] in ([], [1])
