"""What docs/mcp.md says that the tools answer is what they answer, one call after another on an empty home."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from hindlake.memory_store.settings import Settings
from mcp_peers import inside, talk

PAGE = (Path(__file__).parent.parent / "docs" / "mcp.md").read_text(encoding="utf-8")
SHOWN = PAGE.split("### What they answer")[1].split("\n## ")[0]
CALLS = re.findall(r"^`(\w+)`([^\n]*(?:\n[^\n]+)*):\n\n```text\n(.*?)^```$", SHOWN, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_tools_answer_what_the_page_shows(settings: Settings) -> None:
    """Ids are cut short on the page, and days and marks are others: each stands for one thing throughout."""
    assert len(CALLS) == SHOWN.count("```text") == 8
    known: dict[str, str] = {}

    async def conversation(client: Any) -> None:
        for tool, given, shown in CALLS:
            arguments = {name: known.get(value, value) for name, value in _arguments(given)}
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, result.content
            came = "\n".join(part.text for part in result.content if part.type == "text").splitlines()
            assert len(came) == len(shown.splitlines()), came
            for line, printed in zip(shown.splitlines(), came, strict=True):
                _compare(line, printed, known)

    with inside(settings.model_copy(update={"embedder": "wordllama"})) as client:
        talk(client, conversation)


def _arguments(given: str) -> list[tuple[str, str]]:
    """Name and value of each argument: a name before, and a value between backquotes."""
    return [(name, " ".join(value.split())) for name, value in re.findall(r"(\w+) `([^`]+)`", given)]


def _compare(line: str, printed: str, known: dict[str, str]) -> None:
    pattern, names = "", []
    for part in re.split(r"(\w+…|\d{4}-\d\d-\d\d|\d\d-\d\d|\d\d:\d\d|<\/?memory \w+>)", line):
        if part.endswith("…"):
            names.append(part)
            pattern += re.escape(known[part]) if part in known else f"(?P<id{len(names)}>[a-z0-9]+)"
        elif re.fullmatch(r"[\d:-]+", part):
            pattern += r"[\d:-]+"
        elif part.startswith("<"):
            pattern += re.escape(part.rpartition(" ")[0]) + r" \w+>"
        else:
            pattern += re.escape(part)
    found = re.fullmatch(pattern, printed)
    assert found, f"shown: {line}\ncame:  {printed}"
    known.update((names[int(name.removeprefix("id")) - 1], id) for name, id in found.groupdict().items())
