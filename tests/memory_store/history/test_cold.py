"""Cold storage: what is away leaves the store, comes back whole, and a store made anew holds the same rows."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from hindlake.memory_store.clock import END_OF_TIME
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.cold import COLD, cold_count, quiet_to, read_cold, write_archive
from hindlake.memory_store.history.inbox import write_proposals, write_user_act
from hindlake.memory_store.history.log import head, settle
from hindlake.memory_store.recall.predicates import Filter
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.store.generations import fold_to_head
from hindlake.memory_store.store.tables import Tables

DAY = datetime(2026, 3, 1, tzinfo=UTC)


class Letters:
    """An embedder that counts what it is asked."""

    name = "letters@1"
    dim = 3

    def __init__(self) -> None:
        self.asked = 0

    def passages(self, texts: Any) -> Any:
        self.asked += len(texts)
        return np.array([[1, 0, 0]] * len(texts), dtype=np.float32)


class World:
    """A lake with a log, and a store that is folded after each step."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings, self.folder = settings, folder
        self.lake = Lake.open(settings)
        self.embedder: Any = Letters()
        self.numbers = itertools.count()
        self.live = self.tables()

    def tables(self) -> Tables:
        return Tables.create(str(self.folder / f"store{next(self.numbers)}"), 3, self.settings)

    def act(self, decision: str, id: str, **sets: Any) -> None:
        number = next(self.numbers)
        row = {"act": f"a{number}", "at": DAY + timedelta(days=number), "decision": decision, "id": id, "reason": ""}
        if decision == "add":
            sets = {"kind": "fact", "text": f"text of {id}", "valid_from": DAY, "valid_to": END_OF_TIME, **sets}
        if decision == "cool":
            write_proposals(self.lake, "acme", [{**row, **sets}])
        else:
            write_user_act(self.lake, "acme", [{**row, **sets}], row["act"])
        settle(self.lake, "acme")

    def fold(self, tables: Tables | None = None) -> Tables:
        chosen = tables or self.live
        fold_to_head(self.lake, chosen, "acme", self.embedder)
        return chosen

    def cool(self, place: int) -> None:
        """What the job does, up to a place."""
        self.fold()
        rows = self.live.scan(Filter(("acme",), states=COLD))
        ids = [row["id"] for row in rows.to_pylist() if row["seq"] <= place]
        write_archive(self.lake, "acme", place, self.live.rows("acme", ids))
        self.act("cool", f"cool-{place}", read_to=place)

    def rows(self, tables: Tables) -> list[dict[str, Any]]:
        return sorted(tables.scan(Filter(("acme",), states=None)).to_pylist(), key=lambda row: row["id"])


@pytest.fixture
def world(settings: Settings, tmp_path: Path) -> World:
    return World(settings, tmp_path)


def states(world: World) -> dict[str, str]:
    return {row["id"]: row["state"] for row in world.rows(world.fold())}


def test_what_is_away_leaves_the_store_and_a_restore_brings_it_back_with_its_vector(world: World) -> None:
    for id in "abc":
        world.act("add", id, state="active", importance=0.5)
    world.act("archive", "a", state="archived")
    world.act("forget", "b", state="deleted")
    before = world.rows(world.fold())[0]
    world.cool(5)
    assert states(world) == {"c": "active"}
    assert cold_count(world.lake, world.live, "acme") == 2
    asked = world.embedder.asked
    world.act("restore", "a", state="pending")
    assert states(world) == {"a": "pending", "c": "active"}
    back = world.rows(world.live)[0]
    assert {**back, "seq": 0, "state": ""} == {**before, "seq": 0, "state": ""}
    assert back["vector"] == [1.0, 0.0, 0.0]
    assert world.embedder.asked == asked
    assert cold_count(world.lake, world.live, "acme") == 1


def test_what_changed_after_the_place_stays(world: World) -> None:
    """a is archived, restored and archived again: only what is away since before the place leaves."""
    for id in "ab":
        world.act("add", id, state="active")
        world.act("archive", id, state="archived")
    world.act("restore", "a", state="active")
    world.act("archive", "a", state="archived")
    world.cool(4)
    assert states(world) == {"a": "archived"}
    world.cool(6)
    assert states(world) == {}


