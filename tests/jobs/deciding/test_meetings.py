"""What is written meets what is there at the next run: the same is joined, what changed is superseded."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from hindlake.jobs.comparing.pairs import Pair, type_pairs
from hindlake.jobs.deciding.meetings import may_touch
from hindlake.jobs.reflect import reflect
from hindlake.jobs.reflecting.rules_reflector import RulesReflector
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from hindlake.sdk.memory import Memory
from story_home import TODAY


@pytest.fixture
def memory(settings: Settings) -> Iterator[Memory]:
    with Memory(settings, clock=ManualClock(TODAY)) as memory:
        yield memory


def run(settings: Settings) -> Any:
    clock = ManualClock(TODAY + timedelta(days=2))
    return reflect(Lake.open(settings), settings, clock, RulesReflector(), version="test")


def states(memory: Memory, *ids: str) -> list[str]:
    return [memory.explain(id).memory["state"] for id in ids]


CHANGES = [
    ("My budget is 5000.", "My budget is now 8000."),
    ("I like coffee.", "I no longer like coffee."),
    ("My address is 12 Elm Street.", "I moved, my address is now 7 Oak Avenue."),
    ("我的预算是5000元。", "我的预算改成8000元了。"),
    ("我喜欢喝咖啡。", "我不再喜欢喝咖啡了。"),
    ("我的地址是朝阳路1号。", "我搬家了，现在地址是建国路2号。"),
]


@pytest.mark.parametrize(("old", "new"), CHANGES)
@pytest.mark.parametrize("late", [False, True], ids=["in order", "the older one arrives later"])
def test_what_was_said_later_supersedes_what_it_changes(
    settings: Settings, memory: Memory, old: str, new: str, late: bool
) -> None:
    said = {old: TODAY, new: TODAY + timedelta(days=1)}
    ids = {}
    for text in (new, old) if late else (old, new):
        ids[text] = memory.remember(text, subject="ann", valid_from=said[text])
        run(settings)
    assert states(memory, ids[old], ids[new]) == ["superseded", "active"]
    before = memory.explain(ids[old]).memory
    assert (before["superseded_by"], before["valid_to"]) == (ids[new], said[new])


@pytest.mark.usefixtures("shipped_embedder")
def test_two_wordings_of_one_thing_are_one_memory_even_in_one_batch(settings: Settings, memory: Memory) -> None:
    first = memory.remember("Ann's favourite colour is blue.", subject="ann", valid_from=TODAY)
    later = TODAY + timedelta(hours=1)
    second = memory.remember("Blue is Ann's favourite colour.", subject="ann", valid_from=later)
    assert run(settings).counts["pending_merged"] == 1
    assert states(memory, first, second) == ["active", "merged"]
    third = memory.remember("The favourite colour of Ann is blue.", subject="ann", valid_from=later)
    run(settings)
    assert "deleted" not in states(memory, third)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Ann's locker is 101.", "Bo's locker is 102."),
        ("Likes tea in the morning.", "Plays chess on Fridays."),
        ("The port of the test database is 5432.", "The port of the main database is 6543."),
        ("她喜欢靠窗的座位。", "她对花生过敏。"),
    ],
)
def test_what_says_something_else_stands_beside_it(settings: Settings, memory: Memory, first: str, second: str) -> None:
    ids = [memory.remember(text, subject="team") for text in (first, second)]
    run(settings)
    assert states(memory, *ids) == ["active", "active"]


def test_subjects_do_not_meet(settings: Settings, memory: Memory) -> None:
    ids = [memory.remember(f"My budget is {n}.", subject=who) for n, who in ((5000, "ann"), (8000, "bo"))]
    run(settings)
    assert states(memory, *ids) == ["active", "active"]


def test_what_a_memory_is_merged_into_and_that_is_forgotten_at_once_takes_nothing_with_it(
    settings: Settings, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = memory.remember("Ann likes green tea.", subject="ann")
    run(settings)
    second = memory.remember("ann likes green tea", subject="ann")
    from hindlake.jobs.deciding import propose

    real = propose.resolve
    calls = []

    def slow(*arguments: Any, **named: Any) -> Any:
        decided = real(*arguments, **named)
        if not calls:
            memory.forget(first)
        calls.append(1)
        return decided

    monkeypatch.setattr(propose, "resolve", slow)
    run(settings)
    assert states(memory, first, second) == ["deleted", "active"]


SAID = (
    "My budget is 5000.", "The budget is 8000 now", "I live in Oslo", "moved to Berlin last week", "eats meat",
    "I no longer eat meat", "likes tea", "hates tea", "no phone calls", "我搬到上海了", "我住在北京", "预算改成5000",
    "不吃肉", "The dog's name is Max now", "My dog is called Rex", "the meeting is at 4pm", "Meeting at 3pm",
    "I am 31", "turned 32 today", "支付API超时应重试三次", "payment API times out, retry",
)  # fmt: skip


@pytest.mark.parametrize("same", [0.0, 0.93])
def test_what_is_not_looked_at_stands_beside_or_is_distinct(same: float) -> None:
    rows = [
        {"id": text, "kind": "fact", "subject": "s", "text": text, "valid_from": TODAY + timedelta(days=day)}
        for day, text in enumerate(SAID)
    ]
    pairs = [Pair(one, two, same, same) for place, one in enumerate(rows) for two in rows[place + 1 :]]
    left = [pair for pair in pairs if not may_touch(pair.first, pair.second)]
    assert len(pairs) > len(left) > len(pairs) / 3
    assert {verdict.type for verdict in type_pairs(left)} <= {"distinct", "complements"}
