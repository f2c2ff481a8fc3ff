"""A backup holds one moment of the log, whoever writes meanwhile, and what is listed can be restored."""

from __future__ import annotations

import resource
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hindlake.jobs.backup import backup, forecast
from hindlake.jobs.safekeeping.check import damage, verify
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.errors import DamagedFile, LakeError, UsageError
from hindlake.memory_store.files.backups import Backups, places, pool_path
from hindlake.memory_store.files.lake import Entry, Lake, namespace_path, parquet_bytes
from hindlake.memory_store.history.log import settle
from hindlake.memory_store.settings import Settings
from kept_home import NOW, assert_consistent, kept, known_ids, memories, night, reflect_on, remember, with_backups


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "backups")


@pytest.fixture
def backups(settings: Settings, place: str) -> Backups:
    return Backups(settings, place, make=True)


def fill(lake: Lake) -> None:
    for number in range(5):
        reflect_on(lake, f"t{number}")
    remember(lake, "waiting")
    lake.put("ns=default/runs/r.json", b'{"run": 1}')
    lake.put("lease/backup/1.json", b"{}")


def files_of(lake: Lake) -> dict[str, bytes]:
    return {path: lake.get(path) for path in lake.names("") if not path.startswith("lease/")}


def test_a_backup_holds_every_file_and_a_second_one_copies_nothing(
    lake: Lake, settings: Settings, clock: ManualClock, backups: Backups
) -> None:
    fill(lake)
    assert forecast(lake, None).copied == len(files_of(lake))
    first = backup(lake, backups, settings, clock)
    assert first.files == first.copied == len(files_of(lake))
    assert first.memories == {"default": 5}
    assert (forecast(lake, backups).copied, places(lake)) == (0, [backups.url])
    second = backup(lake, backups, settings, night(clock))
    assert (second.copied, second.reused, second.known) == (0, 0, second.files)
    manifest, view = kept(backups)
    assert files_of(view) == files_of(lake)
    assert memories(view) == memories(lake)
    assert len(backups.names()) == 2
    assert set(view.folders()) == set(lake.folders()) - {"lease"}
    assert view.folders("ns=default") == lake.folders("ns=default")
    with pytest.raises(LakeError, match="not allowed"):
        view.put("ns=default/runs/x.json", b"{}")
    assert manifest.namespaces["default"].seq == 5


def test_a_bucket_is_backed_up_into_a_bucket(s3_settings: Settings, clock: ManualClock, tmp_path: Path) -> None:
    lake = Lake.open(s3_settings)
    reflect_on(lake, "t1")
    lake.put("ns=default/runs/r.json", b'{"run": 1}')
    backups = Backups(s3_settings, f"{s3_settings.home}-backups")
    assert backup(lake, backups, s3_settings, clock).memories == {"default": 1}
    lake.put("ns=default/runs/r.json", b'{"run": 2}')
    again = backup(lake, backups, s3_settings, night(clock))
    assert (again.copied, again.known) == (1, again.files - 1)
    manifest, view = kept(backups)
    assert files_of(view) == files_of(lake)
    assert verify(backups, manifest, Lake.open(Settings.load(home=str(tmp_path)))).is_whole
    other = Backups(s3_settings, str(tmp_path / "here"), make=True)
    assert (
        backup(lake, other, s3_settings, clock).files == manifest.namespaces["default"].files + len(files_of(lake)) - 1
    )


def test_a_file_that_was_written_again_in_its_old_size_is_noticed(
    lake: Lake, settings: Settings, clock: ManualClock, backups: Backups
) -> None:
    fill(lake)
    backup(lake, backups, settings, clock)
    lake.put("ns=default/runs/r.json", b'{"run": 2}')
    assert backup(lake, backups, settings, night(clock)).copied == 1
    assert kept(backups)[1].get("ns=default/runs/r.json") == b'{"run": 2}'
    assert kept(backups, "20260301")[1].get("ns=default/runs/r.json") == b'{"run": 1}'


