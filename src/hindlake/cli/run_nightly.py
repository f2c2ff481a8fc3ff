"""`hindlake run dedup`, `merge`, `promote`, and all that a night or a week needs: `nightly`, `weekly`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..memory_store.errors import UsageError
from .run import ReflectorName, progress_bar, runs, tell_busy
from .session import HomeOption, JsonOption, NamespaceOption, Session

if TYPE_CHECKING:
    from ..flows.maintenance import MaintenanceReport, StepReport

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the decisions, write none.")]
JudgeOption = Annotated[
    ReflectorName,
    typer.Option(
        "--reflector",
        help="Who judges pairs that no rule decides: rules: no one; openai: the model; auto: if one is set.",
    ),
]
RayOption = Annotated[bool, typer.Option("--ray", help="Work on Ray, however little there is.")]
LoopOption = Annotated[bool, typer.Option("--loop", help="Work in this process, however much there is.")]


def register(app: typer.Typer) -> None:
    """Add the commands to `hindlake run`."""
    for command in (dedup, merge, promote, nightly, weekly):
        runs.command(command.__name__)(command)


def dedup(
    context: typer.Context,
    dry_run: DryRunOption = False,
    reflector: JudgeOption = ReflectorName.auto,
    ray: RayOption = False,
    loop: LoopOption = False,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Of memories that surely say the same keep one wording, the most-accessed or the fuller one.

    The others become merged and point to it. Statements that differ in a value are never joined.

    \b
    hindlake run dedup
    hindlake run dedup --dry-run
    """
    _run_one(Session(context, home, namespace, json), "dedup", dry_run, reflector, ray, loop)


def merge(
    context: typer.Context,
    dry_run: DryRunOption = False,
    reflector: JudgeOption = ReflectorName.auto,
    ray: RayOption = False,
    loop: LoopOption = False,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Compose what complements each other about one thing into one memory that says it all, word for word.

    The memories that it was composed of become merged and point to it.

    \b
    hindlake run merge
    hindlake run merge --dry-run
    """
    _run_one(Session(context, home, namespace, json), "merge", dry_run, reflector, ray, loop)


def promote(
    context: typer.Context,
    dry_run: DryRunOption = False,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Raise the confidence of memories that several distinct traces show.

    \b
    hindlake run promote
    hindlake run promote --dry-run
    """
    _run_one(Session(context, home, namespace, json), "promote", dry_run, ReflectorName.rules, False, False)


def nightly(
    context: typer.Context,
    dry_run: DryRunOption = False,
    reflector: JudgeOption = ReflectorName.auto,
    ray: RayOption = False,
    loop: LoopOption = False,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """All that memories need every night: settle, resolve, credit, decay, cool, dedup, promote, generations, sweep.

    Each step has a run id of its own, so that each can be undone by itself. One that fails is reported, the next go
    on, and the exit code is 1. A night that was killed is finished by starting it again.

    \b
    hindlake run nightly
    hindlake run nightly --dry-run
    """
    _run_all(Session(context, home, namespace, json), "nightly", dry_run, reflector, ray, loop)


def weekly(
    context: typer.Context,
    dry_run: DryRunOption = False,
    reflector: JudgeOption = ReflectorName.auto,
    ray: RayOption = False,
    loop: LoopOption = False,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """The steps of `nightly`, and merge after dedup.

    \b
    hindlake run weekly
    hindlake run weekly --dry-run
    """
    _run_all(Session(context, home, namespace, json), "weekly", dry_run, reflector, ray, loop)


def _options(session: Session, dry_run: bool, reflector: ReflectorName, ray: bool, loop: bool) -> dict[str, Any]:
    from .. import __version__

    if ray and loop:
        raise UsageError("--ray and --loop exclude each other")
    return {
        "version": __version__,
        "namespaces": session.namespaces,
        "reflector": reflector.value,
        "engine": "ray" if ray else "loop" if loop else "auto",
        "dry_run": dry_run,
    }


def _run_one(session: Session, name: str, dry_run: bool, reflector: ReflectorName, ray: bool, loop: bool) -> None:
    from ..flows.maintenance import run_step
    from ..flows.pipeline import run_collect

    options = _options(session, dry_run, reflector, ray, loop)
    run_collect(session.settings, session.clock)
    with progress_bar(session, "shards") as progress:
        report = run_step(name, session.settings, session.clock, progress=progress, **options)
    value = {"run_id": report.run_id, "job": name, "counts": dict(sorted(report.counts.items()))}
    session.answer(
        value | ({"decisions": _decisions(report)} if dry_run else {}), lambda: _show(session, report, dry_run)
    )


def _run_all(session: Session, name: str, dry_run: bool, reflector: ReflectorName, ray: bool, loop: bool) -> None:
    from ..flows.maintenance import NIGHTLY, WEEKLY, run_steps

    options = _options(session, dry_run, reflector, ray, loop)
    steps = NIGHTLY if name == "nightly" else WEEKLY
    with progress_bar(session, "") as progress:

        def started(step: str) -> Callable[[int, int], None]:
            progress.describe(step)
            return progress

        report = run_steps(steps, session.settings, session.clock, started=started, **options)
    _answer_all(session, report, dry_run)
    if report.failed:
        raise typer.Exit(1)


def _answer_all(session: Session, report: MaintenanceReport, dry_run: bool) -> None:
    value = report.summary()
    if dry_run:
        for told, step in zip(value["steps"], report.steps, strict=True):
            told["decisions"] = _decisions(step)

    def show() -> None:
        for step in report.steps:
            _show(session, step, dry_run)

    session.answer(value, show)


def _decisions(report: StepReport) -> list[dict[str, Any]]:
    return [{name: row[name] for name in ("decision", "id", "reason")} for row in report.decisions]


def _show(session: Session, report: StepReport, dry_run: bool) -> None:
    tell_busy(session, report.busy)
    if report.error:
        session.line(f"{report.step} failed: {report.error}")
        return
    said = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in sorted(report.counts.items()))
    # What waited is settled by a dry run too, so that it decides on all that is known.
    note = " (dry run: nothing was written)" if dry_run and report.run_id else ""
    run = f" {report.run_id}" if report.run_id else ""
    session.line(f"{report.step}{run}{note}: {said or 'nothing to do'}")
    for row in _decisions(report):
        session.line(f"  {row['decision']:<10} {row['id']}  {row['reason']}")
