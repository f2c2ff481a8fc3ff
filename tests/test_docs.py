"""What the docs say is so: their examples run, their links lead somewhere, and nothing public is left out."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import inspect
import io
import json
import pkgutil
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import hindlake
from hindlake.cli import app
from hindlake.memory_store.capture.events import OUTCOMES
from hindlake.memory_store.schema import MEMORIES

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
READMES = [ROOT / "README.md", ROOT / "README.zh-CN.md"]
MODULES = sorted(
    name for _, name, _ in pkgutil.walk_packages(hindlake.__path__, "hindlake.") if not name.endswith("__main__")
)


def _blocks(page: Path, language: str) -> Iterator[tuple[int, str]]:
    """Fenced blocks of a language, each with the line that it begins on."""
    text = page.read_text(encoding="utf-8")
    for match in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield text[: match.start(1)].count("\n"), match[1]


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_a_module_run(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0


@pytest.mark.usefixtures("shipped_embedder")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_of_a_page_runs_and_prints_what_it_says(page: Path) -> None:
    """The blocks of a page are one program; `#>` after a statement is what it prints."""
    names: dict[str, object] = {}
    for line, block in _blocks(page, "python"):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * line + block, page, "exec"), names)
        assert printed.getvalue().splitlines() == re.findall(r"^#> (.*)$", block, re.MULTILINE)


def _commands(page: Path) -> list[list[str]]:
    lines = [line for _, block in _blocks(page, "sh") for line in block.splitlines()]
    return [words[1:] for line in lines if (words := shlex.split(line, comments=True))[:1] == ["hindlake"]]


@pytest.mark.usefixtures("shipped_embedder")
@pytest.mark.timeout(300)
def test_the_commands_of_the_readme_work_one_after_another(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """ID and RUN stand for what the last command that told one has told."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HINDLAKE_HOME", str(home))
    commands = _commands(READMES[0])
    assert len(commands) > 5
    last_id = last_run = ""
    for words in commands:
        if words == ["demo"]:  # it has a test of its own
            continue
        known = {"ID": last_id, "RUN": last_run}
        told = CliRunner().invoke(app, ["--json", *(known.get(word, word) for word in words)])
        assert told.exit_code == 0, f"hindlake {shlex.join(words)}\n{told.output}\n{told.exception!r}"
        answer = json.loads(told.stdout)
        if words[0] == "search" and "--as-of" not in words:
            assert answer["hits"], words
            last_id = answer["hits"][0]["id"]
        last_id = answer.get("id") or last_id
        last_run = answer.get("run_id") or last_run


def test_both_languages_show_the_same_commands() -> None:
    assert _commands(READMES[0]) == _commands(READMES[1])


def _all_commands(group: typer.core.TyperGroup, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        if isinstance(command, typer.core.TyperGroup):
            yield from _all_commands(command, (*path, name))
        else:
            yield (*path, name)


def test_every_command_is_shown_in_the_docs_and_teaches_by_example() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    shown = [words for page in PAGES if page != READMES[1] for words in _commands(page)]
    for path in _all_commands(group):
        assert any(tuple(words[: len(path)]) == path for words in shown), f"no page shows hindlake {' '.join(path)}"
        told = CliRunner().invoke(app, [*path, "--help"])
        assert told.exit_code == 0
        assert f"hindlake {' '.join(path)}" in told.output.replace("Usage: hindlake", ""), path


def test_every_public_name_says_what_it_is() -> None:
    for name in set(hindlake.__all__) - {"__version__"}:
        public = getattr(hindlake, name)
        assert inspect.getdoc(public), name
        for member, value in vars(public).items():
            if inspect.isfunction(value) and not member.startswith("_"):
                assert inspect.getdoc(value), f"{name}.{member}"


@pytest.mark.parametrize("module", ["hindlake", *MODULES])
def test_every_module_says_what_it_knows(module: str) -> None:
    assert importlib.import_module(module).__doc__


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("https://", "#")):
            assert (page.parent / target.split("#")[0]).exists(), target


def test_every_requirement_stands_once_and_what_fulfils_it_exists() -> None:
    text = (ROOT / "docs" / "requirements.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([RN]\d+) \| (.+?) \| (.+?) \|$", text, re.MULTILINE)
    assert [row[0] for row in rows] == [f"R{n}" for n in range(1, 36)] + [f"N{n}" for n in range(1, 13)]
    for id, _, fulfilled in rows:
        paths = re.findall(r"`([\w/]+/[\w./]*)`", fulfilled)
        assert "not yet" in fulfilled or paths, id
        for path in paths:
            assert (ROOT / path).exists(), f"{id}: {path}"


def test_the_glossary_has_the_words_that_the_schema_uses() -> None:
    words = dict(re.findall(r"^\| ([\w ]+) \| (.+) \|$", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE))
    meanings = {column.name: column.meaning for column in MEMORIES}
    for name in ("kind", "state"):
        assert words[name] == meanings[name]
    assert set(words["outcome"].split(": ")[1].split(" · ")) == set(OUTCOMES)


def test_the_changes_of_this_version_are_written_down() -> None:
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version
    assert f"## {version[1]}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
