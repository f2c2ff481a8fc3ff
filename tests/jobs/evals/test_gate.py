"""What the gate saves, on sets made up here."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from hindlake.jobs.evals.gate import MIXES, SETS, evaluate
from hindlake.memory_store.errors import UsageError
from hindlake.memory_store.settings import Settings


@pytest.fixture
def options(tmp_path: Path) -> Settings:
    return Settings.load(home=str(tmp_path / "home"))


def write(path: Path, *lines: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def chat(*turns: str) -> dict[str, object]:
    """A session, the user's turn first."""
    return {"turns": [{"role": ("user", "assistant")[n % 2], "content": words} for n, words in enumerate(turns)]}


def run(trial: int, reward: float, calls: int) -> dict[str, object]:
    asked = [
        turn
        for n in range(calls)
        for turn in (
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": f"c{n}", "type": "function", "function": {"name": f"look_{n}", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "tool_call_id": f"c{n}", "name": f"look_{n}", "content": "seen"},
        )
    ]
    wish = {"role": "user", "content": "Please extend the rental of the tent."}
    traj = [wish, *asked, {"role": "assistant", "content": "It is extended."}]
    return {"task_id": 1, "trial": trial, "reward": reward, "traj": traj, "info": {}}


def test_the_saving_of_a_set_is_the_share_that_the_gate_leaves_out(tmp_path: Path, options: Settings) -> None:
    write(
        tmp_path / "longmemeval" / "some_sessions.jsonl.gz",
        chat("What rhymes with silver?", "Little does."),
        chat("How far is the moon?", "Far."),
        chat("Name a river.", "The Wye."),
        chat("My budget is now 8000.", "Noted."),
    )
    (chats,), mixes = evaluate(tmp_path, options)
    assert (chats.n, chats.saved) == (4, 0.75)
    assert (chats.through, chats.left_out) == ({"stated_fact": 1}, {"routine": 3})
    assert mixes == {"assistant": 0.75}


def test_a_mix_weighs_the_sets_that_are_there(tmp_path: Path, options: Settings) -> None:
    write(tmp_path / "longmemeval" / "some_sessions.jsonl.gz", chat("Name a river.", "The Wye."))
    with gzip.open(_folder(tmp_path / "taubench") / "runs.json.gz", "wt", encoding="utf-8") as file:
        json.dump([run(0, 1.0, 1), run(1, 1.0, 5), run(2, 0.0, 1)], file)
    found, mixes = evaluate(tmp_path, options)
    saved = {one.name.split(" (")[0]: one.saved for one in found}
    assert saved == {"assistant chats": 1.0, "tool tasks, succeeded": 0.5, "tool tasks, failed": 0.0}
    assert mixes["assistant"] == pytest.approx((0.60 * 1.0 + 0.20 * 0.5) / 0.85)
    assert mixes["service desk"] == pytest.approx(0.85 * 0.5)


def test_the_settings_of_the_gate_count(tmp_path: Path) -> None:
    with gzip.open(_folder(tmp_path / "taubench") / "runs.json.gz", "wt", encoding="utf-8") as file:
        json.dump([run(0, 1.0, 5)], file)
    lenient = Settings.load(home=str(tmp_path / "home"), gate={"complex_calls": 9})
    (strict,), _ = evaluate(tmp_path, Settings.load(home=str(tmp_path / "home")))
    (loose,), _ = evaluate(tmp_path, lenient)
    assert (strict.saved, loose.saved) == (0.0, 1.0)


def test_the_shares_of_each_mix_add_up_to_one() -> None:
    for place in range(len(MIXES)):
        assert sum(kind.weights[place] for kind in SETS) == pytest.approx(1)


def test_a_folder_without_any_set_is_refused(tmp_path: Path, options: Settings) -> None:
    with pytest.raises(UsageError, match="longmemeval"):
        evaluate(tmp_path, options)


def _folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path