def test_eight_nights_leave_seven_and_a_pool_without_what_none_needs(
    lake: Lake, settings: Settings, clock: ManualClock, backups: Backups
) -> None:
    settings = with_backups(settings, grace_hours=0)
    fill(lake)
    for number in range(8):
        lake.put("ns=default/runs/r.json", b'{"run": %d}' % number)
        if number == 4:
            backup(lake, backups, settings, clock)  # two in one night: the newer one is kept
        backup(lake, backups, settings, clock)
        night(clock)
    assert [name[:8] for name in backups.names()] == [f"202603{day:02}" for day in range(2, 9)]
    assert backups.names("dropped") == []
    needed = {pool_path(file.path, file.sha256) for manifest in backups.manifests() for file in manifest.files}
    assert set(backups.pool()) == needed
    for name in backups.names():
        assert memories(kept(backups, name)[1]) == memories(lake)


def test_what_a_dropped_backup_needs_stays_for_the_grace(
    lake: Lake, settings: Settings, clock: ManualClock, backups: Backups
) -> None:
    """A backup that is being made has seen it in the pool, and does not copy it."""
    settings = with_backups(settings, keep=1)
    fill(lake)
    backup(lake, backups, settings, clock)
    pool = set(backups.pool())
    lake.put("ns=default/runs/r.json", b'{"run": 2}')
    report = backup(lake, backups, settings, night(clock))
    assert (len(report.dropped), report.pruned) == (1, 0)
    assert pool < set(backups.pool())


class Busy(Lake):
    """A lake in which a job does all its work whenever somebody has made a listing."""

    def entries(self, prefix: str) -> list[Entry]:
        found = super().entries(prefix)
        self.work()
        return found

    work: Callable[[], None] = staticmethod(lambda: None)


@pytest.mark.parametrize("is_settled", [True, False])
def test_work_done_between_any_two_listings_is_there_whole_or_not_at_all(
    settings: Settings, clock: ManualClock, backups: Backups, is_settled: bool
) -> None:
    lake = Busy.open(settings)
    assert isinstance(lake, Busy)
    fill(lake)
    before = known_ids(lake)
    done: list[str] = []

    def work() -> None:
        done.append(f"late{len(done)}")
        reflect_on(lake, done[-1], settled=is_settled)
        remember(lake, f"user-{done[-1]}")
        settle(lake, "default")

    lake.work = work  # type: ignore[method-assign]
    backup(lake, backups, settings, clock)
    assert len(done) > 5
    view = kept(backups)[1]
    assert before <= known_ids(view)
    assert_consistent(view)


def test_a_trace_file_that_was_joined_meanwhile_loses_no_event(
    settings: Settings, clock: ManualClock, backups: Backups
) -> None:
    """Between listing and copying, the small files go, and a bigger one has their events."""
    lake = Busy.open(settings)
    assert isinstance(lake, Busy)
    fill(lake)

    def join() -> None:
        small = [path for path in lake.names("ns=default/traces") if "joined" not in path]
        if small:
            import pyarrow as pa

            rows = pa.concat_tables([table for _, table in lake.read_tables(small)])
            lake.put(f"{small[0].rpartition('/')[0]}/joined-x.parquet", parquet_bytes(rows))
            lake.delete(small)

    lake.work = join  # type: ignore[method-assign]
    backup(lake, backups, settings, clock)
    view = kept(backups)[1]
    assert_consistent(view)
    assert known_ids(view) == known_ids(lake)


def test_a_file_that_a_purge_wrote_anew_during_the_backup_is_copied_again(
    settings: Settings, clock: ManualClock, backups: Backups
) -> None:
    lake = Busy.open(settings)
    assert isinstance(lake, Busy)
    fill(lake)
    path = "ns=default/log/000000000001.parquet"
    clean = parquet_bytes(lake.read_table(path).set_column(0, "act", [["rewritten"]]))

    def purge() -> None:
        if path in [entry.path for entry in Lake.entries(lake, "ns=default/log")] and backups.pool():
            lake.put(path, clean)
            lake.work = lambda: None  # type: ignore[method-assign]

    lake.work = purge  # type: ignore[method-assign]
    backup(lake, backups, settings, clock)
    assert kept(backups)[1].get(path) == clean


