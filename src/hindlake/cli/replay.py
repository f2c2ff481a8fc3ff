"""`hindlake replay`: what was written, read and decided in a period, on one timeline."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ..memory_store.capture.episodes import shorten
from ..memory_store.history.moments import period_of
from ..memory_store.history.replay import Replay, Selection
from ..memory_store.history.replay_page import MOST, page, plain
from ..memory_store.history.timeline import KINDS, Entry
from .session import HomeOption, JsonOption, NamespaceOption, Session, safe

#: Memories of a read that are shown in the terminal.
_MEMORIES = 3
#: Characters of a text that are shown in the terminal.
_TEXT = 110


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("replay")(replay)


def replay(
    context: typer.Context,
    since: Annotated[
        str, typer.Option(metavar="WHEN", help="From then: 2026-03-01, 2026-03-01T08:30, 12h, 2d, yesterday, 上周.")
    ] = "1d",
    until: Annotated[str, typer.Option(metavar="WHEN", help="To before then; of a day or a week, to its end.")] = "now",
    trace: Annotated[str, typer.Option(metavar="ID", help="Only of this trace or task, step by step.")] = "",
    memory: Annotated[str, typer.Option(metavar="ID", help="Only of this memory.")] = "",
    subject: Annotated[str, typer.Option(help="Only of this subject.")] = "",
    kind: Annotated[list[str] | None, typer.Option(help=f"Only these, may be given again: {', '.join(KINDS)}.")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write one page that needs nothing else.")] = None,
    most: Annotated[int, typer.Option(min=1, help="Entries of the page at most: the last ones.")] = MOST,
    home: HomeOption = None,
    namespace: NamespaceOption = None,
    json: JsonOption = False,
) -> None:
    """Show what was written, read and decided in a period, in the order of time. Times are UTC.

    What was purged is counted, not shown.

    \b
    hindlake replay --since yesterday
    hindlake replay --since 2026-03-01 --until 2026-03-07 --subject user:42
    hindlake replay --since 2w --memory 7k3c…
    hindlake replay --since "last week" --html week.html
    """
    session = Session(context, home, namespace, json)
    period = period_of(since, until, session.clock.now())
    selection = Selection(trace, memory, subject, tuple(kind or ()))
    told = Replay(session.lake, session.settings.namespace, *period, selection)
    if html is not None:
        made = page(told, most)
        html.write_text(made.html, encoding="utf-8")
        counts = {"shown": made.shown, "left_out": made.left_out, "purged": made.purged}
        session.answer(
            {"html": str(html), **_period(told), **counts},
            lambda: session.line(f"{made.shown} entries in {html}" + _missing(made.left_out, made.purged)),
        )
    elif session.as_json:
        entries = list(told)
        named = dict.fromkeys(id for entry in entries for id in entry.memories)
        memories = {id: asdict(found) for id in named if (found := told.memory(id)) is not None}
        shown = {"counts": dict(told.counts), "purged": told.purged, "entries": [*map(plain, entries)]}
        session.answer({**_period(told), **shown, "memories": memories}, lambda: None)
    else:
        with session.console.pager() if sys.stdout.isatty() else nullcontext():
            for line in _lines(told):
                session.line(line)
        if not told.counts:
            session.note("nothing happened then: --since 30d looks further back, -n at another namespace")
    waiting = _waiting(session)
    if waiting:
        session.note(waiting)


def _period(told: Replay) -> dict[str, Any]:
    return {"namespace": told.namespace, "since": told.since, "until": told.until}


def _missing(left_out: int, purged: int) -> str:
    parts = [f"{left_out} earlier ones are left out: a shorter period or --most shows them"] if left_out else []
    parts += [f"{purged} are about what was purged and are not shown"] if purged else []
    return "".join(f"; {part}" for part in parts)


def _lines(told: Replay) -> Iterator[str]:
    """The timeline as text, a day under its date."""
    day = None
    for entry in told:
        if entry.at.date() != day:
            if day is not None:
                yield ""
            day = entry.at.date()
            yield f"{day:%Y-%m-%d %A}"
        yield from _shown(entry, told)
    if told.counts:
        counts = ", ".join(f"{count} {kind}" for kind, count in told.counts.items())
        yield f"\n{counts}" + _missing(0, told.purged)


def _shown(entry: Entry, told: Replay) -> Iterator[str]:
    by = f"{entry.job}: " if entry.kind == "decision" and entry.job else ""
    head = f"{by}{entry.what}{' ' + entry.verdict if entry.verdict else ''}"
    text = shorten(entry.text or entry.note, _TEXT)
    yield safe(f"  {entry.at:%H:%M:%S}  {entry.kind:<10}  {head:<26}  {text}".rstrip())
    about = [*(f"for {name}" for name in entry.subjects), *(f"trace {id}" for id in entry.traces[:1])]
    if entry.kind != "read":
        about += [f"memory {id}" for id in entry.memories]
    about += [part for part in (entry.reason, entry.note if entry.text else "") if part]
    if about:
        yield " " * 24 + safe(" · ".join(about))
    for id in entry.memories[:_MEMORIES] if entry.kind == "read" else ():
        memory = told.memory(id)
        yield " " * 24 + safe(f"→ {shorten(memory.text, _TEXT) if memory else '(not in the log)'}  {id}")
    if entry.kind == "read" and len(entry.memories) > _MEMORIES:
        yield " " * 24 + f"→ and {len(entry.memories) - _MEMORIES} more"


def _waiting(session: Session) -> str:
    """What happened on this machine and is not in the lake yet, in a sentence; empty if that is nothing."""
    from ..memory_store.capture.reads import reads_folder
    from ..memory_store.capture.spool import segment_paths

    events = len(segment_paths(session.settings.spool_folder))
    reads = len(segment_paths(reads_folder(session.settings)))
    if not events and not reads:
        return ""
    return "some of what happened still waits on this disk: `hindlake run collect` brings it into the lake"
