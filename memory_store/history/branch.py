"""A branch: a lake of its own over the same history, where decisions can be tried that nobody else sees.

    branches/<branch>/branch.json                  what it is for
    branches/<branch>/current/<number>.json        the generation that shows it
    ns=<ns>/branches/<branch>/<folder>/<name>      what it has of its own: log, inbox, gate, reflections, runs

Everything else, such as traces, replies and vectors, is that of the lake. So whatever works on a lake works on a branch
of it, and leaves the lake as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, BinaryIO, cast

import msgspec

from ..files.folder import Folder
from ..files.lake import Lake

#: Folders of a namespace that a branch has of its own.
OWN = ("log", "log-keys", "inbox", "gate", "reflections", "runs", "batches", "archive")


class Branch(msgspec.Struct, kw_only=True, frozen=True):
    """What a branch is for."""

    #: Id; the run that it becomes once it is adopted
    branch: str
    #: What reflects in it
    reflector: str
    made_at: datetime
    #: Place in the log of each namespace at which it left the lake
    forked_at: dict[str, int]
    #: Number of the generation that shows it
    generation: int


class BranchLake(Lake):
    """The lake as a branch has it."""

    def __init__(self, lake: Lake, branch: str) -> None:
        super().__init__(cast(Folder, _Mapped(lake._store, branch)), f"{lake.url} (branch {branch})")
        #: Its id
        self.branch = branch


class _Mapped:
    """A store of files in which some paths lead elsewhere."""

    def __init__(self, store: Any, branch: str) -> None:
        self._store = store
        self._name = branch

    def _there(self, path: str) -> str:
        first, _, rest = path.partition("/")
        if first == "current":
            return f"branches/{self._name}/{path}"
        if first.startswith("ns=") and rest.partition("/")[0] in OWN:
            return f"{first}/branches/{self._name}/{rest}"
        return path

    def _here(self, path: str) -> str:
        return path.replace(f"branches/{self._name}/", "", 1)

    def put(self, path: str, data: bytes) -> None:
        self._store.put(self._there(path), data)

    def create(self, path: str, data: bytes) -> None:
        self._store.create(self._there(path), data)

    def get(self, path: str) -> bytes:
        found: bytes = self._store.get(self._there(path))
        return found

    def size(self, path: str) -> int:
        return int(self._store.size(self._there(path)))

    def open(self, path: str) -> BinaryIO:
        return cast(BinaryIO, self._store.open(self._there(path)))

    def names(self, prefix: str, after: str) -> list[str]:
        found = self._store.names(self._there(prefix), self._there(after) if after else "")
        return [self._here(path) for path in found]

    def entries(self, prefix: str) -> list[tuple[Any, ...]]:
        return [(self._here(path), *rest) for path, *rest in self._store.entries(self._there(prefix))]

    def folders(self, prefix: str) -> list[str]:
        return [self._here(path) for path in self._store.folders(self._there(prefix))]

    def delete(self, path: str) -> None:
        self._store.delete(self._there(path))

    def sync(self, paths: Iterable[str]) -> None:
        self._store.sync([self._there(path) for path in paths])


def write_branch(lake: Lake, branch: Branch) -> None:
    """Keep what a branch is for."""
    lake.put(f"branches/{branch.branch}/branch.json", msgspec.json.encode(branch))


def branches(lake: Lake) -> list[Branch]:
    """Every branch that is there, oldest first."""
    paths = [path for path in lake.names("branches") if path.endswith("/branch.json")]
    return [msgspec.json.decode(lake.get(path), type=Branch) for path in paths]


def remove_branch(lake: Lake, branch: str) -> None:
    """Delete all that a branch has of its own. Its generation is dropped by its number."""
    for namespace in lake.namespaces():
        lake.delete(lake.names(f"ns={namespace}/branches/{branch}"))
    lake.delete(lake.names(f"branches/{branch}"))
