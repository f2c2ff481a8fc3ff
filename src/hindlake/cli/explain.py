"""`hindlake explain`: why a memory is there, and why a search returned what it did."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import msgspec
import typer

from ..memory_store.clock import END_OF_TIME
from ..memory_store.errors import UsageError
from ..memory_store.history.explain import explain as explain_memory
from ..memory_store.history.moments import moment_of
from ..memory_store.recall.why import QueryExplanation, Verdict, explain_query
from .filtering import filtered
from .session import AsOfOption, HomeOption, JsonOption, NamespaceOption, Session

#: Columns of a memory that `explain` shows, where they hold something.
_EXPLAINED = (
    "about", "need", "offer", "trigger", "action", "avoid", "why", "not_when", "subject", "tool", "error_code",
    "superseded_by",
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("explain")(explain)


@filtered
def explain(
    context: typer.Context,
    filters: dict[str, Any],
    id: Annotated[str, typer.Argument(metavar="[ID]", help="Id of a memory, as search shows it.")] = "",
    query: Annotated[str | None, typer.Option(help="Explain this search instead of a memory.")] = None,
    expected: Annotated[
        str, typer.Option(metavar="ID", help="With --query: a memory that should have come, or not.")
    ] = "",
    limit: Annotated[int, typer.Option("--limit", "-k", min=1, help="With --query: hits at most.")] = 5,
    as_of: AsOfOption = None,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Show why a memory is there: the events that it rests on, the run, and every decision about it. With --query:
    why a search returned what it did, and why it did not return what was expected.

    \b
    hindlake explain 7k3c…
    hindlake explain 7k3c… --as-of 2026-03-01T08:30
    hindlake explain --query "seats sold out"
    hindlake explain --query "budget" --subject user:42 --expected 7k3c…
    hindlake explain --query "refund" --any tool=pay --not outcome=success
    """
    if (query is None) == (not id):
        raise UsageError("explain a memory by its ID, or a search by --query")
    session = Session(context, home, namespace, json)
    if query is None:
        if expected or any(filters.values()):
            raise UsageError("--expected and the options of a filter go with --query")
        _memory(session, id, as_of)
        return
    if as_of is not None:
        raise UsageError("a search of a past time looks at everything of then, without a store: --query has no --as-of")
    from ..sdk.arguments import filter_of, stored

    where = filter_of(session.settings.namespace, **filters)
    told = explain_query(session.lake, session.settings, session.clock, stored(query), where, limit, expected)
    session.answer(asdict(told), lambda: _show_query(session, told))


def _show_query(session: Session, told: QueryExplanation) -> None:
    session.line(
        f"{len(told.hits)} of {told.candidates} candidates, {told.below_floor} below a floor; generation "
        f"{told.generation}, known to {told.seq}"
    )
    if told.expected is not None:
        session.line("expected")
        _show_verdict(session, told.expected)
    session.line("returned")
    for verdict in told.hits:
        _show_verdict(session, verdict)
    if told.cut:
        session.line("not returned, the nearest")
        for verdict in told.cut:
            _show_verdict(session, verdict)


def _show_verdict(session: Session, verdict: Verdict) -> None:
    session.line(f"  {verdict.id}  {verdict.kind:<10}  {verdict.text[:100]}")
    session.line(f"    {verdict.reason.replace('_', ' ')}: {verdict.told}")
    if verdict.legs:
        session.line(f"    score {verdict.score:.3f}, relevance {verdict.relevance:.3f}")
        for name, place in verdict.legs.items():
            session.line(f"      {name:<8} rank {place.rank:<4} raw {place.raw:.3f}  share {place.share:.2f}")
        said = ", ".join(f"{name} × {value:.3f}" for name, value in verdict.factors.items())
        session.line(f"      factors  {said or 'none'}")


def _memory(session: Session, id: str, as_of: str | None) -> None:
    """Show why a memory is there."""
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
