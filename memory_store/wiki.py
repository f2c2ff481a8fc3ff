"""The wiki: one page for each subject and each entity, written from its memories, cited and with its history (R4).

A page of a subject holds what is remembered about it and nothing else; a page of an entity holds what is shared and
mentions it, by whichever of its names. So no page tells one subject's affairs under another's name.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from .clock import END_OF_TIME
from .ids import derive_id
from .text.aliases import NameBook
from .text.names import name_key

#: Kinds that a page tells, in this order, and what they are headed by.
HEADINGS = {"rule": "Rules", "fact": "Facts", "preference": "Preferences", "experience": "Lessons"}
#: What is at least this sure is knowledge; the rest is told as not confirmed yet.
CONFIRMED = 0.7
#: Most citations of one memory.
_CITATIONS = 5
_QUOTE = 160

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Page:
    """A page of the wiki."""

    #: Whether it is about a subject, or about an entity of shared memories
    about: Literal["subject", "entity"]
    #: The usual name where it has several, else the name as it is mostly written
    title: str
    #: Memories that hold, the surest first
    memories: tuple[Row, ...]
    #: Memories that did hold, the newest first
    history: tuple[Row, ...]
    #: Other things that its memories mention, the most frequent first
    related: tuple[str, ...]
    #: What it is called besides
    names: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """A file name of its own, below the folder of the wiki.

        >>> Page("entity", "支付 API/v2", (), (), ()).file.startswith("entities/支付-API-v2-")
        True
        """
        safe = "".join(sign if sign.isalnum() or sign in "._" else "-" for sign in self.title)[:60]
        safe = safe.replace("..", "-").strip("-.")
        folder = "subjects" if self.about == "subject" else "entities"
        return f"{folder}/{safe or 'page'}-{derive_id('wiki', 'page', self.about, name_key(self.title))[:6]}.md"


def pages(live: Iterable[Row], past: Iterable[Row], book: NameBook | None = None) -> list[Page]:
    """The pages that memories give, subjects first, each sort by name; `book` says which names stand for one thing.

    `live` are memories that hold, `past` those that were superseded or merged; rows have the columns of the schema
    MEMORIES, the vector may be left out. Episodes are told by no page.
    """
    now: dict[tuple[str, str], list[Row]] = defaultdict(list)
    then: dict[tuple[str, str], list[Row]] = defaultdict(list)
    book = book or NameBook()
    names: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for rows, into in ((live, now), (past, then)):
        for row in rows:
            if row["kind"] in HEADINGS:
                for key, name in _places(row, book):
                    names[key][name] += 1
                    into[key].append(row)
    made = [_page(key, names[key], rows, then.get(key, []), book) for key, rows in now.items()]
    return sorted(made, key=lambda page: (page.about != "subject", name_key(page.title)))


def find(pages: Sequence[Page], name: str) -> list[Page]:
    """The pages of a name: those that have it, else those whose name contains it."""
    key = name_key(name)
    exact = [page for page in pages if key in map(name_key, (page.title, *page.names))]
    return exact or [page for page in pages if key in name_key(page.title)]


def _places(row: Row, book: NameBook) -> list[tuple[tuple[str, str], str]]:
    if row["subject"]:
        return [(("subject", name_key(row["subject"])), row["subject"])]
    things = book.entities()
    unique = {things.key(name): name for name in row["entities"] or () if name_key(name)}
    return [(("entity", key), name) for key, name in unique.items()]


def _usual(names: Counter[str]) -> str:
    return min(names, key=lambda name: (-names[name], name))


def _page(key: tuple[str, str], written: Counter[str], live: list[Row], past: list[Row], book: NameBook) -> Page:
    about: Literal["subject", "entity"] = "subject" if key[0] == "subject" else "entity"
    things = book.entities(_usual(written) if about == "subject" else "")
    title = _usual(written)
    besides: tuple[str, ...] = ()
    if about == "entity":
        title = things.usual(title)
        groups = [names for names in things.groups().values() if things.key(names[0]) == key[1]]
        besides = tuple(name for names in groups for name in names if name_key(name) != name_key(title))
    related: dict[str, Counter[str]] = defaultdict(Counter)
    for row in live:
        for name in row["entities"] or ():
            if name_key(name) and things.key(name) != key[1]:
                related[things.key(name)][things.usual(name)] += 1
    order = sorted(related.values(), key=lambda names: (-names.total(), _usual(names)))
    return Page(
        about=about,
        title=title,
        memories=tuple(sorted(live, key=lambda row: (-row["confidence"], row["valid_from"], row["id"]))),
        history=tuple(sorted(past, key=lambda row: (row["valid_to"], row["id"]), reverse=True)),
        related=tuple(_usual(names) for names in order[:20]),
        names=besides,
    )


def render(page: Page) -> str:
    """A page as Markdown. Memories and quotes are data: nothing in them can open a heading or a link."""
    notes: list[str] = []
    called = f", also {', '.join(map(_plain, page.names))}" if page.names else ""
    parts = [f"# {_plain(page.title)}", f"*{page.about}*{called}"]
    for kind, heading in HEADINGS.items():
        rows = [row for row in page.memories if row["kind"] == kind]
        sure = [row for row in rows if row["confidence"] >= CONFIRMED]
        for title, some in ((heading, sure), (f"{heading}, not confirmed yet", rows[len(sure) :])):
            if some:
                parts.append(f"## {title}\n\n" + "\n".join(_line(row, notes) for row in some))
    if page.history:
        parts.append("## History\n\n" + "\n".join(_past(row, notes) for row in page.history))
    if page.related:
        parts.append("## See also\n\n" + ", ".join(_plain(name) for name in page.related))
    if notes:
        parts.append("## Sources\n\n" + "\n".join(f"{number}. {note}" for number, note in enumerate(notes, 1)))
    return "\n\n".join(parts) + "\n"


def index(pages: Sequence[Page]) -> str:
    """The first page of the wiki: every other one with how much it tells."""
    parts = ["# Wiki"]
    for about, heading in (("subject", "Subjects"), ("entity", "Entities")):
        lines = [
            f"- [{_plain(page.title)}]({page.file}): {len(page.memories)}" for page in pages if page.about == about
        ]
        if lines:
            parts.append(f"## {heading}\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _line(row: Row, notes: list[str]) -> str:
    return f"- {_plain(row['text'])} ({_day(row['valid_from'])}, {row['said_by'] or 'unknown'}){_cite(row, notes)}"


def _past(row: Row, notes: list[str]) -> str:
    became = f", then {row['superseded_by']}" if row["superseded_by"] else ""
    until = "" if row["valid_to"] >= END_OF_TIME else f" to {_day(row['valid_to'])}"
    return f"- {_plain(row['text'])} ({_day(row['valid_from'])}{until}, {row['state']}{became}){_cite(row, notes)}"


def _cite(row: Row, notes: list[str]) -> str:
    """Numbers of the sources of a memory; the memory itself is always the first of them."""
    cited = []
    for source in [f"memory {row['id']}", *map(_source, (row["evidence"] or [])[:_CITATIONS])]:
        notes.append(source)
        cited.append(f"[{len(notes)}]")
    return " " + "".join(cited)


def _source(evidence: Mapping[str, str]) -> str:
    quote = " ".join((evidence["quote"] or "").split())
    quote = quote if len(quote) <= _QUOTE else quote[: _QUOTE - 1] + "…"
    said = f": “{_plain(quote)}”" if quote else ""
    return f"trace {_plain(evidence['trace_id'])}, event {_plain(evidence['event_id'])}{said}"


def _plain(text: str) -> str:
    """Text on one line, with every sign escaped that Markdown or HTML would take for its own.

    >>> _plain("see [x](y) <b>\\n# head")
    'see \\\\[x\\\\](y) \\\\<b\\\\> # head'
    """
    one_line = "".join(" " if sign in "\r\n\t" else sign for sign in text)
    return "".join("\\" + sign if sign in "\\`*_[]<>" else sign for sign in one_line)


def _day(at: datetime) -> str:
    return at.date().isoformat()
