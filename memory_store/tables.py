"""The LanceDB tables of one generation: `memories`, the fold of the log; `passages`, the turns of the episodes; and
`folds`, how far it was folded. See `stored` for what memories and passages have beside the columns of their schema.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import MissingExtra, NoGeneration, StoreError
from .lake import s3_options
from .predicates import Filter, fold_row, predicate, predicate_up_to
from .schema import arrow_schema, conform
from .settings import Settings
from .stored import check_columns, stored, stored_schema
from .terms import query_words

if TYPE_CHECKING:
    import lancedb
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

_T = TypeVar("_T")

MEMORIES = "memories"
PASSAGES = "passages"
FOLDS = "folds"

#: Rows of one merge: a bound on memory, not on how much can be merged.
_MERGE_ROWS = 50_000
#: Ids of one condition.
_IDS = 2_000
#: Above this many rows vectors get an index; an exact scan of fewer is fast.
EXACT_ROWS = 50_000
#: Where a filter leaves no more than this many rows, they are scanned exactly, index or not.
EXACT_MATCHES = 2_000
#: Partitions of the vector index that are probed when all rows pass.
_PROBES = 20
#: Up to this many rows, filters are fast without an index.
SCAN_ROWS = 10_000
#: Above this share of rows, and this many, that no index has yet, `index` lets the indexes catch up.
_UNINDEXED_SHARE = 0.1
_UNINDEXED_ROWS = 256
#: Above this many versions of the places that were folded to, `index` removes those that no reader can be at any more.
_VERSIONS = 100
_GRACE = timedelta(days=7)
_TRIES = 8

_TREES = ("key", "id", "subject", "task_type", "tool", "error_code", "valid_from", "valid_to")
_BITMAPS = ("namespace", "kind", "state", "outcome", "agent_role")
_LABELS = ("names", "tags")


@dataclass(frozen=True)
class Candidate:
    """A memory that one leg of a search found."""

    id: str
    #: Cosine of the vector leg, BM25 of the text leg
    score: float
    #: The columns that were asked for, but for the vector
    row: Mapping[str, Any]
    #: The vector, if it was asked for and there is one
    vector: npt.NDArray[np.float32] | None = None


class Tables:
    """The tables of one generation. Safe to share between threads; open them anew in a forked child."""

    def __init__(self, url: str, settings: Settings, refresh: float | None = None) -> None:
        if find_spec("lancedb") is None:
            raise MissingExtra.needs("lancedb", "recall")
        import lancedb

        #: Where the tables lie, for messages
        self.url = url
        seconds = settings.search.refresh_seconds if refresh is None else refresh
        self._connect: Callable[[], lancedb.DBConnection] = lambda: lancedb.connect(
            url,
            read_consistency_interval=timedelta(seconds=seconds),
            storage_options=s3_options(settings) if url.startswith("s3://") else None,
        )
        self._db = self._connect()
        self._handles: dict[str, Any] = {}
        self._has_names: dict[str, bool] = {}

    @classmethod
    def create(cls, url: str, dim: int, settings: Settings, refresh: float | None = None) -> Tables:
        """New, empty tables for vectors of `dim` numbers. Raises `StoreError` if there are some already."""
        import pyarrow as pa

        if not url.startswith("s3://"):
            Path(url).mkdir(parents=True, exist_ok=True)
        tables = cls(url, settings, refresh)
        if MEMORIES in tables._names():
            raise StoreError(f"{url} holds a generation already: build the new one under another name")
        folds = pa.schema([pa.field("namespace", pa.string(), nullable=False), pa.field("seq", pa.int64())])
        tables._make_table(FOLDS, folds, "namespace")
        for name in (PASSAGES, MEMORIES):
            tables._make_searchable(name, dim)
        return tables

    @classmethod
    def open(cls, url: str, settings: Settings, refresh: float | None = None) -> Tables:
        """Tables that were made by `create`; `refresh`: seconds until other processes' writes are looked for again.

        Raises `NoGeneration` if there are none, `StoreError` if an older version made them and columns are missing.
        """
        tables = cls(url, settings, refresh)
        check_columns(tables._table(MEMORIES).schema.names, url)
        return tables

    @property
    def dim(self) -> int:
        """Numbers of one vector."""
        return int(self._read(MEMORIES, lambda table: table.schema.field("vector").type.list_size))

    # Writing

    def upsert(self, rows: pa.Table, table: str = MEMORIES) -> None:
        """Merge rows of a table's schema in: a memory replaces one of its id whose `seq` is lower, a passage any.

        A vector that is null, empty or NaN (the mark of a text that can't be embedded) is stored as none: the row is
        found by full text only. Raises `StoreError` on rows that no fold may make: without id or namespace, or with
        a vector of another length, of infinite or of zero length.
        """
        made = stored(rows, table, self.dim).select(self._read(table, lambda handle: handle.schema.names))
        where = "source.seq > target.seq" if table == MEMORIES else None
        for start in range(0, made.num_rows, _MERGE_ROWS):
            self._write(table, partial(_merge, key="key", rows=made.slice(start, _MERGE_ROWS), where=where))

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
            if self._read(name, lambda table: table.count_rows(condition)):
                self._write(name, lambda table: table.delete(condition))

    def _place(self, key: str) -> int:
        condition = fold_row(key)
        rows = self._read(FOLDS, lambda table: table.search().where(condition).select(["seq"]).to_arrow())
        return max(rows.column("seq").to_pylist(), default=0)

    def _set_place(self, key: str, seq: int) -> None:
        import pyarrow as pa

        row = pa.table({"namespace": [key], "seq": [seq]}, schema=self._read(FOLDS, lambda table: table.schema))
        self._write(FOLDS, partial(_merge, key="namespace", rows=row, where="source.seq > target.seq"))

    def ensure_passages(self) -> None:
        """Make the table of passages, which stores of older versions lack."""
        if PASSAGES not in self._names():
            self._make_searchable(PASSAGES, self.dim)

    def has_passages(self) -> bool:
        """Whether there is a table of passages."""
        return PASSAGES in self._handles or PASSAGES in self._names()

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

    def scan(self, filter: Filter, columns: Sequence[str] | None = None, table: str = MEMORIES) -> pa.Table:
        """Every row that passes a filter, in no order. With no `columns`, all of the table's schema."""
        names = list(columns or arrow_schema(table).names)
        condition = self._condition(filter, table)
        found = self._read(table, lambda handle: handle.search().where(condition).select(names).to_arrow())
        return conform(found, table).select(names)

    def counts(self, namespace: str) -> dict[tuple[str, str], int]:
        """Memories of a namespace by kind and state."""
        rows = self.scan(Filter((namespace,), states=None), ["kind", "state"])
        grouped = rows.group_by(["kind", "state"]).aggregate([([], "count_all")])
        return {(row["kind"], row["state"]): row["count_all"] for row in grouped.to_pylist()}

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
        import numpy as np

        if limit < 1 or not np.isfinite(vector).all():
            return []
        condition = self._condition(filter, table)
        names = list(dict.fromkeys(["id", *columns]))

        def search(handle: Any) -> pa.Table:
            query = handle.search(vector, vector_column_name="vector", query_type="vector")
            query = query.distance_type("cosine").where(condition).select([*names, "_distance"]).limit(limit)
            if _has_vector_index(handle):
                # The fewer rows pass a filter, the more of the index's partitions hold none of the nearest.
                matching = handle.count_rows(condition)
                probes = round(_PROBES * math.sqrt(handle.count_rows() / max(matching, 1)))
                scan = exact or matching <= EXACT_MATCHES
                query = query.bypass_vector_index() if scan else query.nprobes(probes).refine_factor(2)
            return query.to_arrow()

        found = self._read(table, search)
        return _candidates(found, 1 - found.column("_distance").to_numpy())

    def text_leg(
        self, query: str, filter: Filter, limit: int, columns: Sequence[str] = (), table: str = MEMORIES
    ) -> list[Candidate]:
        """The memories, or passages, that share words with a query, best first, scored by BM25.

        The query is words, never an expression: quotes, hyphens and "OR" are what they are.
        """
        text = query_words(query)
        if limit < 1 or not text.strip():
            return []
        from lancedb.query import MatchQuery

        match = MatchQuery(text, "words")  # type: ignore[call-arg]  # its defaults are hidden from mypy
        condition = self._condition(filter, table)
        names = list(dict.fromkeys(["id", *columns]))

        def search(handle: Any) -> pa.Table:
            query = handle.search(match, query_type="fts").where(condition)
            return query.select([*names, "_score"]).limit(limit).to_arrow()

        found = self._read(table, search)
        return _candidates(found, found.column("_score").to_numpy())

    def _condition(self, filter: Filter, table: str) -> str:
        if table not in self._has_names:
            self._has_names[table] = self._read(table, lambda handle: "names" in handle.schema.names)
        return predicate(filter, self._has_names[table])

    # Indexes

    def index(self) -> None:
        """Make missing indexes, and let all catch up with the rows; doing it twice changes nothing.

        Rows that no index has yet are found all the same, by scanning them.
        """
        for name in (MEMORIES, PASSAGES):
            if name == MEMORIES or self.has_passages():
                self._index(name)
        # Every fold leaves a version of this one, and no index falls behind that would have it cleaned up.
        if len(self._table(FOLDS).list_versions()) > _VERSIONS:
            self._write(FOLDS, lambda table: table.optimize(cleanup_older_than=_GRACE))

    def _index(self, name: str) -> None:
        from lancedb.index import Bitmap, BTree, IvfSq, LabelList

        table = self._table(name)
        rows = table.count_rows()
        wanted: dict[str, Any] = {"words": _full_text()}
        if rows > SCAN_ROWS:
            wanted |= {column: BTree() for column in _TREES}
            wanted |= {column: Bitmap() for column in _BITMAPS}
            wanted |= {column: LabelList() for column in _LABELS if column in table.schema.names}
        if rows > EXACT_ROWS:
            wanted["vector"] = IvfSq(distance_type="cosine")
        self._make_indexes(name, wanted)
        behind = max(
            (stats.num_unindexed_rows for index in table.list_indices() if (stats := table.index_stats(index.name))),
            default=0,
        )
        if behind > min(max(rows * _UNINDEXED_SHARE, _UNINDEXED_ROWS), EXACT_ROWS):
            self._write(name, lambda table: table.optimize())

    def _make_indexes(self, name: str, wanted: Mapping[str, Any]) -> None:
        present = {column for index in self._table(name).list_indices() for column in index.columns}
        for column, config in wanted.items():
            if column not in present:
                self._write(name, methodcaller("create_index", column, config=config, replace=True))

    def _make_table(self, name: str, schema: pa.Schema, key: str) -> None:
        table: Any = self._db.create_table(name, schema=schema, exist_ok=True)
        # Without a primary key, two processes that merge the same new id store it twice, silently.
        table.set_unenforced_primary_key(key)

    def _make_searchable(self, name: str, dim: int) -> None:
        self._make_table(name, stored_schema(name, dim), "key")
        self._make_indexes(name, {"words": _full_text()})

    # The door to LanceDB

    def _names(self) -> list[str]:
        return list(self._db.list_tables().tables)

    def _table(self, name: str) -> Any:
        if name not in self._handles:
            try:
                self._handles[name] = self._db.open_table(name)
            except (ValueError, RuntimeError) as error:
                if "not found" not in str(error).lower():
                    raise StoreError(f"{self.url} can't be opened: {error}") from error
                raise NoGeneration(f"{self.url} holds no store: run `hindlake rebuild`") from error
        return self._handles[name]

    def _read(self, name: str, act: Callable[[Any], _T]) -> _T:
        """Run a query; where a clean-up removed the version that the handle knows, open the table anew, once."""
        try:
            return act(self._table(name))
        except RuntimeError as error:
            if "not found" not in str(error).lower():
                raise StoreError(f"{self.url} can't be read: {error}") from error
        self._db = self._connect()
        self._handles.pop(name, None)
        try:
            return act(self._table(name))
        except RuntimeError as error:
            raise StoreError(f"{self.url} can't be read ({error}): run `hindlake rebuild`") from error

    def _write(self, name: str, act: Callable[[Any], object]) -> None:
        """Run a write; another writer's commit in between is a reason to try again, waiting longer each time."""
        for attempt in range(_TRIES):
            try:
                act(self._table(name))
                return
            except RuntimeError as error:
                if "conflict" not in str(error).lower() or attempt == _TRIES - 1:
                    raise StoreError(f"{self.url} can't be written, tried {attempt + 1} times: {error}") from error
            time.sleep(random.uniform(0.5, 1) * 0.1 * 2**attempt)


def _candidates(found: pa.Table, scores: npt.NDArray[Any]) -> list[Candidate]:
    vectors: list[npt.NDArray[np.float32] | None] = [None] * found.num_rows
    if "vector" in found.column_names:
        lists = found.column("vector").combine_chunks()
        matrix = lists.flatten().to_numpy().reshape(-1, lists.type.list_size)
        rows = iter(matrix)  # flatten leaves out the rows that are null
        vectors = [next(rows) if valid else None for valid in lists.is_valid().to_pylist()]
    plain = found.drop_columns([name for name in ("vector", "_distance", "_score") if name in found.column_names])
    return [
        Candidate(row["id"], float(score), row, vector)
        for row, score, vector in zip(plain.to_pylist(), scores, vectors, strict=True)
    ]


def _full_text() -> Any:
    from lancedb.index import FTS

    return FTS(base_tokenizer="icu/split", with_position=True)


def _merge(table: Any, key: str, rows: pa.Table, where: str | None) -> object:
    # Rows without a vector are meant; LanceDB takes them for bad ones otherwise.
    merge = table.merge_insert(key).when_matched_update_all(where=where)
    return merge.when_not_matched_insert_all().execute(rows, on_bad_vectors="null")


def _has_vector_index(table: Any) -> bool:
    return any(index.columns == ["vector"] for index in table.list_indices())
