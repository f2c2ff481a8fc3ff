"""`hindlake run passages`: make the turns of finished tasks searchable."""

from __future__ import annotations

from dataclasses import asdict

import typer

from .run import runs
from .session import HomeOption, JsonOption, NamespaceOption, Session


def register(app: typer.Typer) -> None:
    """Add the command to `hindlake run`."""
    runs.command("passages")(passages)


def passages(
    context: typer.Context, home: HomeOption = None, namespace: NamespaceOption = None, json: JsonOption = False
) -> None:
    """Make the turns of finished tasks searchable: `hindlake search --kind passage` finds them, and episodes by them.

    Works in all namespaces unless one is named. No model but the embedder is called.

    \b
    hindlake run passages
    """
    from ..flows.pipeline import run_passages

    session = Session(context, home, namespace, json)
    report = run_passages(
        session.settings,
        session.clock,
        namespaces=session.namespaces,
        progress=lambda done, total: session.note(f"{done} of {total} turns"),
    )
    session.answer(asdict(report), lambda: session.line(f"{report.written} passages written"))
