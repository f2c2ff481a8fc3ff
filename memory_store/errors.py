"""The errors of hindlake.

    HindlakeError
    ├── SettingsError        a setting is missing or wrong
    ├── UsageError           a call was made with arguments that can't be meant
    │   └── UnknownMemory    no memory has this id in this namespace
    ├── LakeError            the lake can't be read or written
    │   ├── DamagedFile      a file of the lake can't be understood
    │   └── UnsafeStore      the object store ignores conditional writes
    ├── StoreError           the LanceDB store can't be read or written
    │   └── NoGeneration     nothing was built yet
    ├── EmbedderError        a text could not be embedded
    ├── ModelError           the language model could not be reached or understood
    │   └── BudgetExceeded   the run would pass its ceiling
    ├── LeaseLost            another run has taken over the work of this one
    └── MissingExtra         a part of hindlake that is not installed was asked for

Each is raised with a message that names the fix, and each survives pickling, since workers raise them.
"""

from __future__ import annotations


class HindlakeError(Exception):
    """Base of every error that hindlake raises on purpose."""


class SettingsError(HindlakeError):
    """A setting is missing or has a value that can't be meant."""


class UsageError(HindlakeError):
    """A call was made with arguments that can't be meant."""


class UnknownMemory(UsageError):
    """No memory has this id in this namespace."""


class LakeError(HindlakeError):
    """The lake can't be read or written."""


class DamagedFile(LakeError):
    """A file of the lake can't be understood."""


class UnsafeStore(LakeError):
    """The object store accepts conditional writes and ignores them."""


class StoreError(HindlakeError):
    """The LanceDB store can't be read or written."""


class NoGeneration(StoreError):
    """No generation of the store has been built yet."""


class EmbedderError(HindlakeError):
    """A text could not be embedded, or no embedder can be used here."""


class ModelError(HindlakeError):
    """The language model could not be reached, or its answer could not be understood."""


class BudgetExceeded(ModelError):
    """The run stopped because the next call could have passed its ceiling."""


class LeaseLost(HindlakeError):
    """Another run has taken over the work of this one, which was held up for long."""


class MissingExtra(HindlakeError):
    """A part of hindlake that is not installed was asked for."""

    @classmethod
    def needs(cls, package: str, extra: str) -> MissingExtra:
        """Say which extra brings the package.

        >>> MissingExtra.needs("lancedb", "recall").args[0]
        "lancedb is not installed: run pip install 'hindlake[recall]'"
        """
        return cls(f"{package} is not installed: run pip install 'hindlake[{extra}]'")
