"""Near pairs are those that looking at all pairs finds, whatever the groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from hindlake.jobs.deciding.neighbours import Pairs, near_pairs


def unit(rows: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def drawn(seed: int, count: int, twins: int, dim: int = 24) -> npt.NDArray[np.float32]:
    """Random vectors, of which the last `twins` lie close to one of the first each."""
    chance = np.random.default_rng(seed)
    rows = chance.normal(size=(count - twins, dim))
    near = rows[chance.integers(0, len(rows), twins)] + 0.05 * chance.normal(size=(twins, dim))
    return unit(np.concatenate([rows, near]))


def naive(vectors: npt.NDArray[np.float32], groups: npt.NDArray[np.int64], floor: float) -> set[tuple[int, int]]:
    return {
        (i, j)
        for i in range(len(vectors))
        for j in range(i + 1, len(vectors))
        if groups[i] == groups[j] and float(vectors[i] @ vectors[j]) >= floor
    }


def as_set(pairs: Pairs) -> set[tuple[int, int]]:
    return set(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True))


@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.integers(1, 4))
def test_small_groups_are_compared_exactly(seed: int, count: int, kinds: int) -> None:
    vectors = drawn(seed, count, count // 2)
    groups = np.random.default_rng(seed).integers(0, kinds, count)
    found = near_pairs(vectors, groups, 0.9, neighbours=count)
    assert as_set(found) == naive(vectors, groups, 0.9)
    assert list(zip(found.left, found.right, strict=True)) == sorted(as_set(found))


def test_big_groups_lose_next_to_nothing_and_are_the_same_every_time() -> None:
    vectors = drawn(7, 3_000, 900)
    groups = np.zeros(len(vectors), np.int64)
    found = near_pairs(vectors, groups, 0.9, exact_rows=200)
    exact = near_pairs(vectors, groups, 0.9, exact_rows=10_000)
    assert len(as_set(found) & as_set(exact)) >= 0.98 * len(exact) > 800
    assert as_set(found) <= as_set(exact)
    assert as_set(near_pairs(vectors, groups, 0.9, exact_rows=200)) == as_set(found)


@given(st.integers(0, 2**32 - 1))
def test_of_changed_rows_all_pairs_are_found_and_of_others_none(seed: int) -> None:
    vectors = drawn(seed, 50, 25)
    groups = np.zeros(50, np.int64)
    changed = np.random.default_rng(seed).random(50) < 0.2
    found = as_set(near_pairs(vectors, groups, 0.9, changed=changed, neighbours=50))
    assert found == {(i, j) for i, j in naive(vectors, groups, 0.9) if changed[i] or changed[j]}


def test_a_thousand_alike_rows_give_a_bounded_number_of_pairs() -> None:
    vectors = np.repeat(unit(np.ones((1, 8))), 1_000, axis=0)
    assert len(near_pairs(vectors, np.zeros(1_000, np.int64), 0.9)) <= 1_000 * 20


def test_rows_without_a_vector_have_no_neighbours() -> None:
    vectors = np.concatenate([np.full((2, 8), np.nan), np.zeros((2, 8)), unit(np.ones((2, 8)))]).astype(np.float32)
    assert as_set(near_pairs(vectors, np.zeros(6, np.int64), -1.0)) == {(4, 5)}
    assert len(near_pairs(vectors[:0], np.zeros(0, np.int64), 0.5)) == 0
