"""The gate: which traces are worth a reflector's call, and by which trigger (R6). Pure: traces in, rows out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from hashlib import blake2b

from ...memory_store.capture.events import Trace
from ...memory_store.history.inbox import Row
from ...memory_store.settings import GateSettings
from .rules.agreements import agreements_of
from .rules.corrections import corrections_of
from .rules.detours import is_detour
from .rules.failures import failures_of, unexpected_answers
from .rules.plans import settled_of
from .rules.reader import is_from_user, statements_of

#: What the gate looks for, in the order in which it names what it found.
TRIGGERS: tuple[str, ...] = (
    "task_failed",
    "tool_error",
    "unexpected_answer",
    "user_correction",
    "stated_fact",
    "detour",
    "complex",
)
#: The trigger of a trace in which there is nothing.
ROUTINE = "routine"
#: The trigger of a trace that somebody asked for by its id.
ASKED = "asked"
#: A statement of less importance pulls no trigger.
_DURABLE = 0.4


def gate(traces: Sequence[Trace], settings: GateSettings, *, at: datetime, run: str, asked: bool = False) -> list[Row]:
    """One row of the table `gate` for each trace: reflected or not, and by which trigger.

    A trace is reflected by the first trigger that it pulls and whose rate lets it through. Which traces a rate lets
    through depends on their ids only, so the same traces give the same sample on every machine. A trace that none
    lets through is named for the first that it pulled, or `routine`. All of them are let through where they were
    `asked` for.
    """
    rows = [_row(trace, settings, at, run) for trace in traces]
    return [{**row, "reflected": True, "trigger": ASKED} for row in rows] if asked else rows


def triggers_of(trace: Trace, settings: GateSettings) -> list[str]:
    """The triggers that a trace pulls, in the order of `TRIGGERS`."""
    checks: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("task_failed", lambda: trace.outcome in ("failure", "partial")),
        ("tool_error", lambda: bool(failures_of(trace))),
        ("unexpected_answer", lambda: bool(unexpected_answers(trace))),
        ("user_correction", lambda: bool(corrections_of(trace))),
        ("stated_fact", lambda: _states_something(trace)),
        ("detour", lambda: is_detour(trace)),
        ("complex", lambda: len(trace.tool_calls) > settings.complex_calls),
    )
    return [name for name, pulls in checks if name not in settings.off and pulls()]


def sampled(trace: Trace, trigger: str, rate: float) -> bool:
    """Whether a rate lets a trace through: a fixed fraction of all ids, another one for each trigger.

    Raising the rate keeps those that a lower one let through.
    """
    if rate >= 1:
        return True
    digest = blake2b(
        f"{trace.namespace}\0{trigger}\0{trace.trace_id}".encode("utf-8", "replace"), digest_size=8
    ).digest()
    return int.from_bytes(digest) < rate * 2**64


def _row(trace: Trace, settings: GateSettings, at: datetime, run: str) -> Row:
    chosen = settings.for_task(trace.namespace, trace.first("task_type"))
    pulled = triggers_of(trace, chosen)
    through = next((name for name in pulled if sampled(trace, name, chosen.rate(name))), "")
    return {
        "namespace": trace.namespace,
        "trace_id": trace.trace_id,
        "at": at,
        "run": run,
        "reflected": bool(through),
        "trigger": through or (pulled[0] if pulled else ROUTINE),
        "outcome": trace.outcome,
        "events": len(trace.events),
    }


def _states_something(trace: Trace) -> bool:
    """Whether the user states or settles something durable, or accepts a plan that the agent laid out.

    An id given to be looked up identifies, and says nothing.
    """
    words = [event for event in trace.events if is_from_user(event)]
    return (
        any(said.importance >= _DURABLE for event in words for said in statements_of(event.content))
        or any(settled.said.importance >= _DURABLE for settled in settled_of(trace, words))
        or bool(agreements_of(trace))
    )
