"""Every example runs, offline, and shows what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
#: Of each example a line that it prints, or a part of one.
SHOWN = {
    "langgraph_store.py": "My budget for a laptop is 8000. (agent, not checked yet) (update)",
    "openai_agents_sdk.py": "  tool_call memory_query",
    "opentelemetry_agent.py": "Where is parcel 17? track_parcel",
}
#: The same of those that reflect in between, which takes a few seconds.
REFLECTING = {
    "claude_code_session.py": "uv run pytest",
    "openai_client.py": "tomorrow: 2 calls of tools",
}


def run(name: str, home: Path) -> str:
    command = [sys.executable, str(EXAMPLES / name), str(home)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert told.returncode == 0, told.stderr
    return told.stdout


@pytest.mark.parametrize("name", SHOWN)
def test_an_example_runs_and_shows_what_it_is_about(name: str, home: Path) -> None:
    assert SHOWN[name] in run(name, home)


@pytest.mark.slow
@pytest.mark.timeout(280)
@pytest.mark.usefixtures("shipped_embedder")
@pytest.mark.parametrize("name", REFLECTING)
def test_an_agent_knows_tomorrow_what_it_failed_at_today(name: str, home: Path) -> None:
    assert REFLECTING[name] in run(name, home)


def test_every_example_is_run_and_stands_in_the_docs() -> None:
    page = (EXAMPLES.parent / "docs" / "integrations.md").read_text(encoding="utf-8")
    names = {path.name for path in EXAMPLES.glob("*.py")} - {"scripted.py"}
    assert names == {*SHOWN, *REFLECTING}
    assert [name for name in names if f"`examples/{name}`" not in page] == []
