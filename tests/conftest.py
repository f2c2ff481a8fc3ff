"""Isolation and fixtures: no test reads the user's home or variables, calls a model, or leaves a server behind."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from servers.s3 import S3Server, s3_home, s3_server

hypothesis.settings.register_profile("hindlake", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("hindlake")

_FOREIGN = ("HINDLAKE_", "AWS_", "OPENAI_", "OTEL_", "PREFECT_", "RAY_", "XDG_")
#: Where the data lies that some tests measure on; without it they are skipped.
_KEPT = ("HINDLAKE_DATA",)


def pytest_configure(config: pytest.Config) -> None:
    """Give the whole session a home of its own, before anything reads the real one."""
    home = tempfile.TemporaryDirectory(prefix="hindlake-tests-", ignore_cleanup_errors=True)
    config.add_cleanup(home.cleanup)
    for name in [name for name in os.environ if name.startswith(_FOREIGN) and name not in _KEPT]:
        del os.environ[name]
    os.environ.update(
        HOME=home.name,
        HINDLAKE_EMBEDDER="wordllama",  # as right as the shipped one where a test is not about what is near, and faster
        HINDLAKE_MODEL_CALLS="off",
        PREFECT_HOME=f"{home.name}/prefect",
        PREFECT_SERVER_ANALYTICS_ENABLED="false",
        PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS="120",
        RAY_USAGE_STATS_ENABLED="0",
    )
    if "PYTHONPATH" in os.environ:  # tests start processes in folders of their own
        paths = os.environ["PYTHONPATH"].split(os.pathsep)
        os.environ["PYTHONPATH"] = os.pathsep.join(os.path.abspath(path) for path in paths if path)


@pytest.fixture(autouse=True)
def _isolated(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in an empty folder, where no hindlake.toml lies, and put the environment back afterwards."""
    monkeypatch.chdir(tmp_path_factory.mktemp("cwd"))


@pytest.fixture
def shipped_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Embed with what users embed with who set nothing."""
    monkeypatch.delenv("HINDLAKE_EMBEDDER")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home that does not exist yet."""
    return tmp_path / "home"


@pytest.fixture
def settings(home: Path) -> Settings:
    """Settings whose home is a fresh folder."""
    return Settings.load(home=str(home))


@pytest.fixture
def lake(settings: Settings) -> Lake:
    """An empty lake in a folder."""
    return Lake.open(settings)


@pytest.fixture
def clock() -> ManualClock:
    """A clock that moves when told to."""
    return ManualClock()


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """The address of a real S3 server, which lives as long as the session."""
    with s3_server() as server:
        yield server


@pytest.fixture
def s3_settings(s3: S3Server) -> Settings:
    """Settings whose home is a fresh prefix of a bucket."""
    return s3_home(s3.endpoint)


@pytest.fixture(params=["folder", "s3"])
def any_settings(request: pytest.FixtureRequest) -> Settings:
    """Settings of a home in a folder, then of one in a bucket."""
    chosen: Settings = request.getfixturevalue("settings" if request.param == "folder" else "s3_settings")
    return chosen


@pytest.fixture
def any_lake(any_settings: Settings) -> Lake:
    """An empty lake, in a folder, then in a bucket."""
    return Lake.open(any_settings)
