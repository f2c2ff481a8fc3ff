"""A lake says its format; one of a newer version is refused before anything is read or written."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from hindlake.memory_store.capture.spool import waiting
from hindlake.memory_store.errors import DamagedFile, LakeError
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.files.lake_format import FORMAT, MARKER, own_version
from hindlake.memory_store.history.inbox import write_user_act
from hindlake.memory_store.settings import Settings
from hindlake.sdk.memory import Memory
from hindlake.sdk.recorder import Recorder
from kept_home import memory_row, reflect_on


def test_the_first_file_of_a_lake_brings_its_format(any_lake: Lake, any_settings: Settings) -> None:
    assert any_lake.names("") == []
    any_lake.put("ns=a/runs/x.json", b"{}")
    assert any_lake.names("") == [MARKER, "ns=a/runs/x.json"]
    found = any_lake.format()
    assert (found.format, found.version, found.restoring) == (FORMAT, own_version(), "")
    again = Lake.open(any_settings)
    again.put("ns=a/runs/y.json", b"{}")
    assert again.format() == found
    assert found.lake


def test_reading_an_empty_lake_writes_nothing(lake: Lake, settings: Settings) -> None:
    assert lake.namespaces() == []
    assert not lake.exists("x")
    assert not (Path(settings.home) / "lake" / MARKER).exists()


def test_a_lake_without_a_format_is_of_the_first(lake: Lake, settings: Settings) -> None:
    reflect_on(lake, "t1")
    lake.delete([MARKER])
    assert Lake.open(settings).namespaces() == ["default"]
    assert Lake.open(settings).format().format == 1


def test_a_newer_lake_is_refused_before_anything_is_touched(any_lake: Lake, any_settings: Settings) -> None:
    reflect_on(any_lake, "t1")
    newer = {"format": FORMAT + 1, "lake": "l", "version": "9.1", "what this version does not know": [1]}
    any_lake.put(MARKER, msgspec.json.encode(newer))
    before = {path: any_lake.get(path) for path in any_lake.names("")}
    lake = Lake.open(any_settings)
    for call in (
        lambda: lake.names(""),
        lambda: lake.put("ns=a/x", b""),
        lambda: lake.create("ns=a/x", b""),
        lambda: lake.delete(["ns=default/gate/t1.parquet"]),
        lambda: lake.format(),
        lambda: write_user_act(lake, "default", [memory_row("a", "a")]),
    ):
        with pytest.raises(LakeError, match=r"pip install -U 'hindlake>=9\.1'"):
            call()
    with pytest.raises(LakeError, match="Nothing was changed"), Memory(any_settings) as memory:
        memory.remember("x")
    assert {path: any_lake.get(path) for path in any_lake.names("")} == before


def test_a_recorder_keeps_its_events_while_the_lake_is_newer(lake: Lake, settings: Settings) -> None:
    """Nothing that was acknowledged is lost: it waits in the spool for the version that can write it."""
    lake.put(MARKER, msgspec.json.encode({"format": FORMAT + 1, "version": "9.1"}))
    recorder = Recorder(settings)
    with recorder.task("ship it") as task:
        assert task.user("where is it?")
    assert not recorder.close()
    assert waiting(settings.spool_folder).events == 3


def test_a_format_that_was_cut_short_is_named(lake: Lake, settings: Settings) -> None:
    lake.put(MARKER, b'{"format": ')
    with pytest.raises(DamagedFile, match="hindlake backup restore"):
        Lake.open(settings).names("")
