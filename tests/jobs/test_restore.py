"""A restore puts back what is missing, takes nothing away, brings back nothing that was purged, and can be undone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hindlake.jobs.backup import backup
from hindlake.jobs.purge import purge
from hindlake.jobs.restore import restore
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.embedders import embedder_of
from hindlake.memory_store.errors import LakeError, UsageError
from hindlake.memory_store.files.backups import Backups, pool_path
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.inbox import write_user_act
from hindlake.memory_store.history.log import settle
from hindlake.memory_store.recall.predicates import Filter
from hindlake.memory_store.records.purged import blocked
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.store.generations import build, ensure, fold_to_head, open_tables
from hindlake.memory_store.store.registry import current
from hindlake.sdk.memory import Memory
from kept_home import NOW, assert_consistent, known_ids, memories, memory_row, night, reflect_on, remember

SECRET = "the passport of Ann has the number X4478-22-991"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings.load(home=str(home), embedder="wordllama")


@pytest.fixture
def backups(settings: Settings, tmp_path: Path) -> Backups:
    return Backups(settings, str(tmp_path / "backups"), make=True)


def fill(lake: Lake) -> None:
    for number in range(3):
        reflect_on(lake, f"t{number}")
    remember(lake, "budget", "the budget is 5000")
    settle(lake, "default")


def act(decision: str, id: str, **columns: Any) -> dict[str, Any]:
    return {"act": f"{decision}-{id}", "at": NOW, "decision": decision, "id": id, **columns}


def rows(settings: Settings) -> list[dict[str, Any]]:
    """What readers of the store get, vectors and all."""
    found = open_tables(settings, current(Lake.open(settings))).scan(Filter(("default",), states=None))
    return sorted(found.to_pylist(), key=lambda row: row["id"])


def seen(settings: Settings) -> set[str]:
    with Memory(settings) as memory:
        return {hit.id for hit in memory.search("", limit=50)}


def test_a_fresh_home_gets_the_same_memories_row_for_row(
    lake: Lake, settings: Settings, clock: ManualClock, backups: Backups, tmp_path: Path
) -> None:
    fill(lake)
    write_user_act(lake, "default", [act("archive", "of-t1", state="archived")])
    settle(lake, "default")
    build(lake, settings, clock)
    remember(lake, "waits")
    backup(lake, backups, settings, clock)
    fresh = Settings.load(home=str(tmp_path / "fresh"), embedder="wordllama")
    assert restore(fresh, backups, clock, dry_run=True).put_back == len(lake.names("")) - 1
    assert not (tmp_path / "fresh" / "lake" / "format.json").exists()
    report = restore(fresh, backups, clock)
    assert (report.is_new, report.before, report.parted) == (True, 0, [])
    settle(lake, "default")
    build(lake, settings, clock)
    assert rows(fresh) == rows(settings)
    assert len(rows(fresh)) == 5
    assert Lake.open(fresh).format().lake == lake.format().lake
    assert_consistent(Lake.open(fresh))


def test_a_live_lake_gets_what_it_lacks_and_loses_nothing(
    lake: Lake, settings: Settings, clock: ManualClock, backups: Backups
) -> None:
    fill(lake)
    first = ensure(lake, settings, clock)
    backup(lake, backups, settings, clock)
    reflect_on(lake, "later")
    remember(lake, "newest")
    before = {path: lake.get(path) for path in lake.names("")}
    gone = ["ns=default/log/000000000002.parquet", "ns=default/gate/t1.parquet"]
    lake.delete(gone)
    (spoilt,) = [path for path in lake.names("ns=default/traces") if b"t2" in lake.get(path)][:1]
    lake.put(spoilt, before[spoilt][:40])
    report = restore(settings, backups, clock)
    assert (report.put_back, report.replaced, report.is_new) == (2, [spoilt], False)
    assert report.before == first.number
    after = {path: lake.get(path) for path in lake.names("")}
    assert {path: after[path] for path in before if "inbox" not in path} == {
        path: data for path, data in before.items() if "inbox" not in path
    }
    assert {"of-later", "newest", "of-t0", "of-t1", "of-t2"} <= seen(settings)
    assert_consistent(lake)
    again = restore(settings, backups, clock)
    assert (again.put_back, again.replaced) == (0, [])


def test_what_was_settled_or_joined_since_is_not_put_back(
    lake: Lake, settings: Settings, clock: ManualClock, backups: Backups
) -> None:
    from hindlake.jobs.compact import compact

    fill(lake)
    remember(lake, "waits")
    backup(lake, backups, settings, clock)
    settle(lake, "default")
    free = settings.model_copy(
        update={
            "jobs": settings.jobs.model_copy(update={"compact_min_age_minutes": 0, "compact_grace_minutes": 0}),
        }
    )
    later = ManualClock(NOW.replace(year=2100))
    compact(lake, free, later, version="test")
    assert compact(lake, free, later, version="test").deleted
    report = restore(settings, backups, clock)
    assert report.put_back == 0
    assert (report.left_out["it was settled"], report.left_out["it was joined"]) == (1, 3)


def test_as_of_backup_shows_what_was_known_then_and_a_switch_shows_the_rest(
    lake: Lake, settings: Settings, clock: ManualClock, backups: Backups
) -> None:
    fill(lake)
    remember(lake, "waits")
    backup(lake, backups, settings, clock)
    settle(lake, "default")
    build(lake, settings, clock)
    reflect_on(lake, "later")
    write_user_act(lake, "default", [act("forget", "budget", state="deleted")])
    write_user_act(lake, "default", [act("forget", "waits", state="deleted")])
    reflect_on(lake, "born-after", namespace="other")
    settle(lake, "default")
    log = lake.names("ns=default/log")
    report = restore(settings, backups, clock, hold=True)
    assert lake.names("ns=default/log") == log
    assert seen(settings) == {"of-t0", "of-t1", "of-t2", "budget", "waits"}
    tables = open_tables(settings, current(lake))
    assert tables.scan(Filter(("other",), states=None)).num_rows == 0
    # What is written from now on is there, at once and after it is folded, and changes what is shown.
    remember(lake, "new")
    write_user_act(lake, "default", [act("archive", "of-t0", state="archived")])
    assert seen(settings) == {"of-t1", "of-t2", "budget", "waits", "new"}
    settle(lake, "default")
    fold_to_head(lake, tables, "default", embedder_of(settings))
    assert seen(settings) == {"of-t1", "of-t2", "budget", "waits", "new"}
    build(lake, settings, clock)
    assert seen(settings) == {"of-t1", "of-t2", "of-later", "new"}
    assert report.before == 1


def test_what_was_purged_after_the_backup_comes_back_by_no_way(
    lake: Lake, settings: Settings, clock: ManualClock, backups: Backups, tmp_path: Path
) -> None:
    """The disk with the backups was not there when it was purged, so that they still hold it."""
    fill(lake)
    trace = [{"trace_id": "t1", "event_id": "t1-e", "quote": SECRET}]
    write_user_act(lake, "default", [memory_row("secret", SECRET, evidence=trace, state="active")])
    settle(lake, "default")
    build(lake, settings, clock)
    backup(lake, backups, settings, clock)
    away = tmp_path / "away"
    shutil.move(backups.url, away)
    receipt = purge(lake, settings, clock, "default", ids=["secret"], now=True)
    assert [item["what"][:10] for item in receipt.expires] == ["backups in"]
    shutil.move(away, backups.url)
    lake.delete(["ns=default/log/000000000005.parquet", "ns=default/reflections/x", *lake.names("ns=default/vectors")])
    for hold in (False, True):
        report = restore(settings, backups, clock, hold=hold)
        assert report.parted == []
        assert SECRET.encode() not in b"".join(lake.get(path) for path in lake.names(""))
        assert not any(row["text"] and SECRET in row["text"] for row in rows(settings))
        assert "secret" not in seen(settings)
    assert report.cleaned == 0  # it was all there by then
    # A home that knows nothing of the purge learns of it from a backup that was made since.
    backup(lake, backups, settings, night(clock))
    other = Settings.load(home=str(tmp_path / "other"), embedder="wordllama")
    report = restore(other, backups, clock, "20260301")
    assert report.cleaned >= 1
    assert "secret" not in seen(other)
    assert not any(row["text"] and SECRET in row["text"] for row in memories(Lake.open(other)))
    assert blocked(Lake.open(other), "default").ids == {"secret"}
    remember(Lake.open(other), "secret", SECRET)
    settle(Lake.open(other), "default")
    assert "secret" not in seen(other)


def test_logs_that_parted_are_told_and_nothing_is_replaced(
    lake: Lake, settings: Settings, clock: ManualClock, backups: Backups
) -> None:
    fill(lake)
    backup(lake, backups, settings, clock)
    lost = lake.names("ns=default/log")[2:]
    lake.delete([*lost, "ns=default/gate/t0.parquet"])
    remember(lake, "other-way")
    settle(lake, "default")
    with pytest.raises(LakeError, match=r"000000000003\.parquet"):
        restore(settings, backups, clock)
    assert "other-way" in known_ids(lake)
    assert lake.exists("ns=default/gate/t0.parquet")


def test_a_home_that_was_filled_halfway_is_refused_until_it_is_finished(
    lake: Lake, settings: Settings, clock: ManualClock, backups: Backups, tmp_path: Path
) -> None:
    """A file of the pool is gone, so that the restore stops; it comes back, and the same call goes on."""
    fill(lake)
    backup(lake, backups, settings, clock)
    (file,) = [file for file in backups.manifest().files if file.path.endswith("log/000000000003.parquet")]
    where = Path(backups.url) / pool_path(file.path, file.sha256)
    data = where.read_bytes()
    where.unlink()
    fresh = Settings.load(home=str(tmp_path / "fresh"), embedder="wordllama")
    with pytest.raises(LakeError, match="is gone"):
        restore(fresh, backups, clock)
    with pytest.raises(LakeError, match="hindlake backup restore 20260301"):
        Lake.open(fresh).names("")
    with pytest.raises(LakeError, match="hindlake backup restore"), Memory(fresh) as memory:
        memory.remember("too early")
    where.write_bytes(data)
    assert restore(fresh, backups, clock).is_new
    assert seen(fresh) == {"of-t0", "of-t1", "of-t2", "budget"}


def test_a_home_of_another_lake_or_a_newer_one_is_refused(
    lake: Lake, settings: Settings, clock: ManualClock, backups: Backups, tmp_path: Path
) -> None:
    fill(lake)
    backup(lake, backups, settings, clock)
    other = Settings.load(home=str(tmp_path / "other"))
    remember(Lake.open(other), "mine")
    before = set(Path(other.home).rglob("*"))
    with pytest.raises(UsageError, match="a home of its own"):
        restore(other, backups, clock)
    assert set(Path(other.home).rglob("*")) == before
    own = msgspec.json.decode(lake.get("format.json"))
    lake.put("format.json", msgspec.json.encode({**own, "format": 9, "version": "7.7"}))
    with pytest.raises(LakeError, match=r"hindlake>=7\.7"):
        restore(settings, backups, clock)


@pytest.mark.parametrize("data", [None, b'{"format": '])
def test_a_lake_that_does_not_say_which_it_is_gets_its_format_back_unless_it_is_another(
    lake: Lake, settings: Settings, clock: ManualClock, backups: Backups, tmp_path: Path, data: bytes | None
) -> None:
    fill(lake)
    backup(lake, backups, settings, clock)
    own = lake.get("format.json")
    other = Settings.load(home=str(tmp_path / "other"))
    reflect_on(Lake.open(other), "x")
    for one in (settings, other):
        path = Path(one.home) / "lake" / "format.json"
        path.unlink() if data is None else path.write_bytes(data)
    restore(settings, backups, clock)
    assert lake.get("format.json") == own
    before = set(Path(other.home).rglob("*"))
    with pytest.raises(LakeError, match="another lake"):
        restore(other, backups, clock)
    assert set(Path(other.home).rglob("*")) == before
