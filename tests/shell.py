"""Commands run in this process as the installed script would run them."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hindlake.cli import main


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.out)
        return value


class Shell:
    """Runs commands in this process as the installed script would."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self._capsys, self._monkeypatch = home, capsys, monkeypatch

    def __call__(self, *arguments: str) -> Done:
        self._monkeypatch.setattr(sys, "argv", ["hindlake", *arguments])
        self._monkeypatch.setenv("HINDLAKE_HOME", str(self.home))
        self._capsys.readouterr()
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        else:
            code = 0
        out, err = self._capsys.readouterr()
        return Done(code, out, err)
