"""Is a generation as good as the one in use? Rows, vectors, recall of its index, and what real queries find in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from ..capture.reads import read_days, scan_reads
from ..clock import Clock
from ..embedders import Embedder, embedder_named
from ..files.lake import Lake
from ..recall.predicates import READABLE, Filter
from ..recall.reader import Reader
from ..settings import Settings
from ..text.calibration import Calibration
from .generations import catch_up, open_tables
from .registry import Claim, Generation
from .tables import MEMORIES, PASSAGES, Tables

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

#: What recall is measured at.
K = 10
#: Stored vectors of a namespace that its recall is measured with, and namespaces that are looked at.
_SAMPLE, _NAMESPACES = 50, 20
#: Largest share of rows that may have no vector any more.
_LOST_VECTORS = 0.01
#: How often a generation is caught up until it holds the rows of the one in use.
_LOOKS = 3
#: Two scores that differ by less are the same.
_SAME_SCORE = 1e-4


@dataclass(frozen=True)
class Replayed:
    """One real query, asked of two generations."""

    namespace: str
    query: str
    #: Share of the hits that both have
    overlap: float
    #: Best hit of either, by id; empty: nothing was found
    first_before: str
    first_after: str


@dataclass
class Check:
    """What was found, and what speaks against a switch."""

    #: Rows in the old and in the new generation, by table
    rows: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: Share of rows with a vector, of a sample of the same rows
    vectors: dict[str, tuple[float, float]] = field(default_factory=dict)
    #: Memories and passages that only the old generation has, and only the new one
    missing: int = 0
    extra: int = 0
    #: Share of the true nearest that the index finds, by table; the worst namespace counts
    recall: dict[str, float] = field(default_factory=dict)
    #: Whether what it means is known for the model, so that jobs can join by similarity; else, how to find out
    calibration: str = ""
    replayed: list[Replayed] = field(default_factory=list)
    #: Why readers should not be switched
    against: list[str] = field(default_factory=list)

    @property
    def overlap(self) -> float:
        """Mean share of hits that both generations have, over the queries; 1 without any."""
        return sum(one.overlap for one in self.replayed) / len(self.replayed) if self.replayed else 1.0

    @property
    def changed_firsts(self) -> int:
        """Queries whose best hit is another."""
        return sum(one.first_before != one.first_after for one in self.replayed)

    def summary(self) -> dict[str, Any]:
        """The check as plain values: ids and numbers, no text."""
        found = asdict(self)
        found["replayed"] = {
            "queries": len(self.replayed), "overlap": round(self.overlap, 4), "changed_firsts": self.changed_firsts,
        }  # fmt: skip
        return found


def compare_rows(namespaces: Sequence[str], old: Tables, new: Tables, check: Check) -> None:
    """Count what either generation holds of what both have folded."""
    import pyarrow.compute as pc

    for table in (MEMORIES, PASSAGES):
        if table == PASSAGES and not old.has_passages():
            continue
        rows, vectors, sampled = [0, 0], [0, 0], 0
        for namespace in namespaces:
            seq = min(old.folded_to(namespace), new.folded_to(namespace))
            where = Filter((namespace,), states=None)
            found = []
            for side, tables in enumerate((old, new)):
                here = tables.scan(where, ["id", "added_seq" if table == MEMORIES else "seq"], table)
                here = here.filter(pc.less_equal(here.column(1), seq))
                rows[side] += here.num_rows
                found.append(here.column("id").combine_chunks())
            missing = len(found[0]) - pc.sum(pc.is_in(found[0], value_set=found[1])).as_py() if len(found[0]) else 0
            extra = len(found[1]) - pc.sum(pc.is_in(found[1], value_set=found[0])).as_py() if len(found[1]) else 0
            check.missing += missing
            check.extra += extra
            both = found[0].filter(pc.is_in(found[0], value_set=found[1])).to_pylist()
            some = both[:: max(1, len(both) // _SAMPLE)]
            sampled += len(some)
            for side, tables in enumerate((old, new)):
                held = tables.rows(namespace, some, ["vector"], table).column("vector")
                vectors[side] += len(held) - held.null_count
        check.rows[table] = rows[0], rows[1]
        check.vectors[table] = vectors[0] / max(sampled, 1), vectors[1] / max(sampled, 1)


def measure_recall(namespaces: Sequence[str], tables: Tables, queries: dict[str, list[npt.NDArray[np.float32]]]) -> (
    dict[str, float]
):  # fmt: skip
    """Share of the `K` true nearest that a search of vectors finds, by table, in the namespaces that use an index.

    Asked are stored vectors, and those of `queries` by namespace.
    """
    found: dict[str, float] = {}
    for table in (MEMORIES, PASSAGES):
        if table == PASSAGES and not tables.has_passages():
            continue
        shares: list[float] = []
        for namespace in namespaces:
            where = Filter((namespace,), states=READABLE)
            ids = tables.scan(where, ["id"], table).column("id").to_pylist()
            if len(ids) <= tables.exact_matches or len(shares) == _NAMESPACES:
                continue  # so few are scanned one by one, index or not
            some = tables.rows(namespace, ids[:: max(1, len(ids) // _SAMPLE)], ["vector"], table)
            asked = [vector.values.to_numpy() for vector in some.column("vector") if vector.is_valid]
            asked += queries.get(namespace, [])
            shares.append(sum(_recall(tables, vector, where, table) for vector in asked) / max(len(asked), 1))
        found[table] = min(shares, default=1.0)
    return found


def _recall(tables: Tables, vector: npt.NDArray[np.float32], where: Filter, table: str) -> float:
    truth = tables.vector_leg(vector, where, K, table=table, exact=True)
    if not truth:
        return 1.0
    least = truth[-1].score - _SAME_SCORE
    hits = tables.vector_leg(vector, where, K, table=table)
    return min(1.0, sum(hit.score >= least for hit in hits) / len(truth))


def last_queries(lake: Lake, namespace: str, limit: int) -> list[tuple[str, Filter]]:
    """The newest different searches of a namespace that asked something, newest first."""
    found: dict[tuple[str, str], None] = {}
    for paths in reversed(read_days(lake, namespace).values()):
        if len(found) >= limit:
            break
        rows = [row for table in scan_reads(lake, paths, ["at", "query", "filters"]) for row in table.to_pylist()]
        rows.sort(key=lambda row: row["at"], reverse=True)
        found |= dict.fromkeys((row["query"], row["filters"] or "{}") for row in rows if (row["query"] or "").strip())
    return list(_filters(namespace, list(found)[:limit]))


def _filters(namespace: str, asked: Sequence[tuple[str, str]]) -> Iterator[tuple[str, Filter]]:
    for query, said in asked:
        try:
            yield query, msgspec.convert({**msgspec.json.decode(said), "namespaces": (namespace,)}, Filter)
        except (msgspec.DecodeError, msgspec.ValidationError):  # it was purged, or a later version wrote it
            yield query, Filter((namespace,))


def replay(
    settings: Settings,
    clock: Clock,
    old: tuple[Lake, Generation],
    new: tuple[Lake, Generation],
    asked: dict[str, list[tuple[str, Filter]]],
) -> list[Replayed]:
    """Ask two generations, each with the lake that it shows, the same: as an agent would be answered by either."""
    before, after = (Reader(lake, settings, clock, generation) for lake, generation in (old, new))
    found = []
    for namespace, queries in asked.items():
        for query, where in queries:
            one, two = ([hit.row["id"] for hit in reader.search(query, where, K)] for reader in (before, after))
            most = max(len(one), len(two))
            overlap = len(set(one) & set(two)) / most if most else 1.0
            found.append(Replayed(namespace, query, overlap, (one or [""])[0], (two or [""])[0]))
    return found


def query_vectors(
    embedder: Embedder, asked: dict[str, list[tuple[str, Filter]]]
) -> dict[str, list[npt.NDArray[np.float32]]]:
    """The vectors of queries, by namespace."""
    return {
        namespace: list(embedder.queries([query for query, _ in queries]))
        for namespace, queries in asked.items()
        if queries
    }


def check(
    lake: Lake,
    settings: Settings,
    clock: Clock,
    before: Generation,
    claimed: Claim,
    embedder: Embedder,
    queries: int,
    least_recall: float,
) -> Check:
    """Compare a generation that was built, and its embedder, with the one in use.

    `queries`: how many of the last real ones of each namespace are asked of both. `against` says why readers should
    not be switched: rows or vectors are missing, or the index finds less than `least_recall` of the nearest.
    """
    old, new = open_tables(settings, before), open_tables(settings, claimed)
    namespaces = lake.namespaces()
    found = Check()
    for _ in range(_LOOKS):
        found = Check()
        catch_up(lake, old, embedder_named(before.embedder, settings))
        catch_up(lake, new, embedder)
        compare_rows(namespaces, old, new, found)
        if not found.missing and not found.extra:
            break
    asked = {namespace: last_queries(lake, namespace, queries) for namespace in namespaces} if queries else {}
    found.recall = measure_recall(namespaces, new, query_vectors(embedder, asked))
    after = Generation(
        claimed.number, claimed.name, claimed.embedder, claimed.dim, claimed.claimed_at, claimed.reason
    )  # fmt: skip
    found.replayed = replay(settings, clock, (lake, before), (lake, after), asked)
    found.calibration = Calibration.of(embedder.name, "any", lake).missing
    if found.missing or found.extra:
        found.against.append(
            f"{found.missing} rows of the generation in use are missing, and {found.extra} are not in it"
        )
    for table, share in found.recall.items():
        if share < least_recall:
            found.against.append(f"the index of {table} finds {share:.3f} of the nearest, {least_recall} at least")
    for table, (was, now) in found.vectors.items():
        if was - now > _LOST_VECTORS:
            found.against.append(
                f"{was - now:.1%} of the rows of {table} would lose their vector: the model refused them"
            )
    return found
