"""Tasks and tool calls: nested, concurrent, decorated."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hindlake.memory_store.capture.events import Trace
from hindlake.memory_store.capture.traces import read_traces, trace_paths
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.inbox import inbox_paths
from hindlake.memory_store.settings import Settings
from hindlake.sdk.recorder import Recorder


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(Settings.load(home=str(tmp_path / "home")))


def traces(recorder: Recorder) -> list[Trace]:
    """Every trace of the lake, by start."""
    assert recorder.flush(timeout=60)
    lake = Lake.open(recorder.settings)
    ids = {i for _, rows in lake.read_tables(trace_paths(lake, "default")) for i in rows.column("trace_id").to_pylist()}
    return read_traces(lake, "default", ids)


def test_a_task_inside_a_task_is_its_child(recorder: Recorder) -> None:
    with recorder.task("outer") as outer:
        assert recorder.current_task() is outer
        with recorder.task("inner") as inner:
            assert recorder.current_task() is inner
            inner.user("in")
        assert recorder.current_task() is outer
        with recorder.task("alone", parent_trace_id="") as alone:
            pass
    assert recorder.current_task() is None
    parents = {t.trace_id: t.first("parent_trace_id") for t in traces(recorder)}
    assert parents == {outer.trace_id: "", inner.trace_id: outer.trace_id, alone.trace_id: ""}


def test_tasks_of_one_event_loop_never_mix(recorder: Recorder) -> None:
    @recorder.tool()
    async def look(number: int) -> int:
        await asyncio.sleep(0)
        return number

    async def one(number: int) -> None:
        async with recorder.task(f"task {number}"):
            for _ in range(5):
                assert await look(number) == number

    async def all_of_them() -> None:
        await asyncio.gather(*(one(number) for number in range(20)))

    asyncio.run(all_of_them())
    found = traces(recorder)
    assert len(found) == 20
    for trace in found:
        number = trace.goal.removeprefix("task ")
        assert [(e.arguments, e.result) for e in trace.tool_calls] == [(f'{{"number":{number}}}', number)] * 5
    assert len(inbox_paths(Lake.open(recorder.settings), "default")) == 20


def test_a_new_thread_takes_part_when_it_is_given_the_context(recorder: Recorder) -> None:
    seen = []
    with recorder.task("x") as task:
        plain = threading.Thread(target=lambda: seen.append(recorder.current_task()))
        context = contextvars.copy_context()
        given = threading.Thread(target=context.run, args=(lambda: seen.append(recorder.current_task()),))
        for thread in (plain, given):
            thread.start()
            thread.join()
    assert seen == [None, task]


def test_two_recorders_do_not_see_each_others_tasks(recorder: Recorder, tmp_path: Path) -> None:
    other = Recorder(Settings.load(home=str(tmp_path / "other")))
    with recorder.task("x"):
        assert other.current_task() is None


def test_a_cancelled_task_is_ended_and_the_cancellation_goes_on(recorder: Recorder) -> None:
    async def main() -> None:
        async def work() -> None:
            async with recorder.task("x") as task:
                task.user("hello")
                await asyncio.sleep(60)

        running = asyncio.create_task(work())
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    [trace] = traces(recorder)
    assert (trace.outcome, trace.events[-1].content) == ("unknown", "CancelledError: ")


def test_a_task_left_in_another_context_than_it_was_entered_in_does_no_harm(recorder: Recorder) -> None:
    """What an async generator does when it is not used up."""

    async def stream() -> AsyncIterator[int]:
        with recorder.task("x"):
            yield 1
            yield 2

    async def main() -> None:
        generator = stream()
        async for _ in generator:
            break
        await asyncio.create_task(generator.aclose())  # type: ignore[attr-defined]

    asyncio.run(main())
    assert recorder.status().failed == 0


def test_a_task_without_a_block_ends_with_its_outcome(recorder: Recorder) -> None:
    task = recorder.task("x", subject="u")
    assert recorder.current_task() is None
    assert task.user("hello")
    call = task.tool("t", {"a": 1})
    call.result("r")
    assert call.end()
    assert not call.end()
    assert task.outcome("success")
    assert len(inbox_paths(Lake.open(recorder.settings), "default")) == 1
    [trace] = traces(recorder)
    assert [e.type for e in trace.events] == ["task", "message", "tool_call", "outcome"]


def test_a_function_becomes_a_task_and_its_answer_a_message(recorder: Recorder) -> None:
    @recorder.traced(task_type="qa", subject=lambda question, user: user)
    def answer(question: str, user: str) -> str:
        """Answers."""
        return f"{question}: 42"

    assert answer("why", user="user:1") == "why: 42"
    assert (answer.__name__, answer.__doc__) == ("answer", "Answers.")
    [trace] = traces(recorder)
    assert (trace.goal, trace.first("task_type"), trace.first("subject")) == ("why", "qa", "user:1")
    assert [(e.role, e.content) for e in trace.events if e.type == "message"] == [("agent", "why: 42")]


def test_an_async_function_becomes_a_task(recorder: Recorder) -> None:
    @recorder.traced(goal="tidy up")
    async def tidy() -> None:
        current = recorder.current_task()
        assert current is not None
        current.step("swept")
        raise LookupError("dust")

    with pytest.raises(LookupError):
        asyncio.run(tidy())
    [trace] = traces(recorder)
    assert (trace.goal, trace.outcome, trace.events[1].name) == ("tidy up", "failure", "swept")


def test_a_goal_function_that_raises_does_not_stop_the_task(recorder: Recorder) -> None:
    @recorder.traced(goal=lambda: 1 / 0)
    def work() -> int:
        return 1

    assert work() == 1
    assert recorder.status().failed == 1
    assert traces(recorder)[0].goal.endswith("work")


def test_each_call_of_a_tool_is_logged_by_its_arguments(recorder: Recorder) -> None:
    class Shop:
        @recorder.tool("get_order")
        def get(self, order: int, *, fresh: bool = False) -> dict[str, int]:
            return {"order": order}

    @recorder.tool()
    def broken(x: int) -> None:
        raise ValueError("no")

    assert Shop().get(1) == {"order": 1}  # outside of a task it just runs
    with recorder.task("x") as task:
        assert Shop().get(7, fresh=True) == {"order": 7}
        with pytest.raises(ValueError, match="no"):
            broken(1)
        with pytest.raises(TypeError):
            broken(1, 2)  # type: ignore[call-arg]
    [trace] = traces(recorder)
    assert trace.trace_id == task.trace_id
    assert [(e.tool, e.arguments, e.result, e.error_code, e.error_message) for e in trace.tool_calls][:2] == [
        ("get_order", '{"order":7,"fresh":true}', '{"order":7}', "", ""),
        ("broken", '{"x":1}', "", "ValueError", "no"),
    ]
    assert trace.tool_calls[2].error_code == "TypeError"


def test_a_tool_that_yields_is_not_used_up(recorder: Recorder) -> None:
    @recorder.tool()
    def numbers() -> Iterator[int]:
        yield from (1, 2)

    with recorder.task("x"):
        assert list(numbers()) == [1, 2]
    assert recorder.status().failed == 0
