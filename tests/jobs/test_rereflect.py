"""Reflecting again on history disturbs nobody, keeps what users did, and becomes one run of the log."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hindlake.flows.pipeline import run_collect
from hindlake.jobs.reflect import reflect
from hindlake.jobs.reflecting.candidates import Reflection, TraceGroup
from hindlake.jobs.reflecting.rules_reflector import RulesReflector
from hindlake.jobs.rereflect import Prepared, adopt, finish, prepare, side
from hindlake.jobs.undo import undo
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.embedders import embedder_named
from hindlake.memory_store.errors import UsageError
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.branch import branches
from hindlake.memory_store.history.log import read_log
from hindlake.memory_store.recall.predicates import Filter
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.store.generation_diff import Diff, diff
from hindlake.memory_store.store.generations import build, catch_up, current, open_tables
from hindlake.memory_store.store.switching import discard, keep_up
from hindlake.sdk.memory import Memory
from hindlake.sdk.recorder import Recorder
from story_home import TODAY, log_story

CLOCK = ManualClock(TODAY + timedelta(days=1))


@dataclass(frozen=True)
class Louder(RulesReflector):
    """The rules, but facts are none of its business, and what it says of tools it says aloud."""

    name: str = "louder@1"
    #: Groups after which it dies; -1: it lives
    dies_after: int = -1
    seen: list[str] = field(default_factory=list)

    def reflect(self, group: TraceGroup) -> Reflection:
        if len(self.seen) == self.dies_after:
            raise KeyboardInterrupt
        self.seen.append(group.key)
        said = super().reflect(group)
        kept = [
            replace(one, text=f"Aloud: {one.text}") if one.kind == "experience" else one
            for one in said.candidates
            if one.kind != "fact"
        ]
        return replace(said, candidates=tuple(kept))


@pytest.fixture(scope="module")
def reflected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose traces were reflected on by rules; a user forgot one lesson and said something."""
    home = tmp_path_factory.mktemp("reflected") / "home"
    settings = Settings.load(home=str(home), embedder="wordllama")
    log_story(settings)
    run_collect(settings, ManualClock(TODAY))
    reflect(Lake.open(settings), settings, CLOCK, RulesReflector(), version="test")
    with Memory(settings, clock=CLOCK) as memory:
        memory.remember("The depot closes at noon", subject="user:ann")
        for hit in memory.search("", kinds=["preference"], subject="*", limit=1):
            memory.forget(hit.id)
    reflect(Lake.open(settings), settings, CLOCK, RulesReflector(), version="test")  # it looks at what was said
    return home


@pytest.fixture
def settings(reflected: Path, home: Path) -> Settings:
    shutil.copytree(reflected, home)
    return Settings.load(home=str(home), embedder="wordllama")


def again(settings: Settings, reflector: Any) -> Prepared:
    lake = Lake.open(settings)
    prepared = prepare(lake, settings, CLOCK, reflector.name)
    reflect(
        prepared.lake, settings, CLOCK, reflector, version="test", namespaces=sorted(prepared.among),
        among=prepared.among,
    )  # fmt: skip
    finish(lake, settings, prepared, complete=True)
    return prepared


def compared(settings: Settings, prepared: Prepared) -> Diff:
    lake = Lake.open(settings)
    return diff(lake, settings, CLOCK, side(lake, current(lake).number), side(lake, prepared.branch.generation))


def told(settings: Settings, branch: Lake | None = None, generation: Any = None) -> dict[str, tuple[str, str]]:
    """Text and state of every memory, by id, as the fold has them."""
    lake = branch or Lake.open(settings)
    one = generation or current(lake)
    tables = open_tables(settings, one)
    catch_up(lake, tables, embedder_named(one.embedder, settings))
    rows = tables.scan(Filter(("default",), states=None), ["id", "text", "state"]).to_pylist()
    return {row["id"]: (row["text"], row["state"]) for row in rows}


def live(rows: dict[str, tuple[str, str]]) -> set[str]:
    return {text for text, state in rows.values() if state in ("active", "pending")}


def test_the_same_reflector_again_gives_the_same_memories_and_what_a_user_forgot_stays_forgotten(
    settings: Settings,
) -> None:
    before = told(settings)
    prepared = again(settings, RulesReflector())
    found = compared(settings, prepared)
    assert found.counts == {"gained": {}, "lost": {}, "changed": {}}
    lake = Lake.open(settings)
    report = adopt(lake, settings, CLOCK, prepared.branch.generation, version="test")
    assert not +report.counts
    assert told(settings) == before
    assert "deleted" in {state for _, state in before.values()}


