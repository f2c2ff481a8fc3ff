"""`hindlake search`: what is known."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from ..memory_store.history.moments import moment_of
from .filtering import filtered
from .session import AsOfOption, HomeOption, JsonOption, NamespaceOption, Session


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("search")(search)


@filtered
def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for; empty: the newest.")],
    filters: dict[str, Any],
    limit: Annotated[
        int | None, typer.Option("--limit", "-k", min=1, help="Memories at most; 5, or 3 experiences, unless given.")
    ] = None,
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
    from ..sdk.memory import Memory

    session = Session(context, home, namespace, json)
    moment = None if as_of is None else moment_of(as_of)
    with Memory(session.settings) as memory:
        purged = 0 if moment is None else memory.count_purged(moment)
        hits = memory.search(
            query,
            **filters,
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
