"""Evals of two generations side by side: what each one's embedder finds, and what each one's reflector learns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...jobs.evals.reflect import evaluate
from ...jobs.reflecting.reflectors import reflector_of
from ...memory_store.embedders import setting_of
from ...memory_store.errors import SettingsError, UsageError
from ...memory_store.settings import Settings
from .recall import measure

#: Sets of `hindlake eval reflect`.
REFLECT_SETS = ("trail", "whowhen", "agentrx", "taubench", "realmem")


def evals(
    data: Path, names: Sequence[str], settings: Settings, embedder: str, reflectors: Sequence[str]
) -> dict[str, Any]:
    """Figures of `hindlake eval recall` by an embedder, and of `hindlake eval reflect` by each reflector that can be
    made here. `names`: the sets of recall. Raises `EmbedderError` if the embedder can't be used here.
    """
    chosen = Settings.load(**{**dict(settings), "embedder": setting_of(embedder)})
    found: dict[str, Any] = {"recall": measure(data, names, chosen, None)}
    if any((data / name).is_dir() for name in REFLECT_SETS):
        found["reflect"] = {name: _reflect(data, settings, name) for name in reflectors}
    return found


def _reflect(data: Path, settings: Settings, name: str) -> dict[str, Any] | None:
    """Figures of a reflector; None for one that these settings don't make."""
    for kind in ("rules", "openai"):
        try:
            reflector = reflector_of(settings, kind)
        except (SettingsError, UsageError):
            continue
        if reflector.name == name:
            return dict(evaluate(data, reflector, settings))
    return None
