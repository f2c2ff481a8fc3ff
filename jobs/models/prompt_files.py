"""Prompts as files with a version: `reflect.v1` is `prompts/reflect.v1.md`. One that was used never changes (R11).

Those that come with hindlake are read-only. A folder of one's own (`model.prompts`) may hold more; a name that both
have is the folder's, so that a new release never changes what a setting names.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from ...memory_store.errors import SettingsError, UsageError

_NAME = re.compile(r"([a-z][a-z0-9_-]{0,60})\.v([1-9][0-9]{0,8})")
_BLOCK = re.compile(r"^```json\n(.*?)\n```$", re.S | re.M)
#: A block of reviewed memories, one a line.
_REVIEWED = re.compile(r"^```jsonl\n(.*?)\n```$", re.S | re.M)
#: Values of an example that are shorter than this say nothing of their own.
_LEAST = 12
#: The prompt that reflects, whatever its version.
REFLECT = "reflect"


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
        """Every sentence of the invented examples: what must not come back as a memory, nor any part of it."""
        found: list[str] = []
        for block in _BLOCK.findall(self.text):
            _collect(json.loads(block), found)
        return tuple(dict.fromkeys(found))

    @property
    def reviewed(self) -> tuple[str, ...]:
        """The memories that reviewers judged and the wordings that they offered: what must not come back whole."""
        rows = [json.loads(line) for block in _REVIEWED.findall(self.text) for line in block.split("\n")]
        return tuple(dict.fromkeys(row[name] for row in rows for name in ("text", "better") if row.get(name)))


def packaged_prompts() -> list[str]:
    """Every prompt that comes with hindlake, sorted by name and number."""
    return _sorted(file.name for file in (resources.files(__package__) / "prompts").iterdir())


def own_prompts(folder: str) -> list[str]:
    """Every prompt of a folder, sorted by name and number. Raises `SettingsError` if it can't be read.

    An empty name is no folder; one that does not exist holds none.
    """
    if not folder:
        return []
    path = prompt_folder(folder)
    try:
        return _sorted(file.name for file in path.iterdir() if file.is_file()) if path.exists() else []
    except OSError as error:
        raise SettingsError(f"{path} can't be read ({error.strerror}): set HINDLAKE_MODEL_PROMPTS anew") from error


def prompt_names(folder: str = "") -> list[str]:
    """Every prompt that there is, sorted by name and number: those that come with hindlake, and those of a folder."""
    return _sorted(f"{name}.md" for name in {*packaged_prompts(), *own_prompts(folder)})


def newest(names: list[str], prompt: str = REFLECT) -> str:
    """The name with the highest number among the versions of a prompt. Raises `SettingsError` if there is none.

    >>> newest(["reflect.v9", "reflect.v10", "other.v11"])
    'reflect.v10'
    """
    mine = [name for name in names if name.rpartition(".v")[0] == prompt]
    if not mine:
        raise SettingsError(f"there is no version of the prompt {prompt!r}")
    return max(mine, key=number_of)


def check_reflects(*names: str) -> None:
    """Raise `UsageError` unless all are versions of the prompt that reflects."""
    for name in names:
        if name.rpartition(".v")[0] != REFLECT:
            raise UsageError(f"{name} is no version of the prompt {REFLECT!r}, such as {newest(packaged_prompts())}")


def number_of(name: str) -> int:
    """The number of a version.

    >>> number_of("reflect.v12")
    12
    """
    match = _NAME.fullmatch(name)
    return int(match[2]) if match else 0


def prompt_folder(folder: str) -> Path:
    """The folder that a setting names."""
    return Path(folder).expanduser().absolute()


def load_prompt(name: str, folder: str = "") -> Prompt:
    """The prompt of that name, of the folder if it has one, else of those that come with hindlake.

    Raises `SettingsError` naming those that there are, or what is wrong with its file.

    >>> load_prompt("reflect.v1").name
    'reflect.v1'
    """
    if name in own_prompts(folder):
        return _own(name, prompt_folder(folder) / f"{name}.md")
    if name not in packaged_prompts():
        hint = "" if folder else "; HINDLAKE_MODEL_PROMPTS names a folder of your own"
        raise SettingsError(f"there is no prompt {name!r}: take one of {', '.join(prompt_names(folder))}{hint}")
    return _packaged(name)


def _own(name: str, path: Path) -> Prompt:
    try:
        prompt = Prompt(name, path.read_text(encoding="utf-8").replace("\r\n", "\n"))
        _ = prompt.examples, prompt.reviewed
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} can't be read: {error}") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise SettingsError(
            f"{path} has an example that is no JSON ({error}): what stands between ```json (one value) or ```jsonl "
            "(one object a line) and ``` must be"
        ) from error
    if not prompt.text.strip():
        raise SettingsError(f"{path} is empty: write the prompt, or delete it")
    return prompt


@cache
def _packaged(name: str) -> Prompt:
    file = resources.files(__package__) / "prompts" / f"{name}.md"
    return Prompt(name, file.read_text(encoding="utf-8").replace("\r\n", "\n"))


def _sorted(files: Iterator[str]) -> list[str]:
    names = [file.removesuffix(".md") for file in files if file.endswith(".md")]
    return sorted(filter(_NAME.fullmatch, names), key=lambda name: (name.rpartition(".v")[0], number_of(name)))


def _collect(value: Any, found: list[str]) -> None:
    if isinstance(value, str) and len(value) >= _LEAST:
        found.append(value)
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _collect(item, found)
