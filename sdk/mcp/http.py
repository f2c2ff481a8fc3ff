"""Serving over HTTP: a bearer token opens one namespace; Origin and Host are checked; the loopback unless told."""

from __future__ import annotations

import ipaddress
import json
import logging
import signal
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext
from mcp.server.transport_security import TransportSecuritySettings

from ...memory_store.errors import SettingsError
from ...memory_store.settings import Settings
from .callers import Caller, Rate, caller_of
from .server import MemoryServer

_log = logging.getLogger("hindlake.mcp")
#: Path of the protocol
PATH = "/mcp"
#: Most bytes of a request.
BODY_BYTES = 4 << 20
#: Wrong tokens that an address may send in a minute before it is told to wait.
WRONG_TOKENS = 30
_CALLER = "hindlake.caller"
_GRACE_SECONDS = 3

_Scope = MutableMapping[str, Any]
_App = Callable[[_Scope, Any, Any], Awaitable[None]]


def requesting(context: ServerRequestContext[Any, Any]) -> Caller:
    """Who sent an HTTP request, as its token says."""
    caller: Caller = context.request.scope[_CALLER]  # type: ignore[union-attr]
    return caller


def serve(server: MemoryServer, settings: Settings, listening: Callable[[str], None]) -> None:
    """Serve until the process is told to end; `listening` is told the address when it is open.

    Raises `SettingsError` without a token, and for an address that can't be listened on.
    """
    options = settings.mcp
    if not options.tokens:
        raise SettingsError(
            "HTTP needs a token for each caller: run `hindlake mcp --new-token NAME` and put what it prints into "
            "hindlake.toml"
        )
    with _listen(options.host, options.port) as listener:
        port = listener.getsockname()[1]
        host = f"[{options.host}]" if ":" in options.host else options.host
        config = uvicorn.Config(
            app(server, settings, port), log_config=None, access_log=False, ws="none", server_header=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )  # fmt: skip
        # uvicorn ends by a signal and then raises it once more: here it has done its work.
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: None)
        listening(f"http://{host}:{port}{PATH}")
        try:
            uvicorn.Server(config).run([listener])
        finally:
            server.close()


def app(server: MemoryServer, settings: Settings, port: int) -> _App:
    """The server as an ASGI application."""
    options = settings.mcp
    names = {"127.0.0.1", "localhost", "[::1]", *options.hosts}
    if not _is_any(options.host):
        names.add(f"[{options.host}]" if ":" in options.host else options.host)
    hosts = [host for name in sorted(names) for host in (name, f"{name}:{port}")]
    own = [f"http://{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")]
    inner = server.protocol.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=BODY_BYTES,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=True, allowed_hosts=hosts, allowed_origins=[*own, *options.origins]
        ),
    )
    return _Guard(inner, settings)


class _Guard:
    """Lets a request pass that comes with a token, and says whose it is."""

    def __init__(self, inner: _App, settings: Settings) -> None:
        self._inner, self._options = inner, settings.mcp
        self._wrong = Rate(WRONG_TOKENS)

    async def __call__(self, scope: _Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        if scope["path"] == "/health":
            await _answer(send, 200, {"status": "ok"})
            return
        caller = caller_of(_bearer(scope), self._options.tokens, self._options.writes)
        if caller is None:
            address = (scope.get("client") or ("",))[0]
            if self._wrong.take(address):
                await _answer(send, 401, {"error": "send a token: Authorization: Bearer …"})
            else:
                _log.warning("too many wrong tokens from %s", address)
                await _answer(send, 429, {"error": "too many wrong tokens: wait a minute"})
            return
        scope[_CALLER] = caller
        # The transport binds a session to who began it: another token can't go on with it.
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=caller.name, scopes=[]))
        await self._inner(scope, receive, send)


def _bearer(scope: _Scope) -> str:
    """The token of a request; empty where there is not exactly one."""
    sent = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
    scheme, _, token = (sent[0] if len(sent) == 1 else b"").decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


async def _answer(send: Any, status: int, told: dict[str, str]) -> None:
    body = json.dumps(told, ensure_ascii=False).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise SettingsError(
            f"can't listen on {host}:{port} ({error}): take another port with --port, or an address of this machine"
        ) from None


def _is_any(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
