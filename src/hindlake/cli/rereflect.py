"""`hindlake rereflect`: history is reflected on again, and nobody sees it until it is adopted."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..memory_store.errors import UsageError
from .run import ReflectorName, progress_bar
from .session import HomeOption, JsonOption, Session


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("rereflect")(rereflect)


def rereflect(
    context: typer.Context,
    reflector: Annotated[ReflectorName, typer.Option(help="What reflects, as in `hindlake run reflect`.")] = (
        ReflectorName.auto
    ),
    prompt: Annotated[str, typer.Option(metavar="VERSION", help="Version of the prompt. [model.prompt]")] = "",
    model: Annotated[str, typer.Option(metavar="NAME", help="Name of the model. [model.name]")] = "",
    ray: Annotated[bool, typer.Option("--ray", help="Work on Ray, however little there is.")] = False,
    loop: Annotated[bool, typer.Option("--loop", help="Work in this process, however much there is.")] = False,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Reflect on all of history again, with another reflector, prompt or model, beside what is there.

    Readers see nothing of it. It becomes a generation of its own: compare it with the one in use, then use or drop it.
    A run that was killed, or that stopped at its budget, is gone on with by the next; what a model answered once is
    not asked again. What users did, and what is decided meanwhile, holds in both.

    \b
    hindlake rereflect --reflector rules
    HINDLAKE_MODEL_BASE_URL=http://127.0.0.1:8080/v1 hindlake rereflect --prompt reflect.v2
    hindlake generations diff 1 2
    hindlake generations use 2
    """
    from .. import __version__
    from ..flows.rereflecting import run_rereflect

    session = Session(context, home, None, json)
    if ray and loop:
        raise UsageError("--ray and --loop exclude each other")
    given = {name: value for name, value in (("prompt", prompt), ("name", model)) if value}
    settings = session.settings
    settings = settings.model_copy(update={"model": settings.model.model_copy(update=given)})
    with progress_bar(session, "traces") as progress:
        report = run_rereflect(
            settings,
            session.clock,
            version=__version__,
            reflector=reflector.value,
            engine="ray" if ray else "loop" if loop else "auto",
            progress=progress,
        )
    result = report.summary()
    session.answer(result, lambda: _show(session, result))


def _show(session: Session, result: dict[str, Any]) -> None:
    counts = result["reflect"]["counts"]
    session.line(
        "traces      {traces}: {reflected} reflected on, {skipped} not, {failed} failed, {waiting} waiting".format(
            **counts
        )
    )
    session.line("candidates  {candidates}: {added} added, {merged} merged, {superseded} outdated".format(**counts))
    session.line(
        f"cost        {counts['calls']} calls, {result['reflect']['input_tokens']} tokens in, "
        f"{result['reflect']['output_tokens']} out, {result['reflect']['cost'] / 1e6:.4f} USD"
    )
    number = result["generation"]
    if result["complete"]:
        session.line(f"generation  {number} shows it: hindlake generations diff, use or drop {number}")
    else:
        session.line(f"generation  {number} is not complete: run it again to go on")
