"""The tutorial, done as it says: what it tells to save is saved, to type is typed, and what it shows comes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "tutorial.md"
STEPS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def _is(shown: str, printed: list[str], known: dict[str, str]) -> int:
    """Lines of what was printed that stand for what is shown: `…` is anything, and a line of it any lines.

    The first id of a kind that comes where RUN or ID stands is that id from then on.
    """
    at, skips = 0, False
    for line in shown.splitlines():
        if line == "…":
            skips = True
            continue
        pattern = re.escape(line.rstrip()).replace("…", ".*")
        for name in ("RUN", "ID"):
            pattern = re.sub(rf"\b{name}\b", known.get(name, rf"(?P<{name}>[a-z0-9]{{20,}})"), pattern)
        while True:
            assert at < len(printed), f"this did not come: {line}"
            found = re.fullmatch(pattern, printed[at].rstrip())
            at += 1
            if found:
                known.update(found.groupdict())
                break
            assert skips, f"shown: {line}\ncame:  {printed[at - 1]}"
        skips = False
    return len(printed) if skips else at


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_tutorial_goes_as_it_says(tmp_path: Path) -> None:
    bin = tmp_path / "bin"
    bin.mkdir()
    for name, arguments in (("python", ""), ("hindlake", "-m hindlake.cli")):
        (bin / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n', encoding="utf-8")
        (bin / name).chmod(0o755)
    bash = shutil.which("bash")
    assert bash
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HINDLAKE_")}
    environment["PATH"] = f"{bin}{os.pathsep}{environment['PATH']}"
    work = tmp_path / "desk"
    work.mkdir()
    known: dict[str, str] = {}
    printed: list[str] = []
    assert "make demo" in STEPS[0][1]  # CI begins with it
    for language, text in STEPS[1:]:
        if language == "python":
            name = re.match(r'"""(\w+\.py):', text)
            assert name
            (work / name[1]).write_text(text, encoding="utf-8")
        elif language == "sh":
            assert not printed, f"this is not shown: {printed}"
            for placeholder, id in known.items():
                text = re.sub(rf"\b{placeholder}\b", id, text)
            if exported := re.search(r"^export HINDLAKE_HOME=(\S+)$", text, re.MULTILINE):
                environment["HINDLAKE_HOME"] = exported[1]
            done = subprocess.run([bash, "-ec", text], cwd=work, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
            printed = done.stdout.splitlines()
        else:
            assert language == "text"
            printed = printed[_is(text, printed, known) :]
    assert not printed, f"this is not shown: {printed}"
