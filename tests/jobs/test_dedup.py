"""What is said twice is kept once, in the wording that was read most, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from activating import activate
from hindlake.jobs.deciding.meet import Scale
from hindlake.jobs.dedup import dedup, joining, twins
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from hindlake.sdk.memory import Memory
from story_home import TODAY


@pytest.fixture
def memory(settings: Settings) -> Iterator[Memory]:
    with Memory(settings, clock=ManualClock(TODAY)) as memory:
        yield memory


def run(settings: Settings, **options: Any) -> Any:
    activate(settings)
    return dedup(Lake.open(settings), settings, ManualClock(TODAY + timedelta(days=1)), version="test", **options)


def kept(memory: Memory, **where: Any) -> set[str]:
    return {hit.text for hit in memory.search("", limit=50, **where)}


@pytest.mark.usefixtures("shipped_embedder")
def test_the_pair_of_two_languages_is_one_and_the_fuller_wording_stays(settings: Settings, memory: Memory) -> None:
    memory.remember("payment API times out, retry", kind="experience")
    memory.remember("支付API超时应重试三次", kind="experience")
    assert run(settings).counts["merge"] == 1
    assert kept(memory) == {"支付API超时应重试三次"}


@pytest.mark.usefixtures("shipped_embedder")
def test_of_two_wordings_the_one_that_was_read_most_is_kept(settings: Settings, memory: Memory) -> None:
    memory.remember("Ann's favourite colour is blue.", subject="ann")
    read = memory.remember("Blue is Ann's favourite colour.", subject="ann")
    activate(settings)
    for _ in range(3):
        memory.used([hit for hit in memory.search("colour", subject="ann") if hit.id == read])
    memory.close()
    from hindlake.flows.pipeline import run_collect

    run_collect(settings, ManualClock(TODAY))
    run(settings)
    assert kept(memory, subject="ann") == {"Blue is Ann's favourite colour."}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("The budget is 5000.", "The budget is 8000."),
        ("Always run migrations.", "Never run migrations."),
        ("Room 101 is cold.", "Room 102 is cold."),
        ("Ann likes Bo.", "Bo likes Ann."),
        ("数据库端口是5432。", "数据库端口是6543。"),
    ],
)
def test_statements_that_differ_in_a_value_are_never_joined(
    settings: Settings, memory: Memory, first: str, second: str
) -> None:
    memory.remember(first, subject="s")
    memory.remember(second, subject="s")
    assert run(settings).counts["merge"] == 0
    assert kept(memory, subject="s") == {first, second}


def test_what_two_subjects_say_is_never_joined(settings: Settings, memory: Memory) -> None:
    for subject in ("ann", "bo"):
        memory.remember("Likes tea.", subject=subject)
    assert run(settings).counts["merge"] == 0


def test_a_dry_run_shows_and_a_second_run_finds_nothing(settings: Settings, memory: Memory) -> None:
    memory.remember("Ann's favourite colour is blue.", subject="ann")
    memory.remember("Ann's favourite color is blue!", subject="ann")
    shown = run(settings, dry_run=True)
    assert len(kept(memory, subject="ann")) == 2
    assert run(settings).counts == shown.counts
    assert run(settings).counts["merge"] == 0


def test_a_keeper_that_is_forgotten_meanwhile_takes_nothing_with_it(settings: Settings, memory: Memory) -> None:
    ids = [memory.remember(text, subject="ann") for text in ("Likes green tea.", "likes green tea")]
    activate(settings)

    class Slow:
        def judge(self, pairs: Any) -> list[None]:
            return [None] * len(pairs)

    lake = Lake.open(settings)
    from hindlake.jobs import dedup as module
    from hindlake.jobs.deciding.decide import View, decide

    first = True

    def rule(view: View) -> Iterator[Any]:
        nonlocal first
        decided = list(module.rule(view, judges=lambda namespace: Slow()))
        if first:
            first = False
            keeper = next(act[0]["superseded_by"] for part in decided for act in part.acts)
            memory.forget(keeper)
        yield from decided

    decide(lake, settings, ManualClock(TODAY), rule, job="dedup", version="test")
    assert len(kept(memory, subject="ann")) == 1
    assert {memory.explain(id).memory["state"] for id in ids} == {"active", "deleted"}


WORDS = st.lists(st.sampled_from(["a b c", "a b c d", "A b c.", "x y z", "x y z w", "a b 7", "a b 8"]), max_size=7)


@given(WORDS, st.lists(st.integers(0, 5), min_size=7, max_size=7))
def test_whatever_is_merged_points_to_one_that_stays_and_counts_add_up(texts: list[str], reads: list[int]) -> None:
    rows = [
        {"id": f"m{number}", "kind": "fact", "subject": "s", "text": text, "valid_from": TODAY, "added_seq": number}
        for number, text in enumerate(texts)
    ]
    counted = {f"m{number}": count for number, count in enumerate(reads)}
    decided = twins([joining(rows, np.full((len(rows), 4), np.nan, np.float32), Scale("nobody"))], counted)
    gone = {act[0]["id"]: act[0]["superseded_by"] for act in decided.acts}
    assert len(gone) == len(decided.acts)
    assert not set(gone.values()) & set(gone)
    assert decided.counts["kept"] + len(gone) == len(rows)
