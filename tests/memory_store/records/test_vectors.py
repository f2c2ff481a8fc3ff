"""Vectors are found by their text, however many files they lie in, with little of them in memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.records.vectors import VectorCache


def vectors(start: int, end: int, dim: int = 4) -> dict[str, np.ndarray]:
    return {f"text {number}": np.full(dim, number, dtype=np.float32) for number in range(start, end)}


def numbers(found: list[np.ndarray | None]) -> list[float | None]:
    return [None if vector is None else float(vector[0]) for vector in found]


def test_a_vector_is_found_by_its_text_in_whatever_file_it_lies(lake: Lake) -> None:
    writer = VectorCache(lake, "acme", "m@1")
    for start in range(0, 40, 7):
        writer.put(vectors(start, start + 7))
    asked = [f"text {number}" for number in (3, 39, 999, 3, 0)]
    assert numbers(VectorCache(lake, "acme", "m@1").get(asked)) == [3, 39, None, 3, 0]
    assert numbers(writer.get(asked)) == [3, 39, None, 3, 0]
    assert numbers(VectorCache(lake, "acme", "m@2").get(asked)) == [None] * 5
    assert numbers(VectorCache(lake, "other", "m@1").get(asked)) == [None] * 5


def test_files_that_were_joined_are_found_by_who_knew_the_old_ones(lake: Lake) -> None:
    writer = VectorCache(lake, "acme", "m@1")
    paths = [writer.put(vectors(start, start + 2)) for start in (0, 2, 4)]
    reader = VectorCache(lake, "acme", "m@1")
    assert reader.holds(reader.hashes(["text 1", "text 9"])).tolist() == [True, False]
    writer.join(paths)
    assert len(lake.names("ns=acme/vectors")) == 1
    assert numbers(reader.get(["text 5", "text 0"])) == [5, 0]
    writer.join(lake.names("ns=acme/vectors"))
    assert len(lake.names("ns=acme/vectors")) == 1


def test_what_was_purged_from_a_file_is_not_found_by_who_listed_it_before(lake: Lake) -> None:
    cache = VectorCache(lake, "acme", "m@1")
    path = cache.put(vectors(0, 3))
    reader = VectorCache(lake, "acme", "m@1")
    assert reader.holds(reader.hashes(["text 1"])).all()
    lake.put_table(path, lake.read_table(path).slice(2))
    assert numbers(reader.get(["text 0", "text 2"])) == [None, 2]


@pytest.mark.parametrize("last_byte", [b"\x00", b"\xff"])
def test_a_hash_that_ends_in_any_byte_is_told_from_others(lake: Lake, last_byte: bytes) -> None:
    cache = VectorCache(lake, "acme", "m@1")
    own, other = b"a" * 31 + last_byte, b"a" * 30 + b"\x00" + last_byte
    cache.put_hashed([own], [np.ones(2, dtype=np.float32)])
    assert cache.holds([own, other]).tolist() == [True, False]


def test_reading_many_vectors_keeps_few_in_memory(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hindlake.memory_store.records.vectors._HELD_BYTES", 300_000)
    writer = VectorCache(lake, "acme", "m@1")
    for start in range(0, 4_000, 200):
        writer.put(vectors(start, start + 200, 256))
    cache = VectorCache(lake, "acme", "m@1")
    cache.holds([])
    tracemalloc.start()
    try:
        for number in range(0, 4_000, 10):
            assert numbers(cache.get([f"text {number}"])) == [number]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4_000 * 256 * 4 / 2
