"""The wheel holds the four rooms and nothing else, and a checkout without symlinks refuses to build one."""

from __future__ import annotations

import email
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("flows", "jobs", "memory_store", "sdk")
#: Extras that bring a framework to be wrapped.
FRAMEWORKS = {"langgraph", "openai", "openai-agents"}


def _files() -> list[str]:
    """What git tracks or would track, links not followed."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    return [name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).exists()]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree, so that building leaves nothing in it."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in _files():
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():
            target.symlink_to((ROOT / name).readlink())
        else:
            target.write_bytes((ROOT / name).read_bytes())
    return copy


def _build(kind: str, source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Build as a package's user does, but for the network: the build tools are those that are installed."""
    return subprocess.run(
        [sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--skip-dependency-check", "-o", out, source],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the checkout."""
    out = tmp_path_factory.mktemp("wheel")
    run = _build("wheel", checkout, out)
    assert run.returncode == 0, run.stdout + run.stderr
    return next(out.glob("*.whl"))


def _expected() -> set[str]:
    """Every module, prompt and statement of the rooms and of the package itself, as paths inside a wheel."""
    inside = {
        "hindlake/" + name.removeprefix("src/hindlake/")
        for name in _files()
        if name.startswith("src/hindlake/") and not (ROOT / name).is_symlink()
    }
    rooms = {f"hindlake/{name}" for name in _files() if name.split("/")[0] in ROOMS}
    return inside | rooms


def _content(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_the_wheel_holds_every_file_of_the_rooms_and_nothing_else(wheel: Path) -> None:
    content = _content(wheel)
    assert content == _expected()
    for needed in (
        "hindlake/__init__.py",
        "hindlake/py.typed",
        "hindlake/cli/__init__.py",
        "hindlake/memory_store/history/fold.sql",
        *(f"hindlake/{room}/__init__.py" for room in ROOMS),
    ):
        assert needed in content
    assert any(name.startswith("hindlake/jobs/models/prompts/") for name in content)


def test_the_metadata_names_extras_licence_and_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        folder = next(name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name)
        metadata = email.message_from_bytes(archive.read(f"{folder}/METADATA"))
        commands = archive.read(f"{folder}/entry_points.txt").decode()
        assert f"{folder}/licenses/LICENSE" in archive.namelist()
    assert metadata["Name"] == "hindlake"
    assert metadata["License-Expression"] == "Apache-2.0"
    extras = {"all", "flows", "jobs", "mcp", "otel", "recall"}
    assert set(metadata.get_all("Provides-Extra") or ()) == extras | FRAMEWORKS
    assert "hindlake = hindlake.cli:main" in commands


@pytest.mark.slow
def test_the_wheel_of_the_source_archive_is_the_same(checkout: Path, wheel: Path, tmp_path: Path) -> None:
    run = _build("sdist", checkout, tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    source = next(path for path in tmp_path.iterdir() if path.is_dir())
    run = _build("wheel", source, tmp_path / "out")
    assert run.returncode == 0, run.stdout + run.stderr
    assert _content(next((tmp_path / "out").glob("*.whl"))) == _content(wheel)


@pytest.mark.slow
def test_a_checkout_without_symlinks_refuses_to_build(checkout: Path, tmp_path: Path) -> None:
    """git writes a link as a text file where there are no links."""
    for room in ROOMS:
        link = checkout / "src" / "hindlake" / room
        target = link.readlink()
        link.unlink()
        link.write_text(str(target))
    try:
        run = _build("wheel", checkout, tmp_path)
    finally:
        for room in ROOMS:
            link = checkout / "src" / "hindlake" / room
            link.unlink()
            link.symlink_to(Path("../..") / room)
    assert run.returncode != 0
    assert "src/hindlake lacks flows, jobs, memory_store, sdk" in run.stdout + run.stderr
    assert not list(tmp_path.glob("*.whl"))


def test_the_wheel_works_where_nothing_else_of_the_tree_is(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    program = "import hindlake, hindlake.jobs.models.prompt_files; print(hindlake.__file__, hindlake.Recorder)"
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith(str(tmp_path))


def test_the_all_extra_names_every_other_that_wraps_no_framework() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    own = [name for name in extras if name not in {"all", *FRAMEWORKS}]
    assert extras["all"] == [f"hindlake[{','.join(own)}]"]
    assert set(extras) > FRAMEWORKS


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_a_lock_pins_by_hash_and_names_no_index(lock: str) -> None:
    text = (ROOT / lock).read_text()
    entries = [entry for entry in text.split("\n") if entry and not entry.startswith((" ", "#"))]
    assert entries and all("==" in entry and entry.endswith("\\") for entry in entries)
    for word in ("://", "--index", "--extra-index", "--find-links", "--trusted-host", " @ ", "file:"):
        assert word not in text, f"{lock} has {word}"


def test_the_locks_agree_and_hold_what_the_project_asks_for() -> None:
    def pins(lock: str) -> set[str]:
        return {line for line in (ROOT / lock).read_text().split("\n") if "==" in line and not line.startswith(" ")}

    assert pins("requirements.lock") <= pins("requirements-dev.lock")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(one for some in project["optional-dependencies"].values() for one in some)]
    names = {pin.split("==")[0] for pin in pins("requirements.lock")}
    assert {one.split(">=")[0] for one in asked if not one.startswith("hindlake")} <= names