def test_without_the_archive_a_memory_comes_back_from_the_log(world: World) -> None:
    world.act("add", "a", state="active", importance=0.5)
    world.act("archive", "a", state="archived")
    world.cool(2)
    world.fold()
    (kept,) = read_cold(world.lake, "acme", ["a", "nobody"]).to_pylist()
    world.lake.delete(world.lake.names("ns=acme/archive"))
    (logged,) = read_cold(world.lake, "acme", ["a", "nobody"]).to_pylist()
    assert {**kept, "embedder": None, "vector": None} == {**logged, "embedder": None, "vector": None}
    world.act("downrank", "a", strength=0.5)
    assert states(world) == {"a": "archived"}


def test_a_fold_that_was_overtaken_leaves_nothing_cold_in_the_store(world: World) -> None:
    """Another process had read the rows before they became cold, and writes them late."""
    world.act("add", "a", state="active")
    world.act("archive", "a", state="archived")
    late = world.live.rows("acme", ["a"]) if world.fold() else None
    world.cool(2)
    world.fold()
    assert late is not None
    world.live.upsert(late)
    world.act("add", "b", state="active")
    assert states(world) == {"b": "active"}


def test_the_quiet_part_of_a_log_ends_before_the_first_late_row(world: World) -> None:
    assert quiet_to(world.lake, "acme", DAY) == 0
    for id in "abc":
        world.act("add", id, state="active")
    first = next(world.numbers) - 3
    assert quiet_to(world.lake, "acme", DAY + timedelta(days=first + 1)) == 2
    assert quiet_to(world.lake, "acme", DAY + timedelta(days=100)) == 3


steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["archive", "forget", "restore", "downrank"]), st.sampled_from("abc")),
        st.tuples(st.sampled_from(["cool", "fold"]), st.integers(0, 3)),
    ),
    max_size=14,
)
_SETS: dict[str, dict[str, Any]] = {
    "archive": {"state": "archived"}, "forget": {"state": "deleted"}, "restore": {"state": "active"},
    "downrank": {"strength": 0.5},
}  # fmt: skip


@hypothesis_settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps, st.booleans())
def test_a_store_made_anew_holds_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]], keeps_archive: bool
) -> None:
    same_rows(tmp_path_factory, steps, keeps_archive)


@pytest.mark.slow
@pytest.mark.timeout(900)
@hypothesis_settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps, st.booleans())
def test_a_store_made_anew_holds_the_same_rows_whatever_happened(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]], keeps_archive: bool
) -> None:
    same_rows(tmp_path_factory, steps, keeps_archive)


def same_rows(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]], keeps_archive: bool) -> None:
    """Play the steps; the live store, a new one, and what is expected must agree."""
    folder = tmp_path_factory.mktemp("world")
    world = World(Settings.load(home=str(folder / "home")), folder)
    expected: dict[str, tuple[str, int]] = {}
    for id in "abc":
        world.act("add", id, state="active")
        expected[id] = "active", head(world.lake, "acme")[1]
    cold: set[str] = set()
    for decision, about in steps:
        if decision == "fold":
            world.fold()
        elif decision == "cool":
            place = max(head(world.lake, "acme")[1] - about, 0)
            world.cool(place)
            cold |= {id for id, (state, seq) in expected.items() if state in COLD and seq <= place}
        else:
            world.act(decision, about, **_SETS[decision])
            expected[about] = _SETS[decision].get("state", expected[about][0]), head(world.lake, "acme")[1]
            cold.discard(about)
    if not keeps_archive:
        world.lake.delete(world.lake.names("ns=acme/archive"))
    live = world.rows(world.fold())
    assert {row["id"]: (row["state"], row["seq"]) for row in live} == {
        id: known for id, known in expected.items() if id not in cold
    }
    assert world.rows(world.fold(world.tables())) == live
