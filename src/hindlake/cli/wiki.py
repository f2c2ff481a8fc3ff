"""`hindlake wiki`: what is known, as pages that a person reads."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ..memory_store.errors import UsageError
from ..memory_store.history.as_of import past
from ..memory_store.history.moments import moment_of
from ..memory_store.recall.predicates import READABLE, Filter
from ..memory_store.recall.reader import Reader
from ..memory_store.text.aliases import NameBook, aliases_of
from ..memory_store.wiki import HEADINGS, Page, find, index, pages, render
from .session import AsOfOption, HomeOption, JsonOption, NamespaceOption, Session

#: More memories than a namespace has.
_ALL = 2**31
#: States of memories that did hold.
_PAST = ("superseded", "merged")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("wiki")(wiki)


def wiki(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A subject or an entity; without it, the index.")] = "",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write every page below DIR, as Markdown.")
    ] = None,
    as_of: AsOfOption = None,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Read what is known: a page for each subject and each entity, with sources and history.

    What is not confirmed yet stands under a heading of its own. Pages of subjects hold what is private to them: mind
    where you write them.

    \b
    hindlake wiki
    hindlake wiki user:mei
    hindlake wiki user:mei --as-of 2026-03-01
    hindlake wiki --out pages
    """
    session = Session(context, home, namespace, json)
    made = pages(*(_now(session) if as_of is None else _then(session, as_of)))
    if out is not None:
        for page in made:
            path = out / page.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(render(page), encoding="utf-8")
        out.mkdir(parents=True, exist_ok=True)
        (out / "index.md").write_text(index(made), encoding="utf-8")
        answer = {"pages": len(made), "index": str(out / "index.md")}
        session.answer(answer, lambda: session.line(f"{answer['pages']} pages, begin with {answer['index']}"))
        return
    if name:
        found = find(made, name)
        if not found:
            raise UsageError(f"no page about {name!r}: `hindlake wiki` lists all pages")
        told = {"pages": [{**asdict(page), "file": page.file} for page in found]}
        session.answer(told, lambda: session.line("\n".join(map(render, found)).rstrip()))
        return
    session.answer({"pages": [_entry(page) for page in made]}, lambda: session.line(index(made).rstrip()))


def _now(session: Session) -> tuple[list[Any], list[Any], NameBook]:
    """Memories that hold, those that did, and which names stand for one thing."""
    reader = Reader(session.lake, session.settings, session.clock)
    found = []
    for states in (READABLE, _PAST):
        where = Filter((session.settings.namespace,), kinds=tuple(HEADINGS), states=states)
        found.append([hit.row for hit in reader.search("", where, _ALL)])
    return found[0], found[1], reader.names(session.settings.namespace)


def _then(session: Session, as_of: str) -> tuple[list[Any], list[Any], NameBook]:
    """The same as it was known at a moment."""
    rows = past(session.lake, session.settings.namespace, moment_of(as_of)).memories.to_pylist()
    live, gone = ([row for row in rows if row["state"] in states] for states in (READABLE, _PAST))
    return live, gone, NameBook(aliases_of(rows))


def _entry(page: Page) -> dict[str, Any]:
    return {"about": page.about, "title": page.title, "memories": len(page.memories), "file": page.file}
