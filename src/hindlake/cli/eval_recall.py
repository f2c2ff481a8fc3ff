"""`hindlake eval recall`: is what answers a question found?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .evals import evals
from .session import HomeOption, JsonOption, NamespaceOption, Session


def register(app: typer.Typer) -> None:
    """The command is added to `hindlake eval` when this module is imported."""


@evals.command("recall")
def recall(
    context: typer.Context,
    data: Annotated[
        Path,
        typer.Option("--data", metavar="DIR", help="Folder of locomo, longmemeval, memdaily, precisionmembench."),
    ],
    sets: Annotated[str, typer.Option(metavar="NAMES", help="Only these sets, with commas.")] = "",
    every: Annotated[int, typer.Option(min=1, metavar="N", help="Only each N-th history.")] = 1,
    without: Annotated[list[str] | None, typer.Option(metavar="LEG", help="Leave a leg out; may be repeated.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Another setting, such as search.rrf_k=20.")
    ] = None,
    ablation: Annotated[
        bool, typer.Option("--ablation", help="Ask again with each stage left out, put in or done otherwise.")
    ] = False,
    cache: Annotated[Path | None, typer.Option(metavar="DIR", help="Where vectors are kept for the next time.")] = None,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Measure whether a search finds what answers a question, on labelled sets.

    Each set is logged into a home of its own, which is removed afterwards, and asked through Memory.search.
    Sets that the folder lacks are left out.

    \b
    hindlake eval recall --data ../data --cache ~/.cache/hindlake
    hindlake eval recall --data ../data --sets locomo --without near --without around
    hindlake eval recall --data ../data --sets locomo --every 4 --ablation
    """
    from pydantic import BaseModel

    from ..memory_store.errors import UsageError
    from ..memory_store.recall.legs import LEGS
    from ..memory_store.settings import Settings
    from .evaluating.recall import SETS, measure

    session = Session(context, home, namespace, json)
    known = (*SETS, "precision")
    names = [name for name in sets.split(",") if name] or list(known)
    for what, given, allowed in (("set", names, known), ("leg", without or [], LEGS)):
        for name in given:
            if name not in allowed:
                raise UsageError(f"there is no {what} {name!r}: take one of {', '.join(allowed)}")
    if not data.is_dir():
        raise UsageError(f"{data} is no folder")
    changes: dict[str, Any] = {}
    for item in set_ or ():
        path, equals, value = item.partition("=")
        section, dot, name = path.partition(".")
        if not (equals and dot):
            raise UsageError(f"--set {item}: write it as section.name=value, such as search.fusion=rrf")
        changes.setdefault(section, {})[name] = value
    base = session.settings
    for section, values in changes.items():
        if not isinstance(getattr(base, section, None), BaseModel):
            raise UsageError(f"--set {section}.…: there is no such section")
        changes[section] = {**getattr(base, section).model_dump(), **values}
    if without:
        search = changes.setdefault("search", base.search.model_dump())
        search["weights"] = {**search["weights"], **dict.fromkeys(without, 0.0)}
    settings = Settings.load(**{**dict(base), **changes})
    figures = measure(data, names, settings, cache, every, ablation)

    def show() -> None:
        rows = (
            {f"{name}: {row}": figures[name][row] for name in figures for row in figures[name]} if ablation else figures
        )
        width = max(map(len, rows), default=0)
        for name, values in rows.items():
            told = (f"{key} {value:.3f}" if isinstance(value, float) else f"{key} {value}"
                    for key, value in values.items())  # fmt: skip
            session.line(f"{name:<{width}}  {'  '.join(told)}")

    session.answer(figures, show)
