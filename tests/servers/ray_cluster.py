"""A Ray cluster of several nodes on this machine, each of processes of its own, gone when the block ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

#: A node whose process is gone refuses four looks in two seconds, and is dead; one that a busy machine keeps waiting
#: has a minute.
_HASTY = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "15000",
    "RAY_health_check_failure_threshold": "4",
}


@dataclass
class Cluster:
    """A head that works on nothing, and nodes of one processor each."""

    address: str
    nodes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    #: All that was ever started
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        """Start a head or a node."""
        self.started.append(_start(*options))
        return self.started[-1]

    def renew(self) -> None:
        """Start the nodes again that gave up: Ray gives a node 30 seconds to start, which a busy machine may not."""
        ended = [node for node in self.nodes if node.poll() is not None]
        for node in ended:
            self.nodes.remove(node)
            self.add_node()

    def add_node(self) -> None:
        """Start a node of one processor."""
        self.nodes.append(self.start(f"--address={self.address}", "--num-cpus=1"))

    def kill_node(self) -> None:
        """Kill what runs a node, as a machine that goes dark. Raises `RuntimeError` where no node runs."""
        raylets = [(node, pid) for node in self.nodes for pid in _session(node.pid) if _name(pid) == "raylet"]
        if not raylets:
            raise RuntimeError(f"no raylet of {[node.pid for node in self.nodes]} is alive: {self.told()}")
        node, raylet = raylets[0]
        os.kill(raylet, signal.SIGKILL)
        self.nodes.remove(node)

    def told(self) -> list[str]:
        """What runs of each node, for messages."""
        return [f"{node.pid} ({node.poll()}): {sorted(map(_name, _session(node.pid)))}" for node in self.started]


@contextmanager
def ray_cluster(nodes: int = 2) -> Iterator[Cluster]:
    """A cluster, as long as the block lasts."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    cluster = Cluster(f"127.0.0.1:{port}")
    # A short path: sockets lie in it.
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as folder:
        try:
            head = ["--head", f"--port={port}", "--num-cpus=0", "--include-dashboard=false", f"--temp-dir={folder}"]
            cluster.start(*head)
            _wait_for(port)
            for _ in range(nodes):
                cluster.add_node()
            yield cluster
        finally:
            for sign in (signal.SIGTERM, signal.SIGKILL):
                for node in cluster.started:
                    with suppress(ProcessLookupError):
                        os.killpg(node.pid, sign)
                time.sleep(1)
            for node in cluster.started:
                node.wait()


def _start(*options: str) -> subprocess.Popen[bytes]:
    ray = str(Path(sys.executable).with_name("ray"))
    common = ["--node-ip-address=127.0.0.1", f"--object-store-memory={80 << 20}", "--disable-usage-stats", "--block"]
    return subprocess.Popen(
        [ray, "start", *options, *common], env={**os.environ, **_HASTY, "RAY_AUTH_MODE": "disabled"},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def _wait_for(port: int, seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if time.monotonic() > until:
            raise TimeoutError("the head of the cluster does not come up")
        time.sleep(0.2)


def _session(leader: int) -> Iterator[int]:
    """Processes of the session of `ray start`: what it starts stays in it, whoever its parent is by then."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[3]) == leader:
                yield int(stat.parent.name)


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""
