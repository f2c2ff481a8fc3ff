"""`hindlake search`: what is known."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

import typer

from ..memory_store.errors import UsageError
from ..memory_store.history.moments import moment_of
from ..memory_store.recall.conditions import TESTED, All, Condition, Either, Is, Not
from .session import AsOfOption, HomeOption, JsonOption, NamespaceOption, Session


def _condition(flag: str, help: str) -> Any:
    return typer.Option(flag, metavar="NAME=VALUE", help=f"{help}, such as tool=pay; may be given again.")


Values = Annotated[list[str] | None, typer.Option(help="Only these; may be given again.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("search")(search)


def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for; empty: the newest.")],
    limit: Annotated[
        int | None, typer.Option("--limit", "-k", min=1, help="Memories at most; 5, or 3 experiences, unless given.")
    ] = None,
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
    tag: Values = None,
    all_: Annotated[list[str] | None, _condition("--all", "All of these must hold")] = None,
    any_: Annotated[list[str] | None, _condition("--any", "At least one of these must hold")] = None,
    not_: Annotated[list[str] | None, _condition("--not", "None of these may hold")] = None,
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
    hindlake search "refund" --any tool=pay --any error_code=E42 --not outcome=success
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
            tags=tag,
            where=_where(all_, any_, not_),
            states=state,
            since=since,
            until=until,
            limit=limit,
            as_of=moment,
            log_read=False,  # a person looks, not an agent
        )

    def show() -> None:
        if hits and hits[0].rerank_error:
            session.note(f"not reranked: {hits[0].rerank_error}")
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


def _where(every: list[str] | None, some: list[str] | None, none: list[str] | None) -> Condition | None:
    """The condition of --all, --any and --not. Raises `UsageError` for what is not NAME=VALUE."""
    parts: list[Condition] = [_test(item) for item in every or ()]
    if some:
        parts.append(Either(tuple(_test(item) for item in some)))
    parts += [Not(_test(item)) for item in none or ()]
    return All(tuple(parts)) if parts else None


#: Names of tests, beside those of where(), that the other options have.
_SINGULAR = {"tag": "tags", "entity": "entities"}


def _test(item: str) -> Condition:
    name, equals, value = item.partition("=")
    name = name.strip().replace("-", "_")
    name = _SINGULAR.get(name, name)
    if not equals or name not in TESTED:
        raise UsageError(f"{item!r}: write NAME=VALUE, where NAME is one of {', '.join(TESTED)}")
    return Is(name, (value,))
