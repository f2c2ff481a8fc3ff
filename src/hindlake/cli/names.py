"""`hindlake aliases …`, `hindlake taxonomy …` and `hindlake relations`: names, and what they have to do with others."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ..memory_store.errors import UsageError
from .run import runs
from .session import HomeOption, JsonOption, NamespaceOption, Session

if TYPE_CHECKING:
    from ..memory_store.text.aliases import Alias

aliases = typer.Typer(no_args_is_help=True, help="Names that stand for one thing.")
taxonomy = typer.Typer(no_args_is_help=True, help="Classes that the agents' names of kinds of tasks belong to.")

ReasonOption = Annotated[str, typer.Option(help="Why; it is kept with the decision.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the decisions, write none.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(aliases, name="aliases")
    app.add_typer(taxonomy, name="taxonomy")
    app.command("relations")(relations)
    runs.command("aliases")(run_aliases)


@aliases.command("list")
def list_aliases(
    context: typer.Context,
    every: Annotated[
        bool, typer.Option("--every", help="Those too that were taken back or gave way to others.")
    ] = False,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """List the aliases that hold: what each name stands for, in whose memories, and who said so.

    \b
    hindlake aliases list
    hindlake aliases list --every
    """
    from ..sdk.names import Names

    session = Session(context, home, namespace, json)
    found = Names(session.settings).aliases("entity", every=every)

    def show() -> None:
        for alias in found:
            session.line(_line(alias, every))
        if not found:
            session.line("no alias: `hindlake aliases add NAME OF` makes one, `hindlake run aliases` finds some")

    session.answer({"aliases": [asdict(alias) for alias in found]}, show)


@aliases.command("add")
def add_alias(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name.")],
    of: Annotated[str, typer.Argument(metavar="OF", help="The usual name of what it stands for.")],
    subject: Annotated[str, typer.Option(help="Only in the memories about this subject.")] = "",
    reason: ReasonOption = "",
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Say that two names stand for one thing. Searches for either find both, at once and in every process.

    \b
    hindlake aliases add Bob "Robert Smith"
    hindlake aliases add 小王 王小明 --subject user:42
    """
    from ..sdk.names import Names

    session = Session(context, home, namespace, json)
    id = Names(session.settings).alias(name, of, subject=subject, reason=reason)
    session.answer({"id": id, "name": name, "of": of, "subject": subject}, lambda: session.line(f"{name} = {of}  {id}"))


@aliases.command("undo")
def undo_alias(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="ID|NAME", help="The alias: its id, or the name that it gives.")],
    reason: ReasonOption = "",
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Take back an alias, whoever said it. No job proposes it again; adding it again is allowed.

    \b
    hindlake aliases undo Bob
    """
    _take_back(Session(context, home, namespace, json), "entity", name, reason)


@taxonomy.command("list")
def list_taxonomy(
    context: typer.Context, home: HomeOption = None, namespace: NamespaceOption = None, json: JsonOption = False
) -> None:
    """List the kinds of tasks that memories have, by class, with counts; then those that belong to none.

    \b
    hindlake taxonomy list
    """
    from ..sdk.names import Names

    session = Session(context, home, namespace, json)
    found = Names(session.settings).task_types()

    def show() -> None:
        for one in found:
            said = f"{one.of} ← {one.name}" if one.is_mapped and one.of != one.name else one.name
            session.line(f"{one.memories:>7}  {said}{'' if one.is_mapped else '  (in no class)'}")
        if not found:
            session.line("no memory has a kind of task")

    session.answer({"task_types": [asdict(one) for one in found]}, show)


@taxonomy.command("map")
def map_taxonomy(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A kind of task, as an agent calls it.")],
    to: Annotated[str, typer.Argument(metavar="CLASS", help="The class that it belongs to.")],
    reason: ReasonOption = "",
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Say to which class an agent's name of a kind of task belongs. Searches for either find both.

    \b
    hindlake taxonomy map book_flight booking
    hindlake taxonomy map 订机票 booking
    """
    from ..sdk.names import Names

    session = Session(context, home, namespace, json)
    id = Names(session.settings).map_task_type(name, to, reason=reason)
    session.answer({"id": id, "name": name, "class": to}, lambda: session.line(f"{to} ← {name}  {id}"))


