"""`hindlake run hourly`, `requested` and `review`: what a schedule runs beside the night and the week."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from .run import ReflectorName, progress_bar, runs, tell_busy
from .session import HomeOption, JsonOption, NamespaceOption, Session

ReflectorOption = Annotated[ReflectorName, typer.Option(help="As in `hindlake run reflect`.")]


def register(app: typer.Typer) -> None:
    """Add the commands to `hindlake run`."""
    for command in (hourly, requested, review):
        runs.command(command.__name__)(command)


def hourly(
    context: typer.Context,
    reflector: ReflectorOption = ReflectorName.auto,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """What the hours need: collect, compact, passages, reflect.

    \b
    hindlake run hourly
    """
    from .. import __version__
    from ..flows.pipeline import run_collect, run_compact, run_passages, run_reflect

    session = Session(context, home, namespace, json)
    settings, clock = session.settings, session.clock
    counts: dict[str, dict[str, int]] = {"collect": _counts(run_collect(settings, clock))}
    counts["compact"] = _counts(run_compact(settings, clock, version=__version__, namespaces=session.namespaces))
    counts["passages"] = _counts(run_passages(settings, clock, namespaces=session.namespaces))
    with progress_bar(session, "traces") as progress:
        report = run_reflect(
            settings, clock, version=__version__, namespaces=session.namespaces, reflector=reflector.value,
            progress=progress,
        )  # fmt: skip
    tell_busy(session, report.busy)
    result = report.summary()
    counts["reflect"] = result["counts"]
    told = {"run_id": result["run_id"], "cost": result["cost"], "steps": counts}
    session.answer(told, lambda: _show(session, counts))


def requested(
    context: typer.Context,
    reflector: ReflectorOption = ReflectorName.auto,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Reflect where an agent has asked for it (`memory_reflect`), and do nothing where none has: every few minutes.

    \b
    hindlake run requested
    """
    from .. import __version__
    from ..flows.pipeline import run_reflect

    session = Session(context, home, namespace, json)
    report = run_reflect(
        session.settings, session.clock, version=__version__, namespaces=session.namespaces,
        reflector=reflector.value, requested=True,
    )  # fmt: skip
    tell_busy(session, report.busy)
    result = report.summary()
    session.answer(result, lambda: _show(session, {"reflect": result["counts"]}))


def review(
    context: typer.Context,
    month: Annotated[str, typer.Option(metavar="YYYY-MM", help="Last month unless given.")] = "",
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Fix the sample of a month that people are to judge, so that `hindlake review` finds it: every month.

    \b
    hindlake run review
    hindlake run review --month 2026-10
    """
    from ..flows.pipeline import run_review

    session = Session(context, home, namespace, json)
    counts = _counts(run_review(session.settings, session.clock, namespaces=session.namespaces, month=month))
    session.answer({"run_id": "", "counts": counts}, lambda: _show(session, {"review": counts}))


def _counts(report: Any) -> dict[str, int]:
    return {name: value for name, value in asdict(report).items() if type(value) is int}


def _show(session: Session, steps: dict[str, dict[str, int]]) -> None:
    for step, counts in steps.items():
        said = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items() if count)
        session.line(f"{step}: {said or 'nothing to do'}")
