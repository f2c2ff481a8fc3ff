"""A generation is the fold of the logs, can be made from the lake alone, and is switched to in one step."""

from __future__ import annotations

import shutil
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hindlake.memory_store.clock import END_OF_TIME, ManualClock
from hindlake.memory_store.embedders import embedder_of
from hindlake.memory_store.errors import NoGeneration
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.inbox import write_user_act
from hindlake.memory_store.history.log import settle
from hindlake.memory_store.recall.predicates import Filter
from hindlake.memory_store.records.vectors import VectorCache
from hindlake.memory_store.schema import table_of
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.store.generations import (
    build,
    current,
    despite_a_switch,
    ensure,
    fold_to_head,
    open_tables,
    with_vectors,
)
from hindlake.memory_store.store.registry import drop, find

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def add(id: str, text: str, **columns: Any) -> dict[str, Any]:
    return {
        "act": f"add-{id}", "at": NOW, "decision": "add", "id": id, "kind": "fact", "text": text, "state": "pending",
        "entities": [], "tags": [], "valid_from": NOW, "valid_to": END_OF_TIME, **columns,
    }  # fmt: skip


def rows_of(settings: Settings, generation: Any, namespace: str = "default") -> list[dict[str, Any]]:
    table = open_tables(settings, generation).scan(Filter((namespace,), states=None))
    return sorted(table.to_pylist(), key=lambda row: row["id"])


def fill(lake: Lake) -> None:
    for id, text in (("a", "Budget is 5000"), ("b", "预算改成8000"), ("c", "")):
        write_user_act(lake, "default", [add(id, text)])
    write_user_act(lake, "other", [add("a", "Another tenant")])
    settle(lake, "default")
    settle(lake, "other")
    write_user_act(lake, "default", [{"act": "x", "at": NOW, "decision": "archive", "id": "a", "state": "archived"}])
    settle(lake, "default")


def test_without_a_generation_the_error_names_the_command(lake: Lake) -> None:
    with pytest.raises(NoGeneration, match="hindlake rebuild"):
        current(lake)


def test_a_rebuild_into_an_empty_folder_equals_the_store(lake: Lake, settings: Settings, clock: ManualClock) -> None:
    generation = ensure(lake, settings, clock)
    fill(lake)
    tables = open_tables(settings, generation)
    for namespace in ("default", "other"):
        fold_to_head(lake, tables, namespace, embedder_of(settings))
    before = rows_of(settings, generation)
    shutil.rmtree(Path(settings.home) / "store")
    again = build(lake, settings, clock)
    assert again.number == generation.number + 1
    assert current(lake) == again
    assert rows_of(settings, again) == before
    assert [row["state"] for row in before] == ["archived", "pending", "pending"]
    assert [row["text"] for row in rows_of(settings, again, "other")] == ["Another tenant"]
    assert open_tables(settings, again).folded_to("default") == 4


def test_who_works_on_a_generation_that_is_dropped_goes_on_with_the_next_one(
    lake: Lake, settings: Settings, clock: ManualClock
) -> None:
    """A purge leaves none of the old tables."""
    fill(lake)
    used = []

    def work() -> int:
        used.append(generation := ensure(lake, settings, clock))
        if len(used) == 1:
            build(lake, settings, clock)
            drop(lake, settings, find(lake, generation.number))
        return len(rows_of(settings, generation))

    assert despite_a_switch(lake, work) == 3
    assert [generation.number for generation in used] == [1, 2]


def test_a_store_that_is_gone_while_readers_stay_is_an_error_at_once(
    lake: Lake, settings: Settings, clock: ManualClock
) -> None:
    generation = ensure(lake, settings, clock)
    shutil.rmtree(Path(settings.home) / "store")
    tries = []

    def work() -> None:
        tries.append(1)
        rows_of(settings, generation)

    with pytest.raises(NoGeneration, match="hindlake rebuild"):
        despite_a_switch(lake, work)
    assert len(tries) == 1


