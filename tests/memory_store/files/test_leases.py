"""Leases: one run at a time pays for a job, a dead one makes room, a late one learns that it is late."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from multiprocessing.connection import Connection

import msgspec
import pytest

from hindlake.memory_store.clock import SystemClock
from hindlake.memory_store.errors import LeaseLost
from hindlake.memory_store.files import leases
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.files.leases import EVERY, Holder, hold, holders
from hindlake.memory_store.settings import Settings

CLOCK = SystemClock()
SECONDS = 0.6


@pytest.fixture
def shop(any_lake: Lake) -> Lake:
    """A lake with three namespaces."""
    for name in ("a", "b", "c"):
        any_lake.put(f"ns={name}/runs/1.json", b"{}")
    return any_lake


def free(lake: Lake, namespaces: list[str] | None, job: str = "reflect", seconds: float = SECONDS) -> list[str]:
    with hold(lake, job, namespaces, CLOCK, seconds) as held:
        assert sorted([*held.namespaces, *held.others]) == sorted(lake.chosen(namespaces))
        return held.namespaces


def test_a_second_run_leaves_alone_what_the_first_works_on_and_finds_it_free_afterwards(shop: Lake) -> None:
    with hold(shop, "reflect", ["a", "b"], CLOCK, SECONDS) as first:
        assert (first.namespaces, first.others) == (["a", "b"], {})
        assert free(shop, ["b", "c"]) == ["c"]
        assert free(shop, None) == ["c"]
        assert free(shop, ["a", "b"], job="patterns") == ["a", "b"]
    assert free(shop, None) == ["a", "b", "c"]
    assert all(holder.is_done for holder in holders(shop).values())


def test_a_run_over_all_namespaces_keeps_single_ones_away(shop: Lake) -> None:
    with hold(shop, "reflect", None, CLOCK, SECONDS) as first:
        assert first.namespaces == ["a", "b", "c"]
        assert free(shop, ["b"]) == []
        assert free(shop, None) == []
        first.check()
    assert free(shop, ["b"]) == ["b"]


def test_of_many_that_begin_at_once_one_works(shop: Lake) -> None:
    barrier, won = threading.Barrier(6), []

    def run() -> None:
        barrier.wait()
        with hold(shop, "reflect", ["a"], CLOCK, SECONDS) as held:
            won.append(held.namespaces)
            time.sleep(2 * SECONDS)

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == [[]] * 5 + [["a"]]


def _hold_until_killed(settings: Settings, pipe: Connection) -> None:
    with hold(Lake.open(settings), "reflect", ["a"], CLOCK, 3600):
        pipe.send("held")
        time.sleep(60)


@pytest.fixture
def start() -> Iterator[Callable[[Settings], multiprocessing.Process]]:
    """Start a process that holds the lease of namespace "a" and never gives it back."""
    spawn, started = multiprocessing.get_context("spawn"), []

    def begin(settings: Settings) -> multiprocessing.Process:
        here, there = spawn.Pipe()
        process = spawn.Process(target=_hold_until_killed, args=(settings, there))
        process.start()
        started.append(process)
        assert here.recv() == "held"
        return process  # type: ignore[return-value]

    with ExitStack() as stack:
        yield begin
        for process in started:
            stack.callback(process.join)
            stack.callback(process.kill)


def test_a_run_that_was_killed_on_this_machine_makes_room_at_once(
    settings: Settings, start: Callable[[Settings], multiprocessing.Process]
) -> None:
    lake = Lake.open(settings)
    lake.put("ns=a/runs/1.json", b"{}")
    process = start(settings)
    process.kill()
    process.join()
    began = time.monotonic()
    assert free(lake, ["a"], seconds=3600) == ["a"]
    assert time.monotonic() - began < 300, "an hour's lease was not waited for"


def test_a_run_elsewhere_that_says_nothing_any_more_is_succeeded_and_learns_of_it(shop: Lake) -> None:
    with hold(shop, "reflect", ["a"], CLOCK, 3600) as late:  # renewed every 20 minutes: it says nothing here
        assert free(shop, ["a"]) == ["a"]
        late.check()  # it was renewed lately, as far as it knows
    zombie = Holder(id="zombie", machine="elsewhere", pid=1, since=CLOCK.now())
    shop.put("lease/patterns/b/000000000007.json", msgspec.json.encode(zombie))
    lease = leases.Lease(shop, "lease/patterns/b/000000000007.json", zombie, seconds=0.0)
    lease.check()
    assert free(shop, ["b"], job="patterns") == ["b"]
    with pytest.raises(LeaseLost, match="another run has taken over"):
        lease.check()
    lease.release()  # what a late one says changes nothing
    assert free(shop, ["b"], job="patterns") == ["b"]


def test_a_lease_is_renewed_for_as_long_as_the_work_takes(shop: Lake) -> None:
    with hold(shop, "reflect", None, CLOCK, SECONDS) as held:
        time.sleep(2.5 * SECONDS)
        held.check()
        assert holders(shop)[f"reflect/{EVERY}"].beats >= 2
        assert free(shop, None) == []


def test_without_a_time_no_lease_is_taken(shop: Lake) -> None:
    with hold(shop, "reflect", None, CLOCK, 0) as held:
        assert held.namespaces == ["a", "b", "c"]
        assert free(shop, None, seconds=0) == ["a", "b", "c"]
        held.check()
    assert holders(shop) == {}


def test_epochs_of_the_past_are_cleared_away(shop: Lake) -> None:
    for _ in range(4):
        free(shop, ["a"])
    assert shop.names("lease") == ["lease/reflect/a/000000000004.json"]