@taxonomy.command("undo")
def undo_taxonomy(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="ID|NAME", help="The mapping: its id, or the name that it maps.")],
    reason: ReasonOption = "",
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Take back a mapping: the name stands for itself again.

    \b
    hindlake taxonomy undo book_flight
    """
    _take_back(Session(context, home, namespace, json), "task_type", name, reason)


@taxonomy.command("suggest")
def suggest_taxonomy(
    context: typer.Context, home: HomeOption = None, namespace: NamespaceOption = None, json: JsonOption = False
) -> None:
    """Show names of kinds of tasks that look like one, as mappings that you may accept. Nothing is written.

    \b
    hindlake taxonomy suggest
    """
    from ..memory_store.text.taxonomy import suggestions
    from ..sdk.names import Names

    session = Session(context, home, namespace, json)
    found = suggestions(Names(session.settings).task_types())

    def show() -> None:
        for one in found:
            session.line(f"{one.to} ← {one.name}  {one.reason}")
        if not found:
            session.line("no two names look like one")

    session.answer({"suggestions": [asdict(one) for one in found]}, show)


def relations(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A person, a place, an order, a file, …")],
    subject: Annotated[
        list[str] | None, typer.Option(help="Whose memories; '*' is everyone's. Shared ones come always.")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, max=2, help="2: also what is together with those.")] = 1,
    limit: Annotated[int, typer.Option("--limit", "-k", min=1, help="Things at most.")] = 20,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Show what memories bring together with a name, closest first, and how.

    \b
    hindlake relations Berlin
    hindlake relations Berlin --subject user:42 --steps 2
    """
    from ..sdk.arguments import ANY_SUBJECT
    from ..sdk.names import Names

    session = Session(context, home, namespace, json)
    whose = ANY_SUBJECT if subject == [ANY_SUBJECT] else subject
    found = Names(session.settings).relations(name, subject=whose, steps=steps, limit=limit)

    def show() -> None:
        for one in found:
            how = (
                f"through {one.through}"
                if one.through
                else ", ".join(f"{relation.relation} ({relation.count})" for relation in one.relations)
            )
            session.line(f"{one.closeness:.2f}  {one.name}  {how}")
        if not found:
            session.line(f"no memory brings anything together with {name}; --subject '*' looks at everyone's")

    session.answer({"name": name, "neighbours": [asdict(one) for one in found]}, show)


def run_aliases(
    context: typer.Context,
    dry_run: DryRunOption = False,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Decide which names stand for one thing: what memories say ("short for", 又叫), and what is spelled the same.

    What only may be one (a first name, initials, a slip) is counted, shown by a dry run, and left to you.

    \b
    hindlake run aliases
    hindlake run aliases --dry-run
    """
    from .. import __version__
    from ..flows.maintenance import run_step

    session = Session(context, home, namespace, json)
    namespaces = session.namespaces
    report = run_step(
        "aliases", session.settings, session.clock, version=__version__, namespaces=namespaces, dry_run=dry_run
    )  # fmt: skip
    keys = ("decision", "id", "about", "value", "subject", "reason")
    shown = [{name: row[name] for name in keys if row.get(name)} for row in report.decisions]

    def show() -> None:
        counts = ", ".join(
            f"{count} {what.replace('_', ' ')}" for what, count in sorted(report.counts.items()) if count
        )
        note = " (dry run: nothing was written)" if dry_run else ""
        session.line(f"aliases {report.run_id}{note}: {counts or 'nothing to do'}")
        for row in shown:
            said = f"{row['about']} = {row['value']}" if "about" in row else row["id"]
            session.line(f"  {row['decision']:<8} {said}{_whose(row.get('subject', ''))}  — {row['reason']}")

    session.answer({**report.summary(), "decisions": shown}, show)


def _take_back(session: Session, sort: str, name: str, reason: str) -> None:
    from ..memory_store.text.aliases import same_name
    from ..sdk.names import Names

    names = Names(session.settings)
    held = [alias for alias in names.aliases() if alias.sort == sort]
    found = [one for one in held if one.id == name] or [one for one in held if same_name(one.sort, one.name, name)]
    if not found:
        raise UsageError(f"{name!r} stands for nothing else: the list shows what does")
    for alias in found:
        names.take_back(alias.id, reason)
    said = "\n".join(f"taken back: {alias.name} = {alias.of}" for alias in found)
    session.answer({"undone": [asdict(alias) for alias in found]}, lambda: session.line(said))


def _line(alias: Alias, with_state: bool) -> str:
    by = f"run {alias.run}" if alias.run else "a user"
    state = f"  {alias.state}" if with_state else ""
    return f"{alias.name} = {alias.of}{_whose(alias.subject)}{state}  by {by}, {alias.since:%Y-%m-%d}  {alias.id}"


def _whose(subject: str) -> str:
    return f" (of {subject})" if subject else ""
