"""Shards hold each subject whole, and deciding by shards is deciding at once, in a loop or on Ray."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from activating import activate
from hindlake.jobs.deciding import neighbourhoods as module
from hindlake.jobs.deciding.meet import Scale, meet
from hindlake.jobs.deciding.neighbourhoods import Rows, split
from hindlake.jobs.deciding.neighbours import members_of, nearest_cells
from hindlake.jobs.dedup import dedup
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.resident.cells import cell_count, centres_of, sample_of
from hindlake.memory_store.settings import JobSettings, Settings
from hindlake.sdk.memory import Memory
from story_home import TODAY


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Twins of eight subjects, and of none, beside what is said once."""
    settings = settings.model_copy(update={"embedder": "wordllama", "jobs": JobSettings(ray_workers=2)})
    with Memory(settings, clock=ManualClock(TODAY)) as memory:
        for number in range(8):
            for text in ("Owns a boat.", "owns a boat", "Lives in Oslo.", f"Has {number + 2} cats."):
                memory.remember(text, subject=f"user-{number}")
        for text in ("Always wash the pump.", "always wash the pump", "Never run dry."):
            memory.remember(text, kind="rule")
        memory.remember("Said once.", subject="alone")
    activate(settings)
    return settings


def decisions(settings: Settings, **options: Any) -> tuple[set[tuple[str, str]], dict[str, int]]:
    report = dedup(Lake.open(settings), settings, ManualClock(TODAY), version="test", dry_run=True, **options)
    return {(row["decision"], row["id"]) for row in report.decisions}, dict(report.counts)


def test_small_shards_decide_what_one_decides(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    whole, counts = decisions(settings)
    assert counts == {"kept": 27, "merge": 9}
    monkeypatch.setattr(module, "SHARD_ROWS", 9)
    assert decisions(settings, progress=lambda done, total: seen.append((done, total))) == (whole, counts)
    assert seen == [(done, 5) for done in range(1, 6)]
    monkeypatch.setattr(module, "SHARD_SUBJECTS", 1)
    assert decisions(settings) == (whole, counts)


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_workers_decide_what_a_loop_decides(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARD_ROWS", 9)
    assert decisions(settings, engine="ray") == decisions(settings, engine="loop")


def test_rows_are_those_of_the_table_however_they_are_asked_for() -> None:
    table = pa.table({"id": ["c", "a", "b"], "subject": [None, "s", "s"], "vector": [[0.0, 1.0], None, [1.0, 0.0]]})
    rows, vectors = split(table.set_column(2, "vector", table.column("vector").cast(pa.list_(pa.float32()))), 2)
    assert [row["id"] for row in rows] == ["a", "b", "c"]
    assert rows[2] == {"id": "c", "subject": None}
    assert rows[0:2] == [{"id": "a", "subject": "s"}, {"id": "b", "subject": "s"}]
    assert rows.column("subject") == ["s", "s", ""]
    assert np.isnan(vectors[0]).all() and vectors[1].tolist() == [1.0, 0.0]
    with pytest.raises(IndexError):
        rows[3]
    assert list(Rows(pa.table({"id": pa.array([], pa.string())}))) == []


def test_only_what_is_near_or_said_alike_meets_without_words() -> None:
    texts = ("likes tea", "likes coffee", "Likes tea!", "drinks water")
    rows = [
        {"id": text, "kind": "fact", "subject": "s", "text": text, "valid_from": TODAY, "attribute": attribute}
        for text, attribute in zip(texts, ("", "", "", "drink"), strict=True)
    ]
    vectors = np.eye(4, dtype=np.float32)  # none is near another one
    met = list(meet(rows, vectors, Scale("wordllama"), what="same", by_words=False))
    assert [(one.first, one.second, one.verdict.type) for one in met] == [(0, 2, "same")]


def test_a_subject_of_many_is_cut_by_cells_and_decided_as_a_whole(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    things = ("pump", "oven", "boat", "lamp", "desk", "kite", "drum", "fork", "tent", "sled", "harp", "well", "gate")
    with Memory(settings, clock=ManualClock(TODAY)) as memory:
        for thing in things:
            for text in (f"Always clean the {thing} first.", f"Always clean the {thing} first.", f"Sell no {thing}."):
                memory.remember(text, kind="rule")
                memory.remember(text.replace("clean", "wash"), subject="many")
        memory.remember("Likes the sea.", subject="many")
    activate(settings)
    whole, counts = decisions(settings)
    assert counts["merge"] > 9 + len(things)
    monkeypatch.setattr(module, "SHARD_ROWS", 36)
    monkeypatch.setattr(module, "_READ_ROWS", 7)
    seen: list[tuple[int, int]] = []
    assert decisions(settings, progress=lambda done, total: seen.append((done, total))) == (whole, counts)
    assert len(seen) > 4


@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.integers(1, 30))
@hypothesis_settings(max_examples=25, deadline=None)
def test_parts_hold_each_cell_once_and_what_is_near_lies_in_one_cell(seed: int, clusters: int, most: int) -> None:
    chance = np.random.default_rng(seed)
    centres = chance.normal(size=(clusters, 32))
    vectors = np.repeat(centres, 3, axis=0) + 0.001 * chance.normal(size=(3 * clusters, 32))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    fitted = centres_of(vectors[sample_of(len(vectors))], cell_count(len(vectors)))
    cells = nearest_cells(vectors, fitted)
    cells[0] = -1  # has no vector
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SHARD_ROWS", most)
        parts = list(module._parts(cells))
    assert all(sum(len(cell) for _, cell in part) <= most for part in parts)
    held = [(number, row) for part in parts for number, cell in part for row in cell.tolist()]
    assert sorted(held) == sorted((number, row) for row in range(1, len(cells)) for number in cells[row].tolist())
    together = {
        (one, two)
        for members in members_of(cells[1:], len(fitted))
        for one, two in combinations((members + 1).tolist(), 2)
    }
    near = {(one, two) for at in range(1, clusters) for one, two in combinations(range(3 * at, 3 * at + 3), 2)}
    assert near <= {(min(pair), max(pair)) for pair in together}
