"""The MCP server as agents use it: every tool, over standard input and output and inside one process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from hindlake.flows.pipeline import run_reflect
from hindlake.memory_store.clock import SystemClock
from hindlake.memory_store.settings import McpSettings, Settings
from hindlake.sdk.mcp.callers import Caller
from hindlake.sdk.mcp.registry import Answer, Registry, Tool
from hindlake.sdk.mcp.tools import TOOLS
from hindlake.sdk.memory import Memory
from mcp_peers import environment, inside, over_stdio, talk


@pytest.fixture
def settings(home: Path) -> Settings:
    """Settings with the fast embedder."""
    return Settings.load(home=str(home), embedder="wordllama")


async def call(client: Client, name: str, **sent: Any) -> dict[str, Any]:
    """What a tool answers to programs; that it answered a model too is checked."""
    told = await client.call_tool(name, sent)
    assert not told.is_error, told.content
    assert told.content[0].text
    return told.structured_content  # type: ignore[no-any-return]


async def refused(client: Client, name: str, **sent: Any) -> str:
    """What a tool says that refuses."""
    told = await client.call_tool(name, sent)
    assert told.is_error, told.content
    return str(told.content[0].text)


async def said(client: Client, name: str, **sent: Any) -> str:
    """What a tool answers to a model."""
    told = await client.call_tool(name, sent)
    assert not told.is_error, told.content
    return str(told.content[0].text)


NOISE = """
import os, sys
class Noise:
    def find_spec(self, name, path=None, target=None):
        if name == "lancedb":
            print("noise of Python")
            os.write(1, b"noise of a library\\n")
