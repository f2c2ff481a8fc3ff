"""What jobs that decide have in common: a rule sees the store, its acts land once, and what changed is decided anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from hindlake.jobs.deciding.decide import Decided, DecideReport, Rule, View, decide
from hindlake.jobs.reflect import reflect
from hindlake.jobs.reflecting.rules_reflector import RulesReflector
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.errors import UsageError
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.log import read_log
from hindlake.memory_store.records.runs import last_runs
from hindlake.memory_store.settings import Settings
from hindlake.sdk.memory import Memory
from story_home import TODAY


@pytest.fixture
def memory(settings: Settings) -> Memory:
    memory = Memory(settings, clock=ManualClock(TODAY))
    for text in ("the kettle leaks", "the lamp flickers", "the door squeaks"):
        memory.remember(text, subject="house", kind="fact")
    return memory


def archive(view: View) -> Iterator[Decided]:
    """Archive what leaks or flickers."""
    for row in view.memories(["id", "text"], states=("pending", "active")).to_pylist():
        if "squeaks" in row["text"]:
            yield Decided(counts=Counter(kept=1))
        else:
            yield Decided([[{"decision": "archive", "id": row["id"], "state": "archived", "reason": "old"}]])


def run(settings: Settings, rule: Rule = archive, **options: Any) -> DecideReport:
    return decide(Lake.open(settings), settings, ManualClock(TODAY), rule, job="tidy", version="test", **options)


def texts(memory: Memory) -> set[str]:
    return {hit.text for hit in memory.search("", subject="house")}


def test_what_a_rule_decides_is_in_the_log_and_seen_by_readers(settings: Settings, memory: Memory) -> None:
    report = run(settings)
    assert report.summary()["counts"] == {"archive": 2, "kept": 1}
    assert texts(memory) == {"the door squeaks"}
    (kept,) = last_runs(Lake.open(settings), "default")
    assert (kept.job, kept.status, kept.counts) == ("tidy", "done", {"archive": 2, "kept": 1})


def test_a_second_run_decides_nothing(settings: Settings, memory: Memory) -> None:
    run(settings)
    before = read_log(Lake.open(settings), "default")
    assert run(settings).counts == {"kept": 1}
    assert read_log(Lake.open(settings), "default").equals(before)


def test_a_dry_run_shows_the_same_decisions_and_writes_none(settings: Settings, memory: Memory) -> None:
    shown = run(settings, dry_run=True)
    assert (shown.counts, len(texts(memory))) == ({"archive": 2, "kept": 1}, 3)
    assert last_runs(Lake.open(settings), "default") == []
    done = run(settings)
    assert [(row["decision"], row["id"]) for row in shown.decisions] == [
        (row["decision"], row["id"]) for row in done.decisions
    ]


def test_what_a_user_changes_while_a_rule_thinks_is_decided_anew(settings: Settings, memory: Memory) -> None:
    (lamp,) = [hit.id for hit in memory.search("lamp", subject="house") if "lamp" in hit.text]
    rounds = []

    def slow(view: View) -> Iterator[Decided]:
        rounds.append(view.read_to)
        decided = list(archive(view))
        if len(rounds) == 1:
            memory.forget(lamp)
        yield from decided

    report = run(settings, slow)
    assert len(rounds) == 2
    assert report.counts == {"archive": 1, "kept": 1}
    assert memory.explain(lamp).memory["state"] == "deleted"


def test_acts_that_never_fit_are_counted_as_unsettled(settings: Settings, memory: Memory) -> None:
    def wrong(view: View) -> Iterator[Decided]:
        yield Decided([[{"decision": "archive", "id": "nobody", "state": "archived", "reason": "old"}]])

    assert run(settings, wrong).counts == {"unsettled": 1}


def test_only_the_namespaces_that_are_named_are_worked_on(settings: Settings, memory: Memory) -> None:
    other = Memory(settings, namespace="other", clock=ManualClock(TODAY))
    other.remember("the door squeaks", subject="house")
    assert run(settings, namespaces=["other"]).counts == {"kept": 1}
    assert len(texts(memory)) == 3


def test_a_namespace_that_is_not_there_is_a_slip_and_nothing_is_written(settings: Settings, memory: Memory) -> None:
    lake = Lake.open(settings)
    with pytest.raises(UsageError, match="has no namespace defualt: it has default"):
        run(settings, namespaces=["defualt"])
    with pytest.raises(UsageError, match="has no namespace defualt"):
        reflect(lake, settings, ManualClock(TODAY), RulesReflector(), version="test", namespaces=["defualt"])
    assert lake.namespaces() == ["default"]


def test_acts_that_build_on_each_other_are_decided_once_however_small_the_portions(
    settings: Settings, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hindlake.jobs.deciding.decide.FILE_ROWS", 1)
    rounds = []

    def into_one(view: View) -> Iterator[Decided]:
        rounds.append(view.read_to)
        keeper, *others = sorted(view.memories(["id"]).column("id").to_pylist())
        stands = {"decision": "merge", "id": keeper, "state": "active", "reason": "stands"}
        into = {"decision": "merge", "state": "merged", "superseded_by": keeper, "reason": "the same"}
        yield Decided([[{**into, "id": id}, stands] for id in others])

    assert run(settings, into_one).counts == {"merge": 2}
    assert len(rounds) == 1
    assert len(texts(memory)) == 1
