"""What distinct traces confirm rises, once, and nothing else does."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hindlake.jobs.deciding.decide import Decided
from hindlake.jobs.promote import confirmed, promote, promotions, traces_of
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.inbox import Row
from hindlake.memory_store.schema import table_of
from hindlake.memory_store.settings import Settings
from hindlake.sdk.memory import Memory
from story_home import TODAY


def row(id: str, *traces: str, **columns: Any) -> Row:
    evidence = [{"trace_id": trace, "event_id": "e", "quote": ""} for trace in traces]
    plain = {"kind": "fact", "state": "active", "confidence": 0.5, "superseded_by": "", "said_by": "user", "tags": []}
    return {"id": id, "evidence": evidence, **plain, **columns}


def decide_on(rows: list[Row], least: int) -> Decided:
    memories = table_of(rows, "memories")
    whole = Decided()
    for some in promotions(memories, traces_of(memories), least):
        whole.acts += some.acts
        whole.counts.update(some.counts)
    return whole


def promoted(decided: Decided) -> dict[str, float]:
    return {act[0]["id"]: act[0]["confidence"] for act in decided.acts}


def test_a_memory_that_two_traces_show_rises() -> None:
    assert promoted(decide_on([row("a", "t1", "t2"), row("b", "t1")], 2)) == {"a": 0.75}


def test_what_was_merged_into_a_memory_confirms_it_however_long_the_chain() -> None:
    rows = [
        row("a", "t1"),
        row("b", "t2", state="merged", superseded_by="a"),
        row("c", "t3", state="merged", superseded_by="b"),
    ]
    assert promoted(decide_on(rows, 2)) == {"a": confirmed(3)}


def test_the_same_trace_twice_is_one() -> None:
    rows = [row("a", "t1", "t1"), row("b", "t1", state="merged", superseded_by="a")]
    assert decide_on(rows, 2).counts == {"unconfirmed": 1}


def test_what_was_superseded_confirms_nothing() -> None:
    rows = [row("new", "t1"), row("old", "t2", "t3", state="superseded", superseded_by="new")]
    assert decide_on(rows, 2).acts == []


def test_a_page_that_is_read_again_confirms_nothing() -> None:
    assert decide_on([row("a", "t1", "t2", "t3", said_by="web")], 2).counts == {"untrusted": 1}


def test_a_pattern_counts_its_tasks_itself() -> None:
    assert decide_on([row("a", "t1", "t2", tags=["pattern"])], 2).counts == {"patterns": 1}


def test_a_ring_of_merged_memories_ends() -> None:
    rows = [
        row("a", "t1", state="merged", superseded_by="b"),
        row("b", "t2", state="merged", superseded_by="a"),
        row("c", "t3", state="merged", superseded_by="gone"),
    ]
    assert decide_on(rows, 1).acts == []


MEMORIES = st.lists(
    st.tuples(
        st.sets(st.sampled_from("pqrst"), max_size=4), st.sampled_from(["active", "merged"]), st.integers(0, 7)
    ),
    max_size=8,
)  # fmt: skip


@given(MEMORIES, st.integers(1, 4))
def test_support_is_what_a_naive_walk_counts(memories: list[tuple[set[str], str, int]], least: int) -> None:
    rows = [
        row(f"m{number}", *traces, state=state, superseded_by="" if state == "active" else f"m{into}")
        for number, (traces, state, into) in enumerate(memories)
    ]
    support: dict[str, set[str]] = defaultdict(set)
    for number, (traces, _, _) in enumerate(memories):
        at = number
        for _ in range(20):
            if at >= len(memories) or memories[at][1] == "active":
                break
            at = memories[at][2]
        if at < len(memories) and memories[at][1] == "active":
            support[f"m{at}"] |= traces
    decided = decide_on(rows, least)
    expected = {id: confirmed(len(traces)) for id, traces in support.items() if len(traces) >= least}
    assert promoted(decided) == {id: value for id, value in expected.items() if value >= 0.51}
    assert len(decided.acts) + decided.counts.total() == sum(state == "active" for _, state, _ in memories)


def test_a_second_run_promotes_nothing(settings: Settings) -> None:
    memory, lake, clock = Memory(settings, clock=ManualClock(TODAY)), Lake.open(settings), ManualClock(TODAY)
    memory.remember("The boiler needs a reset after a power cut.", kind="fact", confidence=0.4)
    first = promote(lake, settings, clock, version="test")
    assert first.counts["promote"] == 0
    assert promote(lake, settings, clock, version="test").counts == first.counts
