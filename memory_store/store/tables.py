"""The LanceDB tables of one generation: `memories`, the fold of the log; `passages`, the turns of the episodes; and
`folds`, how far it was folded. See `stored` for what memories and passages have beside the columns of their schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import StoreError
from ..recall.asking import Candidate, Near, VectorsOf, Worded, ask, ask_many
from ..recall.predicates import Filter, Predicate, fold_row, predicate, predicate_up_to
from ..resident.copying import make_copy
from ..schema import arrow_schema, conform
from ..settings import Settings
from .indexes import Coverage, coverage, make_full_text, make_indexes
from .lance import Door, Snapshot
from .stored import check_columns, stored, stored_schema

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

MEMORIES = "memories"
PASSAGES = "passages"
FOLDS = "folds"

#: Rows of one merge: a bound on memory, not on how much can be merged.
_MERGE_ROWS = 50_000
#: Ids of one condition.
_IDS = 2_000
#: Above this many versions of the places that were folded to, `index` removes those that no reader can be at any more.
_VERSIONS = 100
_GRACE = timedelta(days=7)


class Tables:
    """The tables of one generation. Safe to share between threads; open them anew in a forked child."""

    def __init__(self, url: str, settings: Settings, refresh: float | None = None) -> None:
        #: Where the tables lie, for messages
        self.url = url
        self._door = Door(url, settings, refresh)
        self._indexing = settings.index
        #: Places that were folded to, by key, and the version of the table that says so
        self._places: tuple[int, dict[str, int]] = (-1, {})
        self._has_names: dict[str, bool] = {}

    @classmethod
    def create(cls, url: str, dim: int, settings: Settings, refresh: float | None = None) -> Tables:
        """New, empty tables for vectors of `dim` numbers. Raises `StoreError` if there are some already."""
        import pyarrow as pa

        if not url.startswith("s3://"):
            try:
                Path(url).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreError(f"{url} can't be made: {error}") from error
        tables = cls(url, settings, refresh)
        if MEMORIES in tables._door.names():
            raise StoreError(f"{url} holds a generation already: build the new one under another name")
        folds = pa.schema([pa.field("namespace", pa.string(), nullable=False), pa.field("seq", pa.int64())])
        tables._door.create(FOLDS, folds, "namespace")
        for name in (PASSAGES, MEMORIES):
            tables._make_searchable(name, dim)
        return tables

    @classmethod
    def open(cls, url: str, settings: Settings, refresh: float | None = None) -> Tables:
        """Tables that were made by `create`; `refresh`: seconds until other processes' writes are looked for again.

        Raises `NoGeneration` if there are none, `StoreError` if an older version made them and columns are missing.
        """
        tables = cls(url, settings, refresh)
        names = tables._door.read(MEMORIES, lambda table: table.schema.names)
        check_columns(names, url)
        tables._has_names[MEMORIES] = "names" in names
        return tables

    @property
    def dim(self) -> int:
        """Numbers of one vector."""
        return int(self._door.read(MEMORIES, lambda table: table.schema.field("vector").type.list_size))

    @property
    def exact_matches(self) -> int:
        """Where a filter leaves no more rows, their vectors are compared one by one."""
        return self._indexing.exact_matches

    # Writing

    def upsert(self, rows: pa.Table, table: str = MEMORIES) -> None:
        """Merge rows of a table's schema in: a memory replaces one of its id whose `seq` is lower, a passage any.

        A vector that is null, empty or NaN (the mark of a text that can't be embedded) is stored as none: the row is
        found by full text only. Raises `StoreError` on rows that no fold may make: without id or namespace, or with
        a vector of another length, of infinite or of zero length.
        """
        made = stored(rows, table, self.dim).select(self._door.read(table, lambda handle: handle.schema.names))
        where = "source.seq > target.seq" if table == MEMORIES else None
        for start in range(0, made.num_rows, _MERGE_ROWS):
            self._door.write(table, partial(_merge, key="key", rows=made.slice(start, _MERGE_ROWS), where=where))

    def folded_to(self, namespace: str) -> int:
        """The place in the log up to which a namespace was folded; 0 if it never was."""
        return self._place(namespace)

    def set_folded_to(self, namespace: str, seq: int) -> None:
        """Record how far a namespace was folded. It never goes back: a late fold changes nothing."""
        self._set_place(namespace, seq)

    def cooled_to(self, namespace: str) -> int:
        """The place in the log that `cool` was last called with; 0 if it never was."""
        return self._place(f"{namespace}/cool")

    def cool(self, namespace: str, states: tuple[str, ...], seq: int) -> None:
        """Drop memories, and passages of episodes, that are in one of these states and that nothing has changed after
        a place in the log. Doing it twice changes nothing.
        """
        self._set_place(f"{namespace}/cool", seq)
        condition = predicate_up_to(Filter((namespace,), states=states), seq)
        for name in (MEMORIES, PASSAGES) if self.has_passages() else (MEMORIES,):
            # A delete that finds nothing would leave a new version of the table all the same.
            if self._door.read(name, lambda table: table.count_rows(condition)):
                self._door.write(name, lambda table: table.delete(condition))

    def _place(self, key: str) -> int:
        known_version, places = self._places
        if key in places and self._door.unchanged(FOLDS) == known_version:
            return places[key]
        version, place = self._door.ask(FOLDS, lambda snapshot: self._look_up(snapshot, key))
        if version != known_version or key not in places:
            if place > places.get(key, 0):
                self._door.look()  # what was folded is there to be found, however lately a search looked
            self._places = version, {**(places if version == known_version else {}), key: place}
        return place

    async def _look_up(self, snapshot: Snapshot, key: str) -> tuple[int, int]:
        """The newest version of the places, and what it says of one."""
        version, places = self._places
        if version == snapshot.version and key in places:
            return version, places[key]
        condition = fold_row(key)
        rows = await snapshot.table.query().where(condition).select(["seq"]).to_arrow()
        return snapshot.version, max(rows.column("seq").to_pylist(), default=0)

    def _set_place(self, key: str, seq: int) -> None:
        import pyarrow as pa

        row = pa.table({"namespace": [key], "seq": [seq]}, schema=self._door.read(FOLDS, lambda table: table.schema))
        self._door.write(FOLDS, partial(_merge, key="namespace", rows=row, where="source.seq > target.seq"))
        self._door.look()  # the next one who asks sees it

    def ensure_passages(self) -> None:
        """Make the table of passages, which stores of older versions lack."""
        if PASSAGES not in self._door.names():
            self._make_searchable(PASSAGES, self.dim)

    def has_passages(self) -> bool:
        """Whether there is a table of passages."""
        return self._door.is_open(PASSAGES) or PASSAGES in self._door.names()

    # Reading

    def rows(
        self, namespace: str, ids: Iterable[str], columns: Sequence[str] | None = None, table: str = MEMORIES
    ) -> pa.Table:
        """Rows by id, in the order given, in any state; ids that the store does not have are left out.

        With no `columns`, all of the table's schema.
        """
        import pyarrow as pa

        wanted = list(dict.fromkeys(ids))
        names = list(columns or arrow_schema(table).names)
        asked = list(dict.fromkeys([*names, "id"]))
        parts = [
            self.scan(Filter((namespace,), states=None, ids=tuple(wanted[start : start + _IDS])), asked, table)
            for start in range(0, len(wanted), _IDS)
        ]
        found = pa.concat_tables(parts) if parts else self.scan(Filter((namespace,), ids=()), asked, table)
        place = {id: number for number, id in enumerate(found.column("id").to_pylist())}
        return found.take(pa.array([place[id] for id in wanted if id in place], pa.int64())).select(names)

    def scan(
        self, filter: Filter, columns: Sequence[str] | None = None, table: str = MEMORIES, limit: int | None = None
    ) -> pa.Table:
        """Every row that passes a filter, in no order, or `limit` of them, whichever. With no `columns`, all of the
        table's schema.
        """
        names = list(columns or arrow_schema(table).names)
        condition = self.condition(filter, table)

        def search(handle: Any) -> pa.Table:
            query = handle.search().where(condition).select(names)
            return (query if limit is None else query.limit(limit)).to_arrow()

        return conform(self._door.read(table, search), table).select(names)

    def counts(self, namespace: str) -> dict[tuple[str, str], int]:
        """Memories of a namespace by kind and state."""
        rows = self.scan(Filter((namespace,), states=None), ["kind", "state"])
        grouped = rows.group_by(["kind", "state"]).aggregate([([], "count_all")])
        return {(row["kind"], row["state"]): row["count_all"] for row in grouped.to_pylist()}

    def ask(
        self,
        wanted: Sequence[Near | Worded],
        columns: Sequence[str] = (),
        table: str = MEMORIES,
        *,
        vectors_of: VectorsOf = "none",
    ) -> list[list[Candidate]]:
        """What several legs find, side by side, in one version of the table, each best first.

        `columns`: what the rows of candidates must say; they may say more. `vectors_of`: which of them carry their
        vectors: none, all, or those that only words found.
        """
        names = list(dict.fromkeys(["id", *(name for name in columns if name != "vector")]))
        indexing = self._indexing
        return self._door.ask(table, lambda snapshot: ask(snapshot, wanted, indexing, names, vectors_of)).candidates()

    def vector_leg(
        self,
        vector: npt.NDArray[np.float32],
        filter: Filter,
        limit: int,
        columns: Sequence[str] = (),
        table: str = MEMORIES,
        *,
        exact: bool = False,
    ) -> list[Candidate]:
        """The memories, or passages, nearest to a unit vector, best first, scored by cosine.

        A vector that is NaN (a query that can't be embedded) finds nothing. `exact` looks at every one, index or not.
        """
        wanted = Near(vector, filter, limit, exact)
        [found] = self.ask([wanted], columns, table, vectors_of="all" if "vector" in columns else "none")
        return found

    def near_many(
        self, vectors: npt.NDArray[np.float32], filter: Filter, limit: int, columns: Sequence[str] = ()
    ) -> list[list[Candidate]]:
        """What `vector_leg` finds among the memories for each of several finite vectors, asked together."""
        names = list(dict.fromkeys(["id", *(name for name in columns if name != "vector")]))
        near, indexing = Near(vectors[0], filter, limit), self._indexing
        vectors_of: VectorsOf = "all" if "vector" in columns else "none"
        return self._door.ask(
            MEMORIES, lambda snapshot: ask_many(snapshot, vectors, near, indexing, names, vectors_of)
        ).candidates()

    def text_leg(
        self, query: str, filter: Filter, limit: int, columns: Sequence[str] = (), table: str = MEMORIES
    ) -> list[Candidate]:
        """The memories, or passages, that share words with a query, best first, scored by BM25.

        The query is words, never an expression: quotes, hyphens and "OR" are what they are.
        """
        wanted = Worded(query, filter, limit)
        [found] = self.ask([wanted], columns, table, vectors_of="all" if "vector" in columns else "none")
        return found

    def condition(self, filter: Filter, table: str = MEMORIES) -> Predicate:
        """A filter as a predicate over a table, for `ask`."""
        if table not in self._has_names:
            self._has_names[table] = self._door.read(table, lambda handle: "names" in handle.schema.names)
        return predicate(filter, self._has_names[table])

    # Indexes

    def index(self) -> None:
        """Make missing indexes, and let all catch up with the rows; doing it twice changes nothing.

        Rows that no index has yet are found all the same, by scanning them.
        """
        for name in (MEMORIES, PASSAGES):
            if name == MEMORIES or self.has_passages():
                make_indexes(self._door, name, self._indexing)
                make_copy(self._door, name, self._indexing)
        # Every fold leaves a version of this one, and no index falls behind that would have it cleaned up.
        if self._door.read(FOLDS, lambda table: len(table.list_versions())) > _VERSIONS:
            self._door.write(FOLDS, lambda table: table.optimize(cleanup_older_than=_GRACE))

    def coverage(self) -> dict[str, list[Coverage]]:
        """How much of each table its indexes have taken in."""
        names = (MEMORIES, PASSAGES) if self.has_passages() else (MEMORIES,)
        return {name: self._door.read(name, coverage) for name in names}

    def _make_searchable(self, name: str, dim: int) -> None:
        self._door.create(name, stored_schema(name, dim), "key")
        make_full_text(self._door, name)


def _merge(table: Any, key: str, rows: pa.Table, where: str | None) -> object:
    # Rows without a vector are meant; LanceDB takes them for bad ones otherwise.
    merge = table.merge_insert(key).when_matched_update_all(where=where)
    return merge.when_not_matched_insert_all().execute(rows, on_bad_vectors="null")
