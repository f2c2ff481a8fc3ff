"""What complements each other becomes one memory that says it all; parents are retired, and undo brings them back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from activating import activate
from hindlake.jobs.deciding.meet import Scale
from hindlake.jobs.merge import COMPOSED, MOST_PARENTS, compose, composed, merge
from hindlake.jobs.undo import undo
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from hindlake.sdk.memory import Memory
from story_home import TODAY


@pytest.fixture
def memory(settings: Settings) -> Iterator[Memory]:
    with Memory(settings, clock=ManualClock(TODAY)) as memory:
        yield memory


def run(settings: Settings, **options: Any) -> Any:
    activate(settings)
    return merge(Lake.open(settings), settings, ManualClock(TODAY + timedelta(days=7)), version="test", **options)


def kept(memory: Memory, **where: Any) -> set[str]:
    return {hit.text for hit in memory.search("", subject="ann", limit=50, **where)}


@pytest.mark.usefixtures("shipped_embedder")
def test_likes_email_no_phone_calls_wants_fast_replies_is_one_preference(settings: Settings, memory: Memory) -> None:
    for hour, text in enumerate(("likes e-mail", "no phone calls", "wants fast replies")):
        said_at = TODAY + timedelta(hours=hour)
        memory.remember(text, "preference", subject="ann", entities=[text.split()[-1]], valid_from=said_at)
    assert run(settings).counts["add"] == 1
    (hit,) = memory.search("how to reach her", subject="ann")
    assert hit.text == "likes e-mail; no phone calls; wants fast replies."
    assert (hit.kind, hit.state, set(hit.entities)) == ("preference", "active", {"e-mail", "calls", "replies"})
    assert len(memory.explain(hit.id).replaces) == 3


def test_what_is_composed_again_is_made_of_what_was_said_and_not_of_a_merged_text(
    settings: Settings, memory: Memory
) -> None:
    said = [("likes e-mail", TODAY), ("no phone calls", TODAY + timedelta(hours=1))]
    first = [memory.remember(text, "preference", subject="ann", valid_from=at) for text, at in said]
    run(settings)
    at = TODAY + timedelta(hours=2)
    last = memory.remember("wants fast replies", kind="preference", subject="ann", valid_from=at)
    assert run(settings).counts["add"] == 1
    (hit,) = memory.search("", subject="ann")
    assert hit.text == "likes e-mail; no phone calls; wants fast replies."
    assert set(memory.explain(hit.id).memory["derived_from"]) == {*first, last}


def test_a_second_run_composes_nothing(settings: Settings, memory: Memory) -> None:
    for text in ("likes e-mail", "no phone calls"):
        memory.remember(text, kind="preference", subject="ann")
    run(settings)
    assert run(settings).counts["add"] == 0


def test_undo_brings_the_parents_back(settings: Settings, memory: Memory) -> None:
    for text in ("likes e-mail", "no phone calls"):
        memory.remember(text, kind="preference", subject="ann")
    report = run(settings)
    undo(Lake.open(settings), settings, ManualClock(TODAY + timedelta(days=9)), report.run_id, version="test")
    assert kept(memory) == {"likes e-mail", "no phone calls"}


def test_a_value_that_can_change_stays_by_itself(settings: Settings, memory: Memory) -> None:
    memory.remember("reach her by e-mail", kind="preference", subject="ann", attribute="contact", value="e-mail")
    memory.remember("no phone calls", kind="preference", subject="ann")
    assert run(settings).counts["add"] == 0
    assert run(settings, holds_many=lambda attribute: attribute == "contact").counts["add"] == 1


def test_lessons_are_not_composed(settings: Settings, memory: Memory) -> None:
    for text in ("call by e-mail when pay fails", "reply by phone when pay fails"):
        memory.remember(text, kind="experience", subject="ann")
    assert run(settings).counts["add"] == 0


TEXTS = st.lists(
    st.sampled_from(
        ["likes e-mail", "no phone calls", "wants fast replies", "never call before 9", "prefers SMS", "email only",
         "wants replies in English", "no WeChat", "the kettle is red"]
    ),
    max_size=9,
)  # fmt: skip


@given(TEXTS)
def test_every_word_of_a_parent_is_in_the_new_text_and_no_memory_is_lost(texts: list[str]) -> None:
    rows = [
        {
            **dict.fromkeys(("attribute", "value", "tool", "error_code", "outcome", "task_type", "agent_role"), ""),
            **dict.fromkeys(("said_by", "language", "about", "need", "offer", "superseded_by"), ""),
            "id": f"m{number}", "kind": "preference", "subject": "s", "text": text, "state": "active", "entities": [],
            "valid_from": TODAY + timedelta(hours=number), "tags": [], "quality": 3, "importance": 0.5,
            "confidence": 0.5, "evidence": [{"trace_id": f"t{number}", "event_id": "e", "quote": ""}],
            "derived_from": [],
        }
        for number, text in enumerate(texts)
    ]  # fmt: skip
    decided = composed(rows, np.full((len(rows), 4), np.nan, np.float32), Scale("nobody"), {}, namespace="n")
    retired = [row["id"] for act in decided.acts for row in act[1:]]
    assert len(retired) == len(set(retired)) == decided.counts["retired"]
    assert decided.counts["kept"] + decided.counts["retired"] == len(rows)
    by_id = {row["id"]: row for row in rows}
    for new, *parents in decided.acts:
        assert COMPOSED in new["tags"]
        assert 2 <= len(parents) <= MOST_PARENTS
        assert all(by_id[row["id"]]["text"] in new["text"] for row in parents)
        assert {item["trace_id"] for item in new["evidence"]} == {f"t{row['id'][1:]}" for row in parents}


def test_a_text_keeps_its_own_words_and_its_language() -> None:
    assert compose(["预算5000元。", "喜欢靠窗"]) == "预算5000元；喜欢靠窗。"
    assert compose(["Is it late?", "Never late!"]) == "Is it late?; Never late!"
