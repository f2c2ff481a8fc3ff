"""The door to LanceDB: opening tables, reading past a clean-up, writing past another writer, and what a search reads
from, one version of a table that stays as it is.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import MissingExtra, NoGeneration, StoreError
from ..files.later import CATALOGUES, leave_for_later
from ..files.s3 import s3_options
from ..recall.predicates import Filter, Predicate, predicate
from ..resident.following import Follower, Resident
from ..settings import Settings

if TYPE_CHECKING:
    import lancedb

_T = TypeVar("_T")

_TRIES = 8
#: What LanceDB raises when a disk is full, an object store fails, or another writer was faster.
_FAILURES = (RuntimeError, OSError)
#: Filters of one version whose matches are remembered.
_COUNTS = 1_000
#: Seconds after which a folder that is changed again shows another time of change, on any file system.
_SETTLED = 3.0


@dataclass
class Snapshot:
    """One version of a table, which other writers change nothing of."""

    #: The table as the asynchronous interface gives it
    table: Any
    version: int
    rows: int
    columns: frozenset[str]
    #: Whether vectors have an index
    has_vector_index: bool
    #: Its rows in memory, if they are there
    resident: Resident | None = None
    _counts: dict[str, int] = field(default_factory=dict)

    def condition(self, filter: Filter) -> Predicate:
        """A filter as a predicate over the table."""
        return predicate(filter, "names" in self.columns)

    async def count(self, condition: Predicate) -> int:
        """Rows that pass a predicate; asked of the store once."""
        if condition not in self._counts:
            if len(self._counts) >= _COUNTS:
                self._counts.clear()
            self._counts[condition] = await self.table.count_rows(condition)
        return self._counts[condition]


class Door:
    """The tables below one address. Safe to share between threads; open it anew in a forked child."""

    def __init__(self, url: str, settings: Settings, refresh: float | None = None) -> None:
        """`refresh`: seconds until other processes' writes are looked for again, as in the settings unless given."""
        if find_spec("lancedb") is None:
            raise MissingExtra.needs("lancedb", "recall")
        #: Where the tables lie, for messages
        self.url = url
        self._settings = settings
        self._refresh = settings.search.refresh_seconds if refresh is None else refresh
        self._open()

    def _open(self) -> None:
        leave_for_later(CATALOGUES)
        import lancedb

        self._session = lancedb.Session(index_cache_size_bytes=self._settings.index.cache_mb * 2**20)
        #: The connection, whose tables show what others write
        self.db: lancedb.DBConnection = lancedb.connect(self.url, **self._options(self._refresh))
        self._handles: dict[str, Any] = {}
        self._still: Any = None
        self._live: dict[str, Any] = {}
        self._snapshots: dict[str, Snapshot] = {}
        self._followers: dict[str, Follower] = {}
        #: The last version that was seen of each table, and how the folder of its versions looked before
        self._seen: dict[str, tuple[int, int]] = {}
        #: When each of these folders was last changed, and since when that is known here
        self._changed: dict[str, tuple[int, float]] = {}

    def _options(self, refresh: float | None) -> dict[str, Any]:
        return {
            "read_consistency_interval": None if refresh is None else timedelta(seconds=refresh),
            "storage_options": s3_options(self._settings) if self.url.startswith("s3://") else None,
            "session": self._session,
        }

    def names(self) -> list[str]:
        """Tables that there are."""
        return self._again(lambda: list(self.db.list_tables().tables))

    def create(self, name: str, schema: Any, key: str) -> None:
        """Make a table, unless it is there, with a primary key: without one, two processes that merge the same new id
        store it twice, silently.
        """
        try:
            table: Any = self.db.create_table(name, schema=schema, exist_ok=True)
            table.set_unenforced_primary_key(key)
        except _FAILURES as error:
            raise StoreError(f"{self.url} can't be written: {error}") from error

    def is_open(self, name: str) -> bool:
        """Whether a table was used already."""
        return name in self._handles

    def table(self, name: str) -> Any:
        """A table, as the synchronous interface gives it. Raises `NoGeneration` if there is none."""
        if name not in self._handles:
            try:
                self._handles[name] = self.db.open_table(name)
            except (ValueError, *_FAILURES) as error:
                if "not found" not in str(error).lower():
                    raise StoreError(f"{self.url} can't be opened: {error}") from error
                raise NoGeneration(f"{self.url} holds no store: run `hindlake rebuild`") from error
        return self._handles[name]

    def read(self, name: str, act: Callable[[Any], _T]) -> _T:
        """Run a query; where a clean-up removed the version that the handle knows, open the table anew, once."""
        return self._again(lambda: act(self.table(name)))

    def ask(self, name: str, act: Callable[[Snapshot], Coroutine[Any, Any, _T]]) -> _T:
        """Run a coroutine over the newest version of a table; what it awaits side by side is run side by side.

        Errors and a clean-up meanwhile are met as in `read`.
        """
        from lancedb.background_loop import LOOP

        async def run() -> _T:
            return await act(await self._snapshot(name))

        return self._again(lambda: LOOP.run(run()))  # type: ignore[no-any-return, no-untyped-call]

    def look(self) -> None:
        """Let the next `ask` see what is there now, however lately the last one looked."""
        self._live = {}
        self._seen = {}

    def unchanged(self, name: str) -> int | None:
        """The version of a table, if it can be told without LanceDB that it is the one that was seen last: asking takes
        a hundred times as long.
        """
        looks, known = self._looks(name), self._seen.get(name)
        return known[1] if looks and known is not None and known[0] == looks else None

    def _looks(self, name: str) -> int:
        """The time of change of the folder of a table's versions: a new version is a new file in it. 0 where that tells
        nothing: in a bucket; just after a change was seen, as the next one may bear the same time; where writes of
        others are looked for only now and then. Clocks that are wrong change nothing.
        """
        if self._refresh:
            return 0
        try:
            changed = os.stat(f"{self.url}/{name}.lance/_versions").st_mtime_ns
        except OSError:
            return 0
        before, since = self._changed.get(name, (0, 0.0))
        if before != changed:
            since = time.monotonic()
            self._changed[name] = changed, since
        return changed if time.monotonic() - since > _SETTLED else 0

    def write(self, name: str, act: Callable[[Any], object]) -> None:
        """Run a write; another writer's commit in between is a reason to try again, waiting longer each time."""
        for attempt in range(_TRIES):
            try:
                act(self.table(name))
                return
            except _FAILURES as error:
                if "conflict" not in str(error).lower() or attempt == _TRIES - 1:
                    raise StoreError(f"{self.url} can't be written, tried {attempt + 1} times: {error}") from error
            time.sleep(random.uniform(0.5, 1) * 0.1 * 2**attempt)

    def _again(self, act: Callable[[], _T]) -> _T:
        try:
            return act()
        except _FAILURES as error:
            if "not found" not in str(error).lower():
                raise StoreError(f"{self.url} can't be read: {error}") from error
        self._open()
        try:
            return act()
        except _FAILURES as error:
            raise StoreError(f"{self.url} can't be read ({error}): run `hindlake rebuild`") from error

    async def _snapshot(self, name: str) -> Snapshot:
        """The newest version: two handles a table, one that follows it and one that stays."""
        import lancedb

        if self._still is None:
            following = await lancedb.connect_async(self.url, **self._options(self._refresh))
            self._still = following, await lancedb.connect_async(self.url, **self._options(None))
        following, still = self._still
        if name not in self._live:
            self._live[name] = await self._opened(following.open_table(name))
        if (version := self.unchanged(name)) is None:
            looks = self._looks(name)
            version = await self._live[name].version()
            self._seen[name] = looks, version
        known = self._snapshots.get(name)
        if known is not None and known.version == version:
            known.resident = known.resident or await self._resident(known, name)
            return known
        table = await self._opened(still.open_table(name))
        indexes = await table.list_indices()
        snapshot = Snapshot(
            table,
            await table.version(),
            await table.count_rows(),
            frozenset((await table.schema()).names),
            any(index.columns == ["vector"] for index in indexes),
        )
        snapshot.resident = await self._resident(snapshot, name)
        self._snapshots[name] = snapshot
        return snapshot

    async def _resident(self, snapshot: Snapshot, name: str) -> Resident | None:
        """The rows of a version in memory, if this process may have them there."""
        if not self._settings.index.resident_mb:
            return None
        if name not in self._followers:
            self._followers[name] = Follower(self.url, name, 2 * self._settings.index.waiting_rows)
        return await self._followers[name].at(snapshot)

    async def _opened(self, opening: Awaitable[Any]) -> Any:
        try:
            return await opening
        except ValueError as error:
            raise NoGeneration(f"{self.url} holds no store: run `hindlake rebuild`") from error
