"""The read log: what was asked and given is kept at once, lies in its day, and is counted once."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake import Memory, Recorder, Settings
from hindlake.memory_store.capture.reads import (
    Read,
    day_of,
    decode_read,
    encode_read,
    new_read_id,
    read_days,
    reads_folder,
    roll_reads,
    scan_reads,
)
from hindlake.memory_store.capture.spool import segment_paths
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.lake import Lake

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def rows_of(settings: Settings) -> list[dict[str, Any]]:
    lake = Lake.open(settings)
    files = [path for paths in read_days(lake, settings.namespace).values() for path in paths]
    return [row for table in scan_reads(lake, files) for row in table.to_pylist()]


@pytest.fixture
def memory(settings: Settings) -> Memory:
    memory = Memory(settings, clock=ManualClock(NOON))
    memory.remember("refunds take a week", subject="shop")
    memory.remember("refunds above 500 need a manager", "rule")
    return memory


def test_a_search_is_logged_with_all_that_it_knew(memory: Memory, settings: Settings) -> None:
    hits = memory.search("refunds", subject="shop", kinds=["fact", "rule"], limit=2, trace="t1")
    memory.close()
    (row,) = rows_of(settings)
    assert row["ids"] == [hit.id for hit in hits]
    assert {hit.read_id for hit in hits} == {row["read_id"]}
    assert (row["namespace"], row["trace_id"], row["query"], row["injected"]) == ("default", "t1", "refunds", False)
    assert row["filters"] == '{"kinds":["fact","rule"],"subjects":["shop"]}'
    assert row["at"] == NOON
    assert row["generation"].startswith("g000001")


def test_the_task_that_runs_here_is_the_one_that_asked(memory: Memory, settings: Settings) -> None:
    other = settings.model_copy(update={"namespace": "other"})
    with Recorder(other) as elsewhere, Recorder(settings) as recorder:
        memory.search("refunds", trace="")
        with recorder.task("refund") as task, elsewhere.task("something else"):
            memory.used(memory.search("refunds"))
            memory.search("refunds", trace="named")
    memory.close()
    asked = sorted(row["trace_id"] for row in rows_of(settings))
    assert asked == sorted(["", "named", task.trace_id, task.trace_id])


def test_what_was_used_says_which_read_it_belongs_to(memory: Memory, settings: Settings) -> None:
    hits = memory.search("refunds", subject="shop", trace="t1")
    memory.used(hits[:1])
    memory.used([hits[0].id], trace="t2")
    memory.close()
    returned, used, bare = sorted(rows_of(settings), key=lambda row: (row["injected"], row["trace_id"]))
    assert (used["read_id"], used["ids"], used["injected"]) == (returned["read_id"], [hits[0].id], True)
    assert bare["read_id"] != returned["read_id"]
    assert (bare["trace_id"], bare["ids"]) == ("t2", [hits[0].id])


def test_what_is_used_after_midnight_lies_in_the_day_of_its_read(settings: Settings) -> None:
    clock = ManualClock(datetime(2026, 3, 1, 23, 59, tzinfo=UTC))
    memory = Memory(settings, clock=clock)
    memory.remember("refunds take a week")
    hits = memory.search("refunds")
    clock.advance(hours=1)
    memory.used(hits)
    memory.close()
    assert list(read_days(Lake.open(settings), "default")) == ["2026-03-01"]
    assert [row["at"].day for row in rows_of(settings)] == [1, 2]


def test_reads_of_evals_and_people_are_not_logged(memory: Memory, settings: Settings) -> None:
    assert memory.search("refunds", log_read=False)[0].read_id == ""
    off = Memory(settings.model_copy(update={"search": settings.search.model_copy(update={"log_reads": False})}))
    off.used(off.search("refunds"))
    off.close()
    memory.close()
    assert rows_of(settings) == []


def test_that_nothing_was_found_is_logged_too(memory: Memory, settings: Settings) -> None:
    assert memory.search("nothing like it", kinds=["preference"]) == []
    memory.close()
    assert [(row["query"], list(row["ids"])) for row in rows_of(settings)] == [("nothing like it", [])]


def test_secrets_in_a_query_are_masked_before_they_touch_the_disk(memory: Memory, settings: Settings) -> None:
    memory.search("why does AKIAIOSFODNN7EXAMPLE fail?", tags=["AKIAIOSFODNN7EXAMPLE"], kinds=["fact", "rule"])
    memory.search("refunds", entities=["password=hunter2hunter2"])
    memory.search("refunds AKIAIOSFODNN7EXAMPLE")
    for path in segment_paths(reads_folder(settings)):
        assert b"AKIAIOSFODNN7EXAMPLE" not in path.read_bytes()
    memory.close()
    assert any("[masked:aws_key]" in row["query"] for row in rows_of(settings))


def test_a_read_survives_the_process_that_is_killed(settings: Settings) -> None:
    code = (
        "import os, sys; from hindlake import Memory; memory = Memory(home=sys.argv[1]); "
        "memory.remember('refunds take a week'); memory.search('refunds', trace='t1'); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code, settings.home], check=False).returncode == 9
    lake = Lake.open(settings)
    assert roll_reads(lake, settings).events == 1
    assert roll_reads(lake, settings).events == 0
    assert [row["trace_id"] for row in rows_of(settings)] == ["t1"]


def test_a_full_disk_fails_no_search(memory: Memory, settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    Path(settings.spool_folder).mkdir(parents=True, exist_ok=True)
    reads_folder(settings).write_text("in the way")
    assert memory.search("refunds")[0].read_id == ""
    assert memory.search("refunds")
    assert caplog.text.count("could not log a read") == 1


@given(st.text(max_size=20), st.lists(st.text(max_size=5), max_size=3), st.booleans())
def test_a_read_comes_back_as_it_was_written(query: str, ids: list[str], injected: bool) -> None:
    safe = [text.encode("utf-8", "replace").decode() for text in (query, *ids)]
    read = Read("acme", new_read_id(NOON), NOON, "t", safe[0], "{}", "g", 7, safe[1:], injected)
    assert decode_read(encode_read(read)) == read


@given(st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1)))
def test_the_day_of_a_read_is_in_its_id(at: datetime) -> None:
    at = at.replace(tzinfo=UTC)
    assert day_of(Read("acme", new_read_id(at), at + timedelta(days=3))) == at.date()
    assert day_of(Read("acme", "not-sortable", at)) == at.date()
