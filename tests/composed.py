"""The services of a compose file as processes of this machine: their own commands, environments and health checks.

What containers would give them is given otherwise, and nothing else is changed: the name of a service becomes the
loopback, a port a free one, a mounted path a folder of the test, 0.0.0.0 the loopback, and the secrets lie where
SECRETS says. Users, limits and read-only roots are not applied.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parent.parent / "deploy"
#: How often a service that ended is started again while it is waited for.
RESTARTS = 3
_SECONDS = {"s": 1.0, "m": 60.0}


def interpolate(value: Any, given: Mapping[str, str]) -> Any:
    """What compose makes of ${NAME:-default} and $$ in all strings of a value."""
    if isinstance(value, dict):
        return {name: interpolate(one, given) for name, one in value.items()}
    if isinstance(value, list):
        return [interpolate(one, given) for one in value]
    if not isinstance(value, str):
        return value
    return re.sub(
        r"\$(?:\$|\{(\w+)(?::-([^}]*))?\})",
        lambda match: given.get(match[1]) or match[2] or "" if match[1] else "$",
        value,
    )


def load(given: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The compose file, as compose reads it with some variables."""
    found: dict[str, Any] = interpolate(yaml.safe_load((DEPLOY / "compose.yaml").read_text()), given or {})
    return found


def image_environment() -> dict[str, str]:
    """The variables that the image sets, but for PATH."""
    lines = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    words = [word for line in lines if line.startswith("ENV ") for word in shlex.split(line)[1:]]
    return {name: value for name, _, value in (word.partition("=") for word in words) if name != "PATH"}


def free_ports(count: int) -> list[int]:
    """So many ports that nothing listens on, above those that a machine gives out by itself where it can."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def ask(url: str, body: Any = None, **headers: str) -> Any:
    """What an API answers in JSON; asked again while it says that it is busy (503), as Prefect's clients do."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json", **headers})
    for left in range(20, -1, -1):
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != 503 or not left:
                raise
        time.sleep(1)
    raise AssertionError("unreachable")


