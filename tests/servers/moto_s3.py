"""A second S3 server for tests, of other makers than the first: moto, in a process that ends when its owner is gone."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import sys
import urllib.request
from collections.abc import Iterator


@contextlib.contextmanager
def moto_server(bucket: str) -> Iterator[str]:
    """Its address, as long as the block lasts; it has one bucket."""
    server = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    with server:
        assert server.stdin is not None and server.stdout is not None
        try:
            endpoint = server.stdout.readline().strip()
            made = urllib.request.Request(f"{endpoint}/{bucket}", method="PUT")
            with urllib.request.urlopen(made, timeout=30):
                yield endpoint
        finally:
            server.stdin.close()
            server.wait(30)


def _serve() -> None:
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    with contextlib.redirect_stdout(sys.stderr):  # it speaks of itself
        server.start()
    host, port = server.get_host_and_port()
    print(f"http://{host}:{port}", flush=True)
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    _serve()
