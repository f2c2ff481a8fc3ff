"""An HTTP proxy that lets the server do its work and then loses the reply, or loses the request on its way."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@dataclass
class Losses:
    """What the proxy did with the requests that write."""

    #: Address for clients
    endpoint: str = ""
    #: Share of replies that are lost after the server did what it was asked
    reply_rate: float = 0.0
    #: Share of requests that never reach the server
    request_rate: float = 0.0
    replies_lost: int = 0
    requests_lost: int = 0
    replies_given: int = 0
    dice: random.Random = field(default_factory=lambda: random.Random(7))


@contextmanager
def lossy_proxy(upstream: str, reply_rate: float, request_rate: float = 0.0) -> Iterator[Losses]:
    """A proxy before the server at `upstream`, as long as the block lasts. Only PUT and DELETE are lost."""
    losses = Losses(reply_rate=reply_rate, request_rate=request_rate)
    server = _Server(("127.0.0.1", 0), _handler(urlsplit(upstream).netloc, losses))
    losses.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield losses
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a client that was killed while it was served."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def _handler(upstream: str, losses: Losses) -> type[BaseHTTPRequestHandler]:
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            writes = self.command in ("PUT", "DELETE")
            with lock:
                request_lost = writes and losses.dice.random() < losses.request_rate
                reply_lost = writes and losses.dice.random() < losses.reply_rate
                losses.requests_lost += request_lost
                losses.replies_lost += reply_lost and not request_lost
                losses.replies_given += writes and not reply_lost and not request_lost
            if not request_lost:
                connection = HTTPConnection(upstream, timeout=30)
                connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():  # Host too: it is signed
                    connection.putheader(name, value)
                connection.endheaders(body)
                reply = connection.getresponse()
                content = reply.read()
                connection.close()
                if not reply_lost:
                    self._answer(reply, content)
                    return
            self.close_connection = True

        def _answer(self, reply: HTTPResponse, content: bytes) -> None:
            self.send_response_only(reply.status, reply.reason)
            for name, value in reply.getheaders():
                if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                    self.send_header(name, value)
            length = reply.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
            if length is not None:
                self.send_header("Content-Length", length)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on

    return Handler