def test_what_another_reflector_says_is_seen_by_nobody_until_it_is_adopted_then_by_all_and_can_be_undone(
    settings: Settings,
) -> None:
    lake = Lake.open(settings)
    before, log = told(settings), read_log(lake, "default")
    prepared = again(settings, Louder())
    assert read_log(lake, "default").equals(log)
    assert told(settings) == before
    found = compared(settings, prepared)
    assert found.counts["gained"]["experience"] == found.counts["lost"]["experience"] > 0
    assert all(row["text"].startswith("Aloud") for row in found.gained if row["kind"] == "experience")
    assert found.after.reflectors == ["louder@1"]
    assert "louder@1" not in found.before.reflectors

    one, _ = side(lake, prepared.branch.generation)
    shown = live(told(settings, prepared.lake, one.claim))
    report = adopt(lake, settings, CLOCK, prepared.branch.generation, version="test")
    assert report.counts["added"] and report.counts["archived"]
    assert live(told(settings)) == shown
    assert "The depot closes at noon" in shown
    adopted = told(settings)
    build(lake, settings, CLOCK)
    assert told(settings) == adopted
    assert branches(lake) == [] and not lake.names("ns=default/branches")

    undo(lake, settings, CLOCK, report.run_id, version="test")
    assert live(told(settings)) == live(before)


@pytest.mark.slow
def test_what_users_and_jobs_do_meanwhile_holds_in_both(settings: Settings) -> None:
    lake = Lake.open(settings)
    prepared = again(settings, Louder())
    with Memory(settings, clock=CLOCK) as memory:
        memory.remember("The lift is out of order", subject="user:ann")
        old = memory.search("depot", subject="user:ann")[0]
        memory.update(old.id, "The depot closes at one")
        lost = next(hit for hit in memory.search("", kinds=["experience"], limit=50) if "Aloud" not in hit.text)
        memory.forget(lost.id)
    with Recorder(settings=settings, clock=CLOCK) as recorder, recorder.task("New", task_type="x") as task:
        task.user("By the way, my budget is now 9000")
        task.outcome("success")
    run_collect(settings, CLOCK)
    reflect(lake, settings, CLOCK, RulesReflector(), version="test")
    later = {text for text in live(told(settings)) if "9000" in text}
    assert later
    adopt(lake, settings, CLOCK, prepared.branch.generation, version="test")
    now = live(told(settings))
    assert {"The lift is out of order", "The depot closes at one"} | later <= now
    assert "The depot closes at noon" not in now
    assert lost.text not in now


@pytest.mark.slow
def test_a_run_that_was_killed_is_gone_on_with_and_gives_the_same(settings: Settings, tmp_path: Path) -> None:
    other = Settings.load(home=str(tmp_path / "other"), embedder="wordllama")
    shutil.copytree(settings.home, other.home)
    whole = again(other, Louder())
    one = side(Lake.open(other), whole.branch.generation)[0]
    with pytest.raises(KeyboardInterrupt):
        again(settings, Louder(dies_after=3))
    later = Louder()
    prepared = again(settings, later)
    assert len(later.seen) > 0
    two = side(Lake.open(settings), prepared.branch.generation)[0]
    assert told(settings, prepared.lake, two.claim) == told(other, whole.lake, one.claim)
    assert len(branches(Lake.open(settings))) == 1


def test_what_is_not_complete_or_was_dropped_can_not_be_adopted(settings: Settings) -> None:
    lake = Lake.open(settings)
    prepared = prepare(lake, settings, CLOCK, "louder@1")
    number = prepared.branch.generation
    with pytest.raises(UsageError, match="not complete"):
        adopt(lake, settings, CLOCK, number, version="test")
    with pytest.raises(UsageError, match="no re-reflection"):
        adopt(lake, settings, CLOCK, current(lake).number, version="test")
    assert keep_up(lake, settings, CLOCK).dropped == []
    discard(lake, settings, number)
    with pytest.raises(UsageError, match="dropped"):
        adopt(lake, settings, CLOCK, number, version="test")
    assert not lake.names("branches") and not lake.names("ns=default/branches")
