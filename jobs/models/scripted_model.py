"""A scripted model: an OpenAI-compatible server on this machine that says what it is told to, faults included.

For tests and demos without a model. It speaks HTTP over loopback, so that everything from the client's pool to the
time-out is the real thing.

    with ScriptedModel([status(429, retry_after=1), say({"summary": "…"})]) as model:
        settings = Settings.load(model=ModelSettings(base_url=model.url))
"""

from __future__ import annotations

import hashlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class Turn:
    """What the server does with one request. Build it with `say`, `status`, `hang`, `reset`, `body` or `embed`."""

    kind: str
    content: str = ""
    code: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    finish: str = "stop"
    refusal: str = ""
    usage: tuple[int, int] | None = None
    counted: bool = True
    seconds: float = 0.0
    vectors: tuple[Any, ...] = ()


def say(
    content: object,
    *,
    finish: str = "stop",
    refusal: str = "",
    usage: tuple[int, int] | None = None,
    counted: bool = True,
    seconds: float = 0.0,
) -> Turn:
    """Answer with a text, or with a value as JSON, after some seconds.

    `usage` are tokens in and out; left out, they are counted from the text, or not told at all with
    `counted=False`.
    """
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return Turn("say", text, finish=finish, refusal=refusal, usage=usage, counted=counted, seconds=seconds)


def status(code: int, message: str = "", *, retry_after: float | str | None = None) -> Turn:
    """Answer with an HTTP status and an error, perhaps with a `Retry-After` of seconds or a date."""
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return Turn("status", message or f"status {code}", code=code, headers=headers)


def hang(seconds: float = 3600.0) -> Turn:
    """Say nothing for some seconds, then close."""
    return Turn("hang", seconds=seconds)


def drip(seconds: float = 3600.0) -> Turn:
    """Send one space after the other as a sign of life, and never an answer."""
    return Turn("drip", seconds=seconds)


def reset(content: str = "") -> Turn:
    """Send the beginning of an answer, perhaps, and break the connection."""
    return Turn("reset", content)


def body(content: str) -> Turn:
    """Answer 200 with a body of your own, such as one that is no JSON."""
    return Turn("body", content)


def embed(*vectors: Sequence[float | None] | None) -> Turn:
    """Answer a request for embeddings with these vectors: wrong in number, in length, or null."""
    return Turn("embed", vectors=vectors)


@dataclass(frozen=True)
class Request:
    """A request that the server has received."""

    #: The path below the address, such as "chat/completions"
    path: str
    #: What was sent
    body: dict[str, Any]
    #: When it arrived, on the monotonic clock
    at: float

    @property
    def mode(self) -> str:
        """How structure was asked for: json_schema · json_object · text."""
        return str((self.body.get("response_format") or {}).get("type", "text"))

    @property
    def prompt(self) -> str:
        """Everything that the messages say."""
        return "\n".join(str(message.get("content", "")) for message in self.body.get("messages", ()))


#: A script: turns in order, the last one repeated, or a function of the request.
Script = Iterable[Turn] | Callable[[Request], Turn]


