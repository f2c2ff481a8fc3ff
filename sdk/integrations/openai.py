"""An OpenAI client whose calls are recorded, and whose model is given what is known before it answers.

    client = recorded(OpenAI(), recorder, memory=memory)
    with recorder.task("Refund order A-1001", subject="ann"):
        client.chat.completions.create(model=…, messages=…)

Chat completions and Responses, streamed or not, sync or async, through `create`, `parse`, `stream` and raw responses:
they all pass the client's `request`, which is where this listens. The client stays the client that it was.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import functools
import inspect
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from ...memory_store.errors import UsageError
from ...memory_store.formats.loose import mapping, sequence, text
from .replies import Pieces, plain, reply_of
from .talk import Reply, essence, is_users, talk_of, words_of

if TYPE_CHECKING:
    from ..async_memory import AsyncMemory
    from ..memory import Memory
    from ..recorder import Recorder
    from ..tasks import Task

_Client = TypeVar("_Client")
#: Where the messages of a request lie, by its path.
_MESSAGES = {"/chat/completions": "messages", "/responses": "input"}


def recorded(
    client: _Client,
    recorder: Recorder,
    *,
    task: Task | None = None,
    memory: Memory | AsyncMemory | None = None,
    subject: str = "",
    tool_calls: bool = True,
    **context: Any,
) -> _Client:
    """The same client, whose calls become events of the task that runs, else of `task`, else of a task of their own.

    What is sent is told once however often it is sent again; a tool call is one event, with the result that is sent
    back and its error. `tool_calls=False` where `Recorder.tool` logs the tools already.
    With `memory`, the context block for the user's last message stands before it, and counts as read by the task;
    `context` are arguments of `Memory.context`, and `subject` says whose memories where the task doesn't.

    Calls return and raise what they did, also when recording fails: that is counted in `Recorder.status`. Raises
    `UsageError` for what is no OpenAI client, or is recorded already.
    """
    request = getattr(client, "request", None)
    if not callable(request) or not hasattr(client, "with_options"):
        raise UsageError(f"recorded takes an OpenAI or AsyncOpenAI client, not {type(client).__name__}")
    if isinstance(request, _Listener):
        raise UsageError("this client is recorded already")
    again: Callable[[Any], Any] = functools.partial(
        recorded, recorder=recorder, task=task, memory=memory, subject=subject, tool_calls=tool_calls, **context
    )
    copied: Callable[..., Any] = client.with_options
    held: Any = memory
    desk = _Desk(recorder, task, getattr(held, "memory", held), subject, tool_calls, context)
    is_async = inspect.iscoroutinefunction(request)
    changed: dict[str, object] = {"request": (_AsyncListener if is_async else _Listener)(request, desk)}
    changed["copy"] = changed["with_options"] = lambda **options: again(copied(**options))
    for name, value in changed.items():
        setattr(client, name, value)
    return client


class _Listener:
    """A client's `request`, listened to."""

    def __init__(self, request: Callable[..., Any], desk: _Desk) -> None:
        self._request, self._desk = request, desk

    def __call__(self, cast_to: Any, options: Any, **how: Any) -> Any:
        """Ask, and tell what was asked and answered."""
        call = self._desk.call(options)
        if call is None:
            return self._request(cast_to, options, **how)
        options = call.with_block(options)
        try:
            result = self._request(cast_to, options, **how)
        except BaseException as error:
            call.failed(error)
            raise
        call.answered(result)
        return result


class _AsyncListener(_Listener):
    """The same for a client whose calls are coroutines; memory is asked in a thread."""

    async def __call__(self, cast_to: Any, options: Any, **how: Any) -> Any:
        """Ask, and tell what was asked and answered."""
        call = self._desk.call(options)
        if call is None:
            return await self._request(cast_to, options, **how)
        if self._desk.memory is not None:
            options = await asyncio.to_thread(call.with_block, options)
        try:
            result = await self._request(cast_to, options, **how)
        except BaseException as error:
            call.failed(error)
            raise
        call.answered(result)
        return result


class _Desk:
    """What every call of a client is told with."""

    def __init__(
        self, recorder: Recorder, task: Task | None, memory: Memory | None, subject: str, tool_calls: bool,
        context: Mapping[str, Any],
    ) -> None:  # fmt: skip
        self.recorder, self.memory, self.tool_calls = recorder, memory, tool_calls
        self.subject, self.context = subject, context
        self._task = task

    def call(self, options: Any) -> _Call | None:
        """The call that a request is, with what it says told; None for one that asks no model, or is not understood."""
        # Here and below: the boundary of the promise that no failure of ours reaches the agent.
        try:
            where = _MESSAGES.get(options.url) if str(options.method).lower() == "post" else None
            if where is None:
                return None
            task = self.recorder.current_task() or self._task
            call = _Call(self, where, mapping(options.json_data), task)
            call.hear()
        except Exception as error:
            self.recorder.failed(error)
            return None
        return call


