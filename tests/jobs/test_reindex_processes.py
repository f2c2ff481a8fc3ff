"""Readers in other processes meet no pause, no error, no mixed vectors; a job that is killed is gone on with."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hindlake.jobs.compact import compact
from hindlake.jobs.reindex import reindex
from hindlake.jobs.settle import settle_and_fold
from hindlake.memory_store.clock import SystemClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.recall.predicates import Filter
from hindlake.memory_store.settings import ModelSettings, Settings
from hindlake.memory_store.store.generations import build, current, open_tables
from hindlake.memory_store.store.switching import use
from hindlake.sdk.memory import Memory
from servers.embeddings import Embeddings, asked, said

WORKER = Path(__file__).parent.parent / "processes" / "search_worker.py"
COUNT = 60


@pytest.fixture
def server() -> Iterator[Embeddings]:
    """The endpoint of both models."""
    server = Embeddings(seconds=0.2)
    yield server
    server.close()


@pytest.fixture
def settings(home: Path, server: Embeddings) -> Settings:
    """A home with `COUNT` statements, embedded by the model "a"."""
    model = ModelSettings(base_url=server.url, calls="on")
    settings = Settings.load(home=str(home), embedder="openai:a", model=model)
    with Memory(settings) as memory:
        for place in range(COUNT):
            memory.remember(said(place))
    settle_and_fold(Lake.open(settings), settings, SystemClock())
    return settings


def start(*arguments: tuple[str, ...]) -> list[subprocess.Popen[str]]:
    """Workers; each has said that it is ready."""
    processes = [
        subprocess.Popen([sys.executable, str(WORKER), *some], stdout=subprocess.PIPE, text=True) for some in arguments
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    return processes


def end(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What a worker says at its end."""
    said_all, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    said_last: dict[str, Any] = json.loads(said_all.splitlines()[-1])
    return said_last


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_eight_readers_meet_nothing_while_models_change(settings: Settings, server: Embeddings, tmp_path: Path) -> None:
    acked, stop = tmp_path / "acked", tmp_path / "stop"
    acked.write_text("0")
    shared = (settings.home, server.url, str(acked), str(stop))
    writer, *readers = start(("write", *shared), *[("read", *shared)] * 8)
    lake, clock = Lake.open(settings), SystemClock()
    try:
        time.sleep(3)
        assert reindex(lake, settings, clock, "openai:b", version="test").switched
        time.sleep(2)
        use(lake, settings, clock, 1)
        time.sleep(2)
        compact(lake, settings, clock, version="test")
        tables = open_tables(settings, current(lake))
        for name in ("memories", "folds"):
            tables._door.write(name, lambda table: table.optimize())
        assert reindex(lake, settings, clock, "openai:slow-wide", version="test").switched
        use(lake, settings, clock, 2)
        build(lake, settings, clock)
        time.sleep(2)
    finally:
        stop.touch()
        found, written = [end(reader) for reader in readers], end(writer)
    assert [one["errors"] for one in found] == [[]] * 8
    assert [one["mixed"] for one in found] == [[]] * 8
    assert [one["lost"] for one in found] == [[]] * 8
    assert all(one["searches"] for one in found)
    assert written["written"]
    with Memory(settings) as memory:
        for place in range(10_000, 10_000 + written["written"]):
            assert memory.search(asked(place))[0].text == said(place)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_job_that_is_killed_at_any_moment_is_gone_on_with_and_gives_the_same(
    settings: Settings, server: Embeddings
) -> None:
    draw = random.Random(int.from_bytes(os.urandom(4)))
    lake, clock = Lake.open(settings), SystemClock()
    with Memory(settings) as memory:
        for place in range(COUNT, 700):
            memory.remember(said(place))
    kills = 0
    for _ in range(50):
        (process,) = start(("reindex", settings.home, server.url, "openai:slow-b"))
        time.sleep(draw.uniform(0, 2.5))
        process.kill()
        process.communicate()
        kills += 1
        if current(lake).embedder != "openai:a":
            break  # it was faster this time
    if current(lake).embedder == "openai:a":
        assert reindex(lake, settings, clock, "openai:slow-b", version="test").switched
    paid = server.embedded("slow-b")
    # At most the requests in flight at each kill were paid for again.
    assert len(paid) - len(set(paid)) <= kills * settings.model.concurrency * 64
    rows = open_tables(settings, current(lake)).scan(Filter(("default",), states=None), ["text", "embedder", "vector"])
    assert sorted(rows.column("text").to_pylist()) == sorted(said(place) for place in range(700))
    assert set(rows.column("embedder").to_pylist()) == {"openai:slow-b"}
    assert rows.column("vector").null_count == 0
    with Memory(settings) as memory:
        assert all(memory.search(asked(place))[0].text == said(place) for place in range(0, 700, 25))
