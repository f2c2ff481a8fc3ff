"""`hindlake backup …` and `hindlake migrate` as scripts see them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from shell import Shell


def test_a_backup_is_made_listed_verified_and_restored(
    shell: Shell, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HINDLAKE_EMBEDDER", "wordllama")
    place = str(tmp_path / "backups")
    id = shell("remember", "The kettle in the kitchen leaks").out.strip()
    nowhere = shell("backup", "create")
    assert (nowhere.code, "HINDLAKE_BACKUP_TO" in nowhere.err) == (2, True)
    assert shell("backup", "create", "--to", place, "--dry-run", "--json").json["copied"] > 0
    assert not Path(place).exists()
    made = shell("backup", "create", "--to", place, "--json").json
    assert (made["memories"], made["damaged"], made["repaired"]) == ({"default": 1}, {}, 0)
    monkeypatch.setenv("HINDLAKE_BACKUP_TO", place)
    assert made["name"] in shell("backup", "list").out
    assert [one["name"] for one in shell("backup", "list", "--json").json["backups"]] == [made["name"]]
    assert shell("backup", "verify").code == 0
    # Another file of the lake is lost: the live lake gets it back.
    lake = Lake.open(Settings.load(home=str(home)))
    lake.delete(["ns=default/log/000000000001.parquet"])
    assert shell("backup", "restore", "--dry-run", "--json").json["put_back"] == 1
    done = shell("backup", "restore", made["name"][:8], "--json").json
    assert (done["put_back"], done["is_new"]) == (1, False)
    later = shell("remember", "The lamp flickers").out.strip()
    assert shell("backup", "restore", "--as-of-backup", "--json").json["is_held"]
    assert [hit["id"] for hit in shell("search", "", "--json").json["hits"]] == [id]
    assert shell("generations", "use", str(done["before"] or 2)).code == 0
    assert {hit["id"] for hit in shell("search", "", "--json").json["hits"]} == {id, later}
    fresh = Shell(tmp_path / "fresh", shell._capsys, shell._monkeypatch)
    assert "hindlake" not in fresh("backup", "restore").err
    assert [hit["id"] for hit in fresh("search", "kettle", "--json").json["hits"]] == [id]
    # A byte of the pool is wrong: verify says so, and the next backup puts it right.
    log = [
        path
        for path in Path(place, "pool", "ns=default").rglob("*")
        if path.is_file() and b"kettle" in path.read_bytes()
    ]
    log[0].write_bytes(log[0].read_bytes().replace(b"kettle", b"kettel", 1))
    broken = shell("backup", "verify", "--all")
    assert (broken.code, "NOT WHOLE" in broken.out) == (1, True)
    assert shell("backup", "create", "--json").json["repaired"] == 1
    assert shell("backup", "verify", "--all").code == 0
    assert shell("backup", "forget", place, "--json").json["was_known"]
    assert shell("backup", "verify", "x", "--all").code == 2
    assert shell("backup", "list", "--from", str(tmp_path)).code == 2


def test_a_lake_of_this_version_needs_no_migration(shell: Shell) -> None:
    assert "nothing to do" in shell("migrate").out
    shell("remember", "The kettle leaks")
    assert shell("migrate", "--json").json == {"format": 1, "steps": [], "generation": "", "is_dry_run": False}
