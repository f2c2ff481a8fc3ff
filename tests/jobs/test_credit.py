"""Outcomes teach: memories are credited by what came of the tasks that used them, against what was to be expected."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake.jobs.credit import CLEARLY, WORTH, credit, credit_table, task_outcomes
from hindlake.memory_store.capture.events import Event
from hindlake.memory_store.capture.reads import Read, new_read_id, write_reads
from hindlake.memory_store.capture.traces import write_events
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.recall.ranking import usefulness
from hindlake.memory_store.records.usage import read_credit
from hindlake.memory_store.schema import table_of
from hindlake.memory_store.settings import CreditSettings, Settings
from hindlake.memory_store.status import status
from hindlake.sdk.memory import Memory

START = datetime(2026, 3, 1, 12, tzinfo=UTC)

Task = tuple[str, str, frozenset[str]]


def naive_wilson(p: float, n: float, z: float) -> tuple[float, float]:
    middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return min((middle - half) / (1 + z * z / n), p), max((middle + half) / (1 + z * z / n), p)


def naive(tasks: list[Task], memory: str, z: float) -> dict[str, Any]:
    """What the module says, task by task. A task: its type, its outcome, the memories that it was shown."""
    mine = [(type, WORTH[outcome]) for type, outcome, shown in tasks if memory in shown]
    others = defaultdict(list)
    for type, outcome, shown in tasks:
        if memory not in shown:
            others[type].append(WORTH[outcome])
    mine = [(type, worth) for type, worth in mine if others[type]]
    if not mine:
        return {"tasks": 0, "helped": 0, "misled": 0, "low": None, "high": None}
    rate = {type: sum(worths) / len(worths) for type, worths in others.items() if worths}
    gains = [worth - rate[type] for type, worth in mine]
    n = len(mine)
    p1, p2 = sum(worth for _, worth in mine) / n, sum(rate[type] for type, _ in mine) / n
    counts = defaultdict(int)
    for type, _ in mine:
        counts[type] += 1
    m = n * n / sum(count * count / len(others[type]) for type, count in counts.items())
    (l1, u1), (l2, u2) = naive_wilson(p1, n, z), naive_wilson(p2, m, z)
    return {
        "tasks": n,
        "helped": sum(gain >= CLEARLY for gain in gains),
        "misled": sum(-gain >= CLEARLY for gain in gains),
        "low": p1 - p2 - math.sqrt((p1 - l1) ** 2 + (u2 - p2) ** 2),
        "high": p1 - p2 + math.sqrt((u1 - p1) ** 2 + (p2 - l2) ** 2),
    }


def tables(tasks: list[Task]) -> tuple[pa.Table, pa.Table]:
    usage = [
        {"id": id, "trace_id": f"t{number}", "reads": 1, "last_at": START}
        for number, (_, _, shown) in enumerate(tasks)
        for id in shown
    ]
    outcomes = pa.table(
        {
            "trace_id": pa.array([f"t{number}" for number in range(len(tasks))], pa.string()),
            "task_type": pa.array([type for type, _, _ in tasks], pa.string()),
            "worth": pa.array([WORTH[outcome] for _, outcome, _ in tasks], pa.float64()),
        }
    )
    return table_of(usage, "usage"), outcomes


tasks = st.lists(
    st.tuples(
        st.sampled_from(["", "pay", "ship"]), st.sampled_from(sorted(WORTH)), st.frozensets(st.sampled_from("abc"))
    ),
    max_size=25,
)  # fmt: skip


@given(tasks)
def test_the_numbers_are_those_of_the_formula(tasks: list[Task]) -> None:
    settings = CreditSettings()
    found = {row["id"]: row for row in credit_table(*tables(tasks), settings).to_pylist()}
    assert set(found) == {id for _, _, shown in tasks for id in shown}
    for id, row in found.items():
        expected = naive(tasks, id, settings.z)
        surer = naive(tasks, id, settings.quarantine_z)
        for name in ("tasks", "helped", "misled"):
            assert row[name] == expected[name]
        assert row["tasks"] == row["helped"] + row["neutral"] + row["misled"]
        for name, value in (("low", expected["low"]), ("high", expected["high"]), ("surely", surer["high"])):
            assert row[name] == (None if value is None else pytest.approx(value, abs=1e-8))
        if row["low"] is not None:
            assert -1 - 1e-9 <= row["low"] <= row["high"] <= 1 + 1e-9
            assert row["high"] <= row["surely"] + 1e-9


def test_an_easy_kind_of_task_credits_nobody_and_a_hard_one_does() -> None:
    easy: list[Task] = [("easy", "success", frozenset("a"))] * 20 + [("easy", "success", frozenset())] * 20
    hard: list[Task] = [("hard", "success", frozenset("b"))] * 20 + [("hard", "failure", frozenset())] * 20
    by_id = {row["id"]: row for row in credit_table(*tables(easy + hard), CreditSettings()).to_pylist()}
    assert (by_id["a"]["helped"], by_id["a"]["neutral"]) == (0, 20)
    assert by_id["a"]["low"] < 0 < by_id["a"]["high"]
    assert by_id["b"]["helped"] == 20
    assert by_id["b"]["low"] > 0.7
    assert usefulness(by_id["a"]["low"], by_id["a"]["high"], 0.3) == 1
    assert usefulness(by_id["b"]["low"], by_id["b"]["high"], 0.3) > 1.2


def test_what_makes_no_difference_is_hardly_ever_quarantined() -> None:
    """200 memories shown at random, to tasks that go as they go: at one in 2,000 each, two would be a surprise."""
    chance = random.Random(7)
    some: list[Task] = []
    for _ in range(600):
        shown = frozenset(str(number) for number in range(200) if chance.random() < 0.1)
        some.append((chance.choice("xy"), "success" if chance.random() < 0.6 else "failure", shown))
    settings = CreditSettings()
    surely = credit_table(*tables(some), settings).column("surely").to_pylist()
    assert len(surely) == 200
    assert sum(value < -settings.quarantine_margin for value in surely) <= 1


# The job


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"embedder": "wordllama"})


@pytest.fixture
def memory(settings: Settings, clock: ManualClock) -> Memory:
    return Memory(settings, clock=clock)


class History:
    """Tasks of one type, with what they were shown and how they ended."""

    def __init__(self, lake: Lake, at: datetime) -> None:
        self.lake, self.at, self.number = lake, at, 0

    def task(self, outcome: str, *shown: str, task_type: str = "pay") -> str:
        """Log a task; an empty outcome is none."""
        self.number += 1
        trace, at = f"trace-{self.number}", self.at + timedelta(minutes=self.number)
        events = [Event("default", trace, f"{trace}-0", 0, at, "task", content="a secret", task_type=task_type)]
        if outcome:
            events.append(Event("default", trace, f"{trace}-1", 1, at, "outcome", outcome=outcome))
        write_events(self.lake, events)
        if shown:
            write_reads(self.lake, [Read("default", new_read_id(at), at, trace, ids=list(shown))], trace)
        return trace

    def late(self, trace: str, outcome: str, days: int) -> None:
        """Say how a task ended, days later."""
        at = self.at + timedelta(days=days)
        seq = int(at.timestamp() * 1e6)
        write_events(self.lake, [Event("default", trace, f"{trace}-late-{seq}", seq, at, "outcome", outcome=outcome)])


@pytest.fixture
def history(lake: Lake) -> History:
    return History(lake, START)


def run(lake: Lake, settings: Settings, clock: ManualClock, **options: Any) -> Any:
    return credit(lake, settings, clock, version="test", **options)


def test_without_reads_nothing_is_said(lake: Lake, settings: Settings, clock: ManualClock, memory: Memory) -> None:
    memory.remember("retry twice", "experience")
    assert run(lake, settings, clock).counts == {}
    assert read_credit(lake, "default").num_rows == 0
    (hit,) = memory.search("retry")
    assert "usefulness" not in hit.factors


def test_what_misleads_is_quarantined_shown_and_comes_back_for_good(
    lake: Lake, settings: Settings, clock: ManualClock, memory: Memory, history: History
) -> None:
    bad, good = memory.remember("skip the checks", "experience"), memory.remember("run the checks", "experience")
    for _ in range(15):
        history.task("failure", bad)
        history.task("success", good)
    clock.advance(days=1)
    assert run(lake, settings, clock, dry_run=True).counts["quarantine"] == 1
    assert lake.names("ns=default/credit") == []
    assert {hit.id for hit in memory.search("the checks")} == {bad, good}

    done = run(lake, settings, clock)
    assert [(row["id"], row["decision"]) for row in done.decisions] == [(bad, "quarantine")]
    assert "15 of the 15 tasks" in done.decisions[0]["reason"]
    (hit,) = Memory(settings, clock=clock).search("the checks")
    assert hit.id == good
    assert hit.factors["usefulness"] > 1
    shown = status(lake, settings, clock)
    assert shown["store"]["states"]["quarantined"] == 1
    assert [item["id"] for item in shown["quarantined"]] == [bad]

    clock.advance(hours=1)
    memory.restore(bad)
    assert run(lake, settings, clock).counts["misleading_and_brought_back"] == 1
    later = History(lake, clock.now())
    later.number = 1000
    for _ in range(15):
        later.task("failure", bad)
    clock.advance(days=1)
    assert run(lake, settings, clock).counts["quarantine"] == 1


def test_a_second_run_writes_nothing(
    lake: Lake, settings: Settings, clock: ManualClock, memory: Memory, history: History
) -> None:
    id = memory.remember("run the checks", "experience")
    for outcome in ("success", "failure", "partial", "unknown"):
        history.task(outcome, id)
        history.task(outcome)
    run(lake, settings, clock)
    before = [(path, lake.get(path)) for path in lake.names("ns=default/credit")]
    run(lake, settings, clock)
    assert [(path, lake.get(path)) for path in lake.names("ns=default/credit")] == before
    (row,) = read_credit(lake, "default").to_pylist()
    assert (row["accesses"], row["tasks"]) == (4, 3)


def test_a_late_outcome_changes_the_credit(
    lake: Lake, settings: Settings, clock: ManualClock, memory: Memory, history: History
) -> None:
    id = memory.remember("run the checks", "experience")
    traces = [history.task("", id) for _ in range(8)]
    for _ in range(8):
        history.task("failure")
    run(lake, settings, clock)
    assert read_credit(lake, "default").to_pylist()[0]["low"] is None
    for days, outcome, helped in ((30, "success", 8), (31, "failure", 0)):
        for trace in traces:
            history.late(trace, outcome, days)
        clock.advance(days=days)
        run(lake, settings, clock)
        row = read_credit(lake, "default").to_pylist()[0]
        assert (row["helped"], row["low"] > 0) == (helped, helped > 0)


def test_outcomes_are_known_without_reading_what_was_said(lake: Lake, history: History) -> None:
    history.task("success")
    history.task("unknown")
    old = history.task("failure", task_type="ship")
    history.task("partial", task_type="")
    history.late(old, "partial", 30)
    rows = task_outcomes(lake, "default", START).to_pylist()
    assert [(row["trace_id"], row["task_type"], row["worth"]) for row in rows] == [
        ("trace-1", "pay", 1.0), ("trace-3", "ship", 0.5), ("trace-4", "", 0.5),
    ]  # fmt: skip
    assert task_outcomes(lake, "default", START + timedelta(days=1)).num_rows == 0
    assert task_outcomes(lake, "nobody", START).num_rows == 0
