"""An HTTP proxy in front of a real S3 server that does what networks and stores do on bad days, by a seeded schedule.

    slow           the request waits before it is passed on
    reset_before   the connection is reset, and the server never sees the request
    reset_after    the server does what it was asked, and the connection is reset: the reply is lost
    error_500      500 InternalError, and the server never sees the request
    lost_500       the server does what it was asked, and the client is told 500
    slow_down      503 SlowDown, and the server never sees the request
    truncated      the body of a reply ends in the middle, and the connection is reset

What becomes of the n-th request is drawn from the seed and n alone. With `conditional=False` a write on condition that
a name is free is answered as done when the name is taken, as stores do that don't know If-None-Match.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

#: Every kind of fault
KINDS = ("slow", "reset_before", "reset_after", "error_500", "lost_500", "slow_down", "truncated")
#: Headers that are about one connection and not passed on
_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}

_CODES = {"error_500": (500, "InternalError"), "lost_500": (500, "InternalError"), "slow_down": (503, "SlowDown")}

Headers = list[tuple[str, str]]


@dataclass
class Weather:
    """What the proxy does, and has done. May be changed while it serves."""

    #: Share of requests that meet each kind of fault
    rates: dict[str, float] = field(default_factory=dict)
    seed: int = 0
    #: Longest wait of a slow request, in seconds
    seconds: float = 0.5
    #: Whether clients are told that a name is taken
    conditional: bool = True
    #: Only requests of these methods meet faults; empty: all
    methods: frozenset[str] = frozenset()
    #: Address for clients
    endpoint: str = ""
    #: Requests that came
    requests: int = 0
    #: Faults that were met, by kind
    met: Counter[str] = field(default_factory=Counter)

    def draw(self, method: str) -> tuple[str, float]:
        """The fault that the next request meets, empty if none, and a number in [0, 1) that says how badly."""
        self.requests += 1
        chance = random.Random(f"{self.seed}/{self.requests}")
        share, how = chance.random(), chance.random()
        if self.methods and method not in self.methods:
            return "", how
        for kind, rate in self.rates.items():
            if share < rate:
                return kind, how
            share -= rate
        return "", how

    def clear(self) -> None:
        """No more faults."""
        self.rates = {}


@contextmanager
def faulty_proxy(upstream: str, rates: Mapping[str, float] | None = None, seed: int = 0) -> Iterator[Weather]:
    """A proxy before the server at `upstream`, as long as the block lasts."""
    weather = Weather(dict(rates or {}), seed)
    loop = asyncio.new_event_loop()
    serving = _Serving(urlsplit(upstream).netloc, weather)
    thread = threading.Thread(target=loop.run_forever, name="faulty-proxy")
    thread.start()
    try:
        weather.endpoint = asyncio.run_coroutine_threadsafe(serving.start(), loop).result(10)
        yield weather
    finally:
        asyncio.run_coroutine_threadsafe(serving.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class _Serving:
    def __init__(self, upstream: str, weather: Weather) -> None:
        host, _, port = upstream.partition(":")
        self._upstream = host, int(port)
        self._weather = weather
        self._clients: set[asyncio.Task[None]] = set()

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=256)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        self._server.close()
        for task in self._clients:
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        upstream: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        try:
            while await self._serve(reader, writer, upstream):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a client that was killed, or a server that has gone
        except asyncio.CancelledError:
            pass
        finally:
            self._clients.discard(task)
            for _, one in [*upstream, (reader, writer)]:
                one.close()

    async def _serve(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        upstream: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]],
    ) -> bool:
        """One request and its reply; False once the connection is over."""
        first = await reader.readline()
        if not first:
            return False
        method, target, _ = first.decode("latin-1").split(" ", 2)
        headers = await _headers(reader)
        if _named(headers, "expect"):
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await _body(reader, headers)
        fault, how = self._weather.draw(method)
        if fault:
            self._weather.met[fault] += 1
        if fault == "slow":
            await asyncio.sleep(how * self._weather.seconds)
        if fault == "reset_before":
            return _reset(writer)
        if fault in ("error_500", "slow_down"):
            return await _refuse(writer, fault, method)
        status, told, content = await self._ask(upstream, method, target, headers, body)
        if not self._weather.conditional and status.split(" ", 2)[1] == "412":
            status, told, content = "HTTP/1.1 200 OK", [("ETag", '"0"')], b""
        if fault == "reset_after":
            return _reset(writer)
        if fault == "lost_500":
            return await _refuse(writer, fault, method)
        length = _named(told, "content-length") if method == "HEAD" else str(len(content))
        lines = [status, *(f"{name}: {value}" for name, value in told if name.lower() not in _HOP)]
        if not status.split(" ", 2)[1].startswith(("1", "204", "304")):
            lines.append(f"Content-Length: {length or 0}")
        cut = int(len(content) * how) if fault == "truncated" else len(content)
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + content[:cut])
        await writer.drain()
        return _reset(writer) if fault == "truncated" else True

    async def _ask(
        self,
        upstream: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]],
        method: str,
        target: str,
        headers: Headers,
        body: bytes,
    ) -> tuple[str, Headers, bytes]:
        """Status line, headers and body of what the server answers. A connection that it has closed is opened anew."""
        lines = [f"{method} {target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers if name.lower() not in _HOP]  # Host too: it is signed
        if body or method in ("PUT", "POST"):
            lines.append(f"Content-Length: {len(body)}")
        sent = "\r\n".join([*lines, "", ""]).encode("latin-1") + body
        while True:
            is_old = bool(upstream)
            if not upstream:
                upstream.append(await asyncio.open_connection(*self._upstream, limit=1 << 20))
            reader, writer = upstream[0]
            try:
                writer.write(sent)
                await writer.drain()
                status = await reader.readline()
                if not status:
                    raise ConnectionResetError
            except OSError:
                upstream.clear()
                writer.close()
                if not is_old:
                    raise
                continue  # it was closed before the request came: nothing was done
            told = await _headers(reader)
            is_empty = method == "HEAD" or status.split(b" ", 2)[1] in (b"204", b"304")
            content = b"" if is_empty else await _body(reader, told)
            if "close" in _named(told, "connection").lower():
                upstream.clear()
                writer.close()
            return status.decode("latin-1").strip(), told, content


def _named(headers: Headers, name: str) -> str:
    return next((value for key, value in headers if key.lower() == name), "")


async def _headers(reader: asyncio.StreamReader) -> Headers:
    headers = []
    while line := (await reader.readline()).decode("latin-1").strip():
        name, _, value = line.partition(":")
        headers.append((name, value.strip()))
    return headers


async def _body(reader: asyncio.StreamReader, headers: Headers) -> bytes:
    if "chunked" not in _named(headers, "transfer-encoding").lower():
        return await reader.readexactly(int(_named(headers, "content-length") or 0))
    chunks = []
    while size := int((await reader.readline()).split(b";")[0], 16):
        chunks.append(await reader.readexactly(size))
        await reader.readline()
    await _headers(reader)
    return b"".join(chunks)


def _reset(writer: asyncio.StreamWriter) -> bool:
    """End a connection as a crash does, with a reset instead of an orderly end. What was written may be lost with it,
    so a body that was cut is pushed out first.
    """
    raw = writer.get_extra_info("socket")
    with suppress(OSError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    return False


async def _refuse(writer: asyncio.StreamWriter, fault: str, method: str) -> bool:
    status, code = _CODES[fault]
    said = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>not now</Message></Error>'.encode()
    head = f"HTTP/1.1 {status} {code}\r\nContent-Type: application/xml\r\nContent-Length: {len(said)}\r\n\r\n"
    writer.write(head.encode() + (b"" if method == "HEAD" else said))
    await writer.drain()
    return True
