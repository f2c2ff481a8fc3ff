"""Each service of the compose file as a process of this machine: its own command, variables and health check."""

from __future__ import annotations

import asyncio
import base64
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from composed import DEPLOY, Machine, ask
from mcp_peers import over_http

ROOT = DEPLOY.parent


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_what_the_image_copies_is_enough_to_build_the_wheel(tmp_path: Path) -> None:
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    copied = [line.split()[1:] for line in text.splitlines() if line.startswith("COPY") and "--from" not in line]
    source = tmp_path / "src"
    source.mkdir()
    for *names, _ in copied:
        for name in names:
            if (ROOT / name).is_dir():
                kept = shutil.ignore_patterns("__pycache__", "*.egg-info")
                shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=kept)
            else:
                shutil.copy2(ROOT / name, source / name)
    command = re.search(r"^RUN pip wheel (.*) --wheel-dir /wheel \.$", text, re.MULTILINE)
    assert command is not None
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *command[1].split(), "--wheel-dir", tmp_path / "wheel", source],
        check=True, capture_output=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    (wheel,) = (tmp_path / "wheel").iterdir()
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"hindlake/flows/nightly.py", "hindlake/jobs/reflect.py", "hindlake/sdk/memory.py"} <= names


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A machine with fresh secrets, in a folder whose path is short enough for Ray's sockets."""
    folder = Path(tempfile.mkdtemp(prefix="hlc", dir="/tmp"))
    made = subprocess.run([DEPLOY / "make-secrets", folder / "secrets"], capture_output=True, text=True, check=True)
    token = re.search(r"shown this once: (\S+)", made.stdout)
    assert token is not None
    machine = Machine(folder, more={"HINDLAKE_EMBEDDER": "wordllama", "TOKEN": token[1]})
    try:
        yield machine
    finally:
        machine.down()
        shutil.rmtree(folder, ignore_errors=True)


def _prefect(machine: Machine, path: str, body: Any = None) -> Any:
    user = (machine.folder / "secrets" / "prefect_auth").read_bytes().strip()
    url = f"http://127.0.0.1:{machine.port('4200')}/api/{path}"
    return ask(url, body, authorization=f"Basic {base64.b64encode(user).decode()}")


async def _call(machine: Machine, tool: str, **arguments: Any) -> str:
    """What a tool of the MCP service answers."""
    async with over_http(f"http://127.0.0.1:{machine.port('8848')}/mcp", machine.more["TOKEN"]) as client:
        result = await client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        return "\n".join(part.text for part in result.content if part.type == "text")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_service_comes_up_healthy_and_together_they_keep_a_memory(machine: Machine) -> None:
    assert not machine.is_healthy("store")
    machine.up(*machine.services, within=600)
    for service in machine.services:
        if "healthcheck" in machine.services[service]:
            machine.healthy(service, within=600)

    asyncio.run(_call(machine, "memory_write", content="The night train leaves at 23:40.", subject="ann"))
    deployed = {one["name"] for one in _prefect(machine, "deployments/filter", {})}
    assert {"hourly", "nightly", "backup", "reindex", "rereflect"} <= deployed
    id = _prefect(machine, "deployments/name/nightly/nightly")["id"]
    run = _prefect(machine, f"deployments/{id}/create_flow_run", {})["id"]
    until = time.monotonic() + 600
    while (state := _prefect(machine, f"flow_runs/{run}")["state_type"]) in ("SCHEDULED", "PENDING", "RUNNING"):
        assert time.monotonic() < until, machine.told("worker")
        time.sleep(1)
    assert state == "COMPLETED", machine.told("worker")
    shown = _prefect(machine, "artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [run]}}})
    assert "1 activated" in next(one["data"] for one in shown if one["key"] == "nightly-result")
    assert "23:40" in asyncio.run(_call(machine, "memory_query", query="when does the train leave", subject="ann"))

    # Without the password Prefect says nothing, and without a token MCP does not.
    for port, path in (("4200", "api/flows/count"), ("8848", "mcp")):
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(f"http://127.0.0.1:{machine.port(port)}/{path}", {})
        assert refused.value.code == 401
