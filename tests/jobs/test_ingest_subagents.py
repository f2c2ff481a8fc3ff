"""Claude Code's subagents: what each did is a trace of its own, wherever its entries lie."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hindlake.jobs.ingest import IngestReport, ingest
from hindlake.memory_store.capture.events import Trace
from hindlake.memory_store.capture.traces import read_traces, scan_events
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from hindlake.sdk.integrations.claude_code import session_trace

SESSION = "0c9d7a52-0000-4000-8000-000000000007"


def entry(uuid: str, role: str, content: object, after: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "parentUuid": after, "isSidechain": False, "userType": "external", "cwd": "/home/me/shop", "version": "2.1.0",
        "sessionId": SESSION, "gitBranch": "main", "type": role, "uuid": uuid, "timestamp": "2026-03-01T10:00:00Z",
        "message": {"role": role, "content": content}, **more,
    }  # fmt: skip


def call(id: str, tool: str, **arguments: str) -> list[dict[str, Any]]:
    return [{"type": "tool_use", "id": id, "name": tool, "input": arguments}]


def result(id: str, content: str, **more: object) -> list[dict[str, Any]]:
    return [{"type": "tool_result", "tool_use_id": id, "content": content, **more}]


MAIN = [
    entry("m1", "user", "Find the dead code and the slow tests."),
    entry("m2", "assistant", call("t1", "Task", prompt="Find dead code", subagent_type="finder"), "m1"),
    entry("m3", "user", result("t1", "None."), "m2"),
    entry("m4", "assistant", [{"type": "text", "text": "There is none."}], "m3"),
]


def side(name: str, **more: Any) -> list[dict[str, Any]]:
    """What a subagent did: it is told, calls a tool in vain, and answers."""
    beside = {"isSidechain": True, **more}
    return [
        entry(f"{name}1", "user", f"Find {name}", **beside),
        entry(f"{name}2", "assistant", call(f"{name}-c", "Grep", pattern=name), f"{name}1", **beside),
        entry(f"{name}3", "user", result(f"{name}-c", "Error: no such pattern", is_error=True), f"{name}2", **beside),
        entry(f"{name}4", "assistant", [{"type": "text", "text": f"No {name}."}], f"{name}3", **beside),
    ]


def write(path: Path, *entries: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in entries), encoding="utf-8")


def within(folder: Path) -> None:
    """Older logs: two subagents at once, their entries mixed among the session's."""
    mixed = [one for pair in zip(side("dead code"), side("slow tests"), strict=True) for one in pair]
    write(folder / f"{SESSION}.jsonl", *MAIN[:2], *mixed, *MAIN[2:])


def beside(folder: Path) -> None:
    """Later ones: a file a subagent, beside the session's."""
    write(folder / "agent-a1.jsonl", *side("dead code", agentId="a1"))
    write(folder / "agent-a2.jsonl", *side("slow tests", agentId="a2"))
    write(folder / f"{SESSION}.jsonl", *MAIN)


def below(folder: Path) -> None:
    """Today's: a file a subagent, in a folder of the session's."""
    beside(folder)
    own = folder / SESSION / "subagents"
    own.mkdir(parents=True)
    for path in folder.glob("agent-*.jsonl"):
        path.rename(own / path.name)


LAYOUTS = pytest.mark.parametrize("layout", [within, beside, below], ids=lambda layout: layout.__name__)


def load(settings: Settings, folder: Path) -> tuple[IngestReport, dict[str, Trace]]:
    lake = Lake.open(settings)
    report = ingest(lake, [folder], settings, ManualClock(), namespace="default")
    ids = sorted(set(scan_events(lake, "default", ["trace_id"]).column("trace_id").to_pylist()))
    return report, {trace.trace_id: trace for trace in read_traces(lake, "default", ids)}


@LAYOUTS
def test_what_a_subagent_did_is_a_trace_that_its_session_began(layout: Any, settings: Settings, tmp_path: Path) -> None:
    layout(tmp_path / "logs")
    report, traces = load(settings, tmp_path / "logs")
    assert (report.loaded, report.rejected) == (3, ())
    main = traces.pop(session_trace("default", SESSION))
    assert [(one.type, one.content or one.tool) for one in main.events] == [
        ("task", "Find the dead code and the slow tests."),
        ("message", "Find the dead code and the slow tests."),
        ("tool_call", "Task"),
        ("message", "There is none."),
    ]
    assert {one.parent_trace_id for one in main.events} == {""}
    outlines = []
    for trace in traces.values():
        assert {(one.parent_trace_id, one.conversation_id) for one in trace.events} == {(main.trace_id, SESSION)}
        outlines.append([(one.type, one.role, one.content or one.tool) for one in trace.events])
    assert sorted(outlines) == [
        [("task", "", f"Find {name}"), ("message", "system", f"Find {name}"), ("tool_call", "agent", "Grep"),
         ("message", "agent", f"No {name}.")]
        for name in ("dead code", "slow tests")
    ]  # fmt: skip


@LAYOUTS
def test_the_same_logs_again_change_nothing_and_a_subagent_that_went_on_grows(
    layout: Any, settings: Settings, tmp_path: Path
) -> None:
    layout(tmp_path / "logs")
    load(settings, tmp_path / "logs")
    again, traces = load(settings, tmp_path / "logs")
    assert (again.loaded, again.known, again.events) == (0, 3, 0)
    grown = next(path for path in sorted((tmp_path / "logs").rglob("*.jsonl")) if "dead code4" in path.read_text())
    last = json.loads(next(line for line in grown.read_text().splitlines() if "dead code4" in line))
    with grown.open("a", encoding="utf-8") as log:
        log.write(json.dumps({**last, "uuid": "later", "parentUuid": last["uuid"]}) + "\n")
    report, after = load(settings, tmp_path / "logs")
    assert (report.loaded, report.grown, report.events) == (0, 1, 1)
    assert after.keys() == traces.keys()


def test_a_subagents_entries_without_its_session_and_without_ids_are_still_its_own(
    settings: Settings, tmp_path: Path
) -> None:
    odd = [{name: value for name, value in one.items() if name != "uuid"} for one in side("dead code")]
    write(tmp_path / "logs" / "odd.jsonl", *odd[:1], *side("slow tests")[1:])
    report, traces = load(settings, tmp_path / "logs")
    assert (report.loaded, report.rejected, len(traces)) == (2, (), 2)
    parents = {one.parent_trace_id for trace in traces.values() for one in trace.events}
    assert parents == {session_trace("default", SESSION)}
