"""Asking for many vectors at once gives what asking for each one gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hindlake.memory_store.recall import vector_legs as module
from hindlake.memory_store.recall.predicates import Filter
from hindlake.memory_store.recall.vector_legs import vector_legs
from hindlake.memory_store.schema import table_of
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.store.tables import Tables


def test_many_vectors_find_what_each_one_finds(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_QUERIES", 4)
    chance = np.random.default_rng(3)
    vectors = chance.normal(size=(50, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    tables = Tables.create(str(tmp_path / "tables"), 16, settings)
    rows = [
        {"namespace": "n", "id": f"m{number}", "seq": number, "kind": "fact", "subject": "s" if number % 3 else "",
         "state": "active", "text": f"text {number}", "vector": vector.tolist()}
        for number, vector in enumerate(vectors)
    ]  # fmt: skip
    tables.upsert(table_of(rows, "memories"))
    asked = np.concatenate([vectors[:9], np.full((1, 16), np.nan, np.float32)])
    where = Filter(("n",), own_subjects=("s",))
    found = vector_legs(tables, asked, where, 5, ["text", "vector"])
    each = [tables.vector_leg(vector, where, 5, ["text", "vector"]) for vector in asked]
    assert [[one.id for one in some] for some in found] == [[one.id for one in some] for some in each]
    assert [one.row for one in found[1]] == [one.row for one in each[1]]
    assert found[9] == []
    assert [len(some) for some in vector_legs(tables, vectors[:1], where, 5)] == [5]
    assert vector_legs(tables, vectors[:0], where, 5) == []
