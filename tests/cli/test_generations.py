"""`hindlake reindex` and `hindlake generations` as a person uses them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from hindlake.memory_store.settings import Settings
from shell import Shell


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A little of LoCoMo's format, made up."""
    said = [
        {"dia_id": f"D1:{n}", "speaker": "Ida", "text": text} for n, text in enumerate(("Plums", "My kayak leaks"), 1)
    ]
    asked = [{"question": "Whose kayak leaks?", "evidence": ["D1:2"], "category": 4}]
    talk = {"speaker_a": "Ida", "session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": said}
    folder = tmp_path / "data" / "locomo"
    folder.mkdir(parents=True)
    with gzip.open(folder / "one.json.gz", "wt", encoding="utf-8") as file:
        json.dump([{"sample_id": "c1", "conversation": talk, "qa": asked}], file)
    return tmp_path / "data"


def test_generations_are_built_listed_compared_measured_used_and_dropped(
    shell: Shell, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HINDLAKE_EMBEDDER", "wordllama")
    shell("remember", "The lift is out of order")
    shell("search", "is the lift broken?")
    shell("rebuild")
    assert shell("rebuild", "--json").json["generation"]
    listed = shell("generations", "list", "--json").json["generations"]
    assert [one["state"] for one in listed][-2:] == ["ready", "in use"]
    old, new = (str(one["number"]) for one in listed[-2:])
    found = shell("generations", "diff", old, new, "--data", str(data), "--sets", "locomo", "--json").json
    assert found["counts"] == {"gained": {}, "lost": {}, "changed": {}}
    assert found["evals"]["before"] == found["evals"]["after"]
    assert found["evals"]["before"]["recall"]["locomo"]["n"] == 1
    told = shell("generations", "diff", old, new, "--data", str(data), "--sets", "locomo").out
    assert "recall locomo r1" in told and "→" in told
    assert shell("generations", "diff", old, new, "--data", str(data), "--sets", "lococo").code == 2
    assert shell("generations", "diff", old, new, "--data", str(data / "none")).code == 2
    assert shell("generations", "drop", new).code == 2
    assert f"generation {old} in use" in shell("generations", "use", old).out
    assert shell("generations", "drop", new).code == 0
    assert shell("generations", "use", new).code == 2


def test_a_reindex_to_the_model_in_use_says_what_there_is_to_do(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HINDLAKE_EMBEDDER", "wordllama")
    shell("remember", "The lift is out of order")
    shell("rebuild")
    shown = shell("reindex", "--embedder", "wordllama", "--dry-run", "--json")
    assert shown.code == 0, shown.err
    before = shell("generations", "list", "--json").json
    assert shell("reindex", "--embedder", "nonsense").code != 0
    assert shell("generations", "list", "--json").json == before


def test_a_store_in_a_bucket_is_copied_to_this_machine_and_one_in_a_folder_is_not(
    shell: Shell, s3_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HINDLAKE_EMBEDDER", "wordllama")
    shell("remember", "The valve is made of brass")
    assert shell("search", "valve").code == 0
    assert "it lies in a folder" in shell("generations", "copy").out
    for name in ("endpoint", "access_key_id"):
        monkeypatch.setenv(f"HINDLAKE_S3_{name.upper()}", getattr(s3_settings.s3, name))
    monkeypatch.setenv("HINDLAKE_S3_SECRET_ACCESS_KEY", s3_settings.s3.secret_access_key.get_secret_value())
    shell("remember", "The valve is made of brass", "--home", s3_settings.home)
    assert shell("search", "valve", "--home", s3_settings.home).code == 0
    assert "HINDLAKE_INDEX_COPY_TO" in shell("generations", "copy", "--home", s3_settings.home).err
    monkeypatch.setenv("HINDLAKE_INDEX_COPY_TO", str(tmp_path / "copies"))
    copied = shell("generations", "copy", "--home", s3_settings.home, "--json").json
    assert copied["reason"] == "" and copied["fetched"] == copied["files"] > 5
    assert "brass" in shell("search", "valve", "--home", s3_settings.home).out