class ScriptedModel:
    """The server. Use it as a context manager; `url` is the base URL, `requests` what has come in.

    `modes` are the kinds of structured output that it knows; asked for another, it refuses with `refuse_with`.
    Embeddings that no turn speaks of are `dim` numbers derived from the text.
    """

    def __init__(
        self,
        script: Script = (),
        *,
        modes: Sequence[str] = ("json_schema", "json_object"),
        refuse_with: Turn | None = None,
        dim: int = 8,
    ) -> None:
        self._answer = script if callable(script) else None
        self._turns = [] if callable(script) else list(script)
        self._modes = ("text", *modes)
        self._refuse_with = refuse_with
        self._dim = dim
        self._lock = threading.Lock()
        self._closing = threading.Event()
        #: Every request so far, in order of arrival
        self.requests: list[Request] = []
        #: Requests that are being answered now, and the most that were at once
        self.in_flight = 0
        self.most_in_flight = 0
        handler = type("Handler", (_Handler,), {"model": self})
        self._server = _Server(("127.0.0.1", 0), handler)

    @property
    def url(self) -> str:
        """The base URL, such as http://127.0.0.1:43210/v1."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def calls(self) -> list[Request]:
        """The requests that asked the chat model."""
        return [request for request in self.requests if request.path == "chat/completions"]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(
        self, type: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

    def serve(self, method: str, path: str, raw: bytes) -> tuple[int, str | dict[str, Any]] | None:
        """Status and body of a request that is none of chat or embeddings; None if this server knows none such."""
        return None

    def _turn(self, request: Request) -> Turn:
        with self._lock:
            self.requests.append(request)
            if request.path == "chat/completions" and request.mode not in self._modes:
                message = f"response_format type {request.mode} is not supported"
                return self._refuse_with or status(400, message)
            if self._answer is None:
                if not self._turns:
                    return say("{}") if request.path == "chat/completions" else Turn("embed")
                return self._turns.pop(0) if len(self._turns) > 1 else self._turns[0]
        return self._answer(request)

    def _vector(self, text: str) -> list[float]:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        return [digest[place % 32] / 255 - 0.5 for place in range(self._dim)]

    def _pass(self, change: int) -> None:
        with self._lock:
            self.in_flight += change
            self.most_in_flight = max(self.most_in_flight, self.in_flight)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is part of the play."""


class _Handler(BaseHTTPRequestHandler):
    model: ScriptedModel
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._serve("GET", b"")

    def do_DELETE(self) -> None:
        self._serve("DELETE", b"")

    def _serve(self, method: str, raw: bytes) -> bool:
        served = self.model.serve(method, self.path.partition("/v1/")[2], raw)
        if served is None and method == "POST":
            return False
        code, content = served or (404, {"error": {"message": "there is no such thing"}})
        if code:
            self._send(code, content)
        else:
            self._reset("")
            self.close_connection = True
        return True

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self._serve("POST", raw):
            return
        request = Request(self.path.partition("/v1/")[2], json.loads(raw), time.monotonic())
        self.model._pass(1)
        try:
            self._play(self.model._turn(request), request)
        finally:
            self.model._pass(-1)

    def _play(self, turn: Turn, request: Request) -> None:
        if turn.kind in ("say", "hang"):
            self.model._closing.wait(turn.seconds)
        if turn.kind == "say":
            self._send(200, completion(turn, request))
        elif turn.kind == "embed":
            self._send(200, self._embeddings(turn, request))
        elif turn.kind == "status":
            error = {"message": turn.content, "type": "error", "code": turn.code}
            self._send(turn.code, {"error": error}, turn.headers)
        elif turn.kind == "body":
            self._send(200, turn.content)
        elif turn.kind == "drip":
            self._drip(turn.seconds)
        elif turn.kind == "reset":
            self._reset(turn.content)
        self.close_connection = turn.kind in ("hang", "drip", "reset")

    def _send(self, code: int, content: object, headers: dict[str, str] | None = None) -> None:
        data = (content if isinstance(content, str) else json.dumps(content)).encode()
        self.send_response(code)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _drip(self, seconds: float) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.model._closing.wait(0.02):
            self.wfile.write(b" ")

    def _reset(self, content: str) -> None:
        if content:
            self.wfile.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(content) + 1000}\r\n\r\n{content}".encode())
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def _embeddings(self, turn: Turn, request: Request) -> dict[str, Any]:
        asked = request.body.get("input", [])
        texts = [asked] if isinstance(asked, str) else asked
        vectors = turn.vectors or tuple(self.model._vector(text) for text in texts)
        data = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)]
        usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
        return {"object": "list", "model": request.body.get("model", ""), "data": data, "usage": usage}


def completion(turn: Turn, request: Request) -> dict[str, Any]:
    """The body of a chat completion that says what a turn says."""
    message: dict[str, Any] = {"role": "assistant", "content": turn.content}
    if turn.refusal:
        message = {"role": "assistant", "content": None, "refusal": turn.refusal}
    reply: dict[str, Any] = {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": request.body.get("model", ""),
        "choices": [{"index": 0, "message": message, "finish_reason": turn.finish}],
    }
    if turn.counted:
        tokens = turn.usage or (len(request.prompt) // 4 + 1, len(turn.content) // 4 + 1)
        reply["usage"] = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}
    return reply
