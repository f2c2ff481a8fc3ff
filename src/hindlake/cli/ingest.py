"""`hindlake ingest`: load traces that exist."""

from __future__ import annotations

from typing import Annotated

import typer

from ..jobs.ingest import ingest as ingest_job
from .session import HomeOption, JsonOption, NamespaceOption, Session


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("ingest")(ingest)


def ingest(
    context: typer.Context,
    files: Annotated[
        list[str], typer.Argument(metavar="FILE…", help="Files or folders, plain or gzipped; - is standard input.")
    ],
    format: Annotated[str, typer.Option(help="Format of the files; auto looks at each.")] = "auto",
    subject: Annotated[str, typer.Option(help="Whom the traces are about, where they don't say.")] = "",
    agent_role: Annotated[str, typer.Option(help="Role of the agent, where they don't say.")] = "",
    task_type: Annotated[str, typer.Option(help="Kind of task, where they don't say.")] = "",
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Load traces from files. The same record twice is one trace; a broken record is named and the rest load.

    \b
    hindlake ingest runs.json.gz
    hindlake ingest logs/ --task-type support
    cat session.jsonl | hindlake ingest -
    """
    session = Session(context, home, namespace, json)
    report = ingest_job(
        session.lake,
        files,
        session.settings,
        session.clock,
        namespace=session.settings.namespace,
        format=format,
        subject=subject,
        agent_role=agent_role,
        task_type=task_type,
    )
    rejected = [{"where": item.where, "why": item.why} for item in report.rejected]

    def show() -> None:
        session.line(f"{report.loaded} traces loaded, {report.known} known already, {len(rejected)} rejected")
        for item in rejected[:20]:
            session.line(f"  {item['where']}: {item['why']}")
        if len(rejected) > 20:
            session.line(f"  … and {len(rejected) - 20} more; --json lists all")
        if report.loaded:
            session.line("Next: hindlake run reflect")

    session.answer(
        {"loaded": report.loaded, "known": report.known, "rejected": rejected, "events": report.events}, show
    )
    if rejected and not (report.loaded or report.known):
        raise typer.Exit(1)