class _Call:
    """One call of a model, on its way."""

    def __init__(self, desk: _Desk, where: str, body: Mapping[str, object], task: Task | None) -> None:
        self._desk, self._where, self._body = desk, where, body
        sent = body.get(where)
        listed = [{"role": "user", "content": sent}] if isinstance(sent, str) else sequence(sent)
        self._sent: list[object] = list(listed)
        self._messages = [plain(one) for one in listed]
        #: Place of the last thing that the user said; -1: nowhere
        self._asked = max((n for n, one in enumerate(self._messages) if is_users(one) and words_of(one)), default=-1)
        self._is_own = task is None
        goal = words_of(self._messages[self._asked]) if self._asked >= 0 else ""
        self._task = task if task is not None else desk.recorder.task(goal, subject=desk.subject)
        self._talk = talk_of(self._task)
        self._began = time.perf_counter_ns()

    def hear(self) -> None:
        """Tell what is sent and was not told yet."""
        instructions = text(self._body.get("instructions"))
        told = [{"role": "system", "content": instructions}] if instructions else []
        now = self._desk.recorder.now()
        self._talk.hear(self._task, [*told, *self._messages], now, tool_calls=self._desk.tool_calls)

    def with_block(self, options: Any) -> Any:
        """The options of the request, with the block before what the user said last."""
        try:
            if block := self._block():
                changed = copy.copy(options)
                message = {"role": "user", "content": block}
                listed = [*self._sent[: self._asked], message, *self._sent[self._asked :]]
                changed.json_data = {**self._body, self._where: listed}
                options = changed
        except Exception as error:
            self._desk.recorder.failed(error)
        self._began = time.perf_counter_ns()
        return options

    def _block(self) -> str:
        """What is known about what the user said last; the same for as long as that is the last."""
        memory = self._desk.memory
        if memory is None or self._asked < 0:
            return ""
        asked = self._messages[self._asked]
        turn = f"{sum(map(is_users, self._messages))} {essence(asked)}"
        if self._talk.block[0] != turn:
            found = memory.context(
                words_of(asked), subject=self._task.subject or self._desk.subject, working=self._task.working[:-1],
                trace=self._task.trace_id, **self._desk.context,
            )  # fmt: skip
            self._talk.block = (turn, found.text)
        return self._talk.block[1]

    def answered(self, result: Any) -> None:
        """Tell what came back: now, or of a stream when it has been read."""
        try:
            kind = type(result).__name__
            if kind == "LegacyAPIResponse":  # of `with_raw_response`: what it parses to is kept for the caller
                result = result.parse()
            if isinstance(result, Pieces):
                self._tell(result.reply(), "unknown")
            elif isinstance(iterator := getattr(result, "_iterator", None), Iterator):
                result._iterator = self._pieces(iterator)
            elif isinstance(iterator, AsyncIterator):
                result._iterator = self._async_pieces(iterator)
            elif said := plain(result):
                self._tell(reply_of(said), "unknown")
            else:  # of `with_streaming_response`: the bytes are the caller's
                self._tell(Reply(attributes={"unread": kind}), "unknown")
        except Exception as error:
            self._desk.recorder.failed(error)

    def failed(self, error: BaseException, said: Pieces | None = None) -> None:
        """Tell that nothing, or not all, came back, and why."""
        try:
            reply = said.reply() if said is not None else Reply(model=text(self._body.get("model")))
            code = getattr(error, "code", None) or getattr(error, "status_code", None) or type(error).__name__
            attributes = {**reply.attributes, "error_code": str(code), "error_message": str(error)}
            outcome = "failure" if isinstance(error, Exception) else "unknown"
            self._tell(dataclasses.replace(reply, attributes=attributes), outcome, str(error))
        except Exception as ours:
            self._desk.recorder.failed(ours)

    def _tell(self, reply: Reply, outcome: Any, reason: str = "") -> None:
        latency_us = (time.perf_counter_ns() - self._began) // 1_000
        now = self._desk.recorder.now()
        self._talk.answer(self._task, reply, now, latency_us, tool_calls=self._desk.tool_calls)
        if self._is_own:
            self._task.outcome(outcome, reason)

    def _pieces(self, iterator: Iterator[Any]) -> Iterator[Any]:
        """What a stream says, put together on its way to its reader."""
        with self._streaming() as pieces:
            try:
                for piece in iterator:
                    self._passing(pieces, piece)
                    yield piece
            finally:
                if inspect.isgenerator(iterator):
                    iterator.close()

    async def _async_pieces(self, iterator: AsyncIterator[Any]) -> AsyncIterator[Any]:
        with self._streaming() as pieces:
            try:
                async for piece in iterator:
                    self._passing(pieces, piece)
                    yield piece
            finally:
                if inspect.isasyncgen(iterator):
                    await iterator.aclose()

    @contextmanager
    def _streaming(self) -> Iterator[Pieces]:
        """The pieces of a stream, told when it ends, breaks, or is left by its reader."""
        pieces = Pieces()
        try:
            yield pieces
        except GeneratorExit:
            pieces.whole.setdefault("status", "left by its reader")
            self.answered(pieces)
            raise
        except BaseException as error:
            self.failed(error, pieces)
            raise
        self.answered(pieces)

    def _passing(self, pieces: Pieces, piece: object) -> None:
        try:
            pieces.add(piece)
        except Exception as error:
            self._desk.recorder.failed(error)
