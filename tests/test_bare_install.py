"""What an install without extras can do: log, ingest, show; and say which extra brings the rest."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import hindlake

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PACKAGE = Path(hindlake.__file__).parent


def _closure(requirements: list[str]) -> set[str]:
    """The distributions that an install of the requirements brings."""
    found: set[str] = set()
    wanted = [Requirement(one) for one in requirements]
    while wanted:
        one = wanted.pop()
        if one.name in found or (one.marker and not one.marker.evaluate({"extra": ""})):
            continue
        found.add(one.name)
        wanted += [Requirement(line) for line in distribution(one.name).requires or ()]
    return found


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that sees hindlake and what its bare install brings, and nothing else."""
    folder = tmp_path_factory.mktemp("bare")
    for name in _closure(PROJECT["dependencies"]):
        there = distribution(name)
        for entry in {file.parts[0] for file in there.files or () if file.parts[0] != ".."}:
            link = folder / entry
            if not link.exists():
                link.symlink_to(str(there.locate_file(entry)))
    (folder / "hindlake").symlink_to(PACKAGE)
    return {**os.environ, "PYTHONPATH": str(folder)}


def _run(bare: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python without site packages: only PYTHONPATH counts."""
    return subprocess.run(
        [sys.executable, "-S", "-s", *words], env=bare, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )


def _hindlake(bare: dict[str, str], home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return _run(bare, "-m", "hindlake.cli", "--home", str(home), *words)


@pytest.fixture(scope="module")
def ingested(bare: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that a bare install has ingested traces into."""
    home = tmp_path_factory.mktemp("home")
    run = _hindlake(bare, home, "ingest", str(ROOT / "examples" / "support.jsonl"))
    assert run.returncode == 0, run.stderr
    return home


def test_a_bare_install_ingests_traces_and_shows_them(bare: dict[str, str], ingested: Path) -> None:
    shown = _hindlake(bare, ingested, "status")
    assert shown.returncode == 0, shown.stderr
    assert "4 traces" in shown.stdout


def test_a_bare_install_logs_traces(bare: dict[str, str], tmp_path: Path) -> None:
    program = (
        "import hindlake\n"
        f"with hindlake.Recorder(home={str(tmp_path)!r}) as recorder:\n"
        "    with recorder.task('say hello') as task:\n"
        "        assert task.user('hello')\n"
        "    assert recorder.flush()\n"
    )
    run = _run(bare, "-c", program)
    assert run.returncode == 0, run.stderr
    assert len(list(tmp_path.glob("lake/ns=default/traces/*/*.parquet"))) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "extras"),
    [
        (["search", "hello"], {"recall"}),
        (["rebuild"], {"recall"}),
        (["run", "reflect"], {"recall", "jobs"}),
        (["run", "reflect", "--prefect"], {"flows"}),
        (["demo"], {"recall", "jobs", "flows"}),
    ],
    ids=["search", "rebuild", "reflect", "prefect", "demo"],
)
def test_what_is_not_installed_is_named_with_the_command_that_brings_it(
    bare: dict[str, str], ingested: Path, words: list[str], extras: set[str]
) -> None:
    run = _hindlake(bare, ingested, *words)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "Traceback" not in run.stderr, run.stderr
    assert any(f"pip install 'hindlake[{extra}]'" in run.stderr for extra in extras), run.stderr


def _imports(*, at_import: bool) -> dict[str, set[str]]:
    """Foreign top-level packages by the files that import them; `at_import`: only when the file is loaded."""
    found: dict[str, set[str]] = {}
    for file in _files():
        for node in _nodes(ast.parse(file.read_text(encoding="utf-8")), at_import=at_import):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            for name in names if isinstance(node, ast.Import) or node.level == 0 else ():
                if (top := name.split(".")[0]) not in sys.stdlib_module_names:
                    found.setdefault(top, set()).add(str(file.relative_to(PACKAGE)))
    return found


def _files() -> list[Path]:
    return [
        Path(top) / name for top, _, names in os.walk(PACKAGE, followlinks=True) for name in names if name[-3:] == ".py"
    ]


def _nodes(tree: ast.AST, *, at_import: bool) -> list[ast.Import | ast.ImportFrom]:
    found: list[ast.Import | ast.ImportFrom] = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append(node)
        elif at_import and (isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or _only_for_types(node)):
            continue
        else:
            found += _nodes(node, at_import=at_import)
    return found


def _only_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


#: Import names that are not their distribution's name.
_DISTRIBUTIONS = {
    "agents": "openai-agents",
    "langgraph": "langgraph-checkpoint",
    "opentelemetry": "opentelemetry-sdk",
    "pydantic_core": "pydantic",
}


def _named(requirements: list[str]) -> set[str]:
    return {Requirement(one).name.lower() for one in requirements}


def _distribution(package: str) -> str:
    return _DISTRIBUTIONS.get(package, package.replace("_", "-"))


def test_everything_that_is_imported_is_declared() -> None:
    declared = _named(
        [*PROJECT["dependencies"], *(one for some in PROJECT["optional-dependencies"].values() for one in some)]
    )
    undeclared = {
        name: files for name, files in _imports(at_import=False).items() if _distribution(name) not in declared
    }
    assert undeclared == {}


def test_only_what_a_bare_install_brings_is_imported_when_a_file_is_loaded() -> None:
    """But for the files that are a door themselves: they are loaded by whoever asks for them."""
    base = _named(PROJECT["dependencies"])
    doors = ("flows/", "sdk/integrations/", "sdk/otel.py", "sdk/mcp/")
    wrong = {
        name: some
        for name, files in _imports(at_import=True).items()
        if _distribution(name) not in base and (some := {file for file in files if not file.startswith(doors)})
    }
    assert wrong == {}
