"""Recall on labelled sets, through the store's own tables, legs and ranking.

    python bench/evals.py --data ../shared/data --cache ~/.cache/hindlake-bench [--sets locomo,memdaily] [--json]

Each history is a namespace of one store; its documents are its memories. Vectors are kept under --cache, so only the
first run embeds. `--set search.vector_weight=0.4` and the like try other settings than the shipped ones.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import labelled
import numpy as np
from labelled import Case
from vector_cache import CachedEmbedder

from hindlake.memory_store.embedders import embedder_of
from hindlake.memory_store.predicates import Filter
from hindlake.memory_store.schema import table_of
from hindlake.memory_store.search import find
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.tables import Tables

SETS: dict[str, Callable[[Path], Iterator[Case]]] = {
    "locomo": labelled.locomo,
    "locomo_session": lambda data: labelled.locomo(data, "session"),
    "memdaily": labelled.memdaily,
    "longmemeval": labelled.longmemeval,
}
TOP = 10


def measure(name: str, data: Path, cache: Path, settings: Settings, every: int) -> dict[str, Any]:
    """Recall of one set."""
    cases = list(SETS[name](data))[::every]
    embedder = CachedEmbedder(embedder_of(settings), cache)
    with tempfile.TemporaryDirectory() as folder:
        tables = Tables.create(f"{folder}/store", embedder.dim, settings)
        started = time.perf_counter()
        rows: list[dict[str, Any]] = []
        for number, case in enumerate(cases):
            vectors = embedder.passages([document.text for document in case.documents])
            for document, vector in zip(case.documents, vectors, strict=True):
                speaker = [document.speaker] if document.speaker else []
                rows.append({"namespace": f"case{number}", "id": document.id, "seq": 1, "kind": "fact",
                             "state": "active",
                             "text": document.text, "entities": speaker, "vector": vector})  # fmt: skip
        tables.upsert(table_of(rows, "memories"))
        tables.index()
        built = time.perf_counter() - started
        scores, times, empty = [], [], 0
        total = sum(len(case.questions) for case in cases)
        for number, case in enumerate(cases):
            filter = Filter((f"case{number}",))
            asked = embedder.queries([question.text for question in case.questions])
            for question, vector in zip(case.questions, asked, strict=True):
                start, now = time.perf_counter(), datetime.now(UTC)
                hits = find(tables, embedder, question.text, filter, settings.search, now, TOP, vector=vector)
                times.append(time.perf_counter() - start)
                found = [hit.row["id"] for hit in hits]
                empty += not found
                scores.append(_scores(found, set(question.gold)))
            print(f"\r{name}: {len(scores)} of {total}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
    mean = {key: round(float(np.mean([score[key] for score in scores])), 4) for key in scores[0]}
    milliseconds = [round(float(value) * 1e3, 1) for value in np.percentile(times, [50, 99])]
    return mean | {"n": len(scores), "empty": empty, "rows": len(rows), "built_s": round(built, 1),
                   "p50_ms": milliseconds[0], "p99_ms": milliseconds[1]}  # fmt: skip


def _scores(found: list[str], gold: set[str]) -> dict[str, float]:
    result = {f"r{k}": len(gold & set(found[:k])) / len(gold) for k in (1, 3, 5, 10)}
    result["hit1"] = float(found[:1] != [] and found[0] in gold)
    result["all5"] = float(gold <= set(found[:5]))
    gained = sum(1 / math.log2(rank + 1) for rank, id in enumerate(found[:10], 1) if id in gold)
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(len(gold), 10) + 1))
    return result | {"ndcg10": gained / ideal}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the labelled sets")
    parser.add_argument("--cache", type=Path, required=True, help="folder for vectors")
    parser.add_argument("--sets", default=",".join(SETS), help="which sets, with commas")
    parser.add_argument("--every", type=int, default=1, help="only each n-th history")
    parser.add_argument("--embedder", default="auto")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.NAME=VALUE", help="another setting")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    sections: dict[str, Any] = {}
    for item in arguments.set:
        path, value = item.split("=", 1)
        section, key = path.split(".")
        sections.setdefault(section, {})[key] = value
    settings = Settings.load(home=tempfile.gettempdir(), embedder=arguments.embedder, **sections)
    results = {
        name: measure(name, arguments.data, arguments.cache, settings, arguments.every)
        for name in arguments.sets.split(",")
    }
    if arguments.json:
        print(json.dumps(results))
        return
    for name, result in results.items():
        print(name, " ".join(f"{key} {value}" for key, value in result.items()))


if __name__ == "__main__":
    main()
