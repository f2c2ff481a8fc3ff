"""`hindlake run credit` and `hindlake run decay`: what outcomes say of memories, and which of them are sent away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from .run import runs, tell_busy
from .session import HomeOption, JsonOption, NamespaceOption, Session

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the decisions, write none.")]


def register(app: typer.Typer) -> None:
    """Add the commands to `hindlake run`."""
    runs.command("credit")(credit)
    runs.command("decay")(decay)


def credit(
    context: typer.Context,
    dry_run: DryRunOption = False,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Learn from outcomes: which memories helped the tasks that they were put before, and which misled them.

    Computed anew from all reads and outcomes. A memory that surely misleads is quarantined; restore brings it back.

    \b
    hindlake run credit
    hindlake run credit --dry-run
    """
    _run(Session(context, home, namespace, json), ("credit",), dry_run)


def decay(
    context: typer.Context,
    dry_run: DryRunOption = False,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Send away memories that have lost their strength, expired or were never used, by the policy of their kind.

    What has been away for a month leaves the store for cold storage; restore brings it back from there too.

    \b
    hindlake run decay
    hindlake run decay --dry-run
    HINDLAKE_RETENTION_OVERRIDES='{"*/episode": {"ttl_days": 30}}' hindlake run decay
    """
    _run(Session(context, home, namespace, json), ("decay", "cool"), dry_run)


def _run(session: Session, steps: Sequence[str], dry_run: bool) -> None:
    """Run steps and answer for all of them together."""
    from .. import __version__
    from ..flows.maintenance import run_step
    from ..flows.pipeline import run_collect

    run_collect(session.settings, session.clock)
    named = session.namespaces
    reports = [
        run_step(step, session.settings, session.clock, version=__version__, namespaces=named, dry_run=dry_run)
        for step in steps
    ]
    first = reports[0]
    counts = {name: count for report in reports for name, count in sorted(report.counts.items())}
    shown = [
        {name: row[name] for name in ("decision", "id", "reason")} for report in reports for row in report.decisions
    ]  # fmt: skip
    value: dict[str, Any] = {"run_id": first.run_id, "job": first.step, "counts": counts, "decisions": shown}

    def show() -> None:
        said = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items()) or "nothing to do"
        session.line(f"{first.step} {first.run_id}{' (dry run: nothing was written)' if dry_run else ''}: {said}")
        for row in shown:
            session.line(f"  {row['decision']:<10} {row['id']}  {row['reason']}")

    tell_busy(session, first.busy)
    session.answer(value, show)
