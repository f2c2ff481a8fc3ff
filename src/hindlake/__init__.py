"""Memory that agents earn from what they did.

Traces go into a lake of Parquet files, batch jobs turn them into memories, and a store made from the lake answers
questions. Names are loaded when they are first used: logging traces imports nothing that it does not need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .memory_store.clock import Clock, ManualClock, SystemClock
    from .memory_store.errors import (
        BudgetExceeded,
        DamagedFile,
        EmbedderError,
        HindlakeError,
        LakeError,
        LeaseLost,
        MissingExtra,
        ModelError,
        NoGeneration,
        SettingsError,
        StoreError,
        UnknownMemory,
        UnsafeStore,
        UsageError,
    )
    from .memory_store.recall.conditions import where
    from .memory_store.settings import Settings
    from .sdk.async_memory import AsyncMemory
    from .sdk.memory import Memory
    from .sdk.names import Names
    from .sdk.recorder import Recorder

    __version__: str

__all__ = [
    "AsyncMemory",
    "BudgetExceeded",
    "Clock",
    "DamagedFile",
    "EmbedderError",
    "HindlakeError",
    "LakeError",
    "LeaseLost",
    "ManualClock",
    "Memory",
    "MissingExtra",
    "ModelError",
    "Names",
    "NoGeneration",
    "Recorder",
    "Settings",
    "SettingsError",
    "StoreError",
    "SystemClock",
    "UnknownMemory",
    "UnsafeStore",
    "UsageError",
    "__version__",
    "where",
]

_HOMES = {
    "AsyncMemory": "sdk.async_memory",
    "Clock": "memory_store.clock",
    "ManualClock": "memory_store.clock",
    "Memory": "sdk.memory",
    "Names": "sdk.names",
    "Recorder": "sdk.recorder",
    "Settings": "memory_store.settings",
    "SystemClock": "memory_store.clock",
    "where": "memory_store.recall.conditions",
}


def __getattr__(name: str) -> object:
    """Load a public name from the room that it lives in."""
    if name == "__version__":
        return _version()
    if name not in __all__:
        raise AttributeError(f"module 'hindlake' has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES.get(name, 'memory_store.errors')}", __name__), name)


def __dir__() -> list[str]:
    return __all__


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("hindlake")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "0+checkout"
