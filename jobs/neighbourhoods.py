"""Neighbourhoods: the memories that may meet each other, in shards that fit into memory. Each is the work of one task.

Memories meet within one subject, so a shard holds some subjects whole. What is shared (no subject) is one shard: its
rows stay in Arrow, and only those that have a neighbour are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, overload

from ..memory_store.inbox import Row
from ..memory_store.predicates import Filter
from ..memory_store.settings import Settings
from ..memory_store.tables import Tables
from .decide import Decided, View
from .shards import Engine, choose_engine, map_shards

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

#: Memories of a shard, unless one subject has more, and subjects of it.
SHARD_ROWS = 40_000
SHARD_SUBJECTS = 2_000


@dataclass(frozen=True)
class Neighbourhood:
    """One shard: everything that a worker needs to read its memories. It can be sent to another process."""

    settings: Settings
    #: Where the tables lie
    url: str
    namespace: str
    #: Name of the model of the vectors, and their length
    embedder: str
    dim: int
    #: Kinds that meet
    kinds: tuple[str, ...]
    #: Subjects that the shard holds whole; "" is what is shared
    subjects: tuple[str, ...]
    #: Memories that it holds
    size: int

    def read(self, columns: Sequence[str]) -> tuple[Rows, npt.NDArray[np.float32]]:
        """Its active memories by id, and their vectors, [rows, dim], NaN where there is none."""
        where = Filter((self.namespace,), kinds=self.kinds, states=("active",), own_subjects=self.subjects)
        table = self.tables().scan(where, list(dict.fromkeys([*columns, "vector"])))
        return split(table, self.dim)

    def tables(self) -> Tables:
        """The tables of its generation, opened in whatever process this is."""
        return Tables.open(self.url, self.settings)


@dataclass
class Neighbourhoods:
    """The shards of some kinds, and how many memories have no one to meet."""

    shards: list[Neighbourhood] = field(default_factory=list)
    alone: int = 0


def neighbourhoods(view: View, kinds: tuple[str, ...]) -> Neighbourhoods:
    """The active memories of some kinds, cut into shards. Only how many each subject has is read."""
    import pyarrow as pa
    import pyarrow.compute as pc

    thin = view.memories(["subject"], kinds=kinds, states=("active",))
    subject = pc.fill_null(thin.column("subject"), "")
    counted = pa.table({"subject": subject}).group_by("subject").aggregate([([], "count_all")]).sort_by("subject")
    found = Neighbourhoods()
    some: list[str] = []
    size = 0

    def close() -> None:
        nonlocal some, size
        if some:
            found.shards.append(
                Neighbourhood(
                    view.settings,
                    view.tables.url,
                    view.namespace,
                    view.embedder.name,
                    view.embedder.dim,
                    kinds,
                    tuple(some),
                    size,
                )
            )
        some, size = [], 0

    for name, count in zip(*(counted.column(name).to_pylist() for name in ("subject", "count_all")), strict=True):
        if count == 1:
            found.alone += 1
            continue
        if size + count > SHARD_ROWS or len(some) >= SHARD_SUBJECTS:
            close()
        some.append(name)
        size += count
    close()
    return found


def over_shards(
    function: Callable[[Neighbourhood], Decided],
    shards: Sequence[Neighbourhood],
    settings: Settings,
    engine: Engine,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Decided]:
    """What a picklable function decides about each shard, in order: in this process, or on Ray if there is enough."""
    size = sum(one.size for one in shards)
    chosen = choose_engine(settings, engine, size, settings.jobs.ray_from_memories)
    for done, placed in enumerate(map_shards(function, shards, settings, chosen), 1):
        yield placed.result
        if progress:
            progress(done, len(shards))


class Rows(Sequence[Row]):
    """Rows of an Arrow table as dicts, each made when it is first asked for."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._made: dict[int, Row] = {}

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @overload
    def __getitem__(self, place: int) -> Row: ...

    @overload
    def __getitem__(self, place: slice) -> list[Row]: ...

    def __getitem__(self, place: int | slice) -> Row | list[Row]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        if not 0 <= place < len(self):
            raise IndexError(place)
        if place not in self._made:
            self.make([place])
        return self._made[place]

    def __iter__(self) -> Iterator[Row]:
        self.make(range(len(self)))
        return (self._made[place] for place in range(len(self)))

    def make(self, places: Sequence[int]) -> None:
        """Make some rows at once, which is faster than one by one."""
        import pyarrow as pa

        missing = sorted(set(places).difference(self._made))
        made = self.table.take(pa.array(missing, pa.int64())).to_pylist()
        self._made.update(zip(missing, made, strict=True))

    def column(self, name: str) -> list[str]:
        """A column of texts; empty where there is none."""
        return [value or "" for value in self.table.column(name).to_pylist()]


def split(table: pa.Table, dim: int) -> tuple[Rows, npt.NDArray[np.float32]]:
    """Memories by id, and their vectors apart in one matrix, [rows, dim], NaN where there is none."""
    import numpy as np
    import pyarrow.compute as pc

    order = pc.sort_indices(table, [("id", "ascending")])
    lists = table.column("vector").combine_chunks().take(order)
    vectors = np.full((table.num_rows, dim), np.nan, np.float32)
    valid = lists.is_valid().to_numpy(zero_copy_only=False)
    if valid.any():
        vectors[valid] = lists.drop_null().flatten().to_numpy(zero_copy_only=False).reshape(-1, dim)
    return Rows(table.drop_columns(["vector"]).take(order)), vectors
