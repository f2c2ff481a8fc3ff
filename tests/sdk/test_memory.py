"""What an agent is promised by `Memory`: found at once, in every process, by whom it may, and never by another."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from hindlake import Memory, Settings
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.errors import SettingsError, UnknownMemory, UsageError
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.inbox import inbox_paths, write_user_act
from hindlake.memory_store.store.generations import build


def texts(hits: list[Any]) -> list[str]:
    return [hit.text for hit in hits]


@pytest.fixture
def memory(settings: Settings) -> Memory:
    return Memory(settings)


def in_another_process(settings: Settings, query: str, **filters: Any) -> list[str]:
    """Texts that a fresh process finds."""
    code = (
        "import json, sys; from hindlake import Memory; home, query, filters = json.loads(sys.argv[1]); "
        "print(json.dumps([hit.text for hit in Memory(home=home).search(query, **filters)]))"
    )
    arguments = json.dumps([settings.home, query, filters])
    done = subprocess.run([sys.executable, "-c", code, arguments], capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


def test_what_was_remembered_is_found_by_the_next_search_in_any_process(memory: Memory, settings: Settings) -> None:
    id = memory.remember("Refunds above 500 need a manager", "rule")
    (hit,) = memory.search("who approves a large refund?")
    assert (hit.id, hit.kind, hit.state, hit.text) == (id, "rule", "pending", "Refunds above 500 need a manager")
    assert 0 < hit.score < 1
    assert in_another_process(settings, "large refund") == ["Refunds above 500 need a manager"]


def test_a_reader_that_is_open_already_finds_what_another_process_writes(memory: Memory, settings: Settings) -> None:
    assert memory.search("refunds") == []
    code = "import sys; from hindlake import Memory; print(Memory(home=sys.argv[1]).remember('refunds take a week'))"
    subprocess.run([sys.executable, "-c", code, settings.home], capture_output=True, check=True)
    assert texts(memory.search("refunds")) == ["refunds take a week"]


def test_chinese_is_found_by_chinese_and_by_a_part_of_a_word(memory: Memory) -> None:
    memory.remember("支付接口超时后要先查订单状态再重试", "rule")
    memory.remember("会议室的投影仪坏了", "fact")
    for query in ("付款接口超时怎么办", "超时", "查订单"):
        assert texts(memory.search(query, limit=1)) == ["支付接口超时后要先查订单状态再重试"], query


def test_facts_and_preferences_of_a_subject_are_returned_for_that_subject_only(memory: Memory) -> None:
    memory.remember("Lives in Lisbon", subject="user:1")
    memory.remember("Lives in Oslo", subject="user:2")
    memory.remember("The office lives on coffee")
    found = sorted(texts(memory.search("who lives where", subject="user:1")))
    assert found == ["Lives in Lisbon", "The office lives on coffee"]
    assert texts(memory.search("who lives where")) == ["The office lives on coffee"]
    assert len(memory.search("who lives where", subject="*")) == 3


def test_a_namespace_sees_nothing_of_another(settings: Settings) -> None:
    mine = Memory(settings, namespace="mine")
    theirs = Memory(settings, namespace="theirs")
    id = theirs.remember("the password hint is blue", subject="user:1")
    for query in ("password", "", "' OR 1=1 --", "namespace = 'theirs'"):
        assert mine.search(query, subject="*") == []
    for subject in ("user:1", "x' OR namespace='theirs", "') OR ('1'='1"):
        assert mine.search("password", subject=subject) == []
    with pytest.raises(UnknownMemory):
        mine.forget(id)
    with pytest.raises(UnknownMemory):
        mine.update(id, "gone")
    with pytest.raises(UnknownMemory):
        mine.explain(id)
    assert len(theirs.search("password", subject="user:1")) == 1


def test_a_forgotten_memory_is_gone_at_once_in_every_process(memory: Memory, settings: Settings) -> None:
    other = Memory(settings)
    id = memory.remember("The old office is in Bonn")
    assert len(other.search("office")) == 1
    memory.forget(id, "moved")
    assert other.search("office") == memory.search("office") == []
    assert in_another_process(settings, "office") == []
    assert memory.explain(id).memory["state"] == "deleted"
    assert [decision.reason for decision in memory.explain(id).decisions] == ["remembered", "moved"]


def test_forgetting_twice_or_forgetting_nothing_is_an_error_that_says_so(memory: Memory) -> None:
    id = memory.remember("x y z")
    memory.forget(id)
    with pytest.raises(UnknownMemory, match="deleted"):
        memory.forget(id)
    with pytest.raises(UnknownMemory, match="no memory"):
        memory.forget("nothing")


def test_an_update_supersedes_and_keeps_the_old_text(memory: Memory) -> None:
    old = memory.remember("Budget is 5000", "preference", subject="user:1", importance=0.9)
    new = memory.update(old, "Budget is 8000")
    (hit,) = memory.search("budget", subject="user:1")
    assert (hit.id, hit.text, hit.kind, hit.importance) == (new, "Budget is 8000", "preference", 0.9)
    before = memory.explain(old).memory
    assert (before["text"], before["state"], before["superseded_by"]) == ("Budget is 5000", "superseded", new)
    assert memory.explain(new).replaces == (old,)


def test_the_same_key_is_the_same_memory_however_often_it_is_written(memory: Memory, settings: Settings) -> None:
    first = memory.remember("Prefers e-mail", key="call-7")
    assert memory.remember("Prefers e-mail", key="call-7") == first
    assert Memory(settings).remember("Prefers e-mail", key="call-7") == first
    memory._settle()
    assert memory.remember("Prefers e-mail", key="call-7") == first
    assert [hit.id for hit in memory.search("e-mail")] == [first]


def test_identical_texts_without_a_key_are_two_writes_and_neither_deletes_the_other(memory: Memory) -> None:
    assert memory.remember("Likes tea") != memory.remember("Likes tea")
    assert len(memory.search("tea")) == 2


def test_filters_are_applied_before_the_search_not_after_it(memory: Memory) -> None:
    for number in range(30):
        memory.remember(f"The exchange rate lookup timed out, case {number}", "rule", tool="get_rate")
    memory.remember("The forecast lookup timed out", "rule", tool="get_weather")
    assert texts(memory.search("exchange rate lookup timed out", tool="get_weather", limit=3)) == [
        "The forecast lookup timed out"
    ]


def test_each_filter_takes_one_value_or_several(memory: Memory) -> None:
    for tool, code in (("pay", "TIMEOUT"), ("ship", "E42"), ("pay", "E42")):
        memory.remember(f"{tool} fails with {code}", "rule", tool=tool, error_code=code, outcome="failure")
    assert len(memory.search("fails", tool=["pay", "ship"], limit=9)) == 3
    assert len(memory.search("fails", tool="pay", limit=9)) == 2
    assert texts(memory.search("fails", tool="pay", error_code="E42", limit=9)) == ["pay fails with E42"]
    assert memory.search("fails", outcome="success") == []


def test_time_filters_bound_the_time_since_when_a_memory_holds(memory: Memory) -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    for days in range(4):
        memory.remember(f"day {days}", valid_from=noon + timedelta(days=days))
    found = memory.search("", since=noon + timedelta(days=1), until=noon + timedelta(days=3), limit=9)
    assert texts(found) == ["day 2", "day 1"]


def test_an_empty_query_lists_the_newest_first_across_store_and_inbox(memory: Memory) -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    for days in (0, 2):
        memory.remember(f"day {days}", valid_from=noon + timedelta(days=days))
    memory._settle()
    for days in (1, 3):
        memory.remember(f"day {days}", valid_from=noon + timedelta(days=days))
    assert texts(memory.search("", limit=3)) == ["day 3", "day 2", "day 1"]


def test_a_question_in_another_script_is_answered_by_meaning(memory: Memory) -> None:
    memory.remember("Ann prefers e-mail to phone calls.", subject="ann")
    assert [hit.subject for hit in memory.search("怎么联系她？", subject="ann")] == ["ann"]


def test_junk_finds_nothing(memory: Memory) -> None:
    memory.remember("The projector in room 5 is broken")
    assert memory.search("quarterly tax deadline for Norwegian fisheries") == []
    (answer,) = memory.search("which projector is broken?")
    assert answer.score > 0.2


@pytest.mark.parametrize(
    "arguments",
    [
        {"text": ""},
        {"text": "  \n"},
        {"text": "x" * 20_001},
        {"text": "x", "kind": "episode"},
        {"text": "x", "kind": "opinion"},
        {"text": "x", "importance": 1.5},
        {"text": "x", "importance": float("nan")},
        {"text": "x", "said_by": "nobody"},
        {"text": None},
    ],
)
def test_what_can_not_be_meant_is_refused_before_anything_is_written(
    memory: Memory, lake: Lake, arguments: dict[str, Any]
) -> None:
    with pytest.raises(UsageError):
        memory.remember(**arguments)
    assert inbox_paths(lake, "default") == []


@pytest.mark.parametrize("filters", [{"kinds": ["opinion"]}, {"states": ["gone"]}, {"tool": [7]}, {"limit": 0}])
def test_a_filter_that_can_not_be_meant_is_refused_with_what_to_say_instead(
    memory: Memory, filters: dict[str, Any]
) -> None:
    with pytest.raises(UsageError):
        memory.search("x", **filters)


def test_a_namespace_that_can_not_be_a_folder_is_refused() -> None:
    for name in ("../etc", "A", "", "a/b", "x" * 200):
        with pytest.raises(SettingsError):
            Memory(Settings.load(), namespace=name)


@given(st.text(min_size=1, max_size=40).filter(lambda text: text.strip(" \n\t\0")))
@hypothesis_settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_can_be_remembered_and_asked_for(memory: Memory, text: str) -> None:
    try:
        id = memory.remember(text)
    except UsageError:
        assert not text.replace("\0", "").strip()
        return
    memory.search(text)
    assert memory.explain(id).memory["text"]


def test_odd_texts_survive(memory: Memory) -> None:
    for text in ("a\0b", "half \ud83d pair", "😀 مرحبا", '"quoted" -and- OR not AND'):
        id = memory.remember(text)
        assert memory.search(text, limit=20)
        memory.forget(id)


def test_secrets_are_masked_before_anything_is_written(memory: Memory, lake: Lake) -> None:
    key = "AKIA" + "IOSFODNN7EXAMPLE"
    memory.remember(f"the deploy key is {key}")
    (hit,) = memory.search("deploy key")
    assert "masked" in hit.text
    assert all(key.encode() not in lake.get(path) for path in inbox_paths(lake, "default"))
    assert key not in json.dumps([str(row) for row in lake.read_table(inbox_paths(lake, "default")[0]).to_pylist()])


def test_after_many_writes_the_inbox_is_settled_in_the_background(
    memory: Memory, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hindlake.sdk.memory.SETTLE_WRITES", 8)
    for number in range(8):
        memory.remember(f"number {number}")
    memory.close()
    assert inbox_paths(lake, "default") == []
    assert len(memory.search("number", limit=20)) == 8


def test_settling_in_the_background_that_fails_is_warned_of_and_made_up_for(
    memory: Memory, lake: Lake, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("hindlake.sdk.memory.SETTLE_WRITES", 2)
    memory.remember("the store is about to go")
    (store,) = (Path(settings.home) / "store").iterdir()
    store.rename(store.with_name("away"))
    memory.remember("and a second one")
    memory.close()
    assert "is folded later" in caplog.text
    store.with_name("away").rename(store)
    memory._settle()
    assert inbox_paths(lake, "default") == []
    assert {hit.text for hit in memory.search("second", limit=5)} >= {"and a second one"}


def test_many_threads_write_and_read_one_memory(memory: Memory) -> None:
    def work(number: int) -> bool:
        id = memory.remember(f"thread {number} was here", subject=f"s{number}")
        return id in {hit.id for hit in memory.search(f"thread {number}", subject=f"s{number}")}

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(12)))


def test_reading_goes_on_through_a_rebuild_and_follows_it(
    memory: Memory, lake: Lake, settings: Settings, clock: ManualClock
) -> None:
    memory.remember("before the rebuild")
    memory._settle()
    assert len(memory.search("rebuild")) == 1
    generation = build(lake, settings, clock)
    memory.remember("after the rebuild")
    assert sorted(texts(memory.search("rebuild"))) == ["after the rebuild", "before the rebuild"]
    assert memory._reader._current().generation == generation


def test_the_digests_of_a_subject_are_recent_for_a_day(settings: Settings, clock: ManualClock, lake: Lake) -> None:
    memory = Memory(settings, clock=clock)
    for subject, hours in (("user:1", 1), ("user:1", 30), ("user:2", 1)):
        act = f"{subject}-{hours}"
        row = {
            "act": act, "at": clock.now(), "decision": "add", "id": act, "kind": "episode", "text": f"Task of {act}",
            "state": "active", "subject": subject, "valid_from": clock.now() - timedelta(hours=hours),
        }  # fmt: skip
        write_user_act(lake, "default", [row], act)
    assert texts(memory.recent("user:1")) == ["Task of user:1-1"]
    assert texts(memory.recent("user:1", hours=48)) == ["Task of user:1-1", "Task of user:1-30"]
    assert memory.search("Task") == []
    with pytest.raises(UsageError):
        memory.recent("")
