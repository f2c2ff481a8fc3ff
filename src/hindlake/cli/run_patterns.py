"""`hindlake run patterns`: what recurs over many tasks."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..memory_store.errors import UsageError
from .run import ReflectorName, runs, tell_busy
from .session import HomeOption, JsonOption, NamespaceOption, Session


def register(app: typer.Typer) -> None:
    """Add the command to `hindlake run`."""
    runs.command("patterns")(patterns)


def patterns(
    context: typer.Context,
    reflector: Annotated[
        ReflectorName,
        typer.Option(help="rules need no model; openai is any compatible endpoint; auto: openai once one is set."),
    ] = ReflectorName.auto,
    days: Annotated[
        int | None, typer.Option(min=0, help="Days back to look at; 0: everything. Usually 30, jobs.pattern_days.")
    ] = None,
    every: Annotated[
        int, typer.Option(min=0, help="Only where at least so many tasks have come since the last run.")
    ] = 0,
    ray: Annotated[bool, typer.Option("--ray", help="Work on Ray, however little there is.")] = False,
    loop: Annotated[bool, typer.Option("--loop", help="Work in this process, however much there is.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the decisions, write none.")] = False,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Look at recent traces together, and keep what recurs over several tasks: failures and what mended them, kinds of
    arguments that fail, orders of calls, corrections.

    Works in all namespaces unless one is named. The same pattern found again changes at most its confidence.

    \b
    hindlake run patterns
    hindlake run patterns --days 7 --dry-run
    hindlake run patterns --every 200
    """
    from .. import __version__
    from ..flows.pipeline import run_patterns

    session = Session(context, home, namespace, json)
    if ray and loop:
        raise UsageError("--ray and --loop exclude each other")
    report = run_patterns(
        session.settings,
        session.clock,
        version=__version__,
        namespaces=session.namespaces,
        reflector=reflector.value,
        engine="ray" if ray else "loop" if loop else "auto",
        days=days,
        every=every,
        dry_run=dry_run,
    )
    tell_busy(session, report.busy)
    result = report.summary()
    if dry_run:
        result["decisions"] = [_decision(row) for row in report.decisions if row["decision"] != "activate"]
    session.answer(result, lambda: _show(session, result, dry_run))


def _decision(row: dict[str, Any]) -> dict[str, Any]:
    keys = ("decision", "id", "text", "task_type", "tool", "superseded_by", "confidence", "reason")
    return {name: row[name] for name in keys if row.get(name)}


_LINES = (
    "traces    {traces} of {tasks} tasks, {failed_traces} failed",
    "patterns  {found}: {added} added, {replaced} replaced, {raised} surer, {lowered} less sure, {unchanged} unchanged",
    "not kept  {refused} refused, {refused_before} refused before, {kept_out} taken away before",
)


def _show(session: Session, result: dict[str, Any], dry_run: bool) -> None:
    counts: dict[str, int] = result["counts"]
    for name in result["not_due"]:
        session.line(f"{name} was left alone: too few tasks have come since the last run")
    if result["not_due"] and not counts["traces"]:
        return
    session.line(f"run {result['run_id']} on {result['engine']}{' (dry run: nothing was written)' if dry_run else ''}")
    for line in _LINES:
        session.line("  " + line.format(**counts))
    if result["input_tokens"] or counts["failed"] or counts["unasked"]:
        cost = result["cost"] / 1e6
        session.line(f"  model     {counts['failed']} without an answer, {counts['unasked']} not asked, {cost:.4f} USD")
    if result["stopped"]:
        session.line("  stopped at its budget; run it again to go on, or raise HINDLAKE_MODEL_BUDGET_TOKENS")
    for row in result.get("decisions", []):
        session.line(f"  {row['decision']:<10} {row['id']}  {row.get('text', '')}  — {row.get('reason', '')}")
