"""Which of the rows that lie in memory a version of a table has, and those that came since they were copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec

from ..recall.predicates import Filter, addresses_below, addresses_from
from ..store.stored import PACKED
from .columns import READ, covers
from .files import FORMAT, addresses_of, newest_copy
from .rows import Chosen, Found, Rows, load_rows, meta_of, rows_of

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from ..store.lance import Snapshot

    Mask = npt.NDArray[np.bool_]
    Places = npt.NDArray[np.int64]

#: Hidden rows of a filter that are left out after; of more, the table is asked.
_HIDDEN = 1_000
#: Filters of one version whose vectors are remembered.
_CHOSEN = 16
#: Fields that every search asks for, and often nothing stands against.
_USUAL = ("kinds", "states", "subjects")


@dataclass(frozen=True)
class Part:
    """Rows in memory, and which of them a version has."""

    rows: Rows
    live: Mask
    _chosen: dict[Filter, Chosen] = field(default_factory=dict)

    def chosen(self, filter: Filter) -> Chosen:
        """The vectors that a filter lets through; the last ones are remembered."""
        if (known := self._chosen.get(filter)) is None:
            known = Chosen.of(self.rows, self.rows.passing(filter) & self.live)
            for old in list(self._chosen)[: max(len(self._chosen) + 1 - _CHOSEN, 0)]:
                self._chosen.pop(old, None)
            self._chosen[filter] = known
        return known


@dataclass(frozen=True)
class Resident:
    """All rows of one version of a table."""

    parts: Sequence[Part]
    _idle: dict[Filter, dict[str, Any]] = field(default_factory=dict)

    def needed(self, filter: Filter) -> Filter:
        """The same filter, as the table is asked: without what all rows pass, which costs it as much as the rest."""
        head = Filter(filter.namespaces, filter.kinds, filter.states, filter.subjects)
        if (idle := self._idle.get(head)) is None:
            if len(self._idle) >= _CHOSEN:
                self._idle.clear()
            asked = [name for name in _USUAL if getattr(head, name) is not None]
            idle = self._idle[head] = dict.fromkeys(name for name in asked if self._all_pass(head, name))
        return replace(filter, **idle) if idle else filter

    def _all_pass(self, filter: Filter, name: str) -> bool:
        """Whether one field of a filter leaves out no row of its namespaces."""
        inside = Filter(filter.namespaces, states=None)
        asked = replace(inside, **{name: getattr(filter, name)})
        columns = ((part.rows.columns, part.live) for part in self.parts)
        return not any((some.passing(inside) & ~some.passing(asked) & live).any() for some, live in columns)

    @property
    def gone(self) -> int:
        """Rows that lie in memory and are not of the version."""
        return sum(len(part.live) - int(part.live.sum()) for part in self.parts)

    def nearest(self, vector: npt.NDArray[np.float32], filter: Filter, limit: int, exact: bool) -> Found | None:
        """The nearest to a finite vector by cosine; None where the table has to be asked."""
        import numpy as np

        is_usual = vector.shape == self.parts[0].rows.vectors.shape[1:] and bool(vector.any())
        if not is_usual or not covers(filter) or len(filter.not_ids) > _HIDDEN:
            return None
        plain = replace(filter, not_ids=()) if filter.not_ids else filter
        wanted = limit + len(filter.not_ids)
        found = [part.chosen(plain).nearest(vector, wanted, exact) for part in self.parts]
        addresses = np.concatenate([one.addresses for one in found])
        scores = np.concatenate([one.scores for one in found])
        order = np.argsort(-scores, kind="stable")[:wanted]
        addresses, scores = addresses[order], scores[order]
        if filter.not_ids:
            hidden = set(filter.not_ids)
            ids = [_id(piece) for piece in self.pieces(addresses.tolist()) or ()]
            keep = [place for place, id in enumerate(ids) if id not in hidden][:limit]
            addresses, scores = addresses[keep], scores[keep]
        return Found(addresses, scores)

    def pieces(self, addresses: Sequence[int]) -> list[Any] | None:
        """Rows in one piece each, by address; None if one is not here."""
        if (placed := self._placed(addresses)) is None:
            return None
        found: list[Any] = [None] * len(addresses)
        for rows, wanted, places in placed:
            for number, piece in zip(wanted.tolist(), rows.pieces(places), strict=True):
                found[number] = piece
        return found

    def vectors(self, addresses: Sequence[int]) -> dict[int, npt.NDArray[np.float32]] | None:
        """Vectors by address, of the rows that have one; None if a row is not here."""
        if (placed := self._placed(addresses)) is None:
            return None
        found: dict[int, npt.NDArray[np.float32]] = {}
        for rows, wanted, places in placed:
            slots = rows.vector_of[places]
            has = slots >= 0
            found |= dict(zip(wanted[has].tolist(), rows.vectors[slots[has]], strict=True))
        return {addresses[number]: vector for number, vector in found.items()}

    def _placed(self, addresses: Sequence[int]) -> list[tuple[Rows, Places, Places]] | None:
        """Which of some addresses each part has, by their number, and where; None if one is nowhere."""
        import numpy as np

        wanted = np.asarray(addresses, np.uint64)
        placed = []
        for part in self.parts:
            known = part.rows.ordered
            at = np.searchsorted(known, wanted)
            inside = np.flatnonzero(at < len(known))
            inside = inside[known[at[inside]] == wanted[inside]]
            placed.append((part.rows, inside, part.rows.by_address[at[inside]]))
        return placed if sum(len(inside) for _, inside, _ in placed) == len(wanted) else None


class _Named(msgspec.Struct):
    id: str


def _id(piece: Any) -> str:
    return msgspec.msgpack.decode(piece, type=_Named).id


class Follower:
    """Follows a table from version to version."""

    def __init__(self, url: str, table: str, most: int) -> None:
        """`most`: rows that may have come since the copy was made; of more, there is none until it is made anew."""
        self._url, self._table, self._most = url, table, most
        self._copy: Any = None
        self._base: Part | None = None
        self._version = 0
        self._since: pa.Table | None = None
        self._last: tuple[int, Path | None, Resident | None] = -1, None, None

    @property
    def centres(self) -> npt.NDArray[np.float32] | None:
        """Centres of the cells of the copy that is followed."""
        return self._base.rows.centres if self._base is not None else None

    async def at(self, snapshot: Snapshot) -> Resident | None:
        """The rows of a version; None if they are not in memory."""
        copy = newest_copy(self._url, self._table)
        version, known, found = self._last
        if (version, known) != (snapshot.version, copy):
            found = await self._at(snapshot, copy)
            self._last = snapshot.version, copy, found
        return found

    async def _at(self, snapshot: Snapshot, copy: Path | None) -> Resident | None:
        if copy is None or not self._open(copy) or self._base is None or snapshot.version < self._version:
            return None
        base = await self._still(snapshot, self._base)
        if base is None:
            return None
        self._base = base
        after = addresses_from(_next(base.rows))
        ids = await addresses_of(snapshot, after)
        if len(ids) > self._most:
            return None
        if not len(ids):
            return Resident((base,))
        rows = await self._read(snapshot, ids, base.rows.vectors.shape[1])
        return Resident((base, rows))

    def _open(self, copy: Path) -> bool:
        if copy != self._copy:
            try:
                meta = meta_of(copy)
                if meta.format != FORMAT:
                    return False
                rows = load_rows(copy)
            except (OSError, ValueError, msgspec.MsgspecError):
                return False  # removed just now for a newer one, or not whole
            import numpy as np

            self._base, self._version = Part(rows, np.ones(len(rows.addresses), bool)), meta.version
            self._copy, self._since = copy, None
        return True

    async def _still(self, snapshot: Snapshot, base: Part) -> Part | None:
        """The copied rows that a version still has: rows only go, so equally many are the same."""
        import numpy as np

        known = base.rows.addresses
        below = addresses_below(_next(base.rows))
        if await snapshot.table.count_rows(below) == np.count_nonzero(base.live):
            return base
        ids = await addresses_of(snapshot, below)
        live = np.isin(known, ids, assume_unique=True)
        return Part(base.rows, live) if np.count_nonzero(live) == len(ids) else None

    async def _read(self, snapshot: Snapshot, ids: npt.NDArray[np.uint64], dim: int) -> Part:
        """Rows that came since the copy was made; those that are known are not read again."""
        import numpy as np
        import pyarrow as pa

        known = self._since.column("_rowid").to_numpy() if self._since is not None else np.zeros(0, np.uint64)
        missing = ids[~np.isin(ids, known, assume_unique=True)]
        parts = [] if self._since is None else [self._since.filter(pa.array(np.isin(known, ids, assume_unique=True)))]
        if len(missing):
            query = snapshot.table.take_row_ids(missing.tolist()).select([*READ, PACKED, "vector"]).with_row_id()
            parts.append(await query.to_arrow())
        self._since = pa.concat_tables(parts).combine_chunks()
        rows = rows_of(self._since, dim)
        return Part(rows, np.ones(len(rows.addresses), bool))


def _next(rows: Rows) -> int:
    """The first address of a fragment that no copied row lies in."""
    return ((int(rows.ordered[-1]) >> 32) + 1) << 32 if len(rows.addresses) else 0
