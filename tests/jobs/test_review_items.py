"""What a reviewer is shown, and what is read of a file of verdicts."""

from __future__ import annotations

import json

import pytest

from hindlake.jobs.review_items import items_of, verdicts_of
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.records.reviews import Verdict
from hindlake.memory_store.settings import Settings
from review_home import lesson, log_trace


def test_a_memory_stands_beside_the_event_it_quotes_with_its_neighbours_and_the_outcome(lake: Lake) -> None:
    log_trace(lake, "t1")
    (item,) = items_of(lake, "default", [lesson("m1")])
    assert (item.kind, item.reflector, item.prompt) == ("experience", "openai:scripted@reflect.v1", "reflect.v1")
    assert item.says["trigger"] == "stock is looked up in a m1 shop"
    (ground,) = item.evidence
    assert (ground.goal, ground.outcome) == ("Look up the stock", "failure")
    assert ground.before is not None and ground.event is not None and ground.after is not None
    assert (ground.before.who, ground.event.who, ground.after.who) == ("user", "find_stock", "agent")
    assert "failed: BAD_WAREHOUSE warehouse is required" in ground.event.text
    assert json.loads(json.dumps(item.plain()))["evidence"][0]["event"]["at"].startswith("2026-02-10")


def test_of_a_long_event_the_part_around_the_quote_is_shown(lake: Lake) -> None:
    long = "x" * 50_000 + " the needle is here " + "y" * 50_000
    log_trace(lake, "t1", {"role": "tool", "content": long})
    memory = lesson("m1", evidence=[{"trace_id": "t1", "event_id": "t1-e5", "quote": "the needle is here"}])
    ((ground,),) = [item.evidence for item in items_of(lake, "default", [memory])]
    assert ground.event is not None
    assert "the needle is here" in ground.event.text
    assert len(ground.event.text) < 1_000


def test_a_terminal_can_not_be_played_with_and_what_is_gone_is_said(lake: Lake) -> None:
    log_trace(lake, "t1", {"role": "tool", "content": "\x1b]0;owned\x07 \x1b[2J gone"})
    one = lesson("m1", evidence=[{"trace_id": "t1", "event_id": "t1-e5", "quote": "gone"}])
    other = lesson("m2", trace="t-gone")
    purged = lesson("m3", text=None)
    items = list(items_of(lake, "default", [one, other, purged]))
    assert [item.id for item in items] == ["m1", "m2"]
    assert "\x1b" not in str(items[0].plain())
    assert items[1].evidence[0].event is None


def test_verdicts_are_read_line_by_line_and_a_bad_line_costs_no_other(settings: Settings) -> None:
    lines = [
        '{"id": "a", "verdict": "Right", "text": "is passed over"}',
        "",
        '{"id": "b", "verdict": "wrong", "reason": "two\\nlines\\u0000", "better": "so"}',
        '{"id": "c", "verdict": ""}',
        '{"id": "c", "verdict": null}',
        "{broken",
        "[1]",
        '{"id": "d", "verdict": "maybe"}',
        '{"verdict": "right"}',
        '{"id": "e", "verdict": "right", "reason": 7}',
        json.dumps({"id": "f", "verdict": "right", "reason": "x" * 5_000}),
        '{"id": "g", "verdict": "unsure"}',
    ]
    verdicts, bad = verdicts_of(lines, settings)
    assert verdicts == [Verdict("a", "right"), Verdict("b", "wrong", "two lines", "so"), Verdict("g", "unsure")]
    assert [item.line for item in bad] == [6, 7, 8, 9, 10, 11]
    assert "right, wrong, unsure" in bad[2].why


@pytest.mark.parametrize("field", ["reason", "better"])
def test_a_secret_in_what_a_reviewer_writes_is_masked(settings: Settings, field: str) -> None:
    line = json.dumps({"id": "a", "verdict": "wrong", field: "it holds AKIAIOSFODNN7EXAMPLE"})
    ((verdict,), _) = verdicts_of([line], settings)
    assert getattr(verdict, field) == "it holds [masked:aws_key]"
