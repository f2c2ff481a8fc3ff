"""The MCP server over HTTP: who may ask, from where, and a whole conversation with the official client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client

from hindlake.memory_store.errors import SettingsError
from hindlake.memory_store.settings import McpSettings, McpToken, Settings
from hindlake.sdk.mcp.http import WRONG_TOKENS, app, requesting, serve
from hindlake.sdk.mcp.server import MemoryServer
from mcp_peers import http_server, over_http, talk, token_for

HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}  # fmt: skip
JSON = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
PORT = 8848


def _settings(home: Path, tokens: dict[str, McpToken], **more: Any) -> Settings:
    settings = Settings.load(home=str(home), embedder="wordllama")
    return settings.model_copy(update={"mcp": McpSettings(tokens=tokens, **more)})


def _ask(settings: Settings, requests: list[dict[str, Any]]) -> list[httpx2.Response]:
    """What the server in this process answers to some requests, one after another."""

    async def run() -> list[httpx2.Response]:
        server = MemoryServer(settings, requesting)
        served: Any = app(server, settings, PORT)
        transport = httpx2.ASGITransport(served)
        try:
            async with (
                served._inner.router.lifespan_context(served._inner),
                httpx2.AsyncClient(transport=transport, base_url=f"http://127.0.0.1:{PORT}") as client,
            ):
                return [
                    await client.request(one.pop("method", "POST"), one.pop("path", "/mcp"), **one) for one in requests
                ]
        finally:
            server.close()

    answers: list[httpx2.Response] = anyio.run(run)
    return answers


def _hello(token: str = "", **headers: str) -> dict[str, Any]:
    bearer = {"Authorization": f"Bearer {token}"} if token else {}
    return {"json": HELLO, "headers": {**JSON, **bearer, **headers}}


def test_only_a_known_token_opens_anything(home: Path) -> None:
    token, known = token_for("acme")
    settings = _settings(home, {"laptop": known})
    wrong = ["", "x", token[:-1], token + "x", known.sha256, "laptop", "é", token.upper(), f"{token} {token}"]
    twice = {
        "json": HELLO,
        "headers": [*JSON.items(), ("Authorization", "Bearer x"), ("Authorization", f"Bearer {token}")],
    }
    basic = {"json": HELLO, "headers": {**JSON, "Authorization": f"Basic {token}"}}
    query = {**_hello(), "path": f"/mcp?token={token}"}
    answers = _ask(
        settings,
        [
            *({"json": HELLO, "headers": {**JSON, "Authorization": f"Bearer {one}".encode()}} for one in wrong),
            twice, basic, query, {"method": "GET", "path": "/other"}, {"method": "DELETE"}, _hello(token),
            {"method": "GET", "path": "/health"},
        ],
    )  # fmt: skip
    assert [answer.status_code for answer in answers] == [401] * (len(wrong) + 5) + [200, 200]
    assert {answer.text for answer in answers[: len(wrong)]} == {answers[0].text}
    assert answers[0].headers["www-authenticate"] == "Bearer"


def test_who_guesses_tokens_is_slowed_and_who_knows_one_is_not(home: Path) -> None:
    token, known = token_for("acme")
    answers = _ask(
        _settings(home, {"laptop": known}), [*(_hello(f"guess{n}") for n in range(WRONG_TOKENS + 3)), _hello(token)]
    )
    codes = [answer.status_code for answer in answers]
    assert codes[:WRONG_TOKENS] == [401] * WRONG_TOKENS
    assert codes[-2:] == [429, 200]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": f"http://127.0.0.1:{PORT}"}, 200),
        ({"Origin": "https://app.example.com"}, 200),
        ({"Host": "memory.example.com"}, 200),
        ({"Host": f"localhost:{PORT}"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": f"http://127.0.0.1:{PORT}.evil.example"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Host": f"127.0.0.1.evil.example:{PORT}"}, 421),
        ({"Host": f"localhost:{PORT}.evil.example"}, 421),
    ],
)
def test_origin_and_host_are_checked(home: Path, headers: dict[str, str], status: int) -> None:
    token, known = token_for("acme")
    settings = _settings(
        home, {"laptop": known}, hosts=("memory.example.com",), origins=("https://app.example.com",)
    )  # fmt: skip
    (answer,) = _ask(settings, [_hello(token, **headers)])
    assert answer.status_code == status


def test_a_body_that_is_too_long_or_no_protocol_is_refused(home: Path) -> None:
    token, known = token_for("acme")
    bearer = {**JSON, "Authorization": f"Bearer {token}"}
    bodies = [b"x" * (5 << 20), b"no json", b"[]", json.dumps({"jsonrpc": "2.0"}).encode()]
    answers = _ask(_settings(home, {"laptop": known}), [{"content": body, "headers": bearer} for body in bodies])
    assert [answer.status_code for answer in answers] == [413, 400, 400, 400]


def test_a_session_is_its_tokens_own(home: Path) -> None:
    ours, known = token_for("acme")
    theirs, other = token_for("other")
    settings = _settings(home, {"ours": known, "theirs": other})

    async def run() -> list[int]:
        server = MemoryServer(settings, requesting)
        served: Any = app(server, settings, PORT)
        async with (
            served._inner.router.lifespan_context(served._inner),
            httpx2.AsyncClient(transport=httpx2.ASGITransport(served), base_url=f"http://127.0.0.1:{PORT}") as client,
        ):
            begun = await client.post("/mcp", **_hello(ours))
            session = begun.headers["mcp-session-id"]
            ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
            codes = []
            for token in (theirs, ours):
                headers = {**_hello(token)["headers"], "Mcp-Session-Id": session}
                codes.append((await client.post("/mcp", json=ping, headers=headers)).status_code)
            return codes

    assert anyio.run(run) == [404, 200]


def test_http_without_a_token_or_on_a_port_that_is_taken_is_refused(home: Path) -> None:
    with pytest.raises(SettingsError, match="--new-token"):
        serve(None, _settings(home, {}, host="0.0.0.0"), print)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="--port"):
        serve(None, _settings(home, {"a": token_for("acme")[1]}, host="192.0.2.1"), print)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_conversation_over_http_ends_cleanly(home: Path, tmp_path: Path) -> None:
    """Two callers in their own namespaces; one may only read; the server ends by a signal with code 0."""
    writer, known = token_for("acme")
    reader, also = token_for("acme", read_only=True)
    stranger, other = token_for("other", subject="ann")

    async def write(client: Client) -> str:
        made = await client.call_tool("memory_write", {"content": "Boats are red", "memory_type": "fact"})
        return str(made.structured_content["id"])

    async def look(client: Client) -> tuple[int, list[str]]:
        names = [tool.name for tool in (await client.list_tools()).tools]
        found = await client.call_tool("memory_query", {"query": "boats"})
        return len(names), [one["id"] for one in found.structured_content["memories"]]

    with http_server(home, {"w": known, "r": also, "s": other}, cwd=tmp_path) as (url, process):
        id = talk(over_http(url, writer), write)
        assert talk(over_http(url, reader, mode="legacy"), look) == (3, [id])
        assert talk(over_http(url, stranger), look) == (8, [])
        process.terminate()
        assert process.wait(60) == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_fifty_clients_at_once_are_all_answered(home: Path, tmp_path: Path) -> None:
    """Each writes and finds its own, in its own namespace or a shared one; nothing is lost and nothing leaks."""
    tokens = {f"c{number}": token_for(f"tenant{number % 10}") for number in range(50)}

    with http_server(home, {name: known for name, (_, known) in tokens.items()}, cwd=tmp_path) as (url, _):

        async def one(number: int) -> None:
            async with over_http(url, tokens[f"c{number}"][0]) as client:
                made = await client.call_tool("memory_write", {"content": f"The boat of client {number} is red"})
                assert not made.is_error, made
                found = await client.call_tool("memory_query", {"query": "boat client red", "top_k": 50})
                texts = [hit["text"] for hit in found.structured_content["memories"]]
                assert f"The boat of client {number} is red" in texts
                assert all(int(text.split()[4]) % 10 == number % 10 for text in texts)

        async def run() -> None:
            async with anyio.create_task_group() as group:
                for number in range(50):
                    group.start_soon(one, number)

        anyio.run(run)
