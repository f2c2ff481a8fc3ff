"""What a user says of names holds at once, everywhere, and can be taken back; a purge takes it along."""

from __future__ import annotations

from pathlib import Path

import pytest

from hindlake.jobs.aliases import aliases
from hindlake.jobs.purge import purge
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.errors import UnknownMemory
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.log import read_log, settle
from hindlake.memory_store.settings import Settings
from hindlake.sdk.memory import Memory
from hindlake.sdk.names import Names


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings.load(home=str(home), embedder="wordllama")


def texts(memory: Memory, query: str, **filters: object) -> set[str]:
    return {hit.text for hit in memory.search(query, limit=10, **filters)}  # type: ignore[arg-type]


def test_both_names_find_both_at_once_and_no_longer_once_taken_back(settings: Settings, clock: ManualClock) -> None:
    with Memory(settings, clock=clock) as memory:
        memory.remember("小王喜欢乌龙茶", entities=["小王"])
        memory.remember("王小明 works in Berlin", entities=["王小明"])
        assert texts(memory, "茶", entities=["王小明"]) == {"王小明 works in Berlin"}
        names = Names(settings, clock=clock)
        id = names.alias("小王", "王小明")
        for name in ("小王", "王小明"):
            assert texts(memory, "茶", entities=[name]) == {"小王喜欢乌龙茶", "王小明 works in Berlin"}
        memory._settle()
        assert len(texts(memory, "茶", entities=["小王"])) == 2
        names.take_back(id)
        assert texts(memory, "茶", entities=["小王"]) == {"小王喜欢乌龙茶"}
        with pytest.raises(UnknownMemory, match="hindlake aliases list"):
            names.take_back(id)
        assert names.alias("小王", "王小明") == id
        assert [alias.state for alias in names.aliases(every=True)] == ["active"]


def test_a_query_finds_what_it_names_by_another_name(settings: Settings, clock: ManualClock) -> None:
    with Memory(settings, clock=clock) as memory:
        for place in range(40):
            memory.remember(f"The office of branch {place} opens at nine", entities=[f"Branch {place}"])
        memory.remember("Robert Smith eats no nuts", entities=["Robert Smith"])
        query = "what should we order for bob"
        Names(settings, clock=clock).alias("Bob", "Robert Smith")
        best = memory.search(query)[0]
        assert (best.text, best.legs["names"]["rank"]) == ("Robert Smith eats no nuts", 1)


def test_a_name_that_is_given_another_meaning_loses_the_first(settings: Settings, clock: ManualClock) -> None:
    names = Names(settings, clock=clock)
    first = names.alias("Bob", "Robert Smith")
    clock.advance(minutes=1)
    names.alias("bob", "Bob Jones")
    assert [alias.of for alias in names.aliases()] == ["Bob Jones"]
    assert {alias.id: alias.state for alias in names.aliases(every=True)}[first] == "superseded"
    assert names.alias("Bob", "Robert Smith") == first
    assert [alias.of for alias in names.aliases()] == ["Robert Smith"]


def test_the_same_call_with_a_key_is_one_decision(settings: Settings, clock: ManualClock) -> None:
    names, lake = Names(settings, clock=clock), Lake.open(settings)
    for _ in range(3):
        names.alias("Bob", "Robert", key="k1")
    settle(lake, "default")
    assert read_log(lake, "default").num_rows == 1


def test_one_taxonomy_finds_what_agents_call_otherwise(settings: Settings, clock: ManualClock) -> None:
    with Memory(settings, clock=clock) as memory:
        memory.remember("ask for the passport first", "experience", task_type="book_flight", agent_role="planner")
        memory.remember("先确认护照号码", "experience", task_type="订机票", agent_role="executor")
        memory.remember("weigh the luggage", "experience", task_type="check_in")
        names = Names(settings, clock=clock)
        assert [one.is_mapped for one in names.task_types()] == [False] * 3
        names.map_task_type("book_flight", "booking")
        names.map_task_type("订机票", "booking")
        both = {"ask for the passport first", "先确认护照号码"}
        for name in ("booking", "book_flight", "订机票"):
            assert texts(memory, "passport", task_type=name) == both
        assert texts(memory, "passport", task_type="booking", agent_role="planner") == {"ask for the passport first"}
        memory._settle()
        told = [(one.of, one.name, one.memories) for one in names.task_types()]
        assert told == [
            ("booking", "booking", 0), ("booking", "book_flight", 1), ("booking", "订机票", 1),
            ("check_in", "check_in", 1),
        ]  # fmt: skip
        names.take_back(next(one.id for one in names.aliases() if one.name == "订机票"))
        assert texts(memory, "passport", task_type="booking") == {"ask for the passport first"}


