"""What is public is written down, and logging traces loads none of the heavy packages."""

from __future__ import annotations

import ast
import importlib
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import hindlake
from hindlake.memory_store import errors

ROOT = Path(__file__).parents[1]
ROOMS = ("sdk", "memory_store", "jobs", "flows")
HEAVY = (
    "agents",
    "duckdb",
    "lancedb",
    "langgraph",
    "mcp",
    "numpy",
    "openai",
    "opentelemetry",
    "polars",
    "prefect",
    "pyarrow",
    "ray",
    "torch",
)


def _loaded_by(program: str) -> list[str]:
    """Top-level packages that a program loads in a fresh process."""
    tail = "; import json, sys; print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    run = subprocess.run([sys.executable, "-c", program + tail], capture_output=True, text=True, check=True)
    loaded: list[str] = json.loads(run.stdout.splitlines()[-1])
    return loaded


@pytest.mark.parametrize(
    "program",
    [
        "import hindlake",
        "import hindlake; hindlake.Recorder",
        "import hindlake.sdk.recorder",
        "import hindlake; hindlake.Settings; hindlake.ManualClock; hindlake.MissingExtra",
    ],
)
def test_logging_loads_no_heavy_package(program: str) -> None:
    assert [name for name in _loaded_by(program) if name in HEAVY] == []


@pytest.mark.parametrize("program", ["import hindlake; hindlake.Memory", "import hindlake.cli"])
def test_what_is_not_used_yet_is_not_loaded_yet(program: str) -> None:
    heavy = set(HEAVY) - {"numpy", "pyarrow"}
    assert [name for name in _loaded_by(program) if name in heavy] == []


def test_public_names_are_sorted_and_each_can_be_used() -> None:
    assert hindlake.__all__ == sorted(hindlake.__all__)
    assert dir(hindlake) == hindlake.__all__
    for name in hindlake.__all__:
        assert getattr(hindlake, name) is not None


def test_every_error_is_public() -> None:
    raised = {name for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, Exception)}
    assert raised <= set(hindlake.__all__)


def test_what_type_checkers_see_is_what_is_public() -> None:
    tree = ast.parse(Path(hindlake.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {}
    for node in block.body:
        if isinstance(node, ast.ImportFrom):
            seen.update({alias.name: node.module for alias in node.names})
    assert {*seen, "__version__"} == set(hindlake.__all__)
    for name, module in seen.items():
        assert getattr(hindlake, name) is getattr(importlib.import_module(f"hindlake.{module}"), name)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Memmory'"):
        hindlake.Memmory  # noqa: B018


def test_what_is_public_pickles_by_its_own_name() -> None:
    assert pickle.loads(pickle.dumps(hindlake.ManualClock)) is hindlake.ManualClock


def test_the_docs_say_of_every_folder_of_a_room_what_its_package_says() -> None:
    told = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    inits = [path for room in ROOMS for path in (ROOT / room).rglob("__init__.py") if path.parent != ROOT / room]
    assert len(inits) > 15
    for path in inits:
        first = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").splitlines()[0]
        assert f"| `{path.parent.relative_to(ROOT).as_posix()}/` | {first.rstrip('.')} |" in told
