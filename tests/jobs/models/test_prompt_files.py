"""Prompts as files with a version."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from hindlake.jobs.models.prompt_files import Prompt, check_reflects, load_prompt, newest, prompt_names
from hindlake.jobs.models.reading import read_reply
from hindlake.jobs.reflecting.reply import ReflectReply
from hindlake.memory_store.errors import SettingsError, UsageError

PROMPT = newest(prompt_names())
#: Prompts that were released. A line here is never changed: a better prompt is a new version.
RELEASED = {
    "patterns.v1": "57acaacca229d6f570dbd11903b0ba5d8a63ab0c8726be046b86a6bc7ec06403",
    "reflect.v1": "872a9a8347a486aed98b515888a0863c624ec01be9bbe9a5cdd26cbdfa050834",
}


def test_the_prompt_in_use_is_there() -> None:
    assert PROMPT in prompt_names()
    assert load_prompt(PROMPT).text.startswith("You read the record of a task")


def test_a_prompt_that_was_released_never_changes() -> None:
    hashes = {name: hashlib.sha256(load_prompt(name).text.encode()).hexdigest() for name in RELEASED}
    assert hashes == RELEASED


@pytest.mark.parametrize("name", [name for name in prompt_names() if name.startswith("reflect.")])
def test_the_example_of_a_prompt_follows_the_schema(name: str) -> None:
    prompt = load_prompt(name)
    block = prompt.text.split("```json\n")[1].split("\n```")[0]
    reading = read_reply(block, ReflectReply)
    assert reading.value is not None
    assert not reading.lost
    assert reading.value.facts
    assert reading.value.experiences[0].text in prompt.examples


def test_a_prompt_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(SettingsError, match=r"reflect\.v1"):
        load_prompt("../../etc/passwd")


def test_name_and_text_both_count_for_the_hash() -> None:
    prompt = load_prompt(PROMPT)
    assert len({prompt.hash, type(prompt)("reflect.v0", prompt.text).hash, type(prompt)(PROMPT, "other").hash}) == 3


def test_prompts_of_a_folder_stand_beside_the_others_and_win_over_one_of_the_same_name(tmp_path: Path) -> None:
    (tmp_path / "reflect.v10.md").write_text("ten")
    (tmp_path / "reflect.v9.md").write_text("nine")
    (tmp_path / f"{PROMPT}.md").write_text("mine")
    (tmp_path / "notes.md").write_text("no prompt")
    folder = str(tmp_path)
    assert [name for name in prompt_names(folder) if name.startswith("reflect.")][-2:] == ["reflect.v9", "reflect.v10"]
    assert "notes" not in prompt_names(folder)
    assert newest(prompt_names(folder)) == "reflect.v10"
    assert load_prompt(PROMPT, folder).text == "mine"
    assert load_prompt(PROMPT).text != "mine"


def test_a_folder_that_is_not_there_holds_none_and_a_file_in_its_place_is_named(tmp_path: Path) -> None:
    assert prompt_names(str(tmp_path / "later")) == prompt_names()
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="HINDLAKE_MODEL_PROMPTS"):
        prompt_names(str(tmp_path / "file"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```json\n{broken\n```", "no JSON"),
        ('```jsonl\n{"text": "a"}\n[1]\n```', "no JSON"),
        (" \n", "is empty"),
    ],
)
def test_a_prompt_of_ones_own_that_can_not_be_used_says_why(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "reflect.v5.md").write_text(text)
    with pytest.raises(SettingsError, match=said):
        load_prompt("reflect.v5", str(tmp_path))


def test_reviewed_examples_are_read_line_by_line_whatever_they_hold() -> None:
    lines = [{"text": "one\u2028line", "better": "so"}, {"text": "two ``` fences"}, {"verdict": "right"}]
    block = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    prompt = Prompt("reflect.v5", f"before\n```jsonl\n{block}\n```\nafter\n")
    assert prompt.reviewed == ("one\u2028line", "so", "two ``` fences")
    assert prompt.examples == ()


def test_only_versions_of_the_prompt_that_reflects_do() -> None:
    check_reflects("reflect.v1", "reflect.v99")
    with pytest.raises(UsageError, match="reflect"):
        check_reflects("patterns.v1")
