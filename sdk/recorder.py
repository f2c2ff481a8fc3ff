"""The recorder: what an agent does goes into a spool at once, and into the lake about a second later.

No call raises into the agent or waits for a network, but `flush` and a task that ends with `durable="remote"`. What
could not be kept is answered with False, counted, warned of once, and visible in `status`.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from ..memory_store.capture.events import OUTCOMES, Event, Outcome
from ..memory_store.capture.limits import cut, printable
from ..memory_store.capture.masking import Mask, Screen
from ..memory_store.capture.spool import Spool, Waiting, home_label, waiting
from ..memory_store.capture.wire import HEAD_BYTES, Own, Stem, encode
from ..memory_store.clock import Clock, SystemClock, as_utc
from ..memory_store.ids import IdSource
from ..memory_store.settings import Settings
from .decorators import as_task, as_tool
from .faithful import as_real, as_text
from .roller import EXIT_SECONDS, Roller
from .tasks import Task
from .working import Ring, Turn, WorkingMemory

if TYPE_CHECKING:
    from ..memory_store.history.inbox import Row

_P = ParamSpec("_P")
_R = TypeVar("_R")
_log = logging.getLogger("hindlake")

#: Environment variables that tell a function that may be frozen or gone once it has answered.
_SERVERLESS = ("AWS_LAMBDA_FUNCTION_NAME", "K_SERVICE", "FUNCTION_TARGET", "FUNCTIONS_WORKER_RUNTIME", "VERCEL")


@dataclass(frozen=True)
class RecorderStatus:
    """What became of what was logged."""

    #: Events that this process was told are kept
    logged: int
    #: Events, digests and flushes that failed in this process
    failed: int
    #: Secrets and personal data that were masked in this process
    masked: int
    #: Events in the spool folder that are not in the lake yet, of every process that shares it
    waiting_events: int
    #: Their size in bytes
    waiting_bytes: int
    #: Time of the oldest of them, UTC
    oldest_waiting: datetime | None
    #: Its age in seconds, never negative; 0 if nothing waits
    oldest_waiting_seconds: float
    #: Segments that were set aside because a part of them can't be read
    damaged_segments: int
    #: What went wrong last, in words; empty: nothing
    last_error: str
    #: Where the spool lies
    spool_folder: Path


class Recorder:
    """Logs what an agent does. One recorder serves every thread and task of a process.

    Reading the settings raises `SettingsError` when one of them can't be meant; nothing after that raises.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        home: str | Path | None = None,
        namespace: str | None = None,
        subject: str = "",
        agent: str = "",
        agent_role: str = "",
        task_type: str = "",
        clock: Clock | None = None,
        screens: Sequence[Screen] = (),
    ) -> None:
        """`subject` to `task_type` are what tasks take when they don't say; `screens` are masks of your own."""
        settings = Settings.chosen(settings, home=None if home is None else str(home), namespace=namespace)
        #: The settings it was opened with
        self.settings = settings
        #: The tenant that it writes
        self.namespace = settings.namespace
        self._subject = as_text(subject)
        self._agent = as_text(agent)
        self._agent_role = as_text(agent_role)
        self._task_type = as_text(task_type)
        self._clock = clock if clock is not None else SystemClock()
        options = settings.recorder
        self._mask = Mask(options.mask_secrets, options.mask_personal, screens)
        self._suspects = self._mask.suspects
        self._limit = options.max_value_bytes
        self._working = WorkingMemory(options.working_turns)
        self._ids = IdSource()
        #: A new event id
        self.new_id = self._ids.new
        #: The time, by the clock that was injected
        self.now = now = self._clock.now
        #: The same for what is written: in seconds since 1970 where that is all there is to it
        self.stamp: Callable[[], datetime | float] = (
            time.time if type(self._clock) is SystemClock else lambda: as_utc(now())
        )
        self._spool = Spool(settings.spool_folder, home_label(settings), fsync=options.fsync)
        self._append = self._spool.append
        self._roller = Roller(settings, self._spool)
        self._running: ContextVar[Task | None] = ContextVar("hindlake-task", default=None)
        self._count_lock = threading.Lock()
        self._failed = 0
        self._masked = 0
        self._last_error = ""
        self._warned = False
        self._finalizer = weakref.finalize(self, Roller.stop, self._roller)
        self._finalizer.atexit = False  # the roller's own exit waits for the last pass
        _alive.add(self)

    def task(
        self,
        goal: object = "",
        *,
        task_type: str = "",
        subject: str = "",
        task_id: str = "",
        conversation_id: str = "",
        agent: str = "",
        agent_role: str = "",
        parent_trace_id: str | None = None,
        trace_id: str = "",
        language: str = "",
        attributes: object = None,
        durable: Literal["", "local", "remote"] = "",
    ) -> Task:
        """A task, to be used in `with` or `async with`; what it logs is one trace.

        The same task run again has the same `task_id`. `parent_trace_id` None: the task that runs around this one.
        `durable="remote"`: when the task ends, its trace is in the lake.
        """
        above = self._running.get()
        if parent_trace_id is None:
            parent_trace_id = above.trace_id if above is not None else ""
        return Task(
            self,
            goal=goal,
            trace_id=as_text(trace_id) or self._ids.new(),
            subject=as_text(subject) or self._subject,
            agent=as_text(agent) or self._agent,
            agent_role=as_text(agent_role) or self._agent_role,
            task_type=as_text(task_type) or self._task_type,
            task_id=as_text(task_id),
            conversation_id=as_text(conversation_id),
            parent_trace_id=as_text(parent_trace_id),
            language=as_text(language),
            attributes=attributes,
            is_remote=self._is_remote(durable),
        )

    def current_task(self) -> Task | None:
        """The task that runs in this context (thread, asyncio task); None outside of one."""
        return self._running.get()

    def working(self, conversation_id: str) -> list[Turn]:
        """The last turns of a conversation that this process had, oldest first."""
        return self._working.of(as_text(conversation_id))

    def feedback(self, trace_id: str, text: object = "", score: float | None = None) -> bool:
        """Say, at any time and from any process, what was thought of a task. True: it is kept."""
        return self._late(trace_id, "feedback", content=text, score=score, role="user")

    def outcome(self, trace_id: str, outcome: Outcome, reason: object = "", score: float | None = None) -> bool:
        """Say, at any time and from any process, how a task ended; the last word counts. True: it is kept."""
        return self._late(trace_id, "outcome", content=reason, score=score, outcome=outcome)

    def _late(
        self, trace_id: str, type: str, *, content: object, score: object, role: str = "", outcome: str = ""
    ) -> bool:
        """Log an event of a trace that another process may have begun.

        Its place in the trace is the time in microseconds: after all places that a running task counts, and in order
        of time among late ones.
        """
        # The boundary of the promise that no failure of ours reaches the agent; `Task` has the other one.
        try:
            at = as_utc(self.now())
            self.append(
                Event(
                    namespace=self.namespace,
                    trace_id=as_text(trace_id),
                    event_id=self.new_id(),
                    seq=int(at.timestamp() * 1_000_000),
                    at=at,
                    type=type,
                    role=role,
                    content=as_text(content),
                    outcome=known_outcome(outcome) if outcome else "",
                    score=as_real(score),
                    source="recorder",
                )
            )
        except Exception as error:
            self.failed(error)
            return False
        return True

    def stem(self, event: Event) -> Stem:
        """What the events of a task share, made ready for `keep`."""
        printable(event)
        return Stem(event)

    def keep(self, stem: Stem, own: Own) -> bytes:
        """Keep an event of a task, and return it as it is kept. Raises when it is not.

        Nearly every event is innocent, short and plain: it is encoded once. The others go by `append`.
        """
        try:
            encoded = encode(own)
        except UnicodeEncodeError:
            return self.append(stem.event(own))
        if self._suspects(encoded) or len(encoded) + stem.size > self._limit:
            return self.append(stem.event(own))
        payload = stem.head + encoded[HEAD_BYTES:] + stem.tail
        self._append(payload)
        return payload

    def append(self, event: Event) -> bytes:
        """Screen, encode and spool any event, and return it as it is kept. Raises when it is not."""
        try:
            payload = encode(event)
        except UnicodeEncodeError:
            printable(event)
            payload = encode(event)
        if len(payload) > self._limit:
            cut(event, self._limit, self._mask.text)
            payload = encode(event)
        if self._suspects(payload) and self._mask.event(event):
            payload = encode(event)
        if event.masked:
            with self._count_lock:
                self._masked += event.masked
        self._append(payload)
        return payload

    def failed(self, error: BaseException) -> None:
        """Count a failure, and warn of the first one."""
        with self._count_lock:
            self._failed += 1
            self._last_error = f"{type(error).__name__}: {error}"
            if self._warned:
                return
            self._warned = True
        try:
            _log.warning(
                "hindlake could not keep an event in %s (%s); later failures are counted in Recorder.status() only",
                self._spool.folder,
                self._last_error,
            )
        except Exception:  # a log handler of the agent's own
            return

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until everything that was acknowledged is in the lake; False if it is not, within `timeout` seconds."""
        try:
            return self._roller.flush(timeout)
        except Exception as error:
            self.failed(error)
            return False

    def close(self, timeout: float | None = EXIT_SECONDS) -> bool:
        """Flush and stop the background thread; what is logged later waits for another process to collect it.

        False: something is still in the spool, safe on this disk.
        """
        try:
            return self._roller.close(timeout)
        except Exception as error:
            self.failed(error)
            return False

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def status(self) -> RecorderStatus:
        """What was logged, what failed, what waits. It reads the spool folder: not for the hot path."""
        try:
            left = waiting(self._spool.folder)
        except OSError as error:
            left = Waiting()
            self._last_error = f"{type(error).__name__}: {error}"
        age = (as_utc(self._clock.now()) - left.oldest).total_seconds() if left.oldest else 0.0
        return RecorderStatus(
            logged=self._spool.appended,
            failed=self._failed,
            masked=self._masked,
            waiting_events=left.events,
            waiting_bytes=left.bytes,
            oldest_waiting=left.oldest,
            oldest_waiting_seconds=max(0.0, age),
            damaged_segments=left.damaged,
            last_error=self._last_error or self._roller.last_error,
            spool_folder=self._spool.folder,
        )

    def traced(
        self,
        *,
        goal: str | Callable[..., object] = "",
        task_type: str = "",
        subject: str | Callable[..., str] = "",
        **task: Any,
    ) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
        """Run a function, sync or async, as a task. What it returns is logged as the agent's message.

        `goal` and `subject` may be functions of the call's arguments; without a goal it is the first text among the
        arguments, else the function's name. Other keywords are those of `task`.
        """
        return lambda function: as_task(self, function, goal, subject, {"task_type": task_type, **task})

    def tool(self, name: str = "") -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
        """Log each call of a function, sync or async, as a tool call of the running task; outside of one, just run."""
        return lambda function: as_tool(self, function, name)

    def ring(self, conversation_id: str) -> Ring:
        """The ring of turns that a task of this conversation feeds."""
        return self._working.ring(conversation_id)

    def enter(self, task: Task) -> Token[Task | None]:
        """Make a task the one that runs in this context."""
        return self._running.set(task)

    def leave(self, token: Token[Task | None] | None) -> None:
        """Make the task around it the one that runs again."""
        if token is not None:
            try:
                self._running.reset(token)
            except ValueError:  # entered in one context and left in another, as async generators do
                self._running.set(None)

    def put_act(self, name: str, rows: Sequence[Row]) -> None:
        """Write a user act of this namespace. Raises `LakeError`."""
        self._roller.put_act(self.namespace, name, rows)

    def _is_remote(self, durable: str) -> bool:
        wanted = durable or self.settings.recorder.durable
        return wanted == "remote" or (wanted == "auto" and any(os.environ.get(name) for name in _SERVERLESS))

    def after_fork(self) -> None:
        """Begin anew in a child: its counts begin at 0, its ids are its own."""
        self._count_lock = threading.Lock()
        self._failed = self._masked = 0
        self._ids.renew()
        self._working.after_fork()


def known_outcome(outcome: object) -> str:
    """An outcome by its name; `unknown` if it has none of the four."""
    text = as_text(outcome).strip().lower()
    return text if text in OUTCOMES else "unknown"


def running_trace(settings: Settings) -> str:
    """Id of the trace that runs in this context, of any recorder of this home and namespace; empty: none does."""
    for recorder in list(_alive):
        own = recorder.settings
        if (own.home, own.namespace) == (settings.home, settings.namespace) and (task := recorder.current_task()):
            return task.trace_id
    return ""


_alive: weakref.WeakSet[Recorder] = weakref.WeakSet()


def _after_fork() -> None:
    for recorder in list(_alive):
        recorder.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
