"""What the pages tell to type does what it says: each command of each page, one after the other, is run.

The tutorial, and hindlake's commands of the README, have tests of their own (test_docs_tutorial.py, test_docs.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from docs_desk import ROOT, Desk, lines_of, make_past

PAGES = [
    page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if page.name != "tutorial.md" and any(lines_of(page))
]  # fmt: skip

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.usefixtures("shipped_embedder")]


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, str]]:
    """A home in which something happened, and what stands for the placeholders of pages."""
    home = tmp_path_factory.mktemp("past") / "home"
    return home, make_past(home)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_tells_to_type_works(
    page: Path, past: tuple[Path, Mapping[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, known = past
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:
        desk = Desk(tmp_path, home, known, stack)
        if page.name in ("model-door.md", "review.md"):
            desk.variables |= {"HINDLAKE_MODEL_BASE_URL": desk.model, "HINDLAKE_MODEL_NAME": "scripted"}
        for line in lines_of(page):
            if page.name == "README.md" and line.words[0] in ("hindlake", "export"):
                continue
            try:
                desk.type(line)
            except (AssertionError, OSError) as error:
                error.add_note(line.place)
                raise
