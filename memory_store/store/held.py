"""A generation that shows what was known at a place in each log, and what was written after it was made.

It passes over the rows in between, which stay in the log, and says that it has folded them; so everything that folds
and reads a generation goes on as always. Purges count, whenever they were decided. Another generation, folded as
usual, shows everything again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..clock import Clock
from ..embedders import Embedder
from ..files.lake import Lake
from ..history.cold import COLD, COOL, cooled_to
from ..history.fold import fold
from ..history.log import head, log_paths
from ..records.vectors import VectorCache
from ..schema import conform
from ..settings import Settings
from .generations import FOLD_ROWS, catch_up, store_url, with_vectors
from .registry import Generation, claim, current, drop, find, mark_ready, switch
from .tables import Tables

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Place:
    """What was known of a namespace."""

    #: Place in the log of the last row
    seq: int = 0
    #: Acts that waited in the inbox then, whatever place they have got since
    acts: frozenset[str] = frozenset()


def hold(
    lake: Lake, settings: Settings, clock: Clock, embedder: Embedder, places: Mapping[str, Place], reason: str
) -> Generation:
    """Make a generation of what was known at a place in each log, and switch readers to it.

    Settle before: what waits in the inbox counts as written later. A namespace that is not among `places` was not
    there. No language model is called. If someone else switched readers meanwhile, their generation is returned and
    this one is removed.
    """
    claimed = claim(lake, clock, embedder.name, embedder.dim, reason)
    tables = Tables.create(store_url(settings, claimed.name), claimed.dim, settings)
    heads = {name: head(lake, name)[1] for name in lake.namespaces()}
    for namespace, last in heads.items():
        _fold_to(lake, tables, namespace, embedder, places.get(namespace, Place()), last)
    catch_up(lake, tables, embedder)
    tables.index()
    mark_ready(lake, claimed, {"held": {name: [places.get(name, Place()).seq, last] for name, last in heads.items()}})
    if generation := switch(lake, clock, claimed, claimed.switches):
        return generation
    drop(lake, settings, find(lake, claimed.number))
    return current(lake)


def _fold_to(lake: Lake, tables: Tables, namespace: str, embedder: Embedder, place: Place, last: int) -> None:
    """Fold the rows up to a place and the purges up to the last one, and say that all is folded."""
    cache = VectorCache(lake, namespace, embedder.name)
    cooled = 0
    for rows in _portions(lake, namespace, place, last):
        base = tables.rows(namespace, sorted(_changed(rows)))
        tables.upsert(with_vectors(fold(namespace, rows, base), embedder, cache))
        cooled = max(cooled, cooled_to(rows))
    # At the end: what left the store and came back by then is read from nowhere but the log.
    if cooled:
        tables.cool(namespace, COLD, cooled)
    tables.set_folded_to(namespace, last)


def _changed(rows: pa.Table) -> set[str]:
    """Memories that rows change but don't add."""
    columns = (rows.column(name).to_pylist() for name in ("id", "decision", "verdict"))
    some = [(id, said) for id, said, verdict in zip(*columns, strict=True) if verdict == "accepted"]
    return {id for id, said in some if said not in ("refuse", COOL)} - {id for id, said in some if said == "add"}


def _portions(lake: Lake, namespace: str, place: Place, last: int) -> Iterator[pa.Table]:
    import pyarrow as pa
    import pyarrow.compute as pc

    acts = pa.array(sorted(place.acts), pa.string())
    waiting: list[pa.Table] = []
    for _, read in lake.read_tables(log_paths(lake, namespace)):
        rows = conform(read, "log")
        seq, decision = rows.column("seq"), rows.column("decision")
        known = pc.or_(pc.less_equal(seq, place.seq), pc.equal(decision, "purge"))
        known = pc.or_(known, pc.is_in(rows.column("act"), value_set=acts))
        rows = rows.filter(pc.and_(known, pc.less_equal(seq, last)))
        if rows.num_rows:
            waiting.append(rows)
        if sum(table.num_rows for table in waiting) >= FOLD_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)
