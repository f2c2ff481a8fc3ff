"""Prompts as files with a version."""

from __future__ import annotations

import hashlib

import pytest

from hindlake.jobs.prompt_files import load_prompt, newest, prompt_names
from hindlake.jobs.reading import read_reply
from hindlake.jobs.reply import ReflectReply
from hindlake.memory_store.errors import SettingsError

PROMPT = newest(prompt_names())
#: Prompts that were released. A line here is never changed: a better prompt is a new version.
RELEASED = {
    "reflect.v1": "872a9a8347a486aed98b515888a0863c624ec01be9bbe9a5cdd26cbdfa050834",
}


def test_the_prompt_in_use_is_there() -> None:
    assert PROMPT in prompt_names()
    assert load_prompt(PROMPT).text.startswith("You read the record of a task")


def test_a_prompt_that_was_released_never_changes() -> None:
    hashes = {name: hashlib.sha256(load_prompt(name).text.encode()).hexdigest() for name in RELEASED}
    assert hashes == RELEASED


@pytest.mark.parametrize("name", prompt_names())
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
