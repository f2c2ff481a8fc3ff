"""A rerank endpoint on loopback that answers as it is told: in any of the shapes, late, broken or not at all."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: What the endpoint says to a request: a status and a body; None: nothing, until the block ends.
Behaviour = Callable[[dict[str, Any]], tuple[int, Any] | None]


@dataclass
class Endpoint:
    """A running endpoint."""

    url: str
    #: How it answers; may be changed while it runs
    behave: Behaviour
    #: What it was asked, with the headers
    asked: list[dict[str, Any]] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)


def longest_first(body: dict[str, Any]) -> tuple[int, Any]:
    """Scores texts by their length, in the shape that Cohere began."""
    texts = body["documents"]
    most = max(map(len, texts))
    results = [{"index": place, "relevance_score": len(text) / most} for place, text in enumerate(texts)]
    return 200, {"results": sorted(results, key=lambda item: -item["relevance_score"])[: body["top_n"]]}


@contextmanager
def rerank_endpoint(behave: Behaviour = longest_first) -> Iterator[Endpoint]:
    """An endpoint, as long as the block lasts."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    endpoint = Endpoint(f"http://127.0.0.1:{server.server_port}/rerank", behave)
    server.endpoint = endpoint  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        endpoint: Endpoint = self.server.endpoint  # type: ignore[attr-defined]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        endpoint.asked.append({**body, "path": self.path, "key": self.headers.get("Authorization", "")})
        said = endpoint.behave(body)
        if said is None:
            endpoint.closing.wait()
            return
        status, answer = said
        raw = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        if status in (301, 302, 307):
            self.send_header("Location", answer)
            raw = b""
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""