def _spoil(backups: Backups, path: str) -> Path:
    manifest = backups.manifest()
    (file,) = [file for file in manifest.files if file.path == path]
    where = Path(backups.url) / pool_path(file.path, file.sha256)
    data = bytearray(where.read_bytes())
    data[len(data) // 2] ^= 1
    where.write_bytes(data)
    return where


def test_a_corrupted_or_missing_file_of_the_pool_is_found_and_copied_again(
    lake: Lake, settings: Settings, clock: ManualClock, backups: Backups, tmp_path: Path
) -> None:
    fill(lake)
    backup(lake, backups, settings, clock)
    _spoil(backups, "ns=default/log/000000000002.parquet")
    _spoil(backups, "ns=default/gate/t1.parquet").unlink()
    found = verify(backups, backups.manifest(), Lake.open(Settings.load(home=str(tmp_path / "scratch"))))
    assert {fault.path for fault in found.faults} == {
        "ns=default/log/000000000002.parquet", "ns=default/gate/t1.parquet",
    }  # fmt: skip
    assert found.wrong and not found.is_whole
    report = backup(lake, backups, settings, night(clock))
    assert report.repaired + report.reused + report.copied == 2
    for name in backups.names():
        scratch = Lake.open(Settings.load(home=str(tmp_path / name)))
        assert verify(backups, backups.manifest(name), scratch).is_whole


def test_a_backup_whose_file_no_one_has_any_more_is_not_listed(
    settings: Settings, lake: Lake, clock: ManualClock, backups: Backups
) -> None:
    """The pool's file is spoilt while the backup is made, and the lake's is gone."""
    busy = Busy.open(settings)
    assert isinstance(busy, Busy)
    fill(busy)
    backup(busy, backups, settings, clock)

    def lose() -> None:
        if "ns=default/gate/t1.parquet" in lake.names("ns=default/gate"):
            _spoil(backups, "ns=default/gate/t1.parquet")
            lake.delete(["ns=default/gate/t1.parquet"])

    busy.work = lose  # type: ignore[method-assign]
    with pytest.raises(LakeError, match=r"gate/t1.*gone or damaged"):
        backup(busy, backups, settings, night(clock))
    assert len(backups.names()) == 1


def test_what_is_taken_out_of_the_pool_just_before_it_is_forced_to_the_disk_is_told(
    lake: Lake, settings: Settings, clock: ManualClock, backups: Backups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A purge that rewrites the lake and its backups while a backup stands still does that."""
    fill(lake)
    sync = Backups.sync

    def late(self: Backups, paths: list[str]) -> None:
        (Path(backups.url) / paths[0]).unlink()
        sync(self, paths)

    monkeypatch.setattr(Backups, "sync", late)
    with pytest.raises(LakeError, match="hindlake backup create` again"):
        backup(lake, backups, settings, clock)
    assert backups.names() == []


def test_a_damaged_file_of_the_lake_does_not_replace_what_it_was(
    lake: Lake, settings: Settings, clock: ManualClock, backups: Backups
) -> None:
    fill(lake)
    whole = lake.get("ns=default/gate/t1.parquet")
    backup(lake, backups, settings, clock)
    lake.put("ns=default/gate/t1.parquet", whole[:100] + b"\0" + whole[101:])
    lake.put("ns=default/gate/new.parquet", b"never was one")
    assert damage("x.parquet", whole[:100] + b"\0" + whole[101:])
    for _ in range(2):  # it is told every night
        report = backup(lake, backups, settings, night(clock))
        assert report.damaged["ns=default/gate/t1.parquet"] == "kept"
        assert set(report.damaged) == {"ns=default/gate/t1.parquet", "ns=default/gate/new.parquet"}
    manifest, view = kept(backups)
    assert view.get("ns=default/gate/t1.parquet") == whole
    assert manifest.damaged == ["ns=default/gate/new.parquet"]


def test_a_gap_in_the_log_fails_the_backup_and_keeps_the_others(
    lake: Lake, settings: Settings, clock: ManualClock, backups: Backups
) -> None:
    fill(lake)
    backup(lake, backups, settings, clock)
    lake.delete(["ns=default/log/000000000002.parquet"])
    with pytest.raises(LakeError, match=r"lacks .*002.parquet.*hindlake backup restore"):
        backup(lake, backups, settings, night(clock))
    assert len(backups.names()) == 1


def test_a_place_is_of_one_lake_and_not_inside_it(
    lake: Lake, settings: Settings, clock: ManualClock, backups: Backups, tmp_path: Path
) -> None:
    fill(lake)
    backup(lake, backups, settings, clock)
    other = Settings.load(home=str(tmp_path / "other"))
    with pytest.raises(UsageError, match="a place of its own"):
        backup(Lake.open(other), backups, other, clock)
    for wrong in (f"{settings.home}/lake/backups", f"{settings.home}/lake", settings.home, "", "gs://bucket"):
        with pytest.raises(UsageError):
            Backups(settings, wrong, make=True)
    with pytest.raises(UsageError, match="holds no backups"):
        Backups(settings, str(tmp_path / "nothing"))
    with pytest.raises(UsageError, match="has no backup 1999"):
        backups.manifest("1999")


def test_a_backup_that_a_newer_version_made_is_refused(
    lake: Lake, settings: Settings, clock: ManualClock, backups: Backups, place: str
) -> None:
    fill(lake)
    (Path(place) / "hindlake-backup.json").write_text('{"format": 2, "lake": "x", "more": 1}')
    with pytest.raises(LakeError, match="pip install -U hindlake"):
        backup(lake, backups, settings, clock)


def test_a_damaged_manifest_is_named_and_nothing_is_deleted(
    lake: Lake, settings: Settings, clock: ManualClock, backups: Backups, place: str
) -> None:
    settings = with_backups(settings, grace_hours=0)
    fill(lake)
    name = backup(lake, backups, settings, clock).name
    (Path(place) / "manifests" / f"{name}.json").write_bytes(b'{"name": "')
    pool = set(backups.pool())
    with pytest.raises(DamagedFile, match=name):
        backup(lake, backups, settings, night(clock))
    assert pool <= set(backups.pool())
    assert len(backups.names()) == 2


def test_two_backups_at_once_are_both_whole(
    lake: Lake, settings: Settings, clock: ManualClock, place: str, tmp_path: Path
) -> None:
    fill(lake)
    with ThreadPoolExecutor(2) as pool:
        some = [pool.submit(backup, lake, Backups(settings, place, make=True), settings, clock) for _ in range(2)]
        names = {one.result().name for one in some}
    assert len(names) == 2
    backups = Backups(settings, place)
    for name in backups.names():
        assert verify(backups, backups.manifest(name), Lake.open(Settings.load(home=str(tmp_path / name)))).is_whole


def test_a_disk_that_is_full_leaves_the_earlier_backups(
    lake: Lake, settings: Settings, clock: ManualClock, backups: Backups, tmp_path: Path
) -> None:
    fill(lake)
    backup(lake, backups, settings, clock)
    lake.put(namespace_path("default", "replies", "big.json"), b'"' + b"x" * 2_000_000 + b'"')
    script = textwrap.dedent(
        """
        import resource, sys
        from datetime import datetime, UTC
        from hindlake.jobs.backup import backup
        from hindlake.memory_store.files.backups import Backups
        from hindlake.memory_store.clock import ManualClock
        from hindlake.memory_store.errors import LakeError
        from hindlake.memory_store.files.lake import Lake
        from hindlake.memory_store.settings import Settings

        settings = Settings.load(home=sys.argv[1])
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
        try:
            clock = ManualClock(datetime(2026, 3, 2, tzinfo=UTC))
            backup(Lake.open(settings), Backups(settings, sys.argv[2]), settings, clock)
        except LakeError as error:
            print("told:", error)
        """
    )
    ran = subprocess.run([sys.executable, "-c", script, settings.home, backups.url], capture_output=True, text=True)
    assert "told: can't write pool/" in ran.stdout, ran.stderr
    assert len(backups.names()) == 1
    assert not list((Path(backups.url) / ".unborn").iterdir())
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 1_000_000
    report = backup(lake, backups, settings, night(clock))
    assert report.copied >= 1
    assert verify(backups, backups.manifest(), Lake.open(Settings.load(home=str(tmp_path / "scratch")))).is_whole
