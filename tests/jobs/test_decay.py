"""Forgetting: what has decayed, expired or was never used goes where its policy sends it, and comes back."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake.jobs.cool import cool
from hindlake.jobs.decay import Touches, decay, may_go, reason_to_go
from hindlake.memory_store.capture.reads import Read, new_read_id, write_reads
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.inbox import write_user_act
from hindlake.memory_store.history.log import read_log, settle
from hindlake.memory_store.recall.predicates import Filter
from hindlake.memory_store.schema import table_of
from hindlake.memory_store.settings import RetentionPolicy, RetentionSettings, Settings
from hindlake.memory_store.status import status
from hindlake.memory_store.store.generations import build, current, open_tables
from hindlake.sdk.memory import Memory

START = datetime(2026, 1, 1, 12, tzinfo=UTC)

days = st.integers(0, 500)


@given(
    st.floats(0, 1), days, days, st.none() | days, st.none() | days, st.none() | days,
    st.sampled_from([0, 90]), st.sampled_from([0, 30]), st.floats(0, 1),
)  # fmt: skip
def test_the_time_of_a_memory_is_over_when_the_formulas_say_so(
    importance: float, held: int, written: int, read: int | None, logged: int | None, restored: int | None,
    ttl: int, unused: int, floor: float,
) -> None:  # fmt: skip
    """All numbers are days ago."""
    now = START

    def ago(days: int) -> datetime:
        return now - timedelta(days=days)

    came = min(held, written, 10_000 if restored is None else restored)
    touched = came if read is None else min(came, read)
    expired = ttl > 0 and came > ttl
    idle = unused > 0 and read is None and logged is not None and min(came, logged) > unused
    weak = importance * math.exp(-0.01 * (1 - importance / 2) * touched) < floor
    row = {"id": "m", "importance": importance, "valid_from": ago(held), "added_at": ago(written)}
    touches = Touches(
        {} if read is None else {"m": ago(read)},
        None if logged is None else ago(logged),
        {} if restored is None else {"m": ago(restored)},
    )
    policy = RetentionPolicy(ttl_days=ttl, unused_days=unused, floor=floor)
    assert bool(reason_to_go(row, policy, touches, now, 0.01)) == (expired or idle or weak)
    rows = table_of([{**row, "kind": "fact"}, {"id": "n", "kind": "rule"}], "memories")
    policies = {"fact": policy, "rule": RetentionPolicy()}
    unbrought = Touches(touches.read_at, touches.logged_since)
    screened = may_go(rows, policies, unbrought, now, 0.01).to_pylist()
    assert screened[0] >= bool(reason_to_go(row, policy, unbrought, now, 0.01))
    assert not screened[1]
    clearly_alive = min(held, written) < 1 and importance > 0.5 and floor < 0.4
    assert not (clearly_alive and screened[0])


def test_what_is_known_of_no_time_is_left_alone() -> None:
    row = {"id": "m", "importance": None, "valid_from": None, "added_at": None}
    assert reason_to_go(row, RetentionPolicy(ttl_days=1, unused_days=1), Touches(), START, 0.01) == ""


def test_the_narrower_policy_wins() -> None:
    settings = RetentionSettings.model_validate(
        {"overrides": {"acme": {"action": "downrank"}, "*/episode": {"ttl_days": 7}, "acme/fact": {"action": "keep"}}}
    )
    assert settings.policy("acme", "fact").action == "keep"
    assert settings.policy("acme", "episode") == RetentionPolicy(action="downrank", ttl_days=7)
    assert settings.policy("other", "fact") == RetentionPolicy()
    assert settings.policy("other", "experience").unused_days == 30


# The jobs


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"embedder": "wordllama"})


def with_policies(settings: Settings, **overrides: Any) -> Settings:
    policies = RetentionSettings.model_validate({"overrides": overrides})
    return settings.model_copy(update={"retention": policies})


def add(lake: Lake, clock: ManualClock, id: str, kind: str, importance: float = 0.5) -> None:
    row = {
        "act": f"add-{id}", "at": clock.now(), "decision": "add", "id": id, "reason": "", "kind": kind,
        "text": f"what {id} says", "subject": "", "state": "active", "importance": importance, "confidence": 1.0,
        "strength": 1.0, "valid_from": clock.now(), "valid_to": datetime(9999, 12, 31, tzinfo=UTC),
    }  # fmt: skip
    write_user_act(lake, "default", [row], f"add-{id}")
    settle(lake, "default")


def seen(lake: Lake, clock: ManualClock, *ids: str) -> None:
    """An agent reads memories now."""
    read = Read("default", new_read_id(clock.now()), clock.now(), "t", ids=list(ids))
    write_reads(lake, [read], read.read_id)


def run(lake: Lake, settings: Settings, clock: ManualClock, **options: Any) -> dict[str, tuple[str, str]]:
    """Decisions by memory, with their reasons."""
    report = decay(lake, settings, clock, version="test", **options)
    return {row["id"]: (row["decision"], row["reason"]) for row in report.decisions}


def test_episodes_expire_experiences_must_be_used_and_facts_decay(
    lake: Lake, settings: Settings, clock: ManualClock
) -> None:
    """The first of these days on which each memory goes."""
    add(lake, clock, "episode", "episode", 1.0)
    add(lake, clock, "unread", "experience")
    add(lake, clock, "read", "experience")
    add(lake, clock, "fact", "fact", 0.5)
    add(lake, clock, "dear", "fact", 1.0)
    add(lake, clock, "rule", "rule", 0.2)
    seen(lake, clock, "read")
    gone: dict[str, int] = {}
    for day in (0, 29, 30, 89, 90, 210, 220, 460, 470):
        clock.time = START + timedelta(days=day, minutes=1)
        for id, (decision, _) in run(lake, settings, clock).items():
            assert decision == "archive"
            gone[id] = day
    # 0.5 · exp(-0.0075 · 215) < 0.1 and 1 · exp(-0.005 · 461) < 0.1; a rule holds until someone changes it.
    assert gone == {"unread": 30, "episode": 90, "read": 220, "fact": 220, "dear": 470}


def test_unread_experiences_stay_where_reads_are_not_logged(lake: Lake, settings: Settings, clock: ManualClock) -> None:
    add(lake, clock, "unread", "experience")
    clock.advance(days=60)
    assert run(lake, settings, clock) == {}
    seen(lake, clock, "another")
    clock.advance(days=29)
    assert run(lake, settings, clock) == {}
    clock.advance(days=2)
    assert run(lake, settings, clock)["unread"] == ("archive", "no one has read it in 31 days")


def test_a_policy_ranks_down_once_deletes_softly_or_keeps(lake: Lake, settings: Settings, clock: ManualClock) -> None:
    add(lake, clock, "fact", "fact")
    add(lake, clock, "preference", "preference")
    add(lake, clock, "experience", "experience")
    strict = with_policies(
        settings, default={"action": "downrank"}, **{"*/preference": {"action": "keep"}},
        **{"default/experience": {"action": "delete"}, "default/preference": {"action": "keep"}},
    )  # fmt: skip
    clock.advance(days=300)
    shown = run(lake, strict, clock, dry_run=True)
    assert read_log(lake, "default").num_rows == 3
    done = run(lake, strict, clock)
    assert shown == done
    assert {id: decision for id, (decision, _) in done.items()} == {"fact": "downrank", "experience": "forget"}
    assert run(lake, strict, clock) == {}
    tables = open_tables(strict, current(lake))
    rows = {row["id"]: row for row in tables.scan(Filter(("default",), states=None)).to_pylist()}
    assert (rows["fact"]["strength"], rows["fact"]["state"]) == (0.5, "active")
    assert (rows["experience"]["state"], rows["experience"]["text"]) == ("deleted", "what experience says")


def test_a_dry_run_leaves_no_trace_in_the_lake(lake: Lake, settings: Settings, clock: ManualClock) -> None:
    add(lake, clock, "unread", "experience")
    seen(lake, clock, "another")
    clock.advance(days=300)
    decay(lake, settings, clock, version="test", dry_run=True)
    assert cool(lake, settings, clock, version="test", dry_run=True).counts == {}
    assert [
        name for name in lake.folders("ns=default") if name.rpartition("/")[2] in ("usage", "runs", "archive")
    ] == []


def test_what_is_away_for_a_month_is_cold_can_be_explained_and_comes_back(
    lake: Lake, settings: Settings, clock: ManualClock
) -> None:
    memory = Memory(settings, clock=clock)
    add(lake, clock, "fact", "fact")
    clock.advance(days=300)
    run(lake, settings, clock)
    assert cool(lake, settings, clock, version="test").counts == {}
    clock.advance(days=31)
    assert cool(lake, settings, clock, version="test", dry_run=True).counts == {"cooled": 1}
    assert cool(lake, settings, clock, version="test").counts == {"cooled": 1}
    assert cool(lake, settings, clock, version="test").counts == {}
    store = status(lake, settings, clock)["store"]
    assert (store["states"], store["cold"]) == ({}, 1)
    assert memory.search("what fact says", states=["archived"]) == []
    assert memory.explain("fact").memory["text"] == "what fact says"

    memory.restore("fact")
    (hit,) = memory.search("what fact says")
    assert (hit.id, hit.state) == ("fact", "pending")
    assert hit.legs["vector"]
    # The day that it was restored counts as its first again, or it would go the same night.
    write_user_act(lake, "default", [
        {"act": "x", "at": clock.now(), "decision": "activate", "id": "fact", "state": "active", "reason": ""}
    ])  # fmt: skip
    assert run(lake, settings, clock) == {}
    build(lake, settings, clock)
    assert [hit.id for hit in Memory(settings, clock=clock).search("what fact says")] == ["fact"]
