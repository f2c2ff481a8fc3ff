"""Speed of a filtered search through `Memory.search`, and what it finds of what an exact search finds.

    python bench/recall.py --rows 100000 --dim 384 [--json]
    python bench/recall.py --rows 100000 --dim 1536 --peers lancedb,pgvector
    python bench/recall.py --rows 100000 --readers 8
    python bench/recall.py --rows 10000 --s3
    python bench/recall.py --rows 1000000 --dim 384 --keep DIR --cold

The store is made of seeded synthetic memories (`recall_store`); each query asks about one of them. Filters let 100 %,
10 %, 1 % and 0.1 % of the rows through. `p50_ms` and `p99_ms` are of whole searches without embedding the query,
`cpu_ms` is the processor's part, `first_ms` the first search of a process, `beginning` its next ones, for what else the
store has queries, filter 100 %; `embedded_*` is with the embedder of this machine. `recall10`: share of the exact ten
nearest that the vector leg finds; `same10`: share of the hits that the same search gives without vector index and copy.
All of it is measured with the store's files in the cache of the system, into which they are read first, in `warm_s`;
`--cold` has the system forget them before, and `cold` are the first searches of a process that reads them from the
disk, filter 100 %.
`--readers` searches from several processes while another remembers, settles, folds and lets the indexes catch up.
`--keep` builds the store in a folder of yours, or uses the one that is there.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import recall_store as store
from recall_peers import PEERS
from recall_readers import read_beside_a_writer

from hindlake.memory_store.embedders import embedder_of
from hindlake.memory_store.errors import EmbedderError
from hindlake.memory_store.recall.predicates import Filter
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.store.generations import store_url
from hindlake.memory_store.store.tables import Tables

LIMIT = 10


def timed(act: Callable[[int], object], count: int) -> dict[str, float]:
    """Milliseconds of some calls: the first one, which warms up, left out."""
    act(0)
    times, processor = [], time.process_time()
    for number in range(count):
        start = time.perf_counter()
        act(number)
        times.append((time.perf_counter() - start) * 1e3)
    processor = (time.process_time() - processor) / count * 1e3
    p50, p99 = np.percentile(times, [50, 99])
    return {"p50_ms": round(float(p50), 1), "p99_ms": round(float(p99), 1), "cpu_ms": round(processor, 1)}


def made(settings: Settings, rows: int, dim: int, queries: int) -> tuple[store.Built, dict[str, float]]:
    """The store of a home, built unless it is there, and what building it took."""
    if store.is_built(settings):
        return store.opened(settings, rows, dim), {}
    start = time.perf_counter()
    for done in store.build(settings, rows, dim, queries):
        print(f"\rwritten {done} of {rows}", end="", file=sys.stderr, flush=True)
    written, start = time.perf_counter() - start, time.perf_counter()
    Tables.open(store_url(settings, store.GENERATION), without_copy(settings)).index()
    indexed, start = time.perf_counter() - start, time.perf_counter()
    Tables.open(store_url(settings, store.GENERATION), settings).index()
    copied = time.perf_counter() - start
    store.exact(settings, rows)
    took = {"write_s": round(written, 1), "index_s": round(indexed, 1), "copy_s": round(copied, 1)}
    print(f"\n{took}", file=sys.stderr)
    return store.opened(settings, rows, dim), took


def store_files(settings: Settings) -> list[Path]:
    """All files of a store that lies on this disk."""
    return [path for path in Path(settings.home, "store").rglob("*") if path.is_file()]


def forget(settings: Settings) -> None:
    """Have the system drop the files of a store from its cache, as after a restart of the machine."""
    for path in store_files(settings):
        with open(path, "rb") as file:
            os.fsync(file.fileno())  # what is not written yet is not dropped
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def warm(settings: Settings) -> float:
    """Read the files of a store into the cache of the system; seconds."""
    start = time.perf_counter()
    for path in store_files(settings):
        with open(path, "rb") as file:
            while file.read(1 << 22):
                pass
    return round(time.perf_counter() - start, 1)


def searched_cold(built: store.Built, queries: int) -> dict[str, float]:
    """The first searches of a process, over files that have to be read from the disk."""
    forget(built.settings)
    memory = built.memory()
    found = timed(lambda number: memory.search(built.queries[number], limit=LIMIT), queries)
    memory.close()
    return found


def without_copy(settings: Settings, **index: int) -> Settings:
    """The same settings, but that a search asks the table for everything."""
    return settings.model_copy(update={"index": settings.index.model_copy(update={"resident_mb": 0, **index})})


def measure(built: store.Built, queries: int, peers: list[str]) -> dict[str, Any]:
    """Searches of one process, by the share of rows that a filter lets through, and of peers over the same."""
    count = min(queries, len(built.queries))
    memory, plain = built.memory(), exactly(built).memory()
    tables = Tables.open(store_url(built.settings, store.GENERATION), built.settings)
    start = time.perf_counter()
    memory.search(built.queries[-1], limit=LIMIT)
    results: dict[str, Any] = {"first_ms": round((time.perf_counter() - start) * 1e3, 1)}
    if unasked := built.queries[count:]:
        results["beginning"] = timed(lambda n: memory.search(unasked[-1 - n], limit=LIMIT), len(unasked))
    results["filters"] = {}
    with opened_peers(peers, built) as others:
        for share, tool in store.SHARES.items():
            where = Filter((store.NAMESPACE,), tools=None if tool is None else (tool,))

            def search(number: int, tool: str | None = tool) -> object:
                return memory.search(built.queries[number], tool=tool, limit=LIMIT)

            def near(number: int, where: Filter = where) -> set[str]:
                return {one.id for one in tables.vector_leg(built.vectors[number], where, LIMIT)}

            found = timed(search, count)
            found["recall10"] = recall(built, share, near, min(count, 50))
            results["filters"][share] = {"hindlake": found}
            for name, peer in others.items():
                asked = timed(lambda number, peer=peer, tool=tool: peer.search(number, tool), min(count, 50))
                asked["recall10"] = recall(built, share, lambda n, p=peer, t=tool: p.near(n, t), min(count, 50))
                results["filters"][share][name] = asked
            print(share, results["filters"][share], file=sys.stderr)
    results["rss_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)
    for share, tool in store.SHARES.items():  # afterwards: what it reads is not the memory of a search
        found = results["filters"][share]["hindlake"]
        found["same10"] = same(memory, plain, built.queries[: min(count, 20)], tool)
    memory.close()
    plain.close()
    return results


def exactly(built: store.Built) -> store.Built:
    """The same store, asked without its vector index, and without its copy in memory."""
    settings = without_copy(built.settings, exact_matches=100_000_000)
    return store.Built(settings, built.rows, built.dim, built.queries, built.vectors)


def recall(built: store.Built, share: str, near: Callable[[int], set[str]], count: int) -> float:
    """Share of the exact nearest that are found, over some queries."""
    shares = []
    for number in range(count):
        best = built.best(share, number, LIMIT)
        shares.append(len(near(number) & best) / len(best))
    return round(float(np.mean(shares)), 3)


def same(one: Any, other: Any, queries: list[str], tool: str | None) -> float:
    """Share of the hits of one memory that another one has too."""
    shares = []
    for query in queries:
        first, second = ({hit.id for hit in m.search(query, tool=tool, limit=LIMIT)} for m in (one, other))
        shares.append(len(first & second) / len(second) if second else float(not first))
    return round(float(np.mean(shares)), 3)


def embedded(built: store.Built, queries: int) -> dict[str, float]:
    """Whole searches with what embedding the query takes on this machine; nothing without an embedder."""
    try:
        embedder = embedder_of(built.settings)
    except EmbedderError as error:
        print(f"not measured with embedding: {error}", file=sys.stderr)
        return {}
    memory = built.memory()

    def search(number: int) -> object:
        embedder.queries([built.queries[number]])
        return memory.search(built.queries[number], limit=LIMIT)

    found = timed(search, min(queries, len(built.queries)))
    memory.close()
    return {f"embedded_{name}": value for name, value in found.items()}


@contextmanager
def opened_peers(names: list[str], built: store.Built) -> Iterator[dict[str, Any]]:
    """The peers that are here; what is not, is said."""
    opened: dict[str, Any] = {}
    try:
        for name in names:
            if reason := PEERS[name].why_not():
                print(f"{name} is not measured: {reason}", file=sys.stderr)
            else:
                opened[name] = PEERS[name](built)
        yield opened
    finally:
        for peer in opened.values():
            peer.close()


@contextmanager
def home(arguments: argparse.Namespace) -> Iterator[Settings]:
    """Settings of the home that is measured: a folder that goes away, one that stays, or a bucket."""
    with tempfile.TemporaryDirectory() as folder:
        if not arguments.s3:
            yield Settings.load(home=arguments.keep or folder, namespace=store.NAMESPACE)
            return
        sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
        from servers.s3 import s3_home, s3_server

        with s3_server() as server:
            own = {"spool": f"{folder}/spool", "namespace": store.NAMESPACE}
            yield s3_home(server.endpoint).model_copy(update=own)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Build a store, or take one, and measure it."""
    peers = [name for name in arguments.peers.split(",") if name]
    if unknown := set(peers) - PEERS.keys():
        raise SystemExit(f"no peer {', '.join(sorted(unknown))}: there are {', '.join(PEERS)}")
    with home(arguments) as settings:
        built, took = made(settings, arguments.rows, arguments.dim, arguments.queries)
        result: dict[str, Any] = {"rows": arguments.rows, "dim": arguments.dim, **took}
        if not settings.is_remote:
            if arguments.cold:
                result["cold"] = searched_cold(built, min(arguments.queries, len(built.queries)))
            result["warm_s"] = warm(settings)
        result |= measure(built, arguments.queries, peers)
        if arguments.embed:
            result |= embedded(built, min(arguments.queries, 50))
        if arguments.readers:
            result["beside_a_writer"] = read_beside_a_writer(built, arguments.readers, arguments.seconds)
        if not settings.is_remote:
            files = store_files(settings)
            result["store_mb"] = round(sum(path.stat().st_size for path in files) / 1e6)
            result["index_mb"] = round(sum(path.stat().st_size for path in files if "_indices" in path.parts) / 1e6)
            copied = [path for path in files if any(part.endswith(".resident") for part in path.parts)]
            result["copy_mb"] = round(sum(path.stat().st_size for path in copied) / 1e6)
        result["peak_rss_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)
        result |= {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1), "machine": platform.machine()}
        return result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--peers", default="", help="of lancedb,pgvector")
    parser.add_argument("--readers", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--embed", action="store_true")
    parser.add_argument("--s3", action="store_true")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--keep", default="")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    os.environ.setdefault("LANCEDB_LOG", "error")
    result = run(arguments)
    if arguments.json:
        print(json.dumps(result))
        return
    filters = result.pop("filters")
    print(" ".join(f"{key} {value}" for key, value in result.items()))
    for share, systems in filters.items():
        for system, figures in systems.items():
            print(f"{share:>5} {system:10}", " ".join(f"{key} {value}" for key, value in figures.items()))


if __name__ == "__main__":
    main()
