"""Sortable ids grow; derived ids depend on every part and on the namespace, and on nothing else."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake.memory_store.ids import derive_id, sortable_id

PARTS = st.lists(st.text(st.characters(codec=None), max_size=6) | st.integers(), max_size=4).map(tuple)


def test_ids_of_one_process_grow_strictly() -> None:
    made = [sortable_id() for _ in range(20_000)]
    assert made == sorted(set(made))
    assert {len(one) for one in made} == {26}


def test_ids_of_many_threads_never_meet() -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: sortable_id(), range(20_000)))
    assert len(set(made)) == len(made)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_ids_made_after_a_fork_never_meet() -> None:
    sortable_id()
    program = (
        "import os, sys; from hindlake.memory_store.ids import sortable_id; sortable_id(); os.fork(); "
        "sys.stdout.write('\\n'.join(sortable_id() for _ in range(500)) + '\\n'); sys.stdout.flush(); os._exit(0)"
    )
    run = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    made = run.communicate()[0].split()
    assert len(made) == len(set(made)) == 1000


@given(st.integers(0, 2**48 - 1), st.integers(0, 2**48 - 1))
def test_ids_sort_by_time(one: int, other: int) -> None:
    first, second = sortable_id(one), sortable_id(other)
    if one != other:
        assert (first < second) == (one < other)
    assert first[:10] == sortable_id(one)[:10]


@given(st.sampled_from("ab"), st.sampled_from("mr"), PARTS, st.sampled_from("ab"), st.sampled_from("mr"), PARTS)
def test_derived_ids_are_equal_only_for_equal_origins(
    namespace: str, kind: str, parts: tuple[str | int, ...], namespace2: str, kind2: str, parts2: tuple[str | int, ...]
) -> None:
    same = (namespace, kind, [str(part) for part in parts]) == (namespace2, kind2, [str(part) for part in parts2])
    assert (derive_id(namespace, kind, *parts) == derive_id(namespace2, kind2, *parts2)) == same


def test_a_derived_id_never_changes_between_versions() -> None:
    """Stored ids were made by this function: changing it would make every memory a new one."""
    assert derive_id("acme", "mem", "retry", 3, "支付") == "xwaj31nbj6tjsznkbx1hpy5h"


def test_a_derived_id_is_the_same_in_another_process() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(derive_id, ("acme", "mem", "retry")) == derive_id("acme", "mem", "retry")
