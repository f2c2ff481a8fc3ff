"""`hindlake run …`: run a job now."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from ..memory_store.errors import MissingExtra, UsageError
from .session import HomeOption, JsonOption, NamespaceOption, Session

if TYPE_CHECKING:
    from ..jobs.models.budget import Forecast
    from ..jobs.reflect import Announcement

runs = typer.Typer(no_args_is_help=True, help="Run a job now. Doing it twice changes nothing.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(runs, name="run")


class ReflectorName(StrEnum):
    """Reflectors that can be named."""

    auto = "auto"
    rules = "rules"
    openai = "openai"


@runs.command("collect")
def collect(
    context: typer.Context, home: HomeOption = None, namespace: NamespaceOption = None, json: JsonOption = False
) -> None:
    """Bring into the lake what recorders on this machine have logged, those of dead processes too.

    \b
    hindlake run collect
    """
    from dataclasses import asdict

    from ..flows.pipeline import run_collect

    session = Session(context, home, namespace, json)
    counts = asdict(run_collect(session.settings, session.clock))
    del counts["at"]
    session.answer({"run_id": "", "counts": counts}, lambda: _show_counts(session, "collect", counts))


@runs.command("compact")
def compact(
    context: typer.Context, home: HomeOption = None, namespace: NamespaceOption = None, json: JsonOption = False
) -> None:
    """Join small trace files of the lake into bigger ones, while others read and write.

    Works in all namespaces unless one is named. Files younger than 10 minutes are left alone; those that were joined
    are deleted by the first run that comes an hour later, so that whoever is reading them can finish.

    \b
    hindlake run compact
    HINDLAKE_JOBS_COMPACT_TARGET_MB=256 hindlake run compact --namespace acme
    """
    from dataclasses import asdict

    from .. import __version__
    from ..flows.pipeline import run_compact

    session = Session(context, home, namespace, json)
    namespaces = session.namespaces
    with progress_bar(session, "days") as progress:
        report = run_compact(
            session.settings, session.clock, version=__version__, namespaces=namespaces, progress=progress
        )
    counts = asdict(report)
    damaged = counts.pop("damaged_paths")
    del counts["at"]
    session.answer(
        {"run_id": "", "counts": counts, "damaged": damaged}, lambda: _show_compact(session, counts, damaged)
    )


@runs.command("reflect")
def reflect(
    context: typer.Context,
    reflector: Annotated[
        ReflectorName,
        typer.Option(help="rules need no model; openai is any compatible endpoint; auto: openai once one is set."),
    ] = ReflectorName.auto,
    ray: Annotated[bool, typer.Option("--ray", help="Work on Ray, however little there is.")] = False,
    loop: Annotated[bool, typer.Option("--loop", help="Work in this process, however much there is.")] = False,
    prefect: Annotated[
        bool,
        typer.Option(
            "--prefect", help="Run as a Prefect flow: on the server of PREFECT_API_URL, else on one of its own."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the decisions and what a model would cost; write none, call none.")
    ] = False,
    trace: Annotated[
        list[str] | None,
        typer.Option("--trace", metavar="ID", help="Only this trace, whatever the gate says of it; may be repeated."),
    ] = None,
    ask: Annotated[
        bool, typer.Option("--ask", help="Call the model in a dry run too; its replies are kept, and paid for once.")
    ] = False,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Learn from every trace that has ended: gate, reflect, resolve, decide.

    Works in all namespaces unless one is named. A run that was killed is continued by the next. What a model will cost
    at most is said before it is called. In batch mode the run sends what is new, collects what is answered, and ends.

    \b
    hindlake run reflect
    hindlake run reflect --dry-run
    hindlake run reflect --dry-run --ask
    hindlake run reflect --trace TRACE
    hindlake run reflect --ray
    HINDLAKE_MODEL_BASE_URL=http://127.0.0.1:8080/v1 hindlake run reflect
    HINDLAKE_MODEL_MODE=batch hindlake run reflect
    """
    session = Session(context, home, namespace, json)
    if ray and loop:
        raise UsageError("--ray and --loop exclude each other")
    if ask and not dry_run:
        raise UsageError("--ask goes with --dry-run: a run that is none asks the model anyway")
    engine = "ray" if ray else "loop" if loop else "auto"
    namespaces = session.namespaces
    if prefect:
        if dry_run:
            raise UsageError("--dry-run shows decisions here; it can't be combined with --prefect")
        result = _as_flow(session.settings.home, namespaces, reflector.value, engine, trace)
    else:
        from .. import __version__
        from ..flows.pipeline import run_reflect

        with progress_bar(session, "traces") as progress:
            report = run_reflect(
                session.settings,
                session.clock,
                version=__version__,
                namespaces=namespaces,
                reflector=reflector.value,
                engine=engine,  # type: ignore[arg-type]
                traces=trace,
                dry_run=dry_run,
                ask=ask,
                progress=progress,
                announce=lambda said: _announce(session, said),
            )
        tell_busy(session, report.busy)
        result = report.summary()
        if dry_run:
            result["decisions"] = [_decision(row) for row in report.decisions]
    session.answer(result, lambda: _show_reflect(session, result, dry_run))


