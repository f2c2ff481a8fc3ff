"""Seconds from the start of `hindlake mcp` to its first answer, and to the list of tools.

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


def start(home: str) -> tuple[float, float]:
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
        first = time.perf_counter() - began
        process.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n' + message(2, "tools/list"))
        process.stdin.flush()
        process.stdout.readline()
        listed = time.perf_counter() - began
        process.stdin.close()
    return first, listed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=5)
    starts = parser.parse_args().starts
    with tempfile.TemporaryDirectory() as home:
        for first, listed in sorted(start(f"{home}/none") for _ in range(starts)):
            print(f"first answer {first:.2f} s, tools {listed:.2f} s")


if __name__ == "__main__":
    main()
