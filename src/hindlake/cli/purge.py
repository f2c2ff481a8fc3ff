"""`hindlake purge`: removing for good, with a receipt."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from ..memory_store.errors import UsageError
from .session import HomeOption, JsonOption, NamespaceOption, Session


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("purge")(purge)


def purge(
    context: typer.Context,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Ids of memories.")] = None,
    subject: Annotated[str, typer.Option(help="Everything about it, and the traces of its tasks.")] = "",
    trace: Annotated[str, typer.Option(help="A trace, and what rests on it alone.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask: this can't be undone.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would go, change nothing.")] = False,
    now: Annotated[
        bool, typer.Option("--now", help="Delete old stores at once, though searches may hold them.")
    ] = False,
    sweep: Annotated[bool, typer.Option("--sweep", help="Finish purges whose last sweep is due; --now: all.")] = False,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Remove memories for good: from every file, index, version and derived memory. Nothing brings them back.

    The receipt says what was hidden, removed and verified, what expires when, and what is out of reach. Killed, it is
    finished by the same command.

    \b
    hindlake purge ID --dry-run
    hindlake purge ID ID --yes
    hindlake purge --subject user:42 --yes
    hindlake purge --sweep
    """
    from ..flows.pipeline import run_purge, run_purge_sweep

    session = Session(context, home, namespace, json)
    if sweep:
        if ids or subject or trace:
            raise UsageError("--sweep finishes purges that were asked for before: it takes no memories")
        chosen = session.namespaces
        receipts = run_purge_sweep(session.settings, session.clock, namespaces=chosen, now=now)
        some = [receipt.summary() for receipt in receipts]

        def show_all() -> None:
            for value in some:
                _show(session, value)
            if not some:
                session.line("no purge is due for its last sweep")

        session.answer({"receipts": some}, show_all)
        return

    def run(dry: bool) -> dict[str, Any]:
        return run_purge(
            session.settings, session.clock, ids=ids or [], subject=subject, trace=trace, dry_run=dry, now=now,
            progress=lambda step: None if session.as_json else session.note(f"  {step} …"),
        ).summary()  # fmt: skip

    if not (yes or dry_run):
        if session.as_json or not sys.stdin.isatty():
            raise UsageError("a purge can't be undone: look at it with --dry-run, then say --yes")
        _show(session, run(True))
        if not typer.confirm("Remove all this for good?"):
            raise typer.Exit(1)
    value = run(dry_run)
    session.answer(value, lambda: _show(session, value))
    if not dry_run and not value["verified"]:
        if value["leftovers"] or value["damaged"]:
            session.note("not verified: see above; the same command again tries again")
        else:
            session.note("not verified: others say all of it too, so that nothing tells a copy: purge those as well")
        raise typer.Exit(1)


def _show(session: Session, value: dict[str, Any]) -> None:
    line = session.line
    line(f"purge {value['purge_id']}{' (dry run: nothing was changed)' if value['dry_run'] else ''}")
    line(f"  hidden     {len(value['hidden'])} memories, {value['events']} events")
    for id in value["hidden"]:
        line(f"    {id}  {value['also'].get(id, '')}".rstrip())
    for id in value["restored"]:
        line(f"    {id}  comes back: what it had been merged into is gone")
    if value["removed"]:
        files, rows = value["removed"]["files"], value["removed"]["rows"]
        line(f"  removed    from {files.get('rewritten', 0)} files, {files.get('deleted', 0)} deleted; rows by folder: "
             + (", ".join(f"{count} {name}" for name, count in sorted(rows.items())) or "none"))  # fmt: skip
        decoded = value["decoded"]
        state = "nothing left" if value["verified"] else "NOT VERIFIED"
        line(f"  verified   {decoded['columns']} columns of {decoded['files']} files decoded: {state}")
    for place in value["leftovers"]:
        line(f"    left in {place['path']} {place['column']}: {place['rows']} rows {' '.join(place['ids'])}")
    for path in value["damaged"]:
        line(f"    {path} is damaged: no one can say what it holds; delete it, or bring it back from a backup")
    for id, why in value["related"].items():
        line(f"  stays      {id}  {why}")
    for trace, event in value["same_in_traces"]:
        line(f"  stays      event {event} of trace {trace} says the same")
    if value["indistinct"]:
        line(f"  note       {value['indistinct']} texts are said elsewhere too: copies can't be told from those")
    for item in value["expires"]:
        line(
            f"  expires    {item['what']}" + (f" after {item['on']:%Y-%m-%d %H:%M}" if item["on"] else " when it ends")
        )
    if value["sweep_due"]:
        line(f"  sweep due  {value['sweep_due']:%Y-%m-%d %H:%M}: hindlake purge --sweep")
    if not value["dry_run"]:
        for text in value["out_of_reach"]:
            line(f"  no reach   {text}")
