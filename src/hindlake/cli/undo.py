"""`hindlake undo` and `hindlake restore`: taking a run back, and bringing a memory back."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from .session import HomeOption, JsonOption, NamespaceOption, Session

#: Runs that are listed.
_RUNS = 20


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("undo")(undo)
    app.command("restore")(restore)


def undo(
    context: typer.Context,
    run: Annotated[
        str, typer.Argument(metavar="[RUN]", help="Id of the run; without it, the last runs are listed.")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, write nothing.")] = False,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Take back what a run decided, and keep what was changed since. An undo is a run, so it can be undone.

    \b
    hindlake undo
    hindlake undo 01k… --dry-run
    hindlake undo 01k…
    """
    session = Session(context, home, namespace, json)
    if not run:
        _list(session)
        return
    from .. import __version__
    from ..flows.pipeline import run_undo

    namespaces = session.namespaces
    report = run_undo(session.settings, session.clock, run, version=__version__, namespaces=namespaces, dry_run=dry_run)
    value = report.summary()
    shown = [
        {name: row[name] for name in row if name not in ("act", "at", "run", "read_to", "decision")}
        for row in report.decisions
    ]
    value["decisions"] = shown

    def show() -> None:
        counts = value["counts"]
        what = ", ".join(f"{counts[name]} {name}" for name in _COUNTED if counts.get(name)) or "nothing to take back"
        session.line(f"undo {value['run_id']}{' (dry run: nothing was written)' if dry_run else ''}: {what}")
        for row in shown:
            sets = ", ".join(f"{name} {_plain(row[name])}" for name in row if name not in ("id", "reason"))
            session.line(f"  {row['id']}  {sets}  — {row['reason']}")
        for item in report.kept:
            session.line(f"  {item.id}  kept {', '.join(item.columns)}  — {item.reason}")
        for id in report.derived:
            session.line(f"  {id}  look at it: it was made from what the run had added")

    session.answer(value, show)
    if report.unfinished:
        session.note("the run has not ended, or was killed: undo it again if it goes on")


_COUNTED = ("deleted", "reverted", "restored", "derived", "kept", "unsettled")


def _plain(value: Any) -> str:
    return value.strftime("%Y-%m-%d") if hasattr(value, "strftime") else str(value) or "none"


def _list(session: Session) -> None:
    from ..memory_store.records.runs import last_runs

    some = [msgspec.structs.asdict(run) for run in last_runs(session.lake, session.settings.namespace, _RUNS)]
    keys = ("run_id", "job", "status", "started_at", "counts", "parameters")

    def show() -> None:
        for run in some:
            counts = ", ".join(f"{count} {name}" for name, count in sorted(run["counts"].items()) if count)
            undone = run["parameters"].get("undone", "")
            session.line(
                f"{run['run_id']}  {run['started_at']:%Y-%m-%d %H:%M}  {run['job']}{' of ' + undone if undone else ''} "
                f"{run['status']}  {counts}"
            )
        if not some:
            session.line(f"no run in namespace {session.settings.namespace} yet")

    session.answer({"runs": [{name: run[name] for name in keys} for run in some]}, show)


def restore(
    context: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="Id of a memory that was forgotten or archived.")],
    reason: Annotated[str, typer.Option(help="Why; it is kept with the decision.")] = "",
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Bring back a memory that was forgotten, archived or quarantined. It can be found at once.

    \b
    hindlake restore ID --reason "forgotten by mistake"
    """
    from ..sdk.memory import Memory

    session = Session(context, home, namespace, json)
    with Memory(session.settings) as memory:
        state = memory.restore(id, reason)
    session.answer({"id": id, "state": state}, lambda: session.line(f"{id} is {state} again"))
