"""The inbox: what a user writes and what a run proposes wait there, whole, and a retry hits the same file."""

from __future__ import annotations

import pytest

from hindlake.memory_store.errors import SettingsError
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.inbox import inbox_paths, write_proposals, write_user_act
from hindlake.memory_store.schema import arrow_schema, conform


def test_an_act_is_written_whole(any_lake: Lake) -> None:
    rows = [{"act": "a1", "decision": "add", "id": name, "text": "预算 8000", "kind": "fact"} for name in ("m1", "m2")]
    path = write_user_act(any_lake, "acme", rows)
    table = any_lake.read_table(path)
    assert set(table.column_names) == {"act", "decision", "id", "text", "kind"}, "what no row sets takes no room"
    table = conform(table, "log")
    assert table.schema == arrow_schema("log")
    assert table.select(["act", "id", "text"]).to_pylist() == [
        {"act": "a1", "id": "m1", "text": "预算 8000"},
        {"act": "a1", "id": "m2", "text": "预算 8000"},
    ]
    assert table.column("seq").null_count == 2


def test_a_retry_under_the_same_name_hits_the_same_file(any_lake: Lake) -> None:
    row = {"act": "a1", "decision": "add", "id": "m1"}
    assert write_user_act(any_lake, "acme", [row], "a1") == write_user_act(any_lake, "acme", [row], "a1")
    assert len(inbox_paths(any_lake, "acme")) == 1


def test_acts_without_a_name_wait_in_the_order_of_writing(lake: Lake) -> None:
    written = [write_user_act(lake, "acme", [{"act": str(n), "decision": "add"}]) for n in range(20)]
    assert inbox_paths(lake, "acme") == written


def test_proposals_of_the_same_acts_are_one_file(lake: Lake) -> None:
    rows = [{"act": act, "decision": "add", "run": "r1"} for act in ("b", "a", "b")]
    first = write_proposals(lake, "acme", rows)
    assert write_proposals(lake, "acme", list(reversed(rows))) == first
    assert write_proposals(lake, "acme", rows[:1]) != first


def test_proposals_are_not_among_the_acts_of_users(lake: Lake) -> None:
    user = write_user_act(lake, "acme", [{"act": "u", "decision": "add"}])
    proposed = write_proposals(lake, "acme", [{"act": "p", "decision": "add", "run": "r1"}])
    assert inbox_paths(lake, "acme") == sorted([user, proposed])
    assert inbox_paths(lake, "acme", user_only=True) == [user]


def test_an_inbox_belongs_to_one_namespace(any_lake: Lake) -> None:
    write_user_act(any_lake, "acme", [{"act": "u", "decision": "add"}])
    assert inbox_paths(any_lake, "acm") == inbox_paths(any_lake, "acme-eu") == []
    with pytest.raises(SettingsError):
        write_user_act(any_lake, "acme/../other", [{"act": "u"}])


def test_a_column_that_does_not_exist_is_refused(lake: Lake) -> None:
    with pytest.raises(ValueError, match="no such column in log: \\['txet'\\]"):
        write_user_act(lake, "acme", [{"act": "u", "txet": "typo"}])
    assert inbox_paths(lake, "acme") == []
