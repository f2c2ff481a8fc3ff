"""A copy of the store on this machine's disk: what searches of it find is what the bucket holds, at every moment."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from hindlake.memory_store.clock import SystemClock
from hindlake.memory_store.embedders import embedder_of
from hindlake.memory_store.errors import SettingsError
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.files.store_copy import StoreCopy
from hindlake.memory_store.history.log import settle
from hindlake.memory_store.settings import S3Settings, Settings
from hindlake.memory_store.store.generations import build, current, fold_to_head, open_tables
from hindlake.memory_store.store.registry import drop, find
from hindlake.memory_store.store.tables import Tables
from hindlake.sdk.memory import Memory

_NOWHERE = S3Settings(endpoint="http://127.0.0.1:9", access_key_id="x", secret_access_key=SecretStr("x"))
WORDS = ("valve", "pump", "filter", "rotor", "gasket", "piston", "flange", "nozzle")


@pytest.fixture
def bucket(s3_settings: Settings, tmp_path: Path) -> Settings:
    """A home in a bucket whose store is copied to this disk, looked at by every search."""
    return Settings.load(
        home=s3_settings.home, s3=s3_settings.s3, embedder="wordllama",
        index={"copy_to": str(tmp_path / "copies"), "copy_seconds": 3600},
    )  # fmt: skip


@pytest.fixture
def memory(bucket: Settings) -> Iterator[Memory]:
    """A memory over it, which knows two things that are folded."""
    with Memory(bucket) as memory:
        memory.remember("The valve is made of brass")
        memory.remember("The pump runs at night")
        folded(bucket)
        yield memory


def folded(settings: Settings) -> None:
    """Bring the store in the bucket up to the log."""
    lake = Lake.open(settings)
    settle(lake, "default")
    fold_to_head(lake, open_tables(settings, current(lake)), "default", embedder_of(settings))


def copied(settings: Settings) -> StoreCopy:
    """The copy, as the bucket is now."""
    copy = StoreCopy(Lake.open(settings), settings)
    assert copy.bring(name_of(settings)).reason == ""
    return copy


def name_of(settings: Settings) -> str:
    return current(Lake.open(settings)).name


def reads_copy(memory: Memory) -> bool:
    return not memory._reader._current().tables.url.startswith("s3://")


def texts(memory: Memory, query: str = "the valve and the pump") -> set[str]:
    return {hit.text for hit in memory.search(query, limit=50, log_read=False)}


def test_a_search_reads_the_copy_and_finds_the_same_and_what_is_written_or_forgotten_after_it(
    bucket: Settings, memory: Memory
) -> None:
    before = texts(memory)
    copied(bucket)
    assert reads_copy(memory)
    assert texts(memory) == before == {"The valve is made of brass", "The pump runs at night"}
    said = memory.remember("The valve leaks")
    [brass] = [hit for hit in memory.search("brass", log_read=False) if "brass" in hit.text]
    memory.forget(brass.id)
    for _ in range(2):  # before the bucket's store is folded, and after it, with the copy behind it
        assert texts(memory) == {"The valve leaks", "The pump runs at night"}
        folded(bucket)
    with Memory(bucket) as other:
        assert reads_copy(other)
        assert texts(other) == {"The valve leaks", "The pump runs at night"}
        assert other.explain(said).memory["state"] == "pending"
    folder = Path(copied(bucket).ready(name_of(bucket)))
    assert Tables.open(str(folder), bucket).folded_to("default") == 4
    assert texts(memory) == {"The valve leaks", "The pump runs at night"}


def test_a_second_look_fetches_nothing_and_what_the_bucket_dropped_is_removed_when_it_is_old(
    bucket: Settings, memory: Memory
) -> None:
    copy, name = copied(bucket), name_of(bucket)
    again = copy.bring(name)
    assert (again.fetched, again.removed) == (0, 0) and again.files > 5
    stray = Path(copy.ready(name), "memories.lance", "data", "stray.lance")
    stray.write_bytes(b"x")
    assert copy.bring(name).removed == 0, "another process may have fetched what was written since"
    os.utime(stray, (0, 0))
    assert copy.bring(name).removed == 1 and not stray.exists()


def test_readers_go_to_the_bucket_while_a_new_generation_is_copied_and_the_old_copy_goes_with_its_generation(
    bucket: Settings, memory: Memory
) -> None:
    lake, copy = Lake.open(bucket), copied(bucket)
    old = current(lake)
    assert reads_copy(memory)
    new = build(lake, bucket, SystemClock())
    assert not copy._root.joinpath(new.name).exists()
    assert texts(memory) == {"The valve is made of brass", "The pump runs at night"}
    copy.bring(new.name)
    assert reads_copy(memory) and memory._reader._current().generation == new
    drop(lake, bucket, find(lake, old.number))
    copy.bring(new.name)
    assert not copy._root.joinpath(old.name).exists() and not copy.ready(old.name)
    assert copy.bring(old.name).reason == "it was dropped"


def test_a_store_that_is_larger_than_the_limit_is_read_in_the_bucket(bucket: Settings, memory: Memory) -> None:
    copied(bucket)
    small = Settings.load(**{**dict(bucket), "index": {**dict(bucket.index), "copy_mb": 0}})
    assert "COPY_MB is 0" in StoreCopy(Lake.open(small), small).bring(name_of(bucket)).reason
    assert not reads_copy(memory) and texts(memory)


def test_a_copy_that_is_damaged_is_removed_and_the_bucket_answers(bucket: Settings, memory: Memory) -> None:
    folder = Path(copied(bucket).ready(name_of(bucket)))
    with Memory(bucket) as other:
        assert reads_copy(other)
        for path in folder.rglob("*.lance"):
            if path.is_file():
                path.write_bytes(path.read_bytes()[:50])
        assert texts(other) == {"The valve is made of brass", "The pump runs at night"}
    copied(bucket)
    for path in folder.rglob("*.manifest"):
        path.write_bytes(b"")
    with Memory(bucket) as another:
        assert texts(another) == {"The valve is made of brass", "The pump runs at night"}
    copied(bucket)
    assert all(path.stat().st_size > 50 for path in folder.rglob("*.lance") if path.is_file())
    assert reads_copy(memory) and texts(memory)


def test_a_copy_that_could_not_be_brought_up_to_date_for_long_is_not_read(bucket: Settings, memory: Memory) -> None:
    copy, name = copied(bucket), name_of(bucket)
    os.utime(copy._mark(name), (0, 0))
    gone = bucket.model_copy(update={"s3": _NOWHERE})
    assert StoreCopy(Lake.open(bucket), gone).ready(name) == ""


def test_a_search_has_the_copy_made_in_the_background(bucket: Settings, memory: Memory) -> None:
    until = time.monotonic() + 60
    while not reads_copy(memory):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert texts(memory) == {"The valve is made of brass", "The pump runs at night"}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_copy_under_a_writer_is_never_wrong(bucket: Settings, memory: Memory) -> None:
    copied(bucket)
    done = threading.Event()

    def follow() -> None:
        copy = StoreCopy(Lake.open(bucket), bucket)
        while not done.is_set():
            copy.bring(name_of(bucket))

    thread = threading.Thread(target=follow)
    thread.start()
    said: list[str] = []
    try:
        for word in WORDS:
            said.append(memory.remember(f"The {word} was replaced"))
            if len(said) % 3 == 0:
                memory.forget(said.pop(0))
            folded(bucket)
            assert reads_copy(memory)
            found = {hit.id for hit in memory.search("was replaced", limit=50, log_read=False)}
            assert set(said) <= found, word
    finally:
        done.set()
        thread.join()
    assert {hit.id for hit in memory.search("was replaced", limit=50, log_read=False)} >= set(said)


def test_a_home_in_a_folder_has_no_copy(settings: Settings) -> None:
    with pytest.raises(SettingsError, match="HINDLAKE_INDEX_COPY_TO"):
        StoreCopy(Lake.open(settings), settings)
