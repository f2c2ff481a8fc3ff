"""Each service of the compose file as a process of this machine: its own command, variables and health check."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from composed import DEPLOY, Machine, ask

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


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_service_comes_up_healthy_in_order_and_lets_nobody_in_without_a_secret(machine: Machine) -> None:
    assert not machine.is_healthy("store")
    machine.up(*machine.services, within=600)
    for service in machine.services:
        if "healthcheck" in machine.services[service]:
            machine.healthy(service, within=600)

    deployed = {one["name"] for one in _prefect(machine, "deployments/filter", {})}
    assert {"hourly", "nightly", "backup", "reindex", "rereflect"} <= deployed

    # Without the password Prefect says nothing, and without a token MCP does not.
    for port, path in (("4200", "api/flows/count"), ("8848", "mcp")):
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(f"http://127.0.0.1:{machine.port(port)}/{path}", {})
        assert refused.value.code == 401
