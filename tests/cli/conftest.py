"""A shell for the tests of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from shell import Shell


@pytest.fixture
def shell(home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(home, capsys, monkeypatch)
