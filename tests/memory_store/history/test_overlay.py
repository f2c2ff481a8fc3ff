"""What was written is readable before any job, and what was taken back is gone before any job."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from hindlake.memory_store.clock import END_OF_TIME
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.inbox import write_proposals, write_user_act
from hindlake.memory_store.history.log import read_keys, settle
from hindlake.memory_store.history.overlay import Overlay, OverlayReader

NS = "default"
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def add(id: str, act: str = "", **columns: Any) -> dict[str, Any]:
    return {
        "act": act or f"add-{id}", "at": NOW, "decision": "add", "id": id, "kind": "fact", "text": id,
        "state": "pending", "valid_from": NOW, "valid_to": END_OF_TIME, **columns,
    }  # fmt: skip


def forget(id: str, act: str) -> dict[str, Any]:
    return {"act": act, "at": NOW, "decision": "forget", "id": id, "state": "deleted"}


def ids(overlay: Overlay) -> set[str]:
    return set(overlay.added.column("id").to_pylist())


def test_a_write_is_in_the_overlay_at_once_and_stays_until_the_store_has_folded_it(lake: Lake) -> None:
    reader = OverlayReader(lake, NS)
    assert ids(reader.read(0)) == set()
    write_user_act(lake, NS, [add("m")])
    assert (ids(reader.read(0)), reader.read(0).waiting) == ({"m"}, 1)
    settle(lake, NS)
    assert (ids(reader.read(0)), reader.read(0).waiting) == ({"m"}, 0)
    assert ids(reader.read(1)) == set()


def test_what_is_settled_while_it_is_read_is_there_whatever_else_waits(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another process settles just after this one has read the log is in no file that this one has read."""
    write_user_act(lake, NS, [add("old")])
    settle(lake, NS)
    write_user_act(lake, NS, [add("new")])
    write_user_act(lake, NS, [forget("old", "f")])

    def settled_meanwhile(lake: Lake, namespace: str) -> Iterator[pa.Table]:
        settle(lake, namespace)
        return read_keys(lake, namespace)

    monkeypatch.setattr("hindlake.memory_store.history.overlay.read_keys", settled_meanwhile)
    overlay = OverlayReader(lake, NS).read(1)
    assert (ids(overlay), overlay.states) == ({"new"}, {"new": "pending", "old": "deleted"})


def test_the_overlay_on_s3_is_the_same(any_lake: Lake) -> None:
    write_user_act(any_lake, NS, [add("m")])
    settle(any_lake, NS)
    write_user_act(any_lake, NS, [forget("m", "f")])
    overlay = OverlayReader(any_lake, NS).read(1)
    assert (overlay.states, overlay.waiting) == ({"m": "deleted"}, 1)


def test_a_forgotten_memory_is_hidden_before_and_after_settling(lake: Lake) -> None:
    write_user_act(lake, NS, [add("m")])
    settle(lake, NS)
    reader = OverlayReader(lake, NS)
    write_user_act(lake, NS, [forget("m", "f")])
    assert reader.read(1).states == {"m": "deleted"}
    settle(lake, NS)
    assert reader.read(1).states == {"m": "deleted"}
    assert reader.read(2).states == {}


def test_what_a_run_proposes_is_read_by_no_one_before_it_is_settled(lake: Lake) -> None:
    write_proposals(lake, NS, [add("p", run="r", read_to=0)])
    reader = OverlayReader(lake, NS)
    assert ids(reader.read(0)) == set()
    settle(lake, NS)
    assert ids(reader.read(0)) == {"p"}


def test_a_refused_act_is_never_seen(lake: Lake) -> None:
    write_user_act(lake, NS, [add("m")])
    settle(lake, NS)
    write_proposals(lake, NS, [add("new", act="p", read_to=1), {**forget("missing", "p"), "read_to": 1}])
    settle(lake, NS)
    assert ids(OverlayReader(lake, NS).read(1)) == set()


def test_a_leftover_of_a_settle_that_died_does_not_undo_what_came_later(lake: Lake) -> None:
    write_user_act(lake, NS, [add("m")])
    path = write_user_act(lake, NS, [forget("m", "f")])
    data = lake.get(path)
    settle(lake, NS)
    write_user_act(lake, NS, [{"act": "r", "at": NOW, "decision": "restore", "id": "m", "state": "active"}])
    settle(lake, NS)
    lake.put(path, data)  # the settler died before it could delete the file
    assert OverlayReader(lake, NS).read(3).states == {}


def test_a_reader_that_was_opened_early_follows_a_log_that_grows(lake: Lake) -> None:
    reader = OverlayReader(lake, NS)
    for number in range(5):
        write_user_act(lake, NS, [add(f"m{number}")])
        settle(lake, NS)
        assert ids(reader.read(0)) == {f"m{i}" for i in range(number + 1)}
    assert ids(reader.read(3)) == {"m3", "m4"}
