"""What every command shares: options, settings, and how it answers."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Callable
from dataclasses import asdict, dataclass, is_dataclass
from datetime import datetime
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from ..memory_store.clock import SystemClock
from ..memory_store.files.lake import Lake
from ..memory_store.settings import Settings

HomeOption = Annotated[
    str | None, typer.Option("--home", metavar="DIR", help="Where lake and store lie: a folder or s3://bucket/prefix.")
]
NamespaceOption = Annotated[
    str | None, typer.Option("--namespace", "-n", metavar="NAME", help="The tenant to work in.")
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object; what else there is to say goes to standard error.")
]

AsOfOption = Annotated[
    str | None,
    typer.Option("--as-of", metavar="WHEN", help="What was known then: an ISO date or time, or a log place."),
]


@dataclass(frozen=True)
class Shared:
    """Options given before the command's name."""

    home: str | None
    namespace: str | None
    json: bool


class Session:
    """Settings, lake and output of one command."""

    def __init__(self, context: typer.Context, home: str | None, namespace: str | None, as_json: bool) -> None:
        shared: Shared = context.obj or Shared(None, None, False)
        named = namespace or shared.namespace
        #: The namespace that an option names, for commands that work in all of them unless one is named
        self.namespaces = [named] if named else None
        self.settings = Settings.load(home=home or shared.home, namespace=named)
        self.as_json = as_json or shared.json
        self.clock = SystemClock()
        self.console = Console(highlight=False)
        self.errors = Console(stderr=True, highlight=False)

    @property
    def lake(self) -> Lake:
        """The lake of the home."""
        return Lake.open(self.settings)

    def note(self, text: str) -> None:
        """Say something that is not the answer, on standard error."""
        self.errors.print(text, markup=False, soft_wrap=True)

    def answer(self, value: Any, show: Callable[[], None]) -> None:
        """Print the answer: as one JSON object, or as `show` shows it."""
        if self.as_json:
            json.dump(value, sys.stdout, default=_plain, ensure_ascii=False, indent=2)
            sys.stdout.write("\n")
        else:
            show()

    def line(self, text: str = "") -> None:
        """Print a line of the answer, as `safe` makes it."""
        self.console.print(safe(text), markup=False, soft_wrap=True)


#: Signs without a shape of their own that are shown as they are: line ends, tabs, joiners.
_KEPT_SIGNS = frozenset("\n\t\u200c\u200d")


def safe(text: str) -> str:
    """Text that a terminal shows and does not obey: control signs, and those that turn the writing around, are ◦.

    >>> safe("a\\x1b[2Jb\\u202ec")
    'a◦[2Jb◦c'
    """
    return "".join(
        "◦" if unicodedata.category(sign) in ("Cc", "Cf", "Cs") and sign not in _KEPT_SIGNS else sign for sign in text
    )


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    if isinstance(value, set | frozenset | tuple):
        return sorted(value) if isinstance(value, set | frozenset) else list(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
