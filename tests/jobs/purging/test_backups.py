"""A purge reaches the backups: their files are written anew, what is left is found, what can't be reached is told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hindlake.jobs.backup import backup
from hindlake.jobs.purge import Receipt, purge, sweep_due
from hindlake.jobs.restore import restore
from hindlake.jobs.safekeeping.check import verify
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.backups import Backups, forget
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.inbox import write_user_act
from hindlake.memory_store.history.log import settle
from hindlake.memory_store.records.leftovers import decode
from hindlake.memory_store.records.purged import purges
from hindlake.memory_store.settings import Settings
from kept_home import NOW, memories, memory_row, night, reflect_on, remember

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
    reflect_on(lake, "t0")
    evidence = [{"trace_id": "t0", "event_id": "t0-e", "quote": SECRET}]
    write_user_act(lake, "default", [memory_row("secret", SECRET, evidence=evidence, state="active")])
    remember(lake, "kettle", "the kettle in the kitchen leaks")
    remember(lake, "other-tenant", SECRET, namespace="other")
    settle(lake, "default")
    lake.put("ns=default/runs/r.json", b'{"said": "%s"}' % SECRET.encode())
    lake.put("ns=default/replies/r.json", b'{"reply": "%s"}' % SECRET.encode())


def held(backups: Backups, folder: str = "ns=default") -> list[str]:
    """Files of the pool that hold the text, decoded."""
    return [path for path in backups.pool(folder) if SECRET in str(decode("", backups.raw(path)).to_pylist())]


def purge_it(lake: Lake, settings: Settings, clock: ManualClock) -> Receipt:
    return purge(lake, settings, clock, "default", ids=["secret"], now=True)


def test_every_backup_loses_the_text_and_can_be_restored_all_the_same(
    lake: Lake, settings: Settings, clock: ManualClock, backups: Backups, tmp_path: Path
) -> None:
    fill(lake)
    backup(lake, backups, settings, clock)
    remember(lake, "later", "the lamp flickers")
    backup(lake, backups, settings, night(clock))
    old = settings.model_copy(update={"backup": settings.backup.model_copy(update={"keep": 1})})
    backup(lake, backups, old, clock)  # the others are dropped, and lie there for the grace
    assert len(held(backups)) >= 3
    receipt = purge_it(lake, settings, clock)
    assert (receipt.verified, receipt.leftovers, receipt.damaged) == (True, [], [])
    assert receipt.removed["files"]["rewritten in backups"] >= 2
    assert receipt.removed["files"]["deleted in backups"] == 1  # a reply of a model
    assert held(backups) == []
    assert held(backups, "ns=other"), "another tenant's file was touched"
    for folder in ("manifests", "dropped"):
        for name in backups.names(folder):
            scratch = Lake.open(Settings.load(home=str(tmp_path / folder / name)))
            found = verify(backups, backups.manifest(name, folder), scratch)
            assert found.is_whole, found
            record = scratch.get(scratch.names("ns=default/purged")[0])
            assert b'"pieces":{}' in record
    fresh = Settings.load(home=str(tmp_path / "fresh"), embedder="wordllama")
    restore(fresh, backups, clock)
    state = {row["id"]: (row["state"], row["text"]) for row in memories(Lake.open(fresh))}
    assert state["secret"] == ("deleted", "")
    assert state["kettle"][0] == "pending"
    assert purge_it(lake, settings, clock).removed["files"].get("rewritten in backups", 0) == 0
    again = backup(lake, backups, settings, night(clock))
    assert again.memories["default"] == 4
    assert held(backups) == []


def test_a_text_that_was_planted_in_a_backup_is_found(
    lake: Lake, settings: Settings, clock: ManualClock, backups: Backups
) -> None:
    """It comes back between the sweep and the search, as from a backup that is being made."""
    fill(lake)
    backup(lake, backups, settings, clock)
    steps: list[str] = []
    path = "ns=default/log/000000000002.parquet"
    whole = lake.get(path)

    def plant(step: str) -> None:
        steps.append(step)
        if step == "verify":
            backups.put(path, whole)

    receipt = purge(lake, settings, clock, "default", ids=["secret"], now=True, progress=plant)
    assert steps[-3:] == ["remove", "verify", "receipt"]
    assert not receipt.verified
    assert {place.path.startswith(f"{backups.url}/pool/ns=default/") for place in receipt.leftovers} == {True}
    assert len(held(backups)) == 1
    again = purge_it(lake, settings, clock)
    assert (again.verified, held(backups)) == (True, [])


def test_half_written_files_beside_the_pool_are_looked_at(
    lake: Lake, settings: Settings, clock: ManualClock, backups: Backups
) -> None:
    fill(lake)
    backup(lake, backups, settings, clock)
    (Path(backups.url) / ".unborn" / "half").write_bytes(lake.get("ns=default/runs/r.json"))
    receipt = purge_it(lake, settings, clock)
    assert [place.path for place in receipt.leftovers] == [f"{backups.url}/.unborn/half"]


def test_backups_that_can_not_be_reached_keep_the_purge_open_until_they_are_or_are_forgotten(
    lake: Lake, settings: Settings, clock: ManualClock, backups: Backups, tmp_path: Path
) -> None:
    fill(lake)
    backup(lake, backups, settings, clock)
    away = tmp_path / "away"
    shutil.move(backups.url, away)
    receipt = purge_it(lake, settings, clock)
    assert receipt.verified
    (told,) = receipt.expires
    assert backups.url in told["what"] and told["on"] > clock.now()
    clock.advance(days=2)
    assert len(sweep_due(lake, settings, clock, now=True)) == 1
    assert purges(lake, "default")[0].swept_at is None
    shutil.move(away, backups.url)
    assert held(backups)
    assert sweep_due(lake, settings, clock, now=True)[0].sweep_due is None
    assert held(backups) == []
    assert purges(lake, "default")[0].swept_at is not None
    assert forget(lake, backups.url)
    assert not forget(lake, backups.url)


def test_a_backup_of_a_purge_that_is_not_swept_keeps_no_hashes_after_the_sweep(
    lake: Lake, settings: Settings, clock: ManualClock, backups: Backups
) -> None:
    fill(lake)
    backup(lake, backups, settings, clock)
    purge_it(lake, settings, clock)
    backup(lake, backups, settings, night(clock))
    clock.advance(days=2)
    assert sweep_due(lake, settings, clock, now=True)
    for manifest in backups.manifests():
        view = backups.lake(manifest)
        assert all(not purge.pieces for purge in purges(view, "default"))
    assert not any(b'"pieces":{"' in backups.raw(path) for path in backups.pool("ns=default"))


def test_the_files_of_a_bucket_are_purged_too(s3_settings: Settings, clock: ManualClock) -> None:
    settings = s3_settings.model_copy(update={"embedder": "wordllama"})
    lake = Lake.open(settings)
    fill(lake)
    backups = Backups(settings, f"{settings.home}-backups")
    backup(lake, backups, settings, clock)
    assert held(backups)
    receipt = purge_it(lake, settings, clock)
    assert (receipt.verified, held(backups)) == (True, [])
    assert backups.lake(backups.manifest()).read_table("ns=default/log/000000000002.parquet").num_rows
