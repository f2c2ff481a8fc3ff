"""`hindlake costs`: what models cost, by job, purpose, model, day, namespace and run."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Annotated

import typer

from ..memory_store.errors import UsageError
from ..memory_store.records.costs import Cost, Costs
from ..memory_store.records.costs import costs as read_costs
from .session import HomeOption, JsonOption, NamespaceOption, Session


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("costs")(costs)


def costs(
    context: typer.Context,
    days: Annotated[int, typer.Option(help="How many days back.")] = 30,
    runs: Annotated[bool, typer.Option("--runs", help="Show each run, too.")] = False,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Show what language models and paid embedders cost: calls, tokens and money, by job, purpose, model, day and
    namespace.

    All namespaces count unless one is named. Purposes are to reflect, to judge pairs of memories, to word patterns,
    and to embed. Money is what the prices of the settings make of the tokens.

    \b
    hindlake costs
    hindlake costs --days 7 --namespace acme --json
    hindlake costs --runs
    """
    if days < 1:
        raise UsageError(f"--days is {days}: ask for at least one")
    session = Session(context, home, namespace, json)
    lake, now = session.lake, session.clock.now()
    chosen = lake.chosen(session.namespaces)
    found = read_costs(lake, chosen, now - timedelta(days=days), now)
    session.answer({"days": days, **asdict(found)}, lambda: _show(session, found, days, runs))


def _show(session: Session, found: Costs, days: int, runs: bool) -> None:
    if not found.whole.runs:
        session.line(f"no model was asked in the last {days} days")
        return
    titled = {
        "job": found.by_job, "purpose": found.by_purpose, "model": found.by_model, "day": found.by_day,
        "namespace": found.by_namespace, "run": found.by_run if runs else {},
    }  # fmt: skip
    for title, parts in titled.items():
        for name, cost in sorted(parts.items()):
            session.line(f"{title:<10} {name:<26} {_said(cost)}")
    session.line(f"{'all':<37} {_said(found.whole)}")
    session.line(f"a month of 30 days at this rate: {found.whole.cost / 1e6 * 30 / days:.4f} USD")


def _said(cost: Cost) -> str:
    text = (
        f"{cost.cost / 1e6:.4f} USD, {cost.calls} calls, {cost.input_tokens} tokens in, {cost.output_tokens} out, "
        f"{cost.runs} runs"
    )
    extras = (
        (cost.failed_calls, "failed calls"), (cost.estimated_calls, "calls estimated"),
        (cost.repeated_calls, "repeated calls"), (cost.stopped, "stopped"),
    )  # fmt: skip
    return text + "".join(f", {count} {name}" for count, name in extras if count)
