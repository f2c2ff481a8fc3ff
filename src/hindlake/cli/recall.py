"""`hindlake search` and `hindlake explain`: what is known, and why."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

import msgspec
import typer

from ..memory_store.clock import END_OF_TIME
from ..memory_store.moments import moment_of
from .session import AsOfOption, HomeOption, JsonOption, NamespaceOption, Session

Values = Annotated[list[str] | None, typer.Option(help="Only these; may be given again.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("search")(search)
    app.command("explain")(explain)


def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for; empty: the newest.")],
    limit: Annotated[int, typer.Option("--limit", "-k", min=1, help="Memories at most.")] = 5,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="experience, fact, preference, rule, episode, passage; may be given again. The last two only if given."
        ),
    ] = None,
    subject: Annotated[
        list[str] | None, typer.Option(help="Whose facts and preferences; '*' is everyone's. Shared ones come always.")
    ] = None,
    task_type: Values = None,
    tool: Values = None,
    outcome: Values = None,
    error_code: Values = None,
    agent_role: Values = None,
    entity: Values = None,
    state: Annotated[list[str] | None, typer.Option(help="pending and active unless given.")] = None,
    since: Annotated[datetime | None, typer.Option(help="Holding since this time or later (UTC).")] = None,
    until: Annotated[datetime | None, typer.Option(help="Holding since before this time (UTC).")] = None,
    as_of: AsOfOption = None,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Find memories: filtered first, then by words and by meaning, in any language.

    \b
    hindlake search "seats sold out"
    hindlake search "付款超时" --tool pay --outcome failure
    hindlake search "budget" --subject user:42 --kind fact --kind preference
    hindlake search "budget" --subject user:42 --as-of 2026-03-01
    """
    from ..sdk.arguments import ANY_SUBJECT
    from ..sdk.memory import Memory

    session = Session(context, home, namespace, json)
    moment = None if as_of is None else moment_of(as_of)
    with Memory(session.settings) as memory:
        purged = 0 if moment is None else memory.count_purged(moment)
        hits = memory.search(
            query,
            kinds=kind,
            subject=ANY_SUBJECT if subject == [ANY_SUBJECT] else subject,
            task_type=task_type,
            tool=tool,
            outcome=outcome,
            error_code=error_code,
            agent_role=agent_role,
            entities=entity,
            states=state,
            since=since,
            until=until,
            limit=limit,
            as_of=moment,
            log_read=False,  # a person looks, not an agent
        )

    def show() -> None:
        for hit in hits:
            about = " ".join(part for part in (hit.subject, hit.tool, hit.error_code, hit.outcome) if part)
            session.line(f"{hit.score:.2f}  {hit.kind:<10}  {hit.valid_from:%Y-%m-%d}  {hit.text}")
            session.line(f"      {hit.id}  {hit.state}{'  ' + about if about else ''}")

    value: dict[str, Any] = {"query": query, "hits": [asdict(hit) for hit in hits]}
    session.answer(value if moment is None else {**value, "as_of": moment, "purged": purged}, show)
    if purged:
        session.note(f"{purged} memories of then were purged since and are not shown")
    if not hits:
        session.note("nothing found: fewer filters? --subject '*' looks at everyone's facts, --kind episode at tasks")


#: Columns of a memory that `explain` shows, where they hold something.
_EXPLAINED = (
    "about", "need", "offer", "trigger", "action", "avoid", "why", "not_when", "subject", "tool", "error_code",
    "superseded_by",
)  # fmt: skip


def explain(
    context: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="Id of a memory, as search shows it.")],
    as_of: AsOfOption = None,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Show why a memory is there: the events that it rests on, the run, and every decision about it.

    \b
    hindlake explain 7k3c…
    hindlake explain 7k3c… --as-of 2026-03-01T08:30
    """
    from ..memory_store.explain import explain as explain_memory

    session = Session(context, home, namespace, json)
    found = explain_memory(session.lake, session.settings.namespace, id, None if as_of is None else moment_of(as_of))
    run = None if found.run is None else msgspec.structs.asdict(found.run)
    value: dict[str, Any] = {
        "id": found.id,
        **{name: item for name, item in found.memory.items() if item not in (None, "", [])},
        "evidence": [asdict(item) for item in found.evidence],
        "run": run,
        "prompt_hash": found.memory["prompt_hash"] or "",
        "decisions": [asdict(item) for item in found.decisions],
        "replaces": list(found.replaces),
    }

    def show() -> None:
        memory = found.memory
        is_purged = any(step.decision == "purge" and step.verdict != "refused" for step in found.decisions)
        session.line("(purged)" if is_purged else memory["text"] or "")
        until = "" if memory["valid_to"] in (None, END_OF_TIME) else f" until {memory['valid_to']:%Y-%m-%d %H:%M}"
        since = f"{memory['valid_from']:%Y-%m-%d %H:%M}"
        session.line(f"  {memory['kind'] or 'memory'}, {memory['state']}, holds since {since}{until}")
        for name in _EXPLAINED:
            if memory.get(name):
                session.line(f"  {name.replace('_', ' ')}: {memory[name]}")
        if found.replaces:
            session.line(f"  takes the place of: {', '.join(found.replaces)}")
        session.line("evidence")
        for item in found.evidence:
            when = f"{item.at:%Y-%m-%d %H:%M}" if item.at else "gone from the lake"
            session.line(f"  {when}  {item.role or item.type} {item.tool} {item.error_code}".rstrip())
            session.line(f"    “{item.quote}”")
            session.line(f"    trace {item.trace_id}, event {item.event_id}")
        if not found.evidence:
            session.line("  none: it was purged" if is_purged else "  none: someone wrote it")
        if found.run is not None:
            session.line(f"run {found.run.run_id}, {found.run.job} {found.run.version} by {found.run.reflector}")
            session.line(f"  prompt {memory['prompt_hash'] or 'none: rules'}")
        session.line("decisions")
        for step in found.decisions:
            place = "-" if step.seq is None else step.seq
            session.line(f"  {place:>6}  {step.at:%Y-%m-%d %H:%M}  {step.decision} {step.verdict}: {step.reason}")

    session.answer(value, show)
