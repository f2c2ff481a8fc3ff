"""Python, the command line and MCP offer the same acts: the table of docs/mcp.md says which is which."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from mcp import Client
from typer.testing import CliRunner

from hindlake import Memory
from hindlake.cli import app
from hindlake.memory_store.errors import UsageError
from hindlake.memory_store.settings import McpSettings, Settings
from hindlake.sdk.mcp.resources import FIXED, TEMPLATES
from hindlake.sdk.mcp.teaching import PROMPT
from hindlake.sdk.mcp.tools import TOOLS
from mcp_peers import inside, talk

PAGE = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", PAGE.split("## The same acts")[1], re.MULTILINE)[2:]


def _named(column: int, pattern: str) -> set[str]:
    return {name for row in ROWS for name in re.findall(pattern, row[column])}


def test_every_act_of_memory_is_in_the_table() -> None:
    acts = {name for name, _ in inspect.getmembers(Memory, inspect.isfunction) if not name.startswith("_")}
    assert _named(1, r"`Memory\.(\w+)`") == acts


def test_every_command_of_the_table_exists() -> None:
    group: Any = typer.main.get_command(app)
    for words in _named(2, r"`hindlake ([\w ]+)`"):
        command = group
        for word in words.split():
            command = command.commands[word]


def test_every_tool_and_resource_is_in_the_table() -> None:
    assert _named(3, r"`(\w+)`") == {tool.name for tool in TOOLS}
    assert _named(3, r"`(hindlake://[^`]+)`") <= {*FIXED, *TEMPLATES}


def test_the_page_tells_tools_resources_and_settings_as_they_are() -> None:
    told = re.findall(r"^\| `(\w+)` \| (.+?) \| .+ \|$", PAGE, re.MULTILINE)
    assert [(name, re.sub(r" \(.+?\)", "", arguments).split(", ")) for name, arguments in told] == [
        (tool.name, [one.name for one in tool.parameters]) for tool in TOOLS
    ]
    assert all(f"`{uri}`" in PAGE for uri in (*FIXED, *TEMPLATES)) and f"`{PROMPT}`" in PAGE
    for name, value in re.findall(r"`mcp\.(\w+)` \(([\d,]+)\)", PAGE):
        assert getattr(McpSettings(), name) == int(value.replace(",", "")), name


def _defaults(command: str) -> dict[str, Any]:
    group: Any = typer.main.get_command(app)
    return {one.name: one.default for one in group.commands[command].params}


def test_defaults_are_equal() -> None:
    """MCP gives `Memory` only what was sent, so that its defaults are those of `Memory`; the page says which."""
    remember = inspect.signature(Memory.remember).parameters
    told = _defaults("remember")
    for name, ours in (("kind", "kind"), ("subject", "subject"), ("importance", "importance"), ("tool", "tool")):
        assert told[name] == remember[ours].default, name
    assert _defaults("search")["limit"] is inspect.signature(Memory.search).parameters["limit"].default is None
    assert _defaults("explain")["limit"] == inspect.signature(Memory.explain).parameters["limit"].default
    assert remember["importance"].default == 0.5 and remember["kind"].default == "fact"


@pytest.fixture
def settings(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """One home for all three."""
    monkeypatch.setenv("HINDLAKE_HOME", str(home))
    monkeypatch.setenv("HINDLAKE_EMBEDDER", "wordllama")
    yield Settings.load()


def test_the_same_is_found_and_the_same_is_refused(settings: Settings) -> None:
    with Memory(settings) as memory:
        for number in range(7):
            memory.remember(f"The boat number {number} is red")
            memory.remember(f"In harbour {number} moor the red boat twice", "experience")
        found = [hit.id for hit in memory.search("red boat")]
        lessons = [hit.id for hit in memory.search("red boat", kinds=["experience"])]
        for wrong in (
            lambda: memory.remember("x", importance=2),
            lambda: memory.remember(" "),
            lambda: memory.forget("0" * 24),
        ):
            with pytest.raises(UsageError):
                wrong()
    assert (len(found), len(lessons)) == (5, 3)

    def command(*words: str) -> tuple[int, str]:
        told = CliRunner().invoke(app, list(words))
        code = 2 if isinstance(told.exception, UsageError) else told.exit_code
        return code, told.stdout

    for words, ids in ((["search", "red boat"], found), (["search", "red boat", "--kind", "experience"], lessons)):
        assert re.findall(r'"id": "(\w{24})"', command("--json", *words)[1]) == ids
    for words in (["remember", "x", "--importance", "2"], ["remember", " "], ["forget", "0" * 24]):
        assert command(*words)[0] == 2

    async def look(client: Client) -> None:
        for name, ids in (("memory_query", found), ("retrieve_experience", lessons)):
            told = await client.call_tool(name, {"query": "red boat"})
            assert [one["id"] for one in told.structured_content["memories"]] == ids
        for name, sent in (
            ("memory_write", {"content": "x", "importance": 2}),
            ("memory_write", {"content": " "}),
            ("memory_forget", {"id": "0" * 24}),
        ):
            assert (await client.call_tool(name, sent)).is_error

    with inside(settings) as client:
        talk(client, look)


def test_a_new_token_is_printed_once_with_what_the_settings_take(settings: Settings, tmp_path: Path) -> None:
    import tomllib
    from hashlib import sha256

    told = CliRunner().invoke(app, ["mcp", "--new-token", "my laptop", "-n", "acme", "--subject", "ann", "--read-only"])
    token = re.search(r"hl_\S+", told.stdout)
    assert told.exit_code == 0 and token
    made = tomllib.loads(told.stdout[told.stdout.index("[mcp") :])
    known = Settings.load(**made).mcp.tokens["my laptop"]
    assert (known.namespace, known.subject, known.read_only) == ("acme", "ann", True)
    assert known.sha256 == sha256(token[0].encode()).hexdigest()
