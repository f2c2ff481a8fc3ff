"""Several processes that search while another writes: how long they take, and whether any fails."""

from __future__ import annotations

import multiprocessing
import time
from typing import Any

import numpy as np
import recall_store as store

from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.log import settle
from hindlake.memory_store.store.generations import current, fold_to_head, open_tables


def read_beside_a_writer(built: store.Built, readers: int, seconds: float) -> dict[str, Any]:
    """Start a writer and some readers, and sum up what the readers saw."""
    spawn = multiprocessing.get_context("spawn")
    answers: Any = spawn.Queue()
    until = spawn.Value("d", float("inf"))
    ready = spawn.Barrier(readers + 2)
    writer = spawn.Process(target=_write, args=(built, until, ready, answers))
    others = [spawn.Process(target=_read, args=(built, place, until, ready, answers)) for place in range(readers)]
    for process in (writer, *others):
        process.start()
    ready.wait(600)
    until.value = time.time() + seconds
    got = [answers.get() for _ in range(readers + 1)]
    for process in (writer, *others):
        process.join()
    times = [one for answer in got for one in answer.get("times", ())]
    p50, p99 = np.percentile(times, [50, 99])
    return {
        "readers": readers, "searches": len(times), "p50_ms": round(float(p50), 1), "p99_ms": round(float(p99), 1),
        "errors": sum(answer["errors"] for answer in got), "missed": sum(answer.get("missed", 0) for answer in got),
        "written": sum(answer.get("written", 0) for answer in got),
        "rounds": sum(answer.get("rounds", 0) for answer in got),
    }  # fmt: skip


def _read(built: store.Built, place: int, until: Any, ready: Any, answers: Any) -> None:
    """Search in turn with and without a filter."""
    memory = built.memory()
    tools = list(store.SHARES.values())
    memory.search(built.queries[place])
    ready.wait(600)
    times, errors, number = [], 0, place
    while time.time() < until.value:
        number += 1
        start = time.perf_counter()
        try:
            memory.search(built.queries[number % len(built.queries)], tool=tools[number % len(tools)], limit=10)
        except Exception:  # whatever it is, it is counted
            errors += 1
        times.append((time.perf_counter() - start) * 1e3)
    memory.close()
    answers.put({"times": times, "errors": errors})


def _write(built: store.Built, until: Any, ready: Any, answers: Any) -> None:
    """Remember, look whether it is found at once, settle, fold, and let the indexes catch up, over and over."""
    memory, lake = built.memory(), Lake.open(built.settings)
    tables = open_tables(built.settings, current(lake))
    embedder: Any = built.embedder
    ready.wait(600)
    written = rounds = missed = 0
    while time.time() < until.value:
        ids = [memory.remember(f"note {written + place} of the writer") for place in range(20)]
        written += len(ids)
        missed += not set(ids) & {hit.id for hit in memory.search("", limit=20)}
        settle(lake, store.NAMESPACE)
        fold_to_head(lake, tables, store.NAMESPACE, embedder)
        tables.index()
        rounds += 1
    memory.close()
    answers.put({"errors": 0, "written": written, "rounds": rounds, "missed": missed})
