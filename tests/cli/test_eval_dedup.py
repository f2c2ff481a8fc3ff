"""`hindlake eval dedup` on data of our own, in the layouts of the sets that it reads."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from hindlake.jobs.evals.dedup_sets import is_reported
from shell import Shell


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    path.write_bytes(gzip.compress(text.encode()))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    facts = [["Ada has two parrots", "D1:1"], ["Ada has two canoes", "D1:2"], ["Ada sings in a choir", "D1:3"]]
    write(folder / "locomo" / "own.json.gz", [{"sample_id": "1", "observation": {"s1": {"Ada": facts}}}])
    histories = [
        {"tid": number, "message_list": [{"message": f"我在{hour}点遛狗"} for hour in (7, 8, 9)]} for number in range(4)
    ]
    write(folder / "memdaily" / "own.json.gz", histories)
    point = {"index": "a", "content": "【Home】 User's budget is 5000"}
    sessions = [
        {"current_time": "2026-01-01 (Thursday)", "extracted_memory": [point]},
        {
            "current_time": "2026-02-01 (Sunday)",
            "extracted_memory": [{**point, "content": "User's budget is now 8000"}],
        },
    ]
    write(folder / "realmem" / "own.json.gz", {"dialogues": sessions})
    lines = []
    for number in range(40):
        first = f"请问怎么修改第{number}个会员名？"
        lines += [f"{first}\t第{number}个会员名如何更改\t1", f"{first}\t请问怎么修改第{number + 50}个会员名？\t0"]
    write(folder / "pairs" / "zh_lcqmc_dev.txt.gz", "\n".join(lines))
    return folder


def test_every_set_that_is_there_is_measured_and_the_vectors_are_kept(shell: Shell, data: Path, tmp_path: Path) -> None:
    arguments = ("eval", "dedup", "--data", str(data), "--cache", str(tmp_path / "vectors"), "--embedder", "wordllama")
    done = shell(*arguments, "--json")
    assert done.code == 0, done.err
    figures = done.json
    assert figures["false_merges"] == 0
    assert figures["locomo"]["superseded"] == 0
    assert (figures["updates_right"], figures["n"]) == (1, 1)
    assert figures["realmem"]["wrongly_retired"] == 0
    assert 0 < figures["lcqmc"]["n"] < 80
    assert figures["lcqmc"]["wrong"] == 0
    assert "texts embedded" in done.err
    again = shell(*arguments, "--sample", "2")
    assert "texts embedded" not in again.err
    assert "pairs typed" in again.err
    assert "groups 2" in again.out
    assert "false_merges" in again.out


def test_a_folder_without_any_of_the_sets_is_wrong_usage(shell: Shell, tmp_path: Path) -> None:
    done = shell("eval", "dedup", "--data", str(tmp_path), "--embedder", "wordllama")
    assert done.code != 0
    assert "locomo" in done.err


def test_about_half_of_the_pairs_are_for_reporting_whatever_their_order() -> None:
    pairs = [(f"text {number}", f"other {number}") for number in range(1000)]
    kept = [is_reported(*pair) for pair in pairs]
    assert 400 < sum(kept) < 600
    assert kept == [is_reported(two, one) for one, two in pairs]