@dataclass
class Machine:
    """This machine in the place of a container engine."""

    #: Where volumes, secrets and logs lie; a short path, since Ray's sockets lie in it
    folder: Path
    #: Variables that the user of compose has set
    given: dict[str, str] = field(default_factory=dict)
    #: Variables beside those of image and service
    more: dict[str, str] = field(default_factory=dict)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.file = load(self.given)
        self.services: dict[str, dict[str, Any]] = self.file["services"]
        text = (DEPLOY / "compose.yaml").read_text()
        found = {*re.findall(r"port(?:\.grpc)?=(\d{4,5})", text), *re.findall(r'PORT: "(\d+)"', text)}
        self.ports = dict(zip(sorted(found), map(str, free_ports(len(found))), strict=True))

    def port(self, port: str) -> str:
        """Where a port of a container is found here."""
        return self.ports[port]

    def translate(self, service: str, text: str) -> str:
        """A command's word, a variable or an address, as it is on this machine."""
        names = "|".join(map(re.escape, self.services))
        text = re.sub(rf"(?:(?<=[=/ ])|^)(?:{names})(?=:\d)|(?<==)(?:{names})$", "127.0.0.1", text)
        text = re.sub(r"(?:(?<=[:=])|^)\d{4,5}(?=\D|$)", lambda match: self.ports.get(match[0], match[0]), text)
        mounts = self._mounts(service)
        mounted = "|".join(map(re.escape, sorted(mounts, key=len, reverse=True)))
        text = re.sub(rf"(?:(?<==)|^)(?:{mounted})(?=/|$)", lambda match: str(mounts[match[0]]), text)
        return text.replace("0.0.0.0", "127.0.0.1")

    def _mounts(self, service: str) -> dict[str, Path]:
        volumes = [volume.split(":") for volume in self.services[service].get("volumes", ())]
        mounts = {target: self.folder / "volumes" / name for name, target in volumes}
        for mounted in (one.split(":")[0] for one in self.services[service].get("tmpfs", ())):
            mounts[mounted] = self.folder / "t" / f"{service}{'' if mounted == '/tmp' else '-home'}"
        mounts["/run/secrets"] = self.folder / "run" / service
        mounts["/var/lib/hindlake"] = mounts.get("/var/lib/hindlake", self.folder / "volumes" / f"{service}-anonymous")
        return mounts

    def environment(self, service: str) -> dict[str, str]:
        """The whole environment of a service's processes."""
        mounts = self._mounts(service)
        found = self.services[service].get("environment", {})
        values = {**image_environment(), **found} if "build" in self.services[service] else found
        return {
            "PATH": f"{DEPLOY / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "TMPDIR": str(mounts["/tmp"]),
            "RAY_TMPDIR": str(mounts["/tmp"]),
            "SECRETS": str(mounts["/run/secrets"]),
            **{name: self.translate(service, value) for name, value in values.items()},
            **self.more,
        }

    def start(self, service: str) -> subprocess.Popen[bytes]:
        """Start a service's own command."""
        described = self.services[service]
        mounts = self._mounts(service)
        for here in mounts.values():
            here.mkdir(parents=True, exist_ok=True)
        for secret in described.get("secrets", ()):
            source = secret if isinstance(secret, str) else secret["source"]
            target = secret if isinstance(secret, str) else secret["target"]
            kept = self.folder / self.file["secrets"][source]["file"]
            (mounts["/run/secrets"] / target).write_bytes(kept.read_bytes())
        first = described.get("entrypoint", ["entrypoint"])
        command = [*first, *(self.translate(service, word) for word in described["command"])]
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        (work / "prefect.yaml").write_bytes((DEPLOY.parent / "prefect.yaml").read_bytes())
        with self.log(service).open("ab") as log:
            self.running[service] = subprocess.Popen(
                command, env=self.environment(service), cwd=work, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        return self.running[service]

    def log(self, service: str) -> Path:
        """What a service has said."""
        return self.folder / f"{service}.log"

    def is_healthy(self, service: str) -> bool:
        """Whether the service's own health check passes, within its own time."""
        check = self.services[service]["healthcheck"]
        kind, *words = check["test"]
        assert kind == "CMD"
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                [self.translate(service, word) for word in words],
                env=self.environment(service), stdin=subprocess.DEVNULL, capture_output=True,
                timeout=_seconds(check["timeout"]),
            )  # fmt: skip
            return done.returncode == 0
        return False

    def up(self, *services: str, within: float = 120.0) -> None:
        """Start services and what they depend on, in the order of their conditions."""
        for service in services:
            if service in self.running:
                continue
            self.up(*self.services[service].get("depends_on", ()), within=within)
            for needed, how in self.services[service].get("depends_on", {}).items():
                self._await(needed, how["condition"], within)
            self.start(service)

    def _await(self, service: str, condition: str, within: float) -> None:
        until = time.monotonic() + within
        left = RESTARTS
        while time.monotonic() < until:
            process = self.running[service]
            if condition == "service_completed_successfully" and process.poll() == 0:
                return
            if process.poll() is not None:  # its policy is to be started again
                assert left and self.services[service]["restart"] != "no", self.told(service)
                left -= 1
                _signal(process, signal.SIGKILL)
                self.start(service)
            elif condition == "service_healthy" and self.is_healthy(service):
                return
            time.sleep(2)
        raise AssertionError(f"{service} is not there after {within} s: {self.told(service)}")

    def healthy(self, service: str, within: float = 120.0) -> None:
        """Wait until a service is healthy."""
        self._await(service, "service_healthy", within)

    def told(self, service: str) -> str:
        """The end of a service's log."""
        return f"{service}: {self.log(service).read_text(errors='replace')[-3000:]}"

    def down(self) -> None:
        """End everything, in the opposite order, as an engine would: a request, then by force."""
        for process in reversed(self.running.values()):
            _signal(process, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            _signal(process, signal.SIGKILL)
            process.wait()
        self.running.clear()
        for one in Path("/proc").iterdir():  # what Ray has started lies in sessions of its own
            with contextlib.suppress(OSError, ValueError):
                if str(self.folder) in (one / "cmdline").read_text(errors="replace"):
                    os.kill(int(one.name), signal.SIGKILL)


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _seconds(duration: str) -> float:
    return float(duration[:-1]) * _SECONDS[duration[-1]]
