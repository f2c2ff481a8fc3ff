"""`hindlake calibrate` as a person uses it."""

from __future__ import annotations

import json
from pathlib import Path

from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.text.calibration import newest
from shell import Shell

THINGS = ["lamp", "kettle", "ladder", "canoe", "violin", "blanket", "drill", "tent", "mirror", "stove"]
PLACES = ["attic", "cellar", "garage", "shed", "hallway"]


def pairs() -> list[dict[str, str]]:
    """A hundred pairs: every other one says the same."""
    found = []
    for thing in THINGS:
        for place in PLACES:
            first = f"The {thing} is kept in the {place}"
            found.append({"a": first, "b": f"the {thing} is kept in the {place} now", "label": "same"})
            found.append({"a": first, "b": f"We sold an old {thing} to our neighbours", "label": "different"})
    return found


def test_a_fit_on_labelled_pairs_is_kept_and_the_next_one_counts(
    shell: Shell, settings: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text("\n".join(json.dumps(one) for one in pairs()), encoding="utf-8")
    first = shell("calibrate", "--pairs", str(file), "--embedder", "wordllama", "--json")
    assert first.code == 0, first.err
    assert first.json["version"] == 1
    assert first.json["languages"]["en"]["same"] > 0
    again = shell("calibrate", "--pairs", str(file), "--embedder", "wordllama")
    assert f"calibration 2 of {first.json['embedder']} is kept" in again.out
    kept = newest(Lake.open(settings), first.json["embedder"])
    assert kept is not None
    assert kept.version == 2


def test_too_few_pairs_and_unreadable_lines_are_wrong_usage_that_says_what_to_do(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text("one\ttwo\tsame\n", encoding="utf-8")
    done = shell("calibrate", "--pairs", str(file), "--embedder", "wordllama")
    assert done.code != 0
    assert "at least 40" in done.err
    file.write_text("one\ttwo\tperhaps\n", encoding="utf-8")
    done = shell("calibrate", "--pairs", str(file), "--embedder", "wordllama")
    assert "line 1" in done.err
    assert "no label" in done.err
