"""Neighbourhoods: the memories that may meet each other, in shards that fit into memory. Each is the work of one task.

Memories meet within one subject, so a shard holds some subjects whole. A subject that has more than fits, such as what
is shared (no subject), is cut by the cells of `neighbours`: near vectors lie in one cell, and each lies in two. Rows
stay in Arrow, and only those that have a neighbour are looked at one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar, overload

from ...memory_store.history.inbox import Row
from ...memory_store.recall.predicates import Filter
from ...memory_store.resident.cells import cell_count, centres_of, sample_of
from ...memory_store.settings import Settings
from ...memory_store.store.tables import Tables
from ..shards import Engine, choose_engine, map_shards
from .decide import View
from .neighbours import members_of, nearest_cells

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from .neighbours import Places

#: Memories of a shard, and subjects of it.
SHARD_ROWS = 20_000
SHARD_SUBJECTS = 1_000
#: Vectors that are read at once to find their cells.
_READ_ROWS = 5_000

Found = TypeVar("Found")


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
    #: Of a subject that is cut: ids of the memories that it holds, and which of them, by place, lie in each cell
    ids: tuple[str, ...] = ()
    cells: tuple[Places, ...] = ()
    #: What it is a part of, if what it finds must be put together with what the other parts find
    part_of: str = ""
    #: Of `size`, memories that no other part counts
    own: int = 0

    def read(self, columns: Sequence[str]) -> tuple[Rows, npt.NDArray[np.float32]]:
        """Its active memories by id, and their vectors, [rows, dim], NaN where there is none."""
        names = list(dict.fromkeys([*columns, "vector"]))
        if self.ids:
            import pyarrow.compute as pc

            table = self.tables().rows(self.namespace, self.ids, list(dict.fromkeys([*names, "state"])))
            return split(table.filter(pc.equal(table.column("state"), "active")).select(names), self.dim)
        where = Filter((self.namespace,), kinds=self.kinds, states=("active",), own_subjects=self.subjects)
        return split(self.tables().scan(where, names), self.dim)

    def cells_of(self, rows: Rows) -> list[Places] | None:
        """The places of its rows by cell; None if all of them may meet."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self.cells:
            return None
        there = pc.index_in(pa.array(self.ids), value_set=rows.table.column("id").combine_chunks())
        places = pc.fill_null(there, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        return [found[found >= 0] for found in (places[cell] for cell in self.cells)]

    def tables(self) -> Tables:
        """The tables of its generation, opened in whatever process this is."""
        return Tables.open(self.url, self.settings)


@dataclass
class Neighbourhoods:
    """The shards of some kinds, and how many memories have no one to meet."""

    shards: list[Neighbourhood] = field(default_factory=list)
    alone: int = 0


def neighbourhoods(view: View, kinds: tuple[str, ...], *, shared: bool = True, overlap: bool = True) -> Neighbourhoods:
    """The active memories of some kinds, cut into shards; without `shared`, those of no subject meet no one.

    Only how many each subject has is read, and the vectors of subjects that don't fit into a shard, a part at a time.
    With `overlap` each of their memories lies in two cells, so that few near ones are missed, and what the parts find
    must be put together; without, in one, so that each part stands for itself.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    thin = view.memories(["subject"], kinds=kinds, states=("active",))
    subject = pc.fill_null(thin.column("subject"), "")
    counted = pa.table({"subject": subject}).group_by("subject").aggregate([([], "count_all")]).sort_by("subject")
    found = Neighbourhoods()
    some: list[str] = []
    size = 0
    for name, count in zip(*(counted.column(name).to_pylist() for name in ("subject", "count_all")), strict=True):
        if count == 1 or not (name or shared):
            found.alone += count
        elif count > SHARD_ROWS:
            _cut(view, kinds, name, overlap, found)
        else:
            if some and (size + count > SHARD_ROWS or len(some) >= SHARD_SUBJECTS):
                found.shards.append(_shard(view, kinds, tuple(some), size))
                some, size = [], 0
            some.append(name)
            size += count
    if some:
        found.shards.append(_shard(view, kinds, tuple(some), size))
    return found


def _shard(view: View, kinds: tuple[str, ...], subjects: tuple[str, ...], size: int) -> Neighbourhood:
    """A shard that holds some subjects whole."""
    return Neighbourhood(
        view.settings, view.tables.url, view.namespace, view.embedder.name, view.embedder.dim, kinds, subjects, size,
        own=size,
    )  # fmt: skip


def _cut(view: View, kinds: tuple[str, ...], subject: str, overlap: bool, found: Neighbourhoods) -> None:
    """Cut the memories of a subject by cells. What has no vector has no neighbour in a subject of many."""
    import numpy as np
    import pyarrow as pa

    thin = view.memories(["id"], kinds=kinds, states=("active",), own_subjects=(subject,))
    ids = thin.sort_by("id").column("id").combine_chunks()
    chosen = ids.take(pa.array(sample_of(len(ids))))
    parts = [_vectors(view, chosen.slice(start, _READ_ROWS)) for start in range(0, len(chosen), _READ_ROWS)]
    sample = np.concatenate([part[np.isfinite(part).all(axis=1)] for part in parts])
    cells = np.full((len(ids), 2 if overlap else 1), -1, np.int64)
    if len(sample) > 1:
        centres = centres_of(sample, cell_count(len(ids)))
        for start in range(0, len(ids), _READ_ROWS):
            vectors = _vectors(view, ids.slice(start, _READ_ROWS))
            has = np.isfinite(vectors).all(axis=1)
            cells[start : start + len(vectors)][has] = nearest_cells(vectors[has], centres)[:, : cells.shape[1]]
    found.alone += int((cells[:, 0] < 0).sum())
    for part in _parts(cells):
        mine, places = np.unique(np.concatenate([cell for _, cell in part]), return_inverse=True)
        ends = np.cumsum([len(cell) for _, cell in part])[:-1]
        shard = replace(_shard(view, kinds, (subject,), len(mine)), ids=tuple(ids.take(pa.array(mine)).to_pylist()))
        if overlap:
            own = sum(int((cells[cell, 0] == number).sum()) for number, cell in part)
            inside = tuple(np.split(places, ends))
            shard = replace(shard, cells=inside, part_of="/".join((*kinds, subject)), own=own)
        found.shards.append(shard)


def _parts(cells: Places) -> Iterator[list[tuple[int, Places]]]:
    """Cells, each with its number and its rows, that fit into a shard together. `cells`, [rows, …]: -1 is none."""
    import numpy as np

    has = np.flatnonzero(cells[:, 0] >= 0)
    part: list[tuple[int, Places]] = []
    size = 0
    for number, members in enumerate(members_of(cells[has], int(cells.max(initial=-1)) + 1)):
        for start in range(0, len(members), SHARD_ROWS):
            cell = has[members[start : start + SHARD_ROWS]]
            if part and size + len(cell) > SHARD_ROWS:
                yield part
                part, size = [], 0
            part.append((number, cell))
            size += len(cell)
    if part:
        yield part


def _vectors(view: View, ids: pa.Array) -> npt.NDArray[np.float32]:
    """The vectors of memories, in the order of their ids, [ids, dim]; NaN where there is none."""
    import numpy as np

    table = view.tables.rows(view.namespace, ids.to_pylist(), ["id", "vector"])
    rows, some = split(table, view.embedder.dim)
    place = {id: number for number, id in enumerate(ids.to_pylist())}
    vectors = np.full((len(ids), view.embedder.dim), np.nan, np.float32)
    vectors[[place[id] for id in rows.column("id")]] = some
    return vectors


def over_shards(
    function: Callable[[Neighbourhood], Found],
    shards: Sequence[Neighbourhood],
    settings: Settings,
    engine: Engine,
    progress: Callable[[int, int], None] | None = None,
    losses: Counter[str] | None = None,
) -> Iterator[Found]:
    """What a picklable function finds in each shard, in order: in this process, or on Ray if there is enough.

    Workers that were lost are counted in `losses`.
    """
    size = sum(one.size for one in shards)
    chosen = choose_engine(settings, engine, size, settings.jobs.ray_from_memories)
    for done, placed in enumerate(map_shards(function, shards, settings, chosen), 1):
        if losses is not None:
            losses.update(placed.losses)
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
