"""A lake that an earlier version wrote opens, is searched, folded, rebuilt and looked after; stores may need a step."""

from __future__ import annotations

import shutil
from pathlib import Path

import lancedb
import pyarrow as pa
import pytest

from hindlake.flows.maintenance import NIGHTLY, run_steps
from hindlake.jobs.backup import backup
from hindlake.jobs.safekeeping.check import check_points
from hindlake.memory_store.capture.traces import scan_events
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.errors import NoGeneration, StoreError
from hindlake.memory_store.files.backups import Backups
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.files.upgrade import migrate, needed
from hindlake.memory_store.history.log import settle
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.store.generations import build, open_tables, store_url
from hindlake.memory_store.store.registry import current
from hindlake.sdk.memory import ANY_SUBJECT, Memory
from kept_home import NOW, reflect_on

LAKES = Path(__file__).parents[2] / "fixtures" / "lakes"
VERSIONS = sorted(path.name for path in LAKES.iterdir())


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW.replace(month=3, day=10))


def kept_lake(version: str, home: Path, *, without: str = "") -> Settings:
    """A home with the lake of a version; `without`: a column that its files lack."""
    shutil.copytree(LAKES / version, home / "lake")
    settings = Settings.load(home=str(home), embedder="wordllama")
    if without:
        lake = Lake.open(settings)
        for path in lake.names(""):
            if path.endswith(".parquet") and without in (rows := lake.read_table(path)).column_names:
                lake.put_table(path, rows.drop_columns([without]))
    return settings


def test_the_version_of_this_package_has_a_lake() -> None:
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    assert any(f'version = "{version}"' in text for version in VERSIONS)
    for version in VERSIONS:
        assert sum(path.stat().st_size for path in (LAKES / version).rglob("*") if path.is_file()) < 200_000


@pytest.mark.parametrize("version", VERSIONS)
def test_a_lake_of_an_earlier_version_is_used_as_it_is(version: str, home: Path, clock: ManualClock) -> None:
    settings = kept_lake(version, home)
    lake = Lake.open(settings)
    with pytest.raises(NoGeneration, match="hindlake rebuild"):
        open_tables(settings, current(lake))
    assert scan_events(lake, "default", ["content"]).num_rows > 10
    settle(lake, "default")
    build(lake, settings, clock)
    with Memory(settings, clock=clock) as memory:
        found = [hit.text for hit in memory.search("budget of the trip", subject="user:ann")]
        assert "The budget of the trip is 8000" in found
        assert "The budget of the trip is 5000" not in found
        texts = {hit.text for hit in memory.search("", subject=ANY_SUBJECT, limit=200)}
        assert "This one waits in the inbox" in texts
        assert not [text for text in texts if "4711" in text or "kettle" in text]
        memory.remember("written by this version")
        assert memory.search("written by this version")
    assert not run_steps(NIGHTLY, settings, clock, version="test").failed
    backups = Backups(settings, str(home.parent / "backups"), make=True)
    backup(lake, backups, settings, clock)
    manifest = backups.manifest()
    assert check_points(backups.lake(manifest), manifest) == []
    assert needed(lake, settings) == []


@pytest.mark.parametrize("column", ["entities", "not_when", "said_by", "quality", "attributes"])
def test_columns_that_came_later_are_read_as_nothing(column: str, home: Path, clock: ManualClock) -> None:
    settings = kept_lake(VERSIONS[0], home, without=column)
    lake = Lake.open(settings)
    settle(lake, "default")
    build(lake, settings, clock)
    with Memory(settings, clock=clock) as memory:
        assert memory.search("budget of the trip", subject="user:ann")
    assert scan_events(lake, "default", ["content"]).num_rows > 10


def test_a_store_that_lacks_a_column_says_which_command_migrates_it(
    lake: Lake, settings: Settings, clock: ManualClock
) -> None:
    settings = settings.model_copy(update={"embedder": "wordllama"})
    reflect_on(lake, "t1")
    old = build(lake, settings, clock)
    database = lancedb.connect(store_url(settings, old.name))
    rows: pa.Table = database.open_table("memories").to_arrow().drop_columns(["not_when"])
    database.drop_table("memories")
    database.create_table("memories", rows)
    for act in (lambda: open_tables(settings, old), lambda: Memory(settings, clock=clock).search("learnt")):
        with pytest.raises(StoreError, match=r"lacks not_when: run `hindlake migrate`"):
            act()
    (step,) = needed(lake, settings)
    assert "not_when" in step
    assert migrate(lake, settings, clock, dry_run=True)["generation"] == ""
    assert current(lake) == old
    done = migrate(lake, settings, clock)
    assert done["generation"] == current(lake).name != old.name
    assert Memory(settings, clock=clock).search("learnt")
    assert migrate(lake, settings, clock)["steps"] == []