def test_another_namespace_knows_nothing_of_it(settings: Settings, clock: ManualClock, home: Path) -> None:
    Names(settings, clock=clock).alias("Bob", "Robert Smith")
    other = settings.model_copy(update={"namespace": "other"})
    assert Names(other, clock=clock).aliases() == []
    with Memory(other, clock=clock) as memory:
        memory.remember("Robert Smith runs it", entities=["Robert Smith"])
        assert texts(memory, "who", entities=["Bob"]) == set()


def test_a_past_time_knows_the_names_of_then(settings: Settings, clock: ManualClock) -> None:
    with Memory(settings, clock=clock) as memory:
        memory.remember("Robert Smith runs it", entities=["Robert Smith"])
        clock.advance(days=1)
        before = clock.now()
        clock.advance(days=1)
        id = Names(settings, clock=clock).alias("Bob", "Robert Smith")
        between = clock.now()
        clock.advance(days=1)
        Names(settings, clock=clock).take_back(id)
        memory._settle()
        assert texts(memory, "who", entities=["Bob"], as_of=before) == set()
        assert texts(memory, "who", entities=["Bob"], as_of=between) == {"Robert Smith runs it"}
        assert texts(memory, "who", entities=["Bob"]) == set()


def test_a_purge_of_what_said_so_takes_the_alias_along_for_good(settings: Settings, clock: ManualClock) -> None:
    lake, names = Lake.open(settings), Names(settings, clock=clock)
    with Memory(settings, clock=clock) as memory:
        id = memory.remember("Robert Smith, also known as Bobby, is here", entities=["Robert Smith"])
        aliases(lake, settings, clock, version="test")
        (made,) = names.aliases()
        assert made.derived_from == (id,)
        purge(lake, settings, clock, "default", ids=[id], now=True)
        assert names.aliases(every=True) == []
        log = str(read_log(lake, "default").to_pylist())
        assert "Bobby" not in log and made.id in log
        memory.remember("Robert Smith, also known as Bobby, is there", entities=["Robert Smith"])
        assert aliases(lake, settings, clock, version="test").counts == {"taken_back": 1}
        assert names.alias("Bobby", "Robert Smith") != made.id
        assert [one.name for one in names.aliases()] == ["Bobby"]


def test_an_alias_can_be_purged_by_itself(settings: Settings, clock: ManualClock) -> None:
    lake, names = Lake.open(settings), Names(settings, clock=clock)
    id = names.alias("Bobby", "Robert Smith", subject="u1")
    purge(lake, settings, clock, "default", subject="u1", now=True)
    assert names.aliases(every=True) == []
    assert "Bobby" not in str(read_log(lake, "default").to_pylist())
    assert id in str(read_log(lake, "default").to_pylist())


def test_what_a_user_restores_holds_whatever_the_job_finds(settings: Settings, clock: ManualClock) -> None:
    lake, names = Lake.open(settings), Names(settings, clock=clock)
    id = names.alias("Bob", "Robert Smith")
    names.take_back(id)
    with Memory(settings, clock=clock) as memory:
        assert memory.restore(id) == "active"
    aliases(lake, settings, clock, version="test")
    assert [alias.id for alias in names.aliases()] == [id]


def test_relations_follow_names_subjects_and_fresh_writes(settings: Settings, clock: ManualClock) -> None:
    names = Names(settings, clock=clock)
    with Memory(settings, clock=clock) as memory:
        memory.remember("Robert Smith works in Berlin", entities=["Robert Smith", "Berlin"])
        memory._settle()
        gone = memory.remember("Berlin office has 支付API", entities=["BERLIN", "支付API"])
        memory.remember("Bob's flat in Oslo", subject="u2", entities=["Bob", "Oslo"])
        names.alias("Bob", "Robert Smith")
        found = {one.name: one.steps for one in names.relations("bob", steps=2)}
        assert found == {"Berlin": 1, "支付API": 2}
        assert {one.name for one in names.relations("Bob", subject="*")} == {"Berlin", "Oslo"}
        memory.forget(gone)
        assert [one.name for one in names.relations("Bob", steps=2)] == ["Berlin"]
