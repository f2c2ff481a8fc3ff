"""Speed of a filtered hybrid query, and what it finds of what an exact search finds.

    python bench/recall.py --rows 100000 --dim 384 [--queries 100] [--json]

The store's own search (both legs, one ranking, the rows of the top 10) and LanceDB's own hybrid query run over the
same table, queries and filters. Vectors are synthetic clusters, words follow Zipf's law; embedding a query is not in
the times. `recall10`: share of the exact ten nearest that the vector leg returns.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hindlake.memory_store.embedders import Curve
from hindlake.memory_store.predicates import Filter, predicate
from hindlake.memory_store.schema import arrow_schema
from hindlake.memory_store.search import find
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.tables import Tables

#: Filter by tool: the share of rows that pass, by name.
SHARES = {"100%": 1.0, "10%": 0.1, "1%": 0.01, "0.1%": 0.001}
BATCH = 20_000


class Synthetic:
    """Stands where an embedder would; the queries' vectors are given."""

    name = "synthetic"

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def curve(self, query: str) -> Curve:
        """Any cosine counts."""
        return Curve(0.0, 1.0)


def _vectors(rng: np.random.Generator, centres: Any, count: int) -> Any:
    vectors = centres[rng.integers(len(centres), size=count)] + rng.normal(size=(count, centres.shape[1])) * 0.6
    vectors = vectors.astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _words(rng: np.random.Generator, count: int) -> list[str]:
    return [" ".join(f"w{min(int(n), 50_000)}" for n in rng.zipf(1.3, size=rng.integers(8, 40))) for _ in range(count)]


def _rows(start: int, vectors: Any, texts: list[str]) -> pa.Table:
    schema = arrow_schema("memories")
    count, ids = len(texts), range(start, start + len(texts))
    tools = ["t0.1%" if n % 1000 == 0 else "t1%" if n % 100 == 1 else "t10%" if n % 10 == 2 else "other" for n in ids]
    columns = {
        "namespace": ["bench"] * count, "id": [f"m{n}" for n in ids], "seq": list(ids), "kind": ["fact"] * count,
        "state": ["active"] * count, "text": texts, "tool": tools, "vector": list(vectors),
        "valid_from": [datetime(2026, 1, 1, tzinfo=UTC)] * count,
    }  # fmt: skip
    return pa.table({name: pa.array(values, schema.field(name).type) for name, values in columns.items()})


def _timed(act: Callable[[int], object], count: int) -> dict[str, float]:
    act(0)
    times = []
    for number in range(count):
        start = time.perf_counter()
        act(number)
        times.append((time.perf_counter() - start) * 1e3)
    return {"p50_ms": round(float(np.percentile(times, 50)), 1), "p99_ms": round(float(np.percentile(times, 99)), 1)}


def run(rows: int, dim: int, queries: int, folder: str) -> dict[str, Any]:
    """Build a store and measure it."""
    from lancedb.rerankers import RRFReranker

    rng = np.random.default_rng(7)
    centres = rng.normal(size=(max(rows // 500, 10), dim))
    settings = Settings.load(home=folder)
    tables = Tables.create(f"{folder}/store", dim, settings)
    kept, start = [], time.perf_counter()
    for first in range(0, rows, BATCH):
        count = min(BATCH, rows - first)
        vectors = _vectors(rng, centres, count)
        tables.upsert(_rows(first, vectors, _words(rng, count)))
        kept.append(vectors)
        print(f"\rwritten {first + count} of {rows}", end="", file=sys.stderr, flush=True)
    written, start = time.perf_counter() - start, time.perf_counter()
    tables.index()
    indexed = time.perf_counter() - start
    print(f"\nwritten in {written:.0f} s, indexed in {indexed:.0f} s", file=sys.stderr)
    matrix = np.concatenate(kept)
    asked = _vectors(rng, centres, queries)
    texts = [" ".join(text.split()[:6]) for text in _words(rng, queries)]
    raw = tables._door.table("memories")
    embedder: Any = Synthetic(dim)
    results: dict[str, Any] = {}
    for share in SHARES:
        filter = Filter(("bench",), tools=None if share == "100%" else (f"t{share}",))
        passing = np.arange(rows) if share == "100%" else _passing(rows, share)
        condition = predicate(filter)

        def ours(number: int, filter: Filter = filter) -> object:
            return find(tables, embedder, texts[number], filter, settings.search, datetime.now(UTC), 10,
                        vector=asked[number])  # fmt: skip

        def lances(number: int, condition: str = condition) -> object:
            query = raw.search(query_type="hybrid", vector_column_name="vector", fts_columns="words")
            query = query.vector(asked[number]).text(texts[number]).distance_type("cosine").where(condition)
            return query.select(["id", "text"]).limit(10).rerank(RRFReranker()).to_list()

        hits = []
        for number in range(min(queries, 50)):
            best = passing[np.argsort(-(matrix[passing] @ asked[number]))[:10]]
            got = {candidate.id for candidate in tables.vector_leg(asked[number], filter, 10)}
            hits.append(len(got & {f"m{n}" for n in best}) / min(10, len(passing)))
        results[share] = {
            "hindlake": _timed(ours, queries) | {"recall10": round(float(np.mean(hits)), 3)},
            "lancedb_hybrid": _timed(lances, queries),
        }
        print(share, results[share], file=sys.stderr)
    size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"rows": rows, "dim": dim, "write_s": round(written, 1), "index_s": round(indexed, 1),
            "size_mb": round(size / 1e6), "peak_rss_mb": round(peak / 1e3), "filters": results}  # fmt: skip


def _passing(rows: int, share: str) -> Any:
    numbers = np.arange(rows)
    if share == "0.1%":
        return numbers[numbers % 1000 == 0]
    if share == "1%":
        return numbers[numbers % 100 == 1]
    return numbers[(numbers % 10 == 2)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = run(arguments.rows, arguments.dim, arguments.queries, folder)
    if arguments.json:
        print(json.dumps(result))
        return
    filters = result.pop("filters")
    print(" ".join(f"{key} {value}" for key, value in result.items()))
    for share, systems in filters.items():
        for system, figures in systems.items():
            print(f"{share:>5} {system:15}", " ".join(f"{key} {value}" for key, value in figures.items()))


if __name__ == "__main__":
    main()
