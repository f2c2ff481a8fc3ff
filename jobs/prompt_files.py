"""Prompts as files with a version: `reflect.v1` is `prompts/reflect.v1.md`. One that was used never changes (R11)."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from ..memory_store.errors import SettingsError

_BLOCK = re.compile(r"```json\n(.*?)\n```", re.S)
#: Values of an example that are shorter than this say nothing of their own.
_LEAST = 12


@dataclass(frozen=True)
class Prompt:
    """One version of a prompt."""

    #: Its name and version, such as reflect.v1
    name: str
    #: What is sent as the system message
    text: str

    @property
    def hash(self) -> str:
        """Hash of name and text, in hexadecimal: what a memory's `prompt_hash` is made of."""
        return hashlib.sha256(f"{self.name}\n{self.text}".encode()).hexdigest()[:16]

    @property
    def examples(self) -> tuple[str, ...]:
        """Every sentence of the examples: what must not come back as a memory."""
        found: list[str] = []
        for block in _BLOCK.findall(self.text):
            _collect(json.loads(block), found)
        return tuple(dict.fromkeys(found))


def prompt_names() -> list[str]:
    """Every prompt that comes with hindlake, sorted."""
    files = (resources.files(__package__) / "prompts").iterdir()
    return sorted(file.name.removesuffix(".md") for file in files if file.name.endswith(".md"))


@cache
def load_prompt(name: str) -> Prompt:
    """The prompt of that name. Raises `SettingsError` naming those that there are.

    >>> load_prompt("reflect.v1").name
    'reflect.v1'
    """
    if name not in prompt_names():
        raise SettingsError(f"there is no prompt {name!r}: take one of {', '.join(prompt_names())}")
    file = resources.files(__package__) / "prompts" / f"{name}.md"
    return Prompt(name, file.read_text(encoding="utf-8").replace("\r\n", "\n"))


def _collect(value: Any, found: list[str]) -> None:
    if isinstance(value, str) and len(value) >= _LEAST:
        found.append(value)
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _collect(item, found)
