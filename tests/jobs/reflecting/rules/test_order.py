"""A change that closed the way to another one; and changes that did not."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from hindlake.jobs.reflecting.rules.order import order_of
from hindlake.memory_store.capture.events import Event, Trace, trace_of

START = datetime(2026, 5, 1, 9, tzinfo=UTC)


def call(tool: str, berth: str, status: str = "", error: str = "") -> dict[str, str]:
    return {
        "type": "tool_call",
        "tool": tool,
        "arguments": json.dumps({"berth": berth}),
        "result": json.dumps({"status": status}) if status else "",
        "error_code": "failed" if error else "",
        "error_message": error,
    }


def trace(*events: dict[str, str]) -> Trace:
    return trace_of([Event("acme", "t", f"t-{n}", n, START + timedelta(seconds=n), **e) for n, e in enumerate(events)])  # type: ignore[arg-type]


SEE = call("get_berth", "B-2201", "open")
SEAL = call("update_contract", "B-2201", "sealed")
REFUSED = call("change_boat", "B-2201", error="sealed contract cannot be changed")


def test_the_first_change_is_named_with_the_one_that_it_closed() -> None:
    (lesson,) = order_of(trace(SEE, SEAL, REFUSED), "move a boat", False)
    assert (lesson.rule, lesson.tool, lesson.error_class) == ("order", "change_boat", "not_permitted")
    assert lesson.trigger == "update_contract is asked for, and change_boat may be wanted for the same thing"
    assert lesson.action == "settle both before you call update_contract: after it change_boat is refused"
    assert [event.event_id for event, _ in lesson.evidence] == ["t-1", "t-2"]


def test_in_chinese_it_is_said_in_chinese() -> None:
    (lesson,) = order_of(trace(SEE, SEAL, REFUSED), "换船", True)
    assert lesson.trigger == "要 update_contract，同一对象可能还要 change_boat"


@pytest.mark.parametrize(
    "events",
    [
        (SEE, REFUSED),  # nothing was changed before
        (REFUSED, SEAL),  # the change came after
        (SEE, call("update_contract", "B-9907", "sealed"), REFUSED),  # another thing was changed
        (SEE, call("update_contract", "B-2201", "open"), REFUSED),  # it stayed as it was
        (SEE, call("get_contract", "B-2201", "sealed"), REFUSED),  # it was only read
        (SEE, SEAL, call("change_boat", "B-2201", error="gateway timed out")),  # it failed for another reason
        (SEE, call("change_boat", "B-2201", "changed"), SEAL, REFUSED),  # the tool had worked on it
        (SEE, call("update_contract", "B-2201", error="not allowed"), REFUSED),  # the first one failed too
    ],
)
def test_what_closed_nothing_is_no_lesson(events: tuple[dict[str, str], ...]) -> None:
    assert order_of(trace(*events), "move a boat", False) == []