def _announce(session: Session, said: Announcement) -> None:
    """Say what is going to be used, before the first call."""
    forecast = said.forecast
    text = f"{said.namespace}: {said.traces} traces; forecast, at most: {_money(forecast)}"
    if forecast.out:
        text += f"; {forecast.out} questions are out already"
    session.note(text)
    if said.exceeds:
        session.note(
            "  that is more than the budget has left: the run does what fits and stops; the next goes on (or raise "
            "HINDLAKE_MODEL_BUDGET_TOKENS, HINDLAKE_MODEL_BUDGET_COST)"
        )


def _money(forecast: Forecast) -> str:
    return f"{forecast.calls} calls, {forecast.input_tokens} tokens in, {forecast.output_tokens} out, " + (
        f"{forecast.cost / 1e6:.4f} USD"
    )


def _as_flow(
    home: str, namespaces: list[str] | None, reflector: str, engine: str, traces: list[str] | None
) -> dict[str, Any]:
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "120")
    try:
        from ..flows.reflect import reflect as flow
    except ModuleNotFoundError as error:
        if error.name != "prefect":
            raise
        raise MissingExtra.needs("prefect", "flows") from None
    given: Any = {"home": home, "namespaces": namespaces, "reflector": reflector, "engine": engine, "traces": traces}
    result: dict[str, Any] = flow(**given)
    return result


def tell_busy(session: Session, busy: Mapping[str, str]) -> None:
    """Say which namespaces were left to another run."""
    for namespace, who in sorted(busy.items()):
        session.note(f"{namespace}: left to {who}, which works on it")


class Bar:
    """What is told of progress: called with done and all."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def __call__(self, done: int, total: int) -> None:
        """So much of so much is done."""
        self._progress.update(self._task, completed=done, total=total)

    def describe(self, what: str) -> None:
        """Begin anew, with something else."""
        self._progress.reset(self._task, description=what, total=None)


@contextmanager
def progress_bar(session: Session, what: str) -> Iterator[Bar]:
    """A progress bar on standard error; silent where that is no terminal."""
    progress = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=session.errors, transient=True, disable=not session.errors.is_terminal,
    )  # fmt: skip
    with progress:
        yield Bar(progress, progress.add_task(what, total=None))


def _decision(row: dict[str, Any]) -> dict[str, Any]:
    keys = ("decision", "id", "kind", "text", "subject", "state", "superseded_by", "reason")
    return {name: row[name] for name in keys if row.get(name)}


def _show_counts(session: Session, job: str, counts: dict[str, Any]) -> None:
    session.line(f"{job}: " + ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items()))


def _show_compact(session: Session, counts: dict[str, Any], damaged: tuple[str, ...]) -> None:
    _show_counts(session, "compact", counts)
    for path in damaged:
        session.line(f"  {path} is damaged and was left alone: bring it back from a backup, or move it away")


def _show_reflect(session: Session, result: dict[str, Any], dry_run: bool) -> None:
    counts: dict[str, int] = result["counts"]
    if not counts["traces"] and not counts["pending"] and not counts["collected"]:
        session.line("nothing to reflect on: every trace that has ended was looked at before")
        return
    session.line(f"run {result['run_id']} on {result['engine']}{' (dry run: nothing was written)' if dry_run else ''}")
    for line in _LINES:
        session.line("  " + line.format(**counts))
    if result["is_paid"]:
        _show_paid(session, result)
    if result["stopped"]:
        session.line("  stopped at its budget; run it again to go on, or raise HINDLAKE_MODEL_BUDGET_TOKENS")
    for row in result.get("decisions", []):
        said = row.get("text") or row.get("superseded_by", "")
        about = f"{row['decision']:<10} {row['id']}  {row.get('kind', '')}"
        session.line(f"  {about}  {said[:100]}  — {row.get('reason', '')}")


def _show_paid(session: Session, result: dict[str, Any]) -> None:
    """What the model cost, beside what was forecast, and what the gate saved."""
    from ..jobs.models.budget import Forecast

    counts: dict[str, int] = result["counts"]
    before, later = Forecast(**result["forecast"]), Forecast(**result["forecast_of_collected"])
    session.line(
        f"  model       {counts['calls']} calls ({counts['failed_calls']} failed, {counts['repeated_calls']} repeated "
        f"calls), {result['input_tokens']} tokens in, {result['output_tokens']} out, {result['cost'] / 1e6:.4f} USD"
    )
    session.line(f"  forecast    {_money(before)}, at most")
    if later.calls:
        session.line(f"  collected   {counts['collected']} replies of batches; forecast then: {_money(later)}, at most")
    if counts["asked"] or before.out or counts["waiting"]:
        session.line(
            f"  waiting     {counts['waiting']} traces; {counts['asked']} questions were sent now, {before.out} before"
            ": run it again to collect them"
        )
    session.line(f"  saved       {result['saved']:.0%} of the model's calls, by the gate")


_LINES = (
    "traces      {traces}: {reflected} reflected on, {skipped} not worth it, {failed} failed",
    "candidates  {candidates}: {added} added, {merged} merged, {superseded} outdated, {known} known",
    "refused     {refused}",
    "superseding {superseding}",
    "pending     {pending} compared",
    "episodes    {episodes}",
)
