"""Handles of what runs: a task, and a tool call inside it."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..memory_store.capture.events import OUTCOMES, Event, Outcome, trace_of
from ..memory_store.capture.wire import decode
from ..memory_store.clock import END_OF_TIME
from .faithful import as_int, as_json, as_real, as_text
from .working import Ring, Turn, shortened, turns_of

if TYPE_CHECKING:
    from contextvars import Token

    from .recorder import Recorder

#: Seconds that the end of a task with `durable="remote"` waits for the lake.
REMOTE_SECONDS = 30.0
#: Events of a trace that are held in memory for its episode: the first ones, and the last ones.
_FIRST, _LAST = 200, 400
#: Bytes of an event above which it is shortened before it is held in memory.
_LONG = 4_000
#: What an event that is no tool call has from tool to retries.
_NO_CALL = ("", "", "", "", "", "", 0)


class Task:
    """One task of an agent: its trace. Made by `Recorder.task`; safe to share between threads."""

    def __init__(
        self,
        recorder: Recorder,
        *,
        goal: object,
        trace_id: str,
        subject: str,
        agent: str,
        agent_role: str,
        task_type: str,
        task_id: str,
        conversation_id: str,
        parent_trace_id: str,
        language: str,
        attributes: object,
        is_remote: bool,
    ) -> None:
        self._recorder = recorder
        self._goal = goal
        #: Id of the trace; feedback and outcome may be given by it days later
        self.trace_id = trace_id
        #: Whom the task is about
        self.subject = subject
        #: Kind of task
        self.task_type = task_type
        #: Conversation that it is part of
        self.conversation_id = conversation_id
        self._attributes = attributes
        self._is_remote = is_remote
        self._stem = recorder.stem(
            Event(
                recorder.namespace,
                trace_id,
                event_id="",
                seq=0,
                at=END_OF_TIME,
                type="",
                subject=subject,
                agent=agent,
                agent_role=agent_role,
                task_type=task_type,
                task_id=task_id,
                conversation_id=conversation_id,
                parent_trace_id=parent_trace_id,
                language=language,
                source="recorder",
            )
        )
        self._ring: Ring = recorder.ring(conversation_id)
        self._first: list[bytes] = []
        self._last: deque[bytes] = deque(maxlen=_LAST)
        self._places = itertools.count()
        self._token: Token[Task | None] | None = None
        self._is_begun = self._is_entered = self._has_outcome = self._is_finished = False
        #: Called with the task when it ends, before its episode is packed
        self.at_end: list[Callable[[Task], None]] = []

    def user(self, content: object, **more: Any) -> bool:
        """Log what the user said. True: it is kept."""
        return self.message("user", content, **more)

    def agent(self, content: object, **more: Any) -> bool:
        """Log what the agent said. True: it is kept."""
        return self.message("agent", content, **more)

    def system(self, content: object, **more: Any) -> bool:
        """Log an instruction to the agent. True: it is kept."""
        return self.message("system", content, **more)

    def message(
        self,
        role: str,
        content: object,
        *,
        model: str = "",
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        latency_us: int | None = None,
        attributes: object = None,
    ) -> bool:
        """Log a message of role user, agent, tool or system, of any content. True: it is kept."""
        return self._log(
            "message",
            role=role,
            content=content,
            model=model,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            latency_us=latency_us,
            attributes=attributes,
        )

    def step(
        self,
        name: str,
        content: object = "",
        *,
        model: str = "",
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        latency_us: int | None = None,
        attributes: object = None,
    ) -> bool:
        """Log a step that is neither a message nor a tool call, such as a plan. True: it is kept."""
        return self._log(
            "step",
            name=name,
            content=content,
            model=model,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            latency_us=latency_us,
            attributes=attributes,
        )

    def tool(self, tool: str, arguments: object = None, *, call_id: str = "") -> ToolCall:
        """A tool call, to be used in `with` or `async with`: timed, its exception recorded and raised again."""
        return ToolCall(self, tool, arguments, call_id)

    def tool_call(
        self,
        tool: str,
        *,
        arguments: object = None,
        result: object = None,
        error_code: str = "",
        error_message: str = "",
        retries: int = 0,
        latency_us: int | None = None,
        call_id: str = "",
        attributes: object = None,
    ) -> bool:
        """Log a tool call that is over, with its result or its error. True: it is kept."""
        # What `_log` does, spelled out: most events are tool calls, and each step on the way costs the agent.
        if not self._is_begun:
            self._begin()
        recorder = self._recorder
        try:
            own = (
                recorder.new_id(),
                next(self._places),
                recorder.stamp(),
                "tool_call",
                "",
                "",
                "",
                tool if tool.__class__ is str else as_text(tool),
                call_id if call_id.__class__ is str else as_text(call_id),
                "" if arguments is None else arguments if arguments.__class__ is str else as_json(arguments),
                "" if result is None else result if result.__class__ is str else as_text(result),
                error_code if error_code.__class__ is str else as_text(error_code),
                error_message if error_message.__class__ is str else as_text(error_message),
                retries if retries.__class__ is int and -1 < retries < 2**31 else as_int(retries) or 0,
                latency_us if latency_us.__class__ is int and -1 < latency_us < 2**63 else as_int(latency_us),
                "",
                None,
            )
            if attributes is None:
                payload = recorder.keep(self._stem, own)
            else:
                event = self._stem.event(own)
                event.attributes = as_json(attributes)
                payload = recorder.append(event)
            self._hold(payload, self._ring)
        except Exception as error:
            recorder.failed(error)
            return False
        return True

    def feedback(self, text: object = "", score: float | None = None) -> bool:
        """Log what the user thinks of the task; `score` from -1 to 1. True: it is kept."""
        return self._log("feedback", "user", text, score=score)

    def outcome(self, outcome: Outcome, reason: object = "", score: float | None = None) -> bool:
        """Say how the task ended; the last word counts. Outside of a `with` this ends the trace. True: it is kept."""
        named = as_text(outcome).strip().lower()
        self._has_outcome = True
        kept = self._log("outcome", content=reason, outcome=named if named in OUTCOMES else "unknown", score=score)
        if not self._is_entered:
            self._finish()
        return kept

    @property
    def working(self) -> list[Turn]:
        """The last turns of the conversation, oldest first; of this task alone if it names no conversation."""
        return turns_of(self._ring)

    def __enter__(self) -> Task:
        self._is_entered = True
        self._token = self._recorder.enter(self)
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(error)
        self._finish()

    async def __aenter__(self) -> Task:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import asyncio  # loaded already, wherever this is called

        self._leave(error)
        try:
            ended = asyncio.get_running_loop().run_in_executor(None, self._finish)
        except RuntimeError:  # the loop is closing
            self._finish()
        else:
            await ended

    def _begin(self) -> None:
        if not self._is_begun:
            self._is_begun = True
            self._log("task", content=self._goal, attributes=self._attributes)

    def _leave(self, error: BaseException | None) -> None:
        self._recorder.leave(self._token)
        if not self._has_outcome:  # one that is cancelled, or whose process is told to end, did not fail at its work
            told = "" if error is None else as_text(error)
            self.outcome("failure" if isinstance(error, Exception) else "unknown", told)

    def _finish(self) -> None:
        """Write the episode, readable by any process from now on, and wait for the lake if that was asked."""
        if self._is_finished:
            return
        self._is_finished = True
        recorder = self._recorder
        # Same promise as in `_log`: a digest that can't be written is packed later, by the job.
        try:
            from ..memory_store.capture.episodes import episode_rows

            for last in self.at_end:
                last(self)
            if events := [*self._first, *self._last]:
                rows = episode_rows(trace_of([decode(event) for event in events]), recorder.now())
                recorder.put_act(rows[0]["act"], rows)
        except Exception as error:
            recorder.failed(error)
        if self._is_remote and not recorder.flush(REMOTE_SECONDS):
            recorder.failed(TimeoutError(f"trace {self.trace_id} is not in the lake yet"))

    def _log(
        self,
        type: str,
        role: str = "",
        content: object = "",
        name: str = "",
        *,
        latency_us: int | None = None,
        outcome: str = "",
        score: float | None = None,
        model: str = "",
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        attributes: object = None,
    ) -> bool:
        """Keep one event. This is the boundary of the promise that no failure of ours reaches the agent."""
        if not self._is_begun:
            self._begin()
        recorder = self._recorder
        try:
            own = (
                recorder.new_id(),
                next(self._places),
                recorder.stamp(),
                type,
                role if role.__class__ is str else as_text(role),
                name if name.__class__ is str else as_text(name),
                content if content.__class__ is str else as_text(content),
                *_NO_CALL,
                None if latency_us is None else as_int(latency_us),
                outcome,
                None if score is None else as_real(score),
            )
            if model.__class__ is str and not model and input_tokens is output_tokens is attributes is None:
                payload = recorder.keep(self._stem, own)
            else:
                event = self._stem.event(own)
                event.model = as_text(model)
                event.input_tokens = None if input_tokens is None else as_int(input_tokens)
                event.output_tokens = None if output_tokens is None else as_int(output_tokens)
                event.attributes = "" if attributes is None else as_json(attributes)
                payload = recorder.append(event)
            self._hold(payload, self._ring if type == "message" else None)
        except Exception as error:
            recorder.failed(error)
            return False
        return True

    def _hold(self, payload: bytes, ring: Ring | None) -> None:
        """Remember an event for the episode, and a turn for the conversation."""
        if len(payload) > _LONG:
            payload = shortened(payload)
        if ring is not None:
            ring.append(payload)
        if len(self._first) < _FIRST:
            self._first.append(payload)
        else:
            self._last.append(payload)


class ToolCall:
    """A tool call that runs. What it did is logged when the block ends; an exception is recorded and raised again."""

    def __init__(self, task: Task, tool: str, arguments: object, call_id: str) -> None:
        self._task = task
        self._tool = tool
        self._arguments = arguments
        self._call_id = call_id
        self._result: object = None
        self._error_code = ""
        self._error_message: object = ""
        self._began = time.perf_counter_ns()
        self._is_ended = False
        #: Tries after the first
        self.retries = 0

    def result(self, value: object) -> None:
        """What the tool returned."""
        self._result = value

    def error(self, code: object, message: object = "") -> None:
        """What went wrong, when the tool says so without raising."""
        self._error_code = as_text(code)
        self._error_message = message

    def end(self) -> bool:
        """Log the call now; for calls that are no `with` block. True: it is kept."""
        if self._is_ended:
            return False
        self._is_ended = True
        return self._task.tool_call(
            self._tool,
            arguments=self._arguments,
            result=self._result,
            error_code=self._error_code,
            error_message=as_text(self._error_message),
            retries=self.retries,
            latency_us=(time.perf_counter_ns() - self._began) // 1_000,
            call_id=self._call_id,
        )

    def __enter__(self) -> ToolCall:
        self._began = time.perf_counter_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not self._error_code:
            self.error(type(error).__name__, as_text(error).partition(": ")[2] or as_text(error))
        self.end()

    async def __aenter__(self) -> ToolCall:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)
