"""The lake in a folder and in a bucket: what is put is there whole, and a name is claimed once."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from hindlake.memory_store.errors import LakeError, SettingsError, UnsafeStore
from hindlake.memory_store.files import lake as lake_module
from hindlake.memory_store.files import tries
from hindlake.memory_store.files.lake import Lake, namespace_path, parquet_bytes
from hindlake.memory_store.settings import Settings
from hindlake.sdk.memory import Memory
from servers.lossy import lossy_proxy
from servers.s3 import S3Server, s3_home

ROWS = pa.table({"id": ["a", "b"], "n": [1, 2]})


def test_what_is_put_is_read_back(any_lake: Lake) -> None:
    any_lake.put("ns=a/inbox/1", b"\x00one")
    any_lake.put("ns=a/inbox/1", b"\x00one")
    assert any_lake.get("ns=a/inbox/1") == b"\x00one"
    assert any_lake.exists("ns=a/inbox/1")


def test_a_missing_file_is_said_so(any_lake: Lake) -> None:
    assert not any_lake.exists("ns=a/inbox/1")
    with pytest.raises(FileNotFoundError):
        any_lake.get("ns=a/inbox/1")
    with pytest.raises(FileNotFoundError):
        any_lake.read_table("ns=a/inbox/1")


def test_create_claims_a_name_once(any_lake: Lake) -> None:
    assert any_lake.create("ns=a/log/1", b"mine")
    assert any_lake.create("ns=a/log/1", b"mine")  # the same bytes again: still mine
    assert not any_lake.create("ns=a/log/1", b"theirs")
    assert any_lake.get("ns=a/log/1") == b"mine"


def test_names_are_sorted_and_start_after_a_name(any_lake: Lake) -> None:
    for name in ("003", "001", "002", "010"):
        any_lake.put(f"ns=a/log/{name}", b"")
    any_lake.put("ns=a/logs/004", b"")  # a neighbour whose name begins alike
    any_lake.put("ns=ab/log/005", b"")
    assert any_lake.names("ns=a/log") == [f"ns=a/log/{name}" for name in ("001", "002", "003", "010")]
    assert any_lake.names("ns=a/log", after="ns=a/log/002") == ["ns=a/log/003", "ns=a/log/010"]
    assert any_lake.names("ns=a/log", after="ns=a/log/010") == []
    assert any_lake.names("ns=none/log") == []


def test_namespaces_are_the_top_folders(any_lake: Lake) -> None:
    assert any_lake.namespaces() == []
    for path in ("ns=b/inbox/1", "ns=a/traces/day=2026-01-01/1", "current/1.json"):
        any_lake.put(path, b"")
    assert any_lake.namespaces() == ["a", "b"]
    assert any_lake.folders("ns=a/traces") == ["ns=a/traces/day=2026-01-01"]


def test_deleting_twice_is_fine(any_lake: Lake) -> None:
    any_lake.put("ns=a/inbox/1", b"")
    any_lake.delete(["ns=a/inbox/1", "ns=a/inbox/2"])
    any_lake.delete(["ns=a/inbox/1"])
    assert any_lake.names("ns=a/inbox") == []


def test_a_table_comes_back_with_the_columns_that_were_asked_for(
    any_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert any_lake.create_table("t", ROWS)
    assert any_lake.read_table("t") == ROWS
    assert any_lake.read_table("t", ["n", "later"]) == ROWS.select(["n"])
    monkeypatch.setattr(lake_module, "_WHOLE_BYTES", 0)  # now by ranges
    assert any_lake.read_table("t", ["n", "later"]) == ROWS.select(["n"])


def test_tables_come_in_order_and_deleted_ones_are_skipped(any_lake: Lake) -> None:
    paths = [f"t/{n}" for n in range(5)]
    for n, path in enumerate(paths):
        any_lake.put_table(path, pa.table({"n": [n]}))
    any_lake.delete(["t/2"])
    read = [(path, rows.column("n").to_pylist()) for path, rows in any_lake.read_tables(paths)]
    assert read == [("t/0", [0]), ("t/1", [1]), ("t/3", [3]), ("t/4", [4])]
    assert list(any_lake.read_tables(["t/2"])) == []
    assert list(any_lake.read_tables([])) == []


@pytest.mark.parametrize("damage", [b"", b"PAR1", parquet_bytes(ROWS)[:-9], b"not parquet at all"])
def test_a_damaged_table_is_named(any_lake: Lake, damage: bytes) -> None:
    any_lake.put("ns=a/log/1.parquet", damage)
    with pytest.raises(LakeError, match=r"ns=a/log/1\.parquet is damaged"):
        any_lake.read_table("ns=a/log/1.parquet")


def test_a_store_with_conditional_writes_passes_the_check(any_lake: Lake) -> None:
    any_lake.check_conditional_writes()
    assert any_lake.names("probe") == []


def test_a_store_that_ignores_conditional_writes_is_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def create_by_overwriting(path: str, data: bytes) -> bool:
        lake.put(path, data)
        return True

    monkeypatch.setattr(lake, "create", create_by_overwriting)
    with pytest.raises(UnsafeStore, match="ignores conditional writes"):
        lake.check_conditional_writes()


@pytest.mark.parametrize("name", ["", "A", "a/b", "..", "a b", "ns=a", "名", "a" * 129])
def test_a_namespace_can_not_leave_its_folder(name: str) -> None:
    with pytest.raises(SettingsError):
        namespace_path(name, "log")


def test_a_home_that_can_not_be_made_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LakeError, match="HINDLAKE_HOME"):
        Lake.open(Settings.load(home=str(tmp_path / "file")))


def test_a_half_written_file_of_a_killed_writer_is_not_listed(lake: Lake) -> None:
    lake.put("ns=a/inbox/1", b"whole")
    (Path(lake.url) / ".unborn" / "2").write_bytes(b"ha")  # where the store writes a file before it is whole
    assert lake.names("ns=a/inbox") == ["ns=a/inbox/1"]


def test_a_server_that_is_gone_is_named_after_some_tries(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tries, "TRIES", 1)
    with lossy_proxy(s3.endpoint, reply_rate=1.0) as losses:
        settings = s3_home(losses.endpoint)
    with pytest.raises(LakeError, match="can't read x in s3://"):
        Lake.open(settings).get("x")


def test_a_variable_named_token_is_no_session_token(s3_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "of something else")  # LanceDB takes it for one
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of another account")
    with Memory(s3_settings) as memory:
        memory.remember("The night train leaves at 23:40.", kind="fact")
        assert [hit.text for hit in memory.search("night train")] == ["The night train leaves at 23:40."]


def test_wrong_credentials_are_said_so(s3_settings: Settings) -> None:
    wrong = s3_settings.s3.model_copy(update={"access_key_id": "nobody"})
    with pytest.raises(LakeError, match="check permissions and credentials"):
        Lake.open(s3_settings.model_copy(update={"s3": wrong})).put("x", b"")


def _claim(settings: Settings, writer: int, rounds: int) -> list[int]:
    """Claim numbers one after another, as settle does; return those that were won."""
    lake = Lake.open(settings)
    return [n for n in range(rounds) if lake.create(f"ns=a/log/{n:03}", f"writer {writer} of {n}".encode())]


def test_racing_processes_claim_each_name_once(settings: Settings) -> None:
    rounds, writers = 60, 3
    with multiprocessing.get_context("spawn").Pool(writers) as pool:
        won = pool.starmap(_claim, [(settings, writer, rounds) for writer in range(writers)])
    _assert_each_has_one_winner(Lake.open(settings), won, rounds)


def test_writers_racing_with_lost_replies_claim_each_name_once(s3: S3Server) -> None:
    rounds, writers = 25, 3
    with lossy_proxy(s3.endpoint, reply_rate=0.3, request_rate=0.1) as losses:
        settings = s3_home(losses.endpoint)
        with ThreadPoolExecutor(writers) as pool:
            won = list(pool.map(_claim, [settings] * writers, range(writers), [rounds] * writers))
        assert losses.replies_lost > 5 and losses.requests_lost > 0
    _assert_each_has_one_winner(Lake.open(settings.model_copy(update={"s3": s3_home(s3.endpoint).s3})), won, rounds)


def _assert_each_has_one_winner(lake: Lake, won: list[list[int]], rounds: int) -> None:
    assert sorted(n for some in won for n in some) == list(range(rounds))
    for writer, some in enumerate(won):
        for n in some:
            assert lake.get(f"ns=a/log/{n:03}") == f"writer {writer} of {n}".encode()


def test_a_reader_never_sees_half_a_file(lake: Lake) -> None:
    """A file is replaced a hundred times, in a folder, while it is read."""
    bodies = [bytes([n]) * 300_000 for n in range(1, 3)]
    lake.put("x", bodies[0])
    done = threading.Event()

    def write() -> None:
        for n in range(100):
            lake.put("x", bodies[n % 2])
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    for _ in count():
        assert lake.get("x") in bodies
        if done.is_set():
            break
    writer.join()


def test_synced_files_are_still_there(any_lake: Lake) -> None:
    any_lake.put("ns=a/inbox/1", b"kept")
    any_lake.sync(["ns=a/inbox/1"])
    assert any_lake.get("ns=a/inbox/1") == b"kept"
