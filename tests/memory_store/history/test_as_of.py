"""As of a moment: the fold of the log up to then, in the states of then, searched exactly."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.errors import UnknownMemory, UsageError
from hindlake.memory_store.files.lake import Lake, namespace_path
from hindlake.memory_store.history.as_of import past
from hindlake.memory_store.history.inbox import write_user_act
from hindlake.memory_store.history.log import log_paths, settle
from hindlake.memory_store.history.moments import moment_of, seq_at
from hindlake.memory_store.schema import table_of
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.store.generations import build
from hindlake.sdk.memory import Memory
from story_home import TODAY, store_rows

DAY = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(TODAY)


@pytest.fixture
def told(settings: Settings, clock: ManualClock) -> tuple[Memory, str, str]:
    """A budget that changes on the second day, and is forgotten on the third; each act is settled at once."""
    memory, lake = Memory(settings, clock=clock), Lake.open(settings)
    old = memory.remember("The budget is 5000", subject="ann", valid_from=DAY)
    memory.remember("The kitchen is to be blue", subject="ann")
    settle(lake, "default")
    clock.advance(days=1)
    new = memory.update(old, "The budget is 8000")
    settle(lake, "default")
    clock.advance(days=1)
    memory.forget(new)
    settle(lake, "default")
    return memory, old, new


def budget(memory: Memory, as_of: Any) -> list[str]:
    return [hit.text for hit in memory.search("budget", subject="ann", as_of=as_of, limit=1)]


def test_a_search_as_of_a_day_finds_what_was_known_then(told: tuple[Memory, str, str]) -> None:
    memory, old, _new = told
    assert budget(memory, TODAY - timedelta(days=1)) == []
    assert budget(memory, TODAY + timedelta(hours=1)) == ["The budget is 5000"]
    assert budget(memory, TODAY + timedelta(days=1, hours=1)) == ["The budget is 8000"]
    assert budget(memory, TODAY + timedelta(days=2)) == ["The kitchen is to be blue"]
    assert budget(memory, 2) == ["The budget is 5000"]
    assert [hit.id for hit in memory.search("", subject="ann", as_of=2)] == [
        memory.search("kitchen", subject="ann")[0].id, old
    ]  # fmt: skip
    assert memory.search("", subject="ben", as_of=2) == []
    assert {hit.state for hit in memory.search("budget", subject="ann", as_of=4, states=["superseded"])} == {
        "superseded"
    }


def test_since_when_something_holds_is_not_since_when_it_was_known(told: tuple[Memory, str, str]) -> None:
    memory, _, _ = told
    assert budget(memory, DAY + timedelta(days=1)) == []
    (hit,) = memory.search("budget", subject="ann", as_of=2, until=DAY + timedelta(days=1))
    assert hit.valid_from == DAY


def test_explain_as_of_tells_what_had_been_decided(told: tuple[Memory, str, str]) -> None:
    memory, old, new = told
    then = memory.explain(old, as_of=TODAY + timedelta(hours=1))
    assert (then.memory["state"], len(then.decisions)) == ("pending", 1)
    assert memory.explain(old).memory["state"] == "superseded"
    with pytest.raises(UnknownMemory, match="not known then"):
        memory.explain(new, as_of=2)


def test_what_waits_in_the_inbox_counts_by_when_it_was_written(settings: Settings, clock: ManualClock) -> None:
    memory = Memory(settings, clock=clock)
    memory.remember("The budget is 5000", subject="ann")
    assert budget(memory, TODAY) == ["The budget is 5000"]
    assert budget(memory, TODAY - timedelta(seconds=1)) == []
    assert budget(memory, 1) == []  # it has no place yet


def test_as_of_every_place_equals_a_store_made_of_the_log_up_to_there(
    told: tuple[Memory, str, str], settings: Settings, tmp_path: Path
) -> None:
    lake = Lake.open(settings)
    paths = log_paths(lake, "default")
    assert len(paths) == 3
    for number in range(len(paths) + 1):
        cut = Settings.load(home=str(tmp_path / f"cut{number}"))
        shutil.copytree(f"{settings.home}/lake/ns=default", f"{cut.home}/lake/ns=default")
        other = Lake.open(cut)
        other.delete(paths[number:])
        other.delete(other.names(namespace_path("default", "inbox")))
        seq = sum(lake.read_table(path).num_rows for path in paths[:number])
        build(other, cut, ManualClock(TODAY))
        known = past(lake, "default", seq).memories.drop_columns(["run", "added_at"]).to_pylist()
        rebuilt = [{name: row[name] for name in row if name != "vector"} for row in store_rows(cut)]
        assert [{name: row[name] for name in known[0]} for row in rebuilt] == known if known else rebuilt == []


def log(*hours: int) -> Any:
    rows = [{"seq": seq, "at": DAY + timedelta(hours=hour)} for seq, hour in enumerate(hours, 1)]
    return table_of([dict(row) for row in rows], "log")


def test_a_time_stands_for_the_last_row_that_was_written_by_then() -> None:
    rows = log(1, 2, 2, 5)
    assert [seq_at(rows, DAY + timedelta(hours=hour)) for hour in range(7)] == [0, 1, 3, 3, 3, 4, 4]
    assert seq_at(log(), DAY) == 0


def test_one_machine_whose_clock_is_wrong_moves_nothing_but_its_own_row() -> None:
    behind, ahead = log(1, 2, 3, 4, -9999, 5, 6), log(1, 2, 9999, 3, 4, 5, 6)
    assert seq_at(behind, DAY + timedelta(hours=2)) == 2
    assert seq_at(ahead, DAY + timedelta(hours=4)) == 5


@given(st.lists(st.integers(0, 20), max_size=30), st.integers(0, 20), st.integers(0, 20))
def test_a_later_time_never_gives_an_earlier_place(hours: list[int], one: int, other: int) -> None:
    rows = log(*hours)
    first, second = sorted((one, other))
    assert seq_at(rows, DAY + timedelta(hours=first)) <= seq_at(rows, DAY + timedelta(hours=second))
    # … and where clocks agree it is the last row by then.
    in_order = log(*sorted(hours))
    assert seq_at(in_order, DAY + timedelta(hours=one)) == sum(hour <= one for hour in hours)


def test_moments_that_can_not_be_meant_are_refused(settings: Settings) -> None:
    for text in ("yesterday", "", "2026-13-01"):
        with pytest.raises(UsageError, match="is no time"):
            moment_of(text)
    with pytest.raises(UsageError, match="begin at 1"):
        past(Lake.open(settings), "default", -1)


def test_a_memory_that_was_archived_or_purged_since_is_found_or_counted(settings: Settings, clock: ManualClock) -> None:
    memory, lake = Memory(settings, clock=clock), Lake.open(settings)
    kept = memory.remember("The budget is 5000", subject="ann")
    gone = memory.remember("The budget was never 100", subject="ann")
    settle(lake, "default")
    clock.advance(days=1)
    for id, decision, state in ((kept, "archive", "archived"), (gone, "purge", "deleted")):
        row = {"act": f"a-{id}", "at": clock.now(), "decision": decision, "id": id, "state": state}
        write_user_act(lake, "default", [row])
    settle(lake, "default")
    assert budget(memory, TODAY) == ["The budget is 5000"]
    assert (memory.count_purged(TODAY), memory.count_purged(clock.now())) == (1, 0)
    assert memory.explain(gone).memory["text"] is None
