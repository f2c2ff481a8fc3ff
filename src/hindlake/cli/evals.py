"""`hindlake eval …`: measure on labelled data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .run import ReflectorName
from .session import HomeOption, JsonOption, NamespaceOption, Session

evals = typer.Typer(no_args_is_help=True, help="Measure on labelled data of your own or of others.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(evals, name="eval")


@evals.command("reflect")
def reflect(
    context: typer.Context,
    data: Annotated[
        Path,
        typer.Option("--data", metavar="DIR", help="Folder of trail, whowhen, agentrx, taubench, realmem."),
    ],
    reflector: Annotated[ReflectorName, typer.Option(help="What is measured.")] = ReflectorName.auto,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Measure whether lessons point at what went wrong, and whether the next run of the task would be given them.

    No memory is written. Sets that the folder lacks are left out.

    \b
    hindlake eval reflect --data ../data
    """
    from ..jobs.evals.reflect import evaluate
    from ..jobs.reflecting.reflectors import reflector_of
    from ..memory_store.records.runs import spent_kept

    session = Session(context, home, namespace, json)
    chosen = reflector_of(session.settings, reflector.value)
    with spent_kept(session.settings, "eval-reflect"):
        figures: dict[str, Any] = {"reflector": chosen.name, **evaluate(data, chosen, session.settings)}

    def show() -> None:
        session.line(f"{'set':<10} {'n':>6} {'recall':>7} {'precision':>10}  by {chosen.name}")
        for name, values in figures.items():
            if isinstance(values, dict):
                session.line(f"{name:<10} {values['n']:>6} {values['recall']:>7.3f} {values['precision']:>10.3f}")

    session.answer(figures, show)


@evals.command("gate")
def gate(
    context: typer.Context,
    data: Annotated[
        Path,
        typer.Option("--data", metavar="DIR", help="Folder of longmemeval, locomo, realmem, taubench, agentrx, …"),
    ],
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Measure which share of traces the gate keeps from the reflector, and which trigger lets the others through.

    Nothing is written. Sets that the folder lacks are left out. The gate is that of the settings.

    \b
    hindlake eval gate --data ../data
    """
    from dataclasses import asdict

    from ..jobs.evals.gate import MIXES, evaluate

    session = Session(context, home, namespace, json)
    sets, mixes = evaluate(data, session.settings)

    def show() -> None:
        shares = " ".join(f"{mix:>12}" for mix in MIXES)
        session.line(f"{'set':<42} {'n':>5} {'saved':>6} {shares}  through by")
        for one in sets:
            shares = " ".join(f"{weight or '':>12}" for weight in one.weights)
            triggers = ", ".join(f"{trigger} {count}" for trigger, count in one.through.items())
            session.line(f"{one.name:<42} {one.n:>5} {one.saved:>6.3f} {shares}  {triggers}")
        for mix, saved in mixes.items():
            session.line(f"saved on the mix “{mix}”: {saved:.3f}")

    session.answer({"sets": [asdict(one) for one in sets], "mixes": mixes}, show)
