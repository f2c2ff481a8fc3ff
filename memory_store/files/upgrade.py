"""What a lake and store of an older version need so that this version can use them.

A lake of the same format needs nothing: columns that came later are read as null. A store that lacks what this version
keeps is made anew from the lake, as a generation of its own.
"""

from __future__ import annotations

from typing import Any

from ..clock import Clock
from ..errors import NoGeneration, StoreError
from ..history.log import settle
from ..settings import Settings
from ..store.generations import build, open_tables
from ..store.registry import current
from .lake import Lake
from .lake_format import FORMAT


def needed(lake: Lake, settings: Settings) -> list[str]:
    """What has to be done, in words; empty: nothing. Raises `LakeError` for a lake of a newer version."""
    try:
        generation = current(lake)
    except NoGeneration:
        return []
    try:
        open_tables(settings, generation)
    except StoreError as error:
        return [f"the store is made anew from the lake: {error}"]
    return []


def migrate(lake: Lake, settings: Settings, clock: Clock, *, dry_run: bool = False) -> dict[str, Any]:
    """Do what is needed, and say what that was. Twice is once. With `dry_run` nothing is written."""
    steps = needed(lake, settings)
    generation = ""
    if steps and not dry_run:
        for namespace in lake.namespaces():
            settle(lake, namespace)
        generation = build(lake, settings, clock, reason="migrate").name
    return {"format": FORMAT, "steps": steps, "generation": generation, "is_dry_run": dry_run}
