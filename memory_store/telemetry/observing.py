"""A run, told in every way there is: lines when it begins and ends, a span, and figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from ..clock import SystemClock
from ..errors import HindlakeError
from ..ids import sortable_id
from ..records.runs import spent_kept
from ..settings import Settings
from . import logs, otel
from .events import Told, current, error_fields, tell, telling

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: Namespaces whose memories are counted at the end of a run, at most: each costs a look, and each is a time series.
_NAMESPACES = 100


@dataclass
class Seen:
    """What is known of a run at its end."""

    run: str
    status: str = "done"
    counts: dict[str, int] = field(default_factory=dict)
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    #: Micro-dollars
    cost: int = 0
    #: Why it failed, where it told so and did not raise; its class
    error: str = ""

    def take(self, report: object) -> None:
        """Read what a report says: `run_id`, `counts`, what was used, `stopped`; of plain numbers, these as counts."""
        self.run = getattr(report, "run_id", "") or self.run
        used = getattr(report, "usage", report)
        for name in ("calls", "input_tokens", "output_tokens", "cost"):
            setattr(self, name, _number(used, name))
        counts = getattr(report, "counts", None)
        if isinstance(counts, Mapping):
            self.counts = {str(name): count for name, count in counts.items() if isinstance(count, int) and count}
            self.calls = self.calls or self.counts.get("calls", 0)
        elif is_dataclass(report):
            self.counts = {one.name: n for one in fields(report) if (n := _number(report, one.name))}
        if getattr(report, "stopped", False) is True:
            self.status = "stopped"
        if getattr(report, "failed", None) or getattr(report, "error", ""):
            self.status = "failed"


def _number(report: object, name: str) -> int:
    value = getattr(report, name, 0)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


@contextmanager
def observed(
    settings: Settings, job: str, namespaces: Sequence[str] | None = None, *, is_dry: bool = False
) -> Iterator[Seen]:
    """Tell of a run: that it began, and how it ended. What it tells meanwhile is about it. Switches on what the
    settings ask for. Give its report to `Seen.take`.
    """
    logs.start(settings)
    otel.start(settings)
    outer = current()
    told = Told(sortable_id(), job, outer.run if outer else "")
    seen = Seen(told.run)
    began = time.monotonic()
    about: dict[str, otel.Attribute | None] = {"hindlake.job": job, "hindlake.run": told.run, "hindlake.is_dry": is_dry}
    with telling(told), otel.span(f"run {job}", about) as span, spent_kept(settings, job, namespaces):
        tell("run_started", namespaces=list(namespaces or ()), is_dry=is_dry or None)
        try:
            yield seen
        except BaseException as error:
            seconds = time.monotonic() - began
            tell("run_failed", run=seen.run, seconds=round(seconds, 3), **error_fields(error))
            _figures(seen, job, seconds, "failed", type(error).__name__)
            raise
        seconds = time.monotonic() - began
        _end(seen, span, seconds)
        _figures(seen, job, seconds, seen.status, seen.error)
    if outer is None and otel.is_heard() and not is_dry:
        _look(settings, namespaces)


def _end(seen: Seen, span: otel.Span, seconds: float) -> None:
    used: dict[str, int] = {
        "calls": seen.calls, "input_tokens": seen.input_tokens, "output_tokens": seen.output_tokens, "cost": seen.cost
    }  # fmt: skip
    spent = used if any(used.values()) else {}
    if seen.status == "stopped":
        tell("budget_reached", run=seen.run, **spent)
    tell("run_ended", run=seen.run, status=seen.status, seconds=round(seconds, 3), counts=seen.counts, **spent)
    span.set({"hindlake.run": seen.run, "hindlake.status": seen.status})
    span.set({f"hindlake.{name}": value for name, value in spent.items()})
    if seen.status == "failed":
        span.fail(seen.error or "failed")


def _figures(seen: Seen, job: str, seconds: float, status: str, error: str) -> None:
    otel.measure("hindlake.run.duration", seconds, {"job": job, "status": status})
    if status == "failed":
        otel.count("hindlake.run.errors", 1, {"job": job, "error.type": error or "failed"})
    otel.count("hindlake.run.tokens", seen.input_tokens, {"job": job, "gen_ai.token.type": "input"})
    otel.count("hindlake.run.tokens", seen.output_tokens, {"job": job, "gen_ai.token.type": "output"})
    otel.count("hindlake.run.cost", seen.cost, {"job": job})


def _look(settings: Settings, namespaces: Sequence[str] | None) -> None:
    """Show how many memories there are, and what waits. That this can't be seen fails no run."""
    from ..files.lake import Lake
    from ..status import status

    try:
        chosen = Lake.open(settings).chosen(namespaces)[:_NAMESPACES]
        for name in chosen:
            said = status(Lake.open(settings), settings.model_copy(update={"namespace": name}), SystemClock())
            for state, count in said["store"]["states"].items():
                otel.show("hindlake.memories", count, {"namespace": name, "state": state})
            for queue in ("traces", "inbox", "log", "questions"):
                otel.show("hindlake.waiting", said["waiting"][queue], {"namespace": name, "queue": queue})
    except HindlakeError as error:
        tell("telemetry_off", reason="memories can't be counted", **error_fields(error))


def observing(
    job: str,
) -> Callable[[Callable[Concatenate[Settings, _P], _R]], Callable[Concatenate[Settings, _P], _R]]:
    """Tell of each call of a function that takes the settings, runs a job and returns its report."""

    def around(function: Callable[Concatenate[Settings, _P], _R]) -> Callable[Concatenate[Settings, _P], _R]:
        @wraps(function)
        def told(settings: Settings, /, *arguments: _P.args, **named: _P.kwargs) -> _R:
            namespaces: Any = named.get("namespaces")
            with observed(settings, job, namespaces, is_dry=named.get("dry_run") is True) as seen:
                report = function(settings, *arguments, **named)
                seen.take(report)
                return report

        return told

    return around
