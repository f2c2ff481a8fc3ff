"""`hindlake migrate`: what an upgrade needs."""

from __future__ import annotations

from typing import Annotated

import typer

from .session import HomeOption, JsonOption, Session


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("migrate")(migrate)


def migrate(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what is needed, change nothing.")] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Bring lake and store up to this version, if they need it. The lake keeps everything; no model is called.

    \b
    hindlake migrate --dry-run
    hindlake migrate
    """
    from ..memory_store.files.upgrade import migrate as run

    session = Session(context, home, None, json)
    value = run(session.lake, session.settings, session.clock, dry_run=dry_run)

    def show() -> None:
        for step in value["steps"]:
            session.line(step)
        if value["generation"]:
            session.line(f"generation {value['generation']} in use")
        if not value["steps"]:
            session.line(f"nothing to do: the lake has format {value['format']}, as this version writes it")

    session.answer(value, show)
