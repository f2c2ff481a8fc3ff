"""Seconds from the start of `hindlake mcp` to its first answer, and to the list of tools; how many of processor time.

python bench/mcp_start.py --starts 5
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any


def message(id: int, method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n"


def processor(pid: int) -> float:
    """Seconds of processor time that a process has used, as Linux tells; 0 elsewhere."""
    try:
        with open(f"/proc/{pid}/stat") as told:
            user, system = told.read().rsplit(")", 1)[1].split()[11:13]
    except OSError:
        return 0.0
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def start(home: str) -> tuple[float, ...]:
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "hindlake.cli", "mcp"], env={**os.environ, "HINDLAKE_HOME": home},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin and process.stdout
        client = {"name": "bench", "version": "1"}
        process.stdin.write(
            message(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        )  # fmt: skip
        process.stdin.flush()
        process.stdout.readline()
        first, used_first = time.perf_counter() - began, processor(process.pid)
        process.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n' + message(2, "tools/list"))
        process.stdin.flush()
        process.stdout.readline()
        listed, used = time.perf_counter() - began, processor(process.pid)
        process.stdin.close()
    return first, used_first, listed, used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=5)
    starts = parser.parse_args().starts
    with tempfile.TemporaryDirectory() as home:
        for first, used_first, listed, used in sorted(start(f"{home}/none") for _ in range(starts)):
            print(f"first answer {first:.2f} s ({used_first:.2f} s of work), tools {listed:.2f} s ({used:.2f} s)")


if __name__ == "__main__":
    main()
