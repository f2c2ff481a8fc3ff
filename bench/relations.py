"""How long it takes to find what is one step or two from a name, in a store of many memories.

    python bench/relations.py --rows 100000

Memories mention one to four of `--names` things, a few of them all the time (Zipf); a tenth belong to each subject.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

import numpy as np

from hindlake.memory_store.recall.predicates import Filter
from hindlake.memory_store.recall.relations import mentions_in, neighbours
from hindlake.memory_store.schema import table_of
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.store.tables import Tables

START = datetime(2026, 1, 1, tzinfo=UTC)


def rows(count: int, names: int, chance: random.Random) -> list[dict[str, object]]:
    """Memories as a fold gives them."""
    weights = [1 / (place + 1) for place in range(names)]
    drawn = chance.choices(range(names), weights, k=4 * count)
    made: list[dict[str, object]] = []
    for place in range(count):
        some = dict.fromkeys(f"Thing {number:05d}" for number in drawn[4 * place : 4 * place + chance.randint(1, 4)])
        made.append(
            {
                "namespace": "bench", "id": f"m{place:08d}", "seq": place + 1, "kind": "fact", "state": "active",
                "text": " ".join(some), "entities": list(some), "subject": f"user:{place % 10}" if place % 2 else "",
                "valid_from": START + timedelta(minutes=place), "vector": _unit(chance),
            }
        )  # fmt: skip
    return made


def _unit(chance: random.Random) -> list[float]:
    vector = np.array([chance.gauss(0, 1) for _ in range(8)])
    return [float(number) for number in vector / np.linalg.norm(vector)]


def timed(act: Callable[[], object], times: int) -> dict[str, float]:
    """Milliseconds."""
    took = []
    for _ in range(times):
        begin = time.perf_counter()
        act()
        took.append((time.perf_counter() - begin) * 1000)
    return {"p50": round(float(np.percentile(took, 50)), 1), "p99": round(float(np.percentile(took, 99)), 1)}


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--names", type=int, default=20_000)
    parser.add_argument("--times", type=int, default=50)
    asked = parser.parse_args()
    chance = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        tables = Tables.create(folder, 8, Settings.load(home=folder), refresh=5)
        made = rows(asked.rows, asked.names, chance)
        for start in range(0, len(made), 20_000):
            tables.upsert(table_of(made[start : start + 20_000], "memories"))
        tables.index()
        found: dict[str, object] = {"rows": asked.rows, "names": asked.names}
        bound = Filter(("bench",), subjects=("user:3",))
        for what, where in (("any subject", Filter(("bench",))), ("one subject", bound)):
            for who, number in (("hot", 0), ("usual", 100), ("rare", 10_000)):
                name = f"Thing {number:05d}"
                for steps in (1, 2):
                    look = mentions_in(tables, where)
                    key = f"{what}, {who}, {steps} step{'s' if steps > 1 else ''}"
                    found[key] = timed(partial(neighbours, look, [name], steps=steps), asked.times)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