def test_a_text_that_can_not_be_embedded_is_kept_without_a_vector(
    lake: Lake, settings: Settings, clock: ManualClock
) -> None:
    fill(lake)
    vectors = {row["id"]: row["vector"] for row in rows_of(settings, build(lake, settings, clock))}
    assert vectors["c"] is None
    assert len(vectors["a"]) == embedder_of(settings).dim


def test_folding_twice_changes_nothing(lake: Lake, settings: Settings, clock: ManualClock) -> None:
    fill(lake)
    generation = build(lake, settings, clock)
    before = rows_of(settings, generation)
    tables = open_tables(settings, generation)
    assert fold_to_head(lake, tables, "default", embedder_of(settings)) == 4
    assert rows_of(settings, generation) == before


def test_a_fold_that_died_before_it_said_how_far_it_came_is_repeated_without_harm(
    lake: Lake, settings: Settings, clock: ManualClock
) -> None:
    fill(lake)
    generation = build(lake, settings, clock)
    before = rows_of(settings, generation)
    tables = open_tables(settings, generation)
    shutil.rmtree(Path(tables.url) / "folds.lance")
    tables._door.db.create_table("folds", schema=open_tables_schema()).set_unenforced_primary_key("namespace")
    assert fold_to_head(lake, open_tables(settings, generation), "default", embedder_of(settings)) == 4
    assert rows_of(settings, generation) == before


def open_tables_schema() -> Any:
    import pyarrow as pa

    return pa.schema([pa.field("namespace", pa.string(), nullable=False), pa.field("seq", pa.int64())])


def test_of_builders_at_once_all_agree_on_one_generation(lake: Lake, settings: Settings, clock: ManualClock) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: ensure(lake, settings, clock), range(4)))
    assert {generation.name for generation in found} == {current(lake).name}
    assert [path.name for path in (Path(settings.home) / "store").iterdir()] == [current(lake).name]


def test_vectors_made_by_a_fold_are_kept_in_the_lake_and_not_made_again(
    lake: Lake, settings: Settings, clock: ManualClock
) -> None:
    fill(lake)

    class Counting:
        name = "counting@1"
        dim = 3
        asked = 0

        def passages(self, texts: Any) -> Any:
            import numpy as np

            self.asked += len(texts)
            return np.array([[1, 0, 0]] * len(texts), dtype=np.float32)

    embedder: Any = Counting()
    build(lake, settings, clock, embedder=embedder)
    made = embedder.asked
    generation = build(lake, settings, clock, embedder=embedder)
    assert (made, embedder.asked) == (4, 4)
    assert {row["embedder"] for row in rows_of(settings, generation)} == {"counting@1"}


def test_the_store_works_on_s3(s3_settings: Settings, clock: ManualClock) -> None:
    lake = Lake.open(s3_settings)
    fill(lake)
    generation = build(lake, s3_settings, clock)
    assert [row["id"] for row in rows_of(s3_settings, generation)] == ["a", "b", "c"]


def test_a_fold_holds_vectors_in_arrays(lake: Lake, settings: Settings) -> None:
    """A Python float takes eight times the room of a number in a vector."""
    settings = settings.model_copy(update={"embedder": "wordllama"})
    embedder = embedder_of(settings)
    rows = [{"id": f"m{number}", "kind": "fact", "text": f"thing {number}"} for number in range(4_000)]
    memories = table_of(rows, "memories")
    half = with_vectors(memories.slice(0, 2_000), embedder, VectorCache(lake, "default", embedder.name))
    both = pa.concat_tables([half, memories.slice(2_000)])
    cache = VectorCache(lake, "default", embedder.name)
    tracemalloc.start()
    try:
        whole = with_vectors(both, embedder, cache)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert whole.column("vector").null_count == 0
    assert peak < 8 * 4_000 * embedder.dim * 4
