"""Every fenced block of every page is checked as what it is, and every page has its place in the navigation.

python  runs and prints what it says (test_docs.py)        toml, json  configure what they say they configure
sh      is run (test_docs_commands.py), and taken here     scala, py   query the lake as DuckDB and Python do
text    a picture, a layout, or what a command prints: each page that has one is named below with what it is held to
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import assert_named, assert_taken
from docs_others import OTHERS
from hindlake.memory_store.schema import EVENTS
from hindlake.memory_store.settings import Settings

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
LANGUAGES = {"json", "py", "python", "scala", "sh", "text", "toml"}
#: Commands that only the tutorial types, which test_docs_tutorial.py does.
TUTORIAL = {"export", "mkdir"}
#: Pages whose blocks of text another test compares with what comes.
PRINTED = {"mcp.md": "tests/test_docs_answers.py", "tutorial.md": "tests/test_docs_tutorial.py"}


def _blocks(page: Path) -> Iterator[tuple[str, str, str]]:
    """Language, text and place of every fenced block."""
    text = page.read_text(encoding="utf-8")
    for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield match[1], match[2], f"{page.name}:{text[: match.start(2)].count(chr(10)) + 1}"


def _of(language: str) -> list[Any]:
    return [pytest.param(text, id=place) for page in PAGES for known, text, place in _blocks(page) if known == language]


def test_every_block_is_of_a_kind_that_is_checked() -> None:
    for page in PAGES:
        fences = re.findall(r"^ *(```.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        blocks = list(_blocks(page))
        assert len(fences) == 2 * len(blocks), f"{page.name}: a block that is indented, or has no end"
        for language, _, place in blocks:
            assert language in LANGUAGES, place


@pytest.mark.parametrize("text", _of("toml"))
def test_toml_is_taken_by_the_settings(text: str, home: Path) -> None:
    said = tomllib.loads(text)
    settings = Settings.load(**{"home": str(home), **said})
    for section in said:
        assert section in Settings.model_fields
    assert settings != Settings.load(home=str(home))


@pytest.mark.parametrize("text", _of("json"))
def test_json_configures_a_client_that_reaches_the_server(text: str) -> None:
    said = json.loads(text)
    if "mcpServers" not in said:
        pytest.fail("say here what takes this block")
    for server in said["mcpServers"].values():
        if "url" in server:
            assert server["type"] == "http" and re.fullmatch(r"http://127\.0\.0\.1:8848/mcp", server["url"])
            assert server["headers"]["Authorization"].startswith("Bearer hl_")
        else:
            assert server["command"] == "hindlake"
            assert_taken(server["args"])
            assert all(
                name.removeprefix("HINDLAKE_").lower() in Settings.model_fields for name in server.get("env", {})
            )


def _lines(text: str) -> Iterator[list[str]]:
    """The commands of a block, each part of a pipe on its own, without the variables that are set before it."""
    for line in text.replace("\\\n", " ").replace("<this repository>", "URL").splitlines():
        words: list[str] = []
        for word in [*shlex.split(line, comments=True), ";"]:
            if word in ("|", "&&", ";", ">"):
                if words:
                    yield words
                words = []
                if word == ">":
                    break
            elif words or not re.fullmatch(r"[A-Z_]+=\S*", word):
                words.append(word)


@pytest.mark.parametrize("text", _of("sh"))
def test_what_is_typed_is_taken(text: str) -> None:
    """Names of commands, options and the kinds of their values are right; examples have values for what they need."""
    for words in _lines(text):
        if words[0] == "hindlake":
            assert_taken(["1" if word == "N" else word for word in words[1:]])
        elif words[0] == "python" and "/" in words[1]:
            script = (ROOT / words[1]).read_text(encoding="utf-8")
            for option in (word for word in words[2:] if word.startswith("--")):
                assert f'"{option}"' in script, f"{words[1]} takes no {option}"
        elif words[0] == "make":
            made = (ROOT / "Makefile").read_text(encoding="utf-8")
            assert all(re.search(rf"^{target}:", made, re.MULTILINE) for target in words[1:] if "=" not in target)
        elif "/" in words[0]:
            assert (ROOT / words[0]).exists(), words[0]
        else:
            assert words[0] in OTHERS or words[0] in TUTORIAL, f"what is {words[0]}? say it in docs_others.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_within_a_sentence_are_named_right(page: Path) -> None:
    """`hindlake …` between backquotes: there are such a command and such options."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for said in re.findall(r"`hindlake ([a-z][^`]*)`", text):
        assert_named([word for word in shlex.split(said) if "…" not in word])


@pytest.mark.parametrize("text", _of("text"))
def test_a_block_of_text_is_what_there_is(text: str, request: pytest.FixtureRequest) -> None:
    page = request.node.callspec.id.split(":")[0]
    if page in PRINTED:
        assert (ROOT / PRINTED[page]).is_file()
    elif page in ("README.md", "README.zh-CN.md", "architecture.md") and "──▶" in text:
        assert text in (DOCS / "architecture.md").read_text(encoding="utf-8") or page == "README.zh-CN.md"
        assert {"sdk.Recorder", "sdk.Memory", "LanceDB"} <= set(re.findall(r"[\w.]+", text))
    elif page == "architecture.md":
        layout = (DOCS / "lake.md").read_text(encoding="utf-8")
        for line in text.splitlines():
            assert f"| `{line.split('/')[0]}/{line.split('/')[1].split()[0]}" in layout, line
    elif page == "troubleshooting.md":
        section = set(re.findall(r"^### `([\w-]+)`", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE))
        *findings, last = text.splitlines()
        said = [re.fullmatch(r"(broken|doubtful|note) +([\w-]+): .+", line) for line in findings[::2]]
        assert all(found is not None and found[2] in section for found in said)
        assert all(re.fullmatch(r" {10}→ .+", line) for line in findings[1::2])
        assert last.endswith(f"{len(said)} findings")
    else:
        pytest.fail("say here what this block is held to")


@pytest.mark.parametrize("text", _of("scala"))
def test_spark_is_asked_for_columns_that_there_are(text: str) -> None:
    """Spark itself is not here: that the files are plain Parquet with these columns is what it needs."""
    named = {column.name for column in EVENTS}
    asked = re.findall(r"(?:dropDuplicates|groupBy)\((.+?)\)", text) + re.findall(r'where\("(\w+) =', text)
    assert len(asked) == 3
    assert {name for one in asked for name in re.findall(r"\w+", one)} <= named


def test_python_for_a_bucket_is_run_by_the_page_about_the_lake() -> None:
    assert [page.name for page in PAGES for language, _, _ in _blocks(page) if language == "py"] == ["lake.md"]


def test_every_page_is_in_the_navigation_once_and_every_entry_is_a_page() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^- \[.+?\]\((.+?)\.md\)", index, re.MULTILINE)
    pages = {page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.rglob("*.md")} - {"index"}
    assert len(listed) == len(set(listed))
    assert set(listed) == pages, "give each page its line in docs/index.md"
