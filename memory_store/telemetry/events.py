"""What is told of runs, as records of the logger `hindlake.run`: a name, and fields that hold no text of a memory.

The standard library's `logging` takes them from there; `logs` prints them. Without a handler nothing is shown.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import TypeVar

from ..errors import BudgetExceeded, HindlakeError, LakeError, LeaseLost, MissingExtra, SettingsError

_T = TypeVar("_T")
_R = TypeVar("_R")

#: What a field may hold.
Value = str | int | float | bool | None | list[str] | dict[str, int]

LOGGER = logging.getLogger("hindlake.run")
# A library is silent: without this, warnings would go to standard error where no one has set up logging.
LOGGER.addHandler(logging.NullHandler())


@dataclass(frozen=True)
class Event:
    """One kind of line."""

    level: int
    #: What has happened, for docs/observability.md
    says: str


#: Every kind of line, by name.
EVENTS = {
    "run_started": Event(logging.INFO, "a job, or a whole night of them, began"),
    "run_ended": Event(logging.INFO, "it ended; `status` is done, or stopped at its budget"),
    "run_failed": Event(logging.ERROR, "it raised `error`; what was done until then is kept"),
    "lease_taken": Event(logging.INFO, "the run works on `namespace`, or on all (`_all`), and no other run does"),
    "lease_lost": Event(logging.WARNING, "another run has taken over; this one ends before its next portion"),
    "namespace_skipped": Event(logging.INFO, "`namespace` was left alone, for `reason`"),
    "model_retried": Event(logging.WARNING, "a call to a model failed and is made again after `wait` seconds"),
    "budget_reached": Event(logging.WARNING, "the run stopped before the call that could pass its budget"),
    "shard_lost": Event(logging.WARNING, "a worker was lost over `shard`, which is worked on again up to three times"),
    "generation_switched": Event(logging.INFO, "readers use `generation` from now on"),
    "store_built": Event(logging.INFO, "`generation` was built from the lake, for `reason`"),
    "telemetry_off": Event(logging.WARNING, "OpenTelemetry is asked for and can't be used, for `reason`"),
    "message": Event(logging.WARNING, "anything else that a logger below `hindlake` says"),
}

#: Every field beside `time`, `level` and `event`, and what it holds.
FIELDS = {
    "run": "id of the run, the one of `hindlake undo` and of the run's record",
    "parent": "id of the run that this one is a step of",
    "job": "name of the job: reflect, dedup, nightly, …",
    "namespace": "the namespace that the line is about",
    "namespaces": "those that were asked for; none: all",
    "status": "done · stopped · failed",
    "seconds": "how long the run took",
    "counts": "what was done, by name",
    "calls": "calls to models, failed ones included",
    "input_tokens": "tokens of prompts",
    "output_tokens": "tokens of answers",
    "cost": "what they cost, in micro-dollars",
    "is_dry": "whether nothing was written",
    "error": "class of the error",
    "says": "its message, where hindlake wrote all of it",
    "reason": "why, in a few words",
    "holder": "who works there instead",
    "model": "name of the model",
    "attempt": "number of the try that failed, from 1",
    "wait": "seconds until the next one",
    "shard": "number of the shard, from 1",
    "generation": "number of a generation",
    "before": "number of the generation that readers used before",
    "host": "machine of a worker",
    "pid": "process of a worker",
    "trace_id": "the OpenTelemetry trace, where there is one",
    "span_id": "the span in it",
}

#: Errors whose messages hold paths, numbers and names of settings. Others may quote a server, or an argument.
_OWN_WORDS = (BudgetExceeded, LakeError, LeaseLost, MissingExtra, SettingsError)


@dataclass
class Told:
    """What every line of a run has in common."""

    run: str
    job: str
    parent: str = ""
    #: Whether the job has named its run by the id
    is_claimed: bool = False


_CURRENT: ContextVar[Told | None] = ContextVar("hindlake_run", default=None)


@contextmanager
def telling(told: Told | None) -> Iterator[None]:
    """Lines of this block are about a run."""
    token = _CURRENT.set(told)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current() -> Told | None:
    """The run that lines are about now."""
    return _CURRENT.get()


def claimed_id() -> str:
    """The id of the run that goes on, for the first who asks: the job's record has the id of its lines. Else empty."""
    told = _CURRENT.get()
    if told is None or told.is_claimed:
        return ""
    told.is_claimed = True
    return told.run


def in_this_run(function: Callable[[_T], _R]) -> Callable[[_T], _R]:
    """The function as a thread of a pool may call it: what it tells is about the run, and in the span, of here."""
    context = copy_context()
    return lambda argument: context.copy().run(function, argument)


def tell(event: str, **fields: Value) -> None:
    """Tell that something has happened. Empty fields are left out; of errors take `error_fields`."""
    level = EVENTS[event].level
    if not LOGGER.isEnabledFor(level):
        return
    told = _CURRENT.get()
    about: dict[str, Value] = {"run": told.run, "parent": told.parent, "job": told.job} if told else {}
    kept = {name: value for name, value in (about | fields).items() if value not in ("", None, {}, [])}
    LOGGER.log(level, "%s", event, extra={"hindlake": {"event": event, **kept}})


def error_fields(error: BaseException) -> dict[str, Value]:
    """What may be told of an error: its class, and its message if it quotes no one."""
    own = isinstance(error, _OWN_WORDS) or type(error) is HindlakeError
    return {"error": type(error).__name__, "says": str(error) if own else ""}
