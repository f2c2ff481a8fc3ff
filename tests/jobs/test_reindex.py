"""Everything is embedded by another model: nothing is lost or mixed or paid for twice, whoever dies or hurries."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from hindlake.jobs.cool import cool
from hindlake.jobs.embed_shard import CallMeter
from hindlake.jobs.models.budget import Budget
from hindlake.jobs.passages import passages
from hindlake.jobs.reflect import reflect
from hindlake.jobs.reflecting.rules_reflector import RulesReflector
from hindlake.jobs.reindex import Limits, ReindexReport, reindex
from hindlake.jobs.settle import settle_and_fold
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.errors import EmbedderError, UsageError
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.recall.predicates import Filter
from hindlake.memory_store.settings import ModelSettings, Settings
from hindlake.memory_store.store.generations import current, open_tables
from hindlake.memory_store.store.registry import known
from hindlake.memory_store.store.switching import keep_up, use
from hindlake.memory_store.store.tables import MEMORIES, PASSAGES
from hindlake.sdk.memory import Memory
from servers.embeddings import Embeddings, asked, said
from story_home import TODAY, log_story

COUNT = 12


@pytest.fixture
def server() -> Iterator[Embeddings]:
    """The endpoint of both models."""
    server = Embeddings()
    yield server
    server.close()


@pytest.fixture
def settings(home: Any, server: Embeddings) -> Settings:
    """A home whose memories are embedded by the model "a"."""
    model = ModelSettings(base_url=server.url, calls="on", retries=2)
    return Settings.load(home=str(home), embedder="openai:a", model=model)


@pytest.fixture
def memory(settings: Settings, clock: ManualClock) -> Iterator[Memory]:
    """A memory that holds `COUNT` statements."""
    with Memory(settings, clock=clock) as memory:
        for place in range(COUNT):
            memory.remember(said(place))
        yield memory


def run(settings: Settings, embedder: str, clock: ManualClock, **options: Any) -> ReindexReport:
    report = reindex(Lake.open(settings), settings, clock, embedder, version="test", **options)
    counts = report.counts
    assert counts["texts"] == counts["kept"] + counts["embedded"] + counts["refused"] + counts["left"]
    return report


def firsts(memory: Memory, places: range = range(COUNT)) -> list[str]:
    return [(memory.search(asked(place)) or [None])[0].text for place in places]  # type: ignore[union-attr]


EVERY = [said(place) for place in range(COUNT)]


def test_readers_are_switched_to_another_model_and_back_and_miss_nothing(
    memory: Memory, settings: Settings, clock: ManualClock
) -> None:
    assert firsts(memory) == EVERY
    report = run(settings, "openai:wide", clock)
    assert (report.switched, report.counts["embedded"], report.before, report.generation) == (True, COUNT, 1, 2)
    assert firsts(memory) == EVERY
    assert current(Lake.open(settings)).dim == 48
    memory.remember(said(COUNT))
    assert firsts(memory, range(COUNT, COUNT + 1)) == [said(COUNT)]
    lake = Lake.open(settings)
    use(lake, settings, clock, 1)
    assert firsts(memory, range(COUNT + 1)) == [*EVERY, said(COUNT)]
    assert [one.state for one in known(lake)] == ["in use", "ready"]
    use(lake, settings, clock, 2)
    assert firsts(memory, range(COUNT + 1)) == [*EVERY, said(COUNT)]


def test_a_run_stops_at_its_budget_and_the_next_pays_for_the_rest_alone(
    memory: Memory, settings: Settings, clock: ManualClock, server: Embeddings
) -> None:
    for place in range(COUNT, 150):
        memory.remember(said(place))
    one = settings.model_copy(update={"model": settings.model.model_copy(update={"concurrency": 1})})
    report = run(one, "openai:b", clock, limits=Limits(tokens=600))
    assert report.stopped and not report.switched and "budget" in report.reason
    assert 0 < report.counts["embedded"] < 150
    assert report.usage.input_tokens <= 600
    assert firsts(memory) == EVERY
    report = run(one, "openai:b", clock)
    assert report.switched
    assert report.counts["kept"] > 0
    paid = server.embedded("b")
    assert sorted(set(paid)) == sorted(paid) == sorted(said(place) for place in range(150))
    assert firsts(memory) == EVERY


def test_calls_that_fail_are_tried_again_and_counted(
    memory: Memory, settings: Settings, clock: ManualClock, server: Embeddings
) -> None:
    assert firsts(memory)[0] == said(0)
    server.refuse = [503, 429]
    report = run(settings, "openai:wide?dim=48", clock)
    assert report.switched
    assert (report.usage.calls, report.usage.failed_calls) == (3, 2)
    server.refuse = [500] * 9
    with pytest.raises(EmbedderError, match="kept"):
        run(settings, "openai:b?dim=32", clock)
    server.refuse = []
    assert firsts(memory) == EVERY


def test_a_prefix_is_put_before_what_is_embedded_and_makes_another_embedder(
    memory: Memory, settings: Settings, clock: ManualClock, server: Embeddings
) -> None:
    report = run(settings, "openai:b?passage=passage: &query=query: ", clock)
    assert report.embedder == "openai:b?passage=passage: &query=query: "
    assert firsts(memory) == EVERY
    assert f"passage: {said(3)}" in server.embedded("b")
    assert f"query: {asked(3)}" in server.embedded("b")
    with pytest.raises(EmbedderError, match="options"):
        run(settings, "openai:b?dimension=3", clock)


def test_of_two_at_once_one_wins_and_the_other_says_so(memory: Memory, settings: Settings, clock: ManualClock) -> None:
    both = threading.Barrier(2)

    def started(phase: str) -> Any:
        if phase == "fold":  # each has claimed its number by now
            both.wait(60)
        return lambda done, total: None

    with ThreadPoolExecutor(2) as pool:
        reports = list(
            pool.map(lambda model: run(settings, model, clock, started=started), ["openai:b", "openai:wide"])
        )
    winners = [report for report in reports if report.switched]
    (loser,) = [report for report in reports if not report.switched]
    assert len(winners) == 1
    assert current(Lake.open(settings)).number == winners[0].generation
    assert "another re-index was faster" in loser.reason
    assert f"generations use {loser.generation}" in loser.reason
    assert firsts(memory) == EVERY
    use(Lake.open(settings), settings, clock, loser.generation)
    assert firsts(memory) == EVERY


def test_a_generation_that_is_worse_is_not_switched_to(memory: Memory, settings: Settings, clock: ManualClock) -> None:
    report = run(settings, "openai:b", clock, least_recall=1.01)
    assert not report.switched
    assert "the index of memories finds 1.000 of the nearest" in report.reason
    assert firsts(memory) == EVERY


def test_passages_and_what_is_in_cold_storage_are_embedded_too(
    settings: Settings, clock: ManualClock, server: Embeddings
) -> None:
    now = ManualClock(TODAY + timedelta(days=1))
    log_story(settings)
    lake = Lake.open(settings)
    reflect(lake, settings, now, RulesReflector(), version="test")
    with Memory(settings, clock=now) as memory:
        cold = memory.remember(said(7))
        memory.forget(cold)
    settle_and_fold(lake, settings, now)
    passages(lake, settings, now)
    now.advance(days=60)
    cool(lake, settings, now, version="test")
    report = run(settings, "openai:wide", now)
    assert report.switched, report.reason
    assert report.check is not None and report.check.rows[PASSAGES][0] == report.check.rows[PASSAGES][1] > 0
    tables = open_tables(settings, current(lake))
    assert not tables.rows("default", [cold]).num_rows
    for table in (MEMORIES, PASSAGES):
        found = tables.scan(Filter(("default",), states=None), ["embedder"], table).column("embedder").to_pylist()
        assert set(found) == {"openai:wide"}
    asked_before = len(server.embedded("wide"))
    with Memory(settings, clock=now) as memory:
        memory.restore(cold)
        assert memory.search(asked(7))[0].text == said(7)
    assert server.embedded("wide")[asked_before:] == [asked(7)]


def test_the_generation_that_was_left_is_folded_for_some_days_and_then_dropped(
    memory: Memory, settings: Settings, clock: ManualClock
) -> None:
    run(settings, "openai:b", clock)
    lake = Lake.open(settings)
    memory.remember(said(COUNT))
    settle_and_fold(lake, settings, clock)
    assert keep_up(lake, settings, clock).folded == [1]
    one = known(lake)[0]
    assert open_tables(settings, one.claim).folded_to("default") == COUNT + 1
    clock.advance(days=8)
    assert keep_up(lake, settings, clock, dry_run=True).dropped == [1]
    assert keep_up(lake, settings, clock).dropped == [1]
    assert keep_up(lake, settings, clock).dropped == []
    with pytest.raises(UsageError, match="was dropped"):
        use(lake, settings, clock, 1)
    assert firsts(memory) == EVERY


class Dying(Lake):
    """A lake whose process dies at its n-th write."""

    def __init__(self, lake: Lake, writes: int) -> None:
        super().__init__(lake._store, lake.url)
        self.left = writes

    def put(self, path: str, data: bytes) -> None:
        self._tick()
        super().put(path, data)

    def create(self, path: str, data: bytes) -> bool:
        self._tick()
        return super().create(path, data)

    def _tick(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("writes", [0, 1, 3, 5])
def test_a_run_that_died_at_any_write_is_gone_on_with(
    memory: Memory, settings: Settings, clock: ManualClock, writes: int
) -> None:
    Memory(settings, clock=clock).search("the first generation is built")
    dying = Dying(Lake.open(settings), writes)
    try:
        reindex(dying, settings, clock, "openai:b", version="test")
    except KeyboardInterrupt:
        assert firsts(memory) == EVERY
    assert run(settings, "openai:b", clock).switched
    assert firsts(memory) == EVERY


def test_requests_are_not_begun_faster_than_a_minute_allows() -> None:
    meter = CallMeter(Budget(), per_minute=6_000)
    start = time.monotonic()
    for _ in range(5):
        meter.settle(meter.reserve(["text"]), 1, failed=False)
    assert time.monotonic() - start >= 4 * 0.01
    assert meter.budget.usage.calls == 5
