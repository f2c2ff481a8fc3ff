"""What can be read by address: pages of the wiki, a memory by its id, what happened lately.

hindlake://wiki                  every page, with how much it tells
hindlake://wiki/{entity}         what is known about a subject or an entity
hindlake://memory/{id}           one memory, whole, with where it comes from
hindlake://episodes/recent       the newest tasks
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote, unquote

from ...memory_store.errors import UsageError
from .desk import Desk
from .told import block, explanation, record

SCHEME = "hindlake://"
#: Addresses without a blank, each with a name and what it is
FIXED = {
    "hindlake://wiki": ("wiki", "Every subject and entity that something is known about."),
    "hindlake://episodes/recent": ("recent-episodes", "What happened lately: the newest tasks, with how they ended."),
}
#: Addresses with a blank
TEMPLATES = {
    "hindlake://wiki/{entity}": ("wiki-page", "All that is known about one subject or entity, with sources."),
    "hindlake://memory/{id}": ("memory", "One memory, whole, with where it comes from and every decision about it."),
}
#: Episodes that are listed.
_RECENT = 20
#: Most characters of an address.
_ADDRESS = 2_000
#: More memories than a namespace has.
_ALL = 2**31
_PAST = ("superseded", "merged")


def read(desk: Desk, uri: str) -> tuple[str, str]:
    """The text at an address, and its media type. Raises `UsageError` for an address of nothing."""
    place = uri.removeprefix(SCHEME)
    if place == uri or len(uri) > _ADDRESS:
        raise UsageError(f"{uri[:80]!r} is no address: read {', '.join((*FIXED, *TEMPLATES))}")
    room, _, rest = place.partition("/")
    readers: dict[str, Callable[[Desk, str], tuple[str, str]]] = {
        "wiki": _wiki, "memory": _memory, "episodes": _episodes,
    }  # fmt: skip
    if room not in readers:
        raise UsageError(f"there is nothing at {uri[:80]!r}: read {', '.join((*FIXED, *TEMPLATES))}")
    return readers[room](desk, unquote(rest))


def _wiki(desk: Desk, name: str) -> tuple[str, str]:
    from ...memory_store.recall.predicates import READABLE
    from ...memory_store.recall.reader import Reader
    from ...memory_store.wiki import find, pages, render

    opened = desk.opened
    book = Reader(opened.lake, opened.settings, opened.clock).names(desk.caller.namespace)
    made = pages(_rows(desk, READABLE), _rows(desk, _PAST), book)
    if not name:
        lines = [f"- {page.title}: {len(page.memories)} ({SCHEME}wiki/{quote(page.title, safe='')})" for page in made]
        return record("\n".join(["# Wiki", *(" ".join(line.split()) for line in lines)])), "text/markdown"
    found = find(made, name)
    if not found:
        raise UsageError(f"no page about {name[:80]!r}: {SCHEME}wiki lists all pages")
    return record("\n".join(map(render, found))), "text/markdown"


def _rows(desk: Desk, states: tuple[str, ...]) -> list[dict[str, Any]]:
    """Memories that the caller may see; what shared ones rest on is left out for a caller of one subject."""
    from ...memory_store.recall.predicates import Filter
    from ...memory_store.recall.reader import Reader
    from ...memory_store.wiki import HEADINGS

    opened, subject = desk.opened, desk.caller.subject
    where = Filter(
        (desk.caller.namespace,), kinds=tuple(HEADINGS), states=states, subjects=(subject,) if subject else None
    )  # fmt: skip
    reader = Reader(opened.lake, opened.settings, opened.clock)
    rows = [dict(hit.row) for hit in reader.search("", where, _ALL)]
    return [row if desk.may_quote(row["subject"]) else {**row, "evidence": []} for row in rows]


def _memory(desk: Desk, id: str) -> tuple[str, str]:
    found = desk.explained(id)
    return explanation(found, desk.may_quote(found.memory["subject"] or ""))[0], "text/plain"


def _episodes(desk: Desk, which: str) -> tuple[str, str]:
    if which != "recent":
        raise UsageError(f"there are no episodes {which[:80]!r}: read {SCHEME}episodes/recent")
    from ..arguments import ANY_SUBJECT

    subject = desk.caller.subject
    hits = desk.memory.search(
        "", kinds=["episode"], subject=subject or ANY_SUBJECT, limit=_RECENT, log_read=False
    )  # fmt: skip
    if subject:  # episodes without a subject are another's as well
        hits = [hit for hit in hits if hit.subject == subject]
    return (block("", hits, {}, desk.now) if hits else "Nothing happened yet."), "text/plain"
