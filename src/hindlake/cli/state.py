"""`hindlake status` and `hindlake rebuild`: what is kept, and making the store anew."""

from __future__ import annotations

from typing import Any

import typer

from ..memory_store.status import status as read_status
from .session import HomeOption, JsonOption, NamespaceOption, Session


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("status")(status)
    app.command("rebuild")(rebuild)


def status(
    context: typer.Context, home: HomeOption = None, namespace: NamespaceOption = None, json: JsonOption = False
) -> None:
    """Show what is in lake and store, the last runs, and what waits.

    \b
    hindlake status
    hindlake status --json
    """
    session = Session(context, home, namespace, json)
    value = read_status(session.lake, session.settings, session.clock)
    session.answer(value, lambda: _show(session, value))


def _show(session: Session, value: dict[str, Any]) -> None:
    lake, store, waiting = value["lake"], value["store"], value["waiting"]
    session.line(f"home       {value['home']}, namespace {value['namespace']}")
    session.line(f"lake       {lake['traces']} traces, {lake['events']} events, {lake['tool_errors']} tool errors")
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(store["memories"].items())) or "none"
    session.line(f"memories   {kinds}; {store['pending']} pending, {store['cold']} in cold storage")
    for item in value["quarantined"]:
        session.line(f"quarantine {item['id']}  {item['reason']}")
    if store["generation"]:
        session.line(
            f"generation {store['generation']}, folded to {store['folded_to']}, vectors by {store['embedder']}"
        )
    else:
        session.line("generation none yet: hindlake run reflect builds the first")
    session.line(
        f"waiting    {waiting['events']} events to be collected, {waiting['inbox']} inbox files, "
        f"{waiting['log']} log rows to be folded, {waiting['traces']} traces to be looked at"
    )
    if waiting["questions"]:
        session.line(
            f"batches    {waiting['questions']} questions are with the model's provider: hindlake run reflect "
            "collects what is answered"
        )
    for run in value["runs"]:
        counts = ", ".join(f"{count} {name}" for name, count in sorted(run["counts"].items()) if count)
        session.line(
            f"run        {run['run_id']} {run['job']} {run['status']} {run['started_at']:%Y-%m-%d %H:%M}  {counts}"
        )


def rebuild(
    context: typer.Context, home: HomeOption = None, namespace: NamespaceOption = None, json: JsonOption = False
) -> None:
    """Make the store anew from the lake alone, and switch readers to it. No language model is called.

    The store may be gone: only the lake is read. Vectors come from the lake where they are there.

    \b
    hindlake rebuild
    """
    from ..memory_store.history.log import settle
    from ..memory_store.store.generations import build, open_tables

    session = Session(context, home, namespace, json)
    lake = session.lake
    for name in lake.namespaces():
        settle(lake, name)
    generation = build(lake, session.settings, session.clock)
    tables = open_tables(session.settings, generation)
    folded = {name: tables.folded_to(name) for name in lake.namespaces()}
    value = {"generation": generation.name, "embedder": generation.embedder, "folded_to": folded}
    session.answer(
        value,
        lambda: session.line(
            f"generation {generation.name} in use: "
            + (", ".join(f"{name} folded to {seq}" for name, seq in folded.items()) or "the lake is empty")
        ),
    )
