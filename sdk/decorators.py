"""Functions as tasks and as tool calls: what stands behind `Recorder.traced` and `Recorder.tool`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from .tasks import Task, ToolCall

if TYPE_CHECKING:
    from .recorder import Recorder

_P = ParamSpec("_P")
_R = TypeVar("_R")


def as_task(
    recorder: Recorder,
    function: Callable[_P, _R],
    goal: str | Callable[..., object],
    subject: str | Callable[..., str],
    options: dict[str, Any],
) -> Callable[_P, _R]:
    """The function, each call a task whose message is what it returns; see `Recorder.traced`."""

    def begin(args: tuple[Any, ...], named: dict[str, Any]) -> Task:
        said: object = "" if callable(goal) else goal
        about = "" if callable(subject) else subject
        # Functions that the agent gave us: what they raise is counted, and the task runs.
        try:
            if callable(goal):
                said = goal(*args, **named)
            elif not goal:
                said = next((a for a in (*args, *named.values()) if isinstance(a, str) and a), "")
            if callable(subject):
                about = subject(*args, **named)
        except Exception as error:
            recorder.failed(error)
        return recorder.task(function.__qualname__ if said in ("", None) else said, subject=about, **options)

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def run_async(*args: Any, **named: Any) -> Any:
            async with begin(args, named) as task:
                result = await function(*args, **named)
                if result is not None:
                    task.agent(result)
                return result

        return cast("Callable[_P, _R]", run_async)

    @functools.wraps(function)
    def run(*args: Any, **named: Any) -> Any:
        with begin(args, named) as task:
            result = function(*args, **named)
            if result is not None:
                task.agent(result)
            return result

    return cast("Callable[_P, _R]", run)


def as_tool(recorder: Recorder, function: Callable[_P, _R], name: str = "") -> Callable[_P, _R]:
    """The function, each call inside a task a tool call; see `Recorder.tool`."""
    called = name or getattr(function, "__name__", type(function).__name__)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        signature = None

    def begin(args: tuple[Any, ...], named: dict[str, Any]) -> ToolCall | None:
        task = recorder.current_task()
        return None if task is None else task.tool(called, _arguments(signature, args, named))

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def run_async(*args: Any, **named: Any) -> Any:
            call = begin(args, named)
            if call is None:
                return await function(*args, **named)
            with call:
                result = await function(*args, **named)
                call.result(result)
                return result

        return cast("Callable[_P, _R]", run_async)

    @functools.wraps(function)
    def run(*args: Any, **named: Any) -> Any:
        call = begin(args, named)
        if call is None:
            return function(*args, **named)
        with call:
            result = function(*args, **named)
            call.result(result)
            return result

    return cast("Callable[_P, _R]", run)


def _arguments(signature: inspect.Signature | None, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """A call's arguments by name, `self` and `cls` left out."""
    bound: dict[str, Any] = {"args": args, **named}
    if signature is not None:
        try:
            bound = dict(signature.bind(*args, **named).arguments)
        except TypeError:  # the call itself will fail, and say why
            return bound
    if next(iter(bound), "") in ("self", "cls"):
        del bound[next(iter(bound))]
    return bound
