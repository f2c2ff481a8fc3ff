"""Working memory: the last turns of a conversation, bounded whatever happens (R1)."""

from __future__ import annotations

from pathlib import Path

from hindlake.memory_store.settings import RecorderSettings, Settings
from hindlake.sdk.recorder import Recorder
from hindlake.sdk.working import CONTENT_CHARACTERS, WorkingMemory


def recorder_of(tmp_path: Path, turns: int = 20) -> Recorder:
    return Recorder(Settings.load(home=str(tmp_path / "home"), recorder=RecorderSettings(working_turns=turns)))


def test_a_turn_has_role_content_time_and_tool_metadata(tmp_path: Path) -> None:
    recorder = recorder_of(tmp_path)
    task = recorder.task("x", conversation_id="c")
    task.user("where is it?")
    task.tool_call("get_order", result="late", retries=2, latency_us=7)
    task.tool_call("pay", error_code="E1", error_message="refused")
    task.step("thought", "not a turn")
    task.agent("it is late")
    turns = task.working
    assert [(t.role, t.content, t.tool, t.error_code, t.retries, t.latency_us) for t in turns] == [
        ("user", "where is it?", "", "", 0, None),
        ("tool", "late", "get_order", "", 2, 7),
        ("tool", "refused", "pay", "E1", 0, None),
        ("agent", "it is late", "", "", 0, None),
    ]
    assert all(turn.at.tzinfo is not None for turn in turns)
    assert recorder.working("c") == turns


def test_the_ring_holds_the_last_turns_of_a_conversation_across_its_tasks(tmp_path: Path) -> None:
    recorder = recorder_of(tmp_path, turns=5)
    for number in range(4):
        with recorder.task("x", conversation_id="c") as task:
            task.user(f"{number} a")
            task.agent(f"{number} b")
    assert [t.content for t in recorder.working("c")] == ["1 b", "2 a", "2 b", "3 a", "3 b"]


def test_conversations_never_mix(tmp_path: Path) -> None:
    recorder = recorder_of(tmp_path)
    one, two, none, other = (recorder.task("x", conversation_id=name) for name in ("one", "two", "", ""))
    for task in (one, two, none, other):
        task.user(task.trace_id)
    for task in (one, two, none, other):
        assert [t.content for t in task.working] == [task.trace_id]
    assert recorder.working("") == recorder.working("unknown") == []


def test_the_conversation_that_was_quiet_longest_goes_first() -> None:
    memory = WorkingMemory(turns=3, conversations=2)
    a, b = memory.ring("a"), memory.ring("b")
    assert memory.ring("a") is a
    memory.ring("c")
    assert memory.ring("a") is a
    assert memory.ring("b") is not b


def test_a_long_turn_is_shortened(tmp_path: Path) -> None:
    recorder = recorder_of(tmp_path)
    task = recorder.task("x")
    task.user("y" * 500_000)
    assert len(task.working[0].content) == CONTENT_CHARACTERS


def test_what_is_held_in_memory_is_masked(tmp_path: Path) -> None:
    task = recorder_of(tmp_path).task("x")
    task.user("password=" + "hunter2")
    assert task.working[0].content == "password=[masked:password]"