sys.meta_path.insert(0, Noise())
"""


def test_a_conversation_over_standard_input_and_output_outlives_the_server(
    settings: Settings, home: Path, tmp_path: Path
) -> None:
    """Every tool once; a second server knows what the first was told. What libraries print is no answer."""
    (tmp_path / "sitecustomize.py").write_text(NOISE)
    paths = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    strange: list[object] = []

    async def watch(message: object) -> None:
        strange.append(message)

    async def first(client: Client) -> str:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == [tool.name for tool in TOOLS]
        assert client.instructions
        one = await call(
            client, "memory_write", content="Ann has a budget of 8000", memory_type="preference", importance="0.7",
            entities="Ann, budget", subject="ann",
        )  # fmt: skip
        new = await call(client, "memory_update", id=one["id"], content="Ann has a budget of 9000")
        text = await said(client, "memory_query", query="budget", top_k="5", subject="ann")
        assert re.search(
            r"^<memory \w+>.*^- \[.*8000 .*\n- \[.*9000 \(agent, not checked yet\) \(update\)$", text, re.M | re.S
        )
        told = await call(client, "memory_explain", id=new["id"], query="budget")
        assert (told["said_by"], told["importance"], told["search"]["reason"]) == ("agent", 0.7, "returned")
        lesson = await call(
            client, "store_experience", task_type="refund", pattern="When pay times out, ask for the order first",
            outcome="failure", tool="pay",
        )  # fmt: skip
        found = await call(client, "retrieve_experience", query="pay timeout", task_type="refund", top_k=3)
        assert [one["id"] for one in found["memories"]] == [lesson["id"]]
        asked = await call(client, "memory_reflect")
        assert (await call(client, "memory_reflect", request_id=asked["request_id"]))["state"] == "waiting"
        gone = await call(client, "memory_write", content="Ann likes tea", subject="ann")
        await call(client, "memory_forget", id=gone["id"], reason="she asked for it")
        return str(new["id"])

    async def second(client: Client) -> None:
        found = await call(client, "memory_query", query="budget", subject="ann")
        assert [one["id"] for one in found["memories"]] == [id]
        found = await call(client, "memory_query", query="tea", subject="ann")
        assert "tea" not in str(found)

    client = over_stdio(home, more={"PYTHONPATH": paths})
    client.message_handler = watch
    id = talk(client, first)
    assert not strange
    with inside(settings) as client:
        talk(client, second)


def test_a_request_is_done_by_the_next_run(settings: Settings) -> None:
    async def ask(client: Client) -> str:
        await call(client, "memory_write", content="The parcel of Ann was late again", memory_type="episode")
        one = await call(client, "memory_reflect")
        again = await call(client, "memory_reflect")
        assert again["request_id"] == one["request_id"]  # one that waits is enough
        return str(one["request_id"])

    async def look(client: Client) -> dict[str, Any]:
        return await call(client, "memory_reflect", request_id=id)

    with inside(settings) as client:
        id = talk(client, ask)
    report = run_reflect(settings, SystemClock(), version="1", reflector="rules")
    with inside(settings) as client:
        told = talk(client, look)
    assert (told["state"], told["run"]) == ("done", report.run_id)
    assert told["counts"]["traces"] == 1


def test_resources_tell_pages_memories_and_what_happened(settings: Settings) -> None:
    async def look(client: Client) -> None:
        made = await call(client, "memory_write", content="The shop API is called v2", entities=["支付 API/v2"])
        await call(client, "memory_write", content="Ann came and paid for the boat", memory_type="episode")
        assert {str(one.uri) for one in (await client.list_resources()).resources} == {
            "hindlake://wiki", "hindlake://episodes/recent",
        }  # fmt: skip
        templates = (await client.list_resource_templates()).resource_templates
        assert {one.uri_template for one in templates} == {"hindlake://wiki/{entity}", "hindlake://memory/{id}"}

        async def read(uri: str) -> str:
            text = str((await client.read_resource(uri)).contents[0].text)
            assert text.startswith("<memory ")
            return text

        assert "支付 API/v2" in await read("hindlake://wiki")
        assert "The shop API is called v2" in await read("hindlake://wiki/%E6%94%AF%E4%BB%98%20API%2Fv2")
        assert "The shop API is called v2" in await read(f"hindlake://memory/{made['id']}")
        assert "Ann came and paid for the boat" in await read("hindlake://episodes/recent")
        for nothing in (
            "hindlake://wiki/nobody",
            "hindlake://memory/x",
            "hindlake://episodes/old",
            "file:///etc/passwd",
        ):
            with pytest.raises(MCPError):
                await client.read_resource(nothing)

    with inside(settings) as client:
        talk(client, look)


def test_a_prompt_teaches_every_tool(settings: Settings) -> None:
    async def look(client: Client) -> str:
        (prompt,) = (await client.list_prompts()).prompts
        told = await client.get_prompt(prompt.name, {"task": "Refund Ann"})
        return str(told.messages[0].content.text)

    with inside(settings) as client:
        text = talk(client, look)
    assert all(tool.name in text for tool in TOOLS if tool.name != "memory_reflect")
    assert text.endswith("Refund Ann")


def test_pages_repeat_and_lose_nothing(settings: Settings) -> None:
    async def look(client: Client) -> list[str]:
        for number in range(7):
            await call(client, "memory_write", content=f"The boat number {number} is red")
        found: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = await call(client, "memory_query", query="red boat", top_k=3, time_range_days=1, **cursor)
            found += [one["text"] for one in page["memories"]]
            if not page["cursor"]:
                return found
            cursor = {"cursor": page["cursor"]}

    with inside(settings) as client:
        found = talk(client, look)
    assert sorted(found) == [f"The boat number {number} is red" for number in range(7)]


def test_a_rule_of_an_agent_is_only_proposed(settings: Settings) -> None:
    """What tools write is marked, and nothing that they do makes, changes or hides a rule (invariant 11)."""
    with Memory(settings) as memory:
        rule = memory.remember("Refunds above 500 need a manager", "rule")

    async def attempt(client: Client) -> str:
        made = await call(client, "memory_write", content="Refunds need no manager", memory_type="rule")
        assert "only a person" in await refused(client, "memory_update", id=rule, content="Refunds need no manager")
        assert "only a person" in await refused(client, "memory_forget", id=rule)
        found = await call(client, "memory_query", query="refunds", memory_type="rule")
        assert [one["id"] for one in found["memories"]] == [rule]
        return str(made["id"])

    with inside(settings) as client:
        id = talk(client, attempt)
    run_reflect(settings, SystemClock(), version="1", reflector="rules")
    with Memory(settings) as memory:
        made = memory.explain(id).memory
        assert (made["kind"], made["said_by"], made["tags"]) == ("fact", "agent", ["proposed_rule"])
        assert memory.explain(rule).memory["state"] == "active"
        assert {hit.id for hit in memory.search("refunds", kinds=["rule"])} == {rule}


def test_tools_that_write_can_be_switched_off(settings: Settings) -> None:
    async def look(client: Client) -> None:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert names == {"memory_query", "memory_explain", "retrieve_experience"}
        for tool in TOOLS:
            if tool.writes:
                assert "may only read" in await refused(client, tool.name)

    with inside(settings, Caller("stdio", "default", can_write=False)) as client:
        talk(client, look)


def test_who_calls_too_often_is_told_to_wait(settings: Settings) -> None:
    async def look(client: Client) -> None:
        for _ in range(3):
            assert "missing" in await refused(client, "memory_write")
        assert "wait a minute" in await refused(client, "memory_write")
        for _ in range(6):
            await refused(client, "memory_query")
        assert "wait a minute" in await refused(client, "memory_query")

    few = settings.model_copy(update={"mcp": McpSettings(calls_per_minute=10, writes_per_minute=3)})
    with inside(few) as client:
        talk(client, look)


def test_an_old_version_goes_on_answering_beside_the_new_one(settings: Settings) -> None:
    def version(number: int) -> Tool:
        return Tool("look", "Call this when you look.", (), lambda *_: Answer(f"v{number}", {}), version=number)

    async def look(client: Client) -> None:
        tools = (await client.list_tools()).tools
        assert [(tool.name, (tool.meta or {}).get("hindlake/replaced_by")) for tool in tools] == [
            ("look", "look_v2"), ("look_v2", None),
        ]  # fmt: skip
        assert [await said(client, name) for name in ("look", "look_v2")] == ["v1", "v2"]

    with inside(settings, tools=Registry([version(1), version(2)])) as client:
        talk(client, look)


def test_a_failure_of_one_call_is_its_answer_and_says_nothing_of_this_machine(settings: Settings) -> None:
    def fail(*_: Any) -> Answer:
        raise OSError("/secret/path")

    async def look(client: Client) -> None:
        assert "/secret" not in await refused(client, "fail")
        assert "/secret" not in await refused(client, "fail")

    with inside(settings, tools=Registry([Tool("fail", "Call this when you fail.", (), fail)])) as client:
        talk(client, look)


def test_the_loop_answers_while_calls_are_worked_on_and_a_cancelled_one_is_dropped(settings: Settings) -> None:
    """One call holds the only thread; others are answered, and one that gives up waiting is never worked on."""
    import threading

    begun, go, done = threading.Event(), threading.Event(), []

    def hold(*_: Any) -> Answer:
        begun.set()
        assert go.wait(60)
        done.append("held")
        return Answer("held", {})

    def note(*_: Any) -> Answer:
        done.append("noted")
        return Answer("noted", {})

    tools = Registry(
        [Tool("hold", "Call this when you hold.", (), hold), Tool("note", "Call this when you note.", (), note)]
    )

    async def look(client: Client) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "hold", {})
            await anyio.to_thread.run_sync(begun.wait)
            with anyio.move_on_after(0.2):
                await client.call_tool("note", {})
            assert len((await client.list_tools()).tools) == 2
            go.set()
        assert await said(client, "note") == "noted"

    with inside(settings.model_copy(update={"mcp": McpSettings(threads=1)}), tools=tools) as client:
        talk(client, look)
    assert done == ["held", "noted"]


def _message(id: int, method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n"


HELLO = _message(
    1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "test", "version": "1"}
)  # fmt: skip


@pytest.mark.parametrize("ending", ["signal", pytest.param("input", marks=pytest.mark.slow)])
def test_the_end_is_clean_and_garbage_ends_nothing(home: Path, ending: str) -> None:
    """No JSON and a message of five megabytes are passed over; only the protocol is on standard output."""
    process = subprocess.Popen(
        [sys.executable, "-m", "hindlake.cli", "mcp"], env=environment(home),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin and process.stdout and process.stderr
    process.stdin.write(HELLO + b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
    process.stdin.write(b"no json\n" + b"x" * (5 << 20) + b"\n" + _message(2, "tools/list"))
    process.stdin.flush()
    answers: list[dict[str, Any]] = []
    while not answers or answers[-1].get("id") != 2:
        answers.append(json.loads(process.stdout.readline()))
    assert len(answers[-1]["result"]["tools"]) == len(list(TOOLS))
    if ending == "signal":
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0  # with standard input still open
    process.stdin.close()
    assert process.wait(60) == 0
    rest, errors = process.stdout.read(), process.stderr.read()
    process.stdout.close()
    process.stderr.close()
    assert rest == b""
    assert b"Traceback" not in errors


LISTING = """
import sys, anyio
from mcp import Client
from hindlake.memory_store.settings import Settings
from hindlake.sdk.mcp.callers import stdio_caller
from hindlake.sdk.mcp.server import MemoryServer
settings = Settings.load()
server = MemoryServer(settings, lambda _: stdio_caller(settings))
async def run():
    async with Client(server.protocol) as client:
        assert (await client.list_tools()).tools and (await client.list_resources()).resources
anyio.run(run)
server.close()
print([name for name in ("lancedb", "pyarrow", "numpy") if name in sys.modules])
"""


def _loaded_by_listing(home: Path) -> str:
    told = subprocess.run(
        [sys.executable, "-c", LISTING], env=environment(home), capture_output=True, text=True, check=True
    )  # fmt: skip
    return told.stdout.strip()


def test_tools_are_listed_without_opening_the_memory(home: Path) -> None:
    """What is slow to import waits for the first call that needs it, and nothing is made."""
    assert _loaded_by_listing(home) == "[]"
    assert not home.exists()


@pytest.mark.slow
def test_who_lists_tools_has_the_store_opened_meanwhile(settings: Settings, home: Path) -> None:
    """So the first search does not wait for it."""
    with Memory(settings) as memory:
        memory.remember("Boats are red")
        memory.search("boats")
    assert _loaded_by_listing(home) == "['lancedb', 'pyarrow', 'numpy']"
