"""The settings themselves: names that nothing reads, and secrets that others can."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from pydantic import BaseModel, SecretStr

from ...memory_store.settings import Settings
from .finding import Finding, Patient

_PREFIX = "HINDLAKE_"
_FILE = Path("hindlake.toml")


def names(patient: Patient) -> Iterator[Finding]:
    """Variables that look like settings and are none: what they say is not done."""
    known = variables(Settings)
    for name in sorted(os.environ):
        if name.startswith(_PREFIX) and name not in known:
            near = get_close_matches(name, known, 1)
            yield Finding(
                "setting-unknown", "doubtful", f"{name} is set, and no setting is called so",
                f"did you mean {near[0]}?" if near else "look the name up in the settings page, or unset it",
            )  # fmt: skip


def variables(model: type[BaseModel], prefix: str = _PREFIX) -> list[str]:
    """The variables of all settings; a section by itself, as JSON, is one too."""
    found = []
    for name, field in model.model_fields.items():
        found.append(prefix + name.upper())
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found += variables(field.annotation, f"{prefix}{name.upper()}_")
    return found


def secrets(patient: Patient) -> Iterator[Finding]:
    """Whether the settings file holds a key and can be read by other users of the machine."""
    try:
        mode = _FILE.stat().st_mode
        said = tomllib.loads(_FILE.read_text("utf-8"))
    except OSError:
        return
    if mode & (stat.S_IRGRP | stat.S_IROTH) and any(_holds_secret(Settings, said)):
        yield Finding(
            "secrets-readable", "doubtful", f"{_FILE.absolute()} holds a key, and other users may read it",
            f"chmod 600 {_FILE.absolute()}, or give the key by the environment",
        )  # fmt: skip


def _holds_secret(model: type[BaseModel], said: dict[str, object]) -> Iterator[bool]:
    for name, field in model.model_fields.items():
        value = said.get(name)
        if field.annotation is SecretStr:
            yield bool(value)
        elif isinstance(value, dict) and isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _holds_secret(field.annotation, value)
