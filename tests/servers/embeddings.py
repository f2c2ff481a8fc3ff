"""An OpenAI-compatible endpoint of embedding models whose vectors can't be mixed without being found out.

A text is `said(place)` or `asked(place)`: two words without a letter in common with anything else, so that words find
nothing. Under each model the question of a place is nearest to the statement of that place, and a question of one
model is nearest to the statement of another place under the other: any mixing changes the first hit.

The model "a" gives 32 numbers, as "b" does; "wide" gives 48; "slow-…" does as its rest, and takes its time. Any other
name is one for "a".
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

#: By how many places the vectors of a model are shifted against those of "a".
_SHIFT = {"a": 0, "b": 1, "wide": 2}
_DIM = {"a": 32, "b": 32, "wide": 48}


def said(place: int) -> str:
    """The statement of a place."""
    return f"s{_word('said', place)}x{place:06d}"


def asked(place: int) -> str:
    """The question of a place."""
    return f"q{_word('asked', place)}y{place:06d}"


def _word(kind: str, place: int) -> str:
    return hashlib.blake2b(f"{kind}{place}".encode(), digest_size=6).hexdigest()


def vector(model: str, text: str) -> list[float]:
    """The vector of a text under a model."""
    number = text[-6:]
    place = int(number) if number.isdigit() else int(hashlib.blake2b(text.encode(), digest_size=3).hexdigest(), 16)
    dim = _DIM.get(model, 32)
    found: list[float] = np.random.default_rng(place + _SHIFT.get(model, 0)).standard_normal(dim).tolist()
    return found


class Embeddings:
    """The endpoint, as long as it is not closed."""

    def __init__(self, seconds: float = 0.0) -> None:
        #: Texts of each request, by model
        self.requests: list[tuple[str, list[str]]] = []
        #: What a text costs, in tokens
        self.tokens = 3
        #: Statuses that the next requests are answered with instead
        self.refuse: list[int] = []
        #: Seconds that a request to a slow model takes
        self.seconds = seconds
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, reply = server.answer(body["model"], body["input"])
                data = json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, request: object, client_address: object) -> None:
                """Clients are killed on purpose."""

        self._http = Server(("127.0.0.1", 0), Handler)
        #: Its address
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def answer(self, model: str, texts: list[str]) -> tuple[int, dict[str, Any]]:
        """Status and body of an answer."""
        self.requests.append((model, texts))
        if self.refuse:
            return self.refuse.pop(0), {"error": {"message": "not now"}}
        if model.startswith("slow-"):
            time.sleep(self.seconds)
            model = model.removeprefix("slow-")
        rows = [{"index": place, "embedding": vector(model, text)} for place, text in enumerate(texts)]
        return 200, {"data": rows, "usage": {"total_tokens": self.tokens * len(texts)}}

    def embedded(self, model: str) -> list[str]:
        """Every text that a model was asked to embed, but for the one that its length is asked with."""
        return [text for name, texts in self.requests if name == model for text in texts if text != "dimension"]

    def close(self) -> None:
        """Stop serving."""
        self._http.shutdown()
        self._http.server_close()
