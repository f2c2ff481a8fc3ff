"""The tools by name and version. A new version stands beside the old one, which is kept and marked (R29).

The first version of a tool has the bare name, later ones `…_v2`, `…_v3`. What clients know goes on working.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...memory_store.errors import UsageError
from .parameters import Parameter, schema_of

if TYPE_CHECKING:
    from .desk import Desk

#: Descriptions are shorter than this, in characters (R29).
DESCRIPTION = 200
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True)
class Answer:
    """What a tool answers."""

    #: For the model
    text: str
    #: For programs: the same as JSON
    data: dict[str, Any]


@dataclass(frozen=True)
class Tool:
    """One version of a tool."""

    #: Name without version
    base: str
    #: When to call it, in plain words
    description: str
    parameters: tuple[Parameter, ...]
    #: What it does: the desk of the caller, and the arguments as they were meant
    act: Callable[[Desk, Mapping[str, Any]], Answer]
    #: Whether it changes anything
    writes: bool = False
    #: Whether it takes something away
    destructive: bool = False
    #: Whether doing it twice changes nothing
    idempotent: bool = False
    version: int = 1

    @property
    def name(self) -> str:
        """The name that clients call."""
        return self.base if self.version == 1 else f"{self.base}_v{self.version}"

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        return schema_of(self.parameters)


class Registry:
    """Tools, each in every version that is kept."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        """Raises `UsageError` for two of one name, and for names and descriptions that a provider refuses."""
        self._tools = {tool.name: tool for tool in tools}
        if len(self._tools) < len(tools):
            raise UsageError("two tools have one name: give the newer one the next version")
        for tool in tools:
            if not _NAME.fullmatch(tool.name):
                raise UsageError(f"tool {tool.name!r}: take 1 to 64 of a-z, A-Z, 0-9, '_' and '-'")
            told = [self.description(tool), *(one.description for one in tool.parameters)]
            if long := [text for text in told if len(text) >= DESCRIPTION]:
                raise UsageError(f"tool {tool.name}: {long[0]!r} has {len(long[0])} characters, below {DESCRIPTION}")

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def find(self, name: str) -> Tool:
        """A tool by the name that clients call. Raises `UsageError`, which names those that there are."""
        if name not in self._tools:
            raise UsageError(f"there is no tool {name[:64]!r}: call one of {', '.join(self._tools)}")
        return self._tools[name]

    def newest(self, tool: Tool) -> Tool:
        """The newest version of a tool."""
        return max((one for one in self if one.base == tool.base), key=lambda one: one.version)

    def description(self, tool: Tool) -> str:
        """When to call a tool; that of an old version names the new one first."""
        newest = self.newest(tool)
        return tool.description if newest is tool else f"Old, kept for those who know it: call {newest.name}."

    def meta(self, tool: Tool) -> dict[str, Any]:
        """What programs are told beside: the version, and whether a newer one replaces it."""
        newest = self.newest(tool)
        told: dict[str, Any] = {"hindlake/version": tool.version}
        return told if newest is tool else {**told, "hindlake/deprecated": True, "hindlake/replaced_by": newest.name}
