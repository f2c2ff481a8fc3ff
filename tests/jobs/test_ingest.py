"""Files of other systems become traces of the lake."""

from __future__ import annotations

import gzip
import io
import json
import sys
import tarfile
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hindlake.jobs.ingest import IngestReport, ingest
from hindlake.memory_store.capture.events import Event, Trace
from hindlake.memory_store.capture.traces import read_traces, scan_events
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.errors import UsageError
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings

NOW = datetime(2026, 3, 1, tzinfo=UTC)
CLOCK = ManualClock(NOW)


def trajectory(order: int, reward: float = 1.0, trial: int = 0) -> dict[str, object]:
    """A run of a small shop agent: a question, a call that fails, a call that works, an answer."""
    return {
        "task_id": order,
        "trial": trial,
        "reward": reward,
        "info": {"task": {"user_id": f"customer_{order}", "instruction": "hidden", "actions": ["hidden"]}},
        "traj": [
            {"role": "system", "content": "You work in a shop."},
            {"role": "user", "content": f"Where is order {order}?"},
            {"role": "assistant", "content": None, "tool_calls": [call("a", "find_order", {"id": 0})]},
            {"role": "tool", "tool_call_id": "a", "name": "find_order", "content": "Error: order not found"},
            {"role": "assistant", "content": "Once more.", "tool_calls": [call("b", "find_order", {"id": order})]},
            {"role": "tool", "tool_call_id": "b", "name": "find_order", "content": '{"state": "on its way"}'},
            {"role": "assistant", "content": "It is on its way."},
        ],
    }


def call(id: str, name: str, arguments: object) -> dict[str, object]:
    """A tool call as OpenAI has it."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


class Loader:
    """A lake in a folder, and how to load into it."""

    def __init__(self, folder: Path) -> None:
        self.settings = Settings.load(home=str(folder / "home"))
        self.lake = Lake.open(self.settings)
        self.folder = folder

    def write(self, name: str, data: bytes | str | object) -> Path:
        """Write a file: bytes and text as they are, anything else as JSON."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(data, bytes):
            path.write_bytes(data)
        else:
            path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
        return path

    def load(self, *paths: Path | str, **options: str) -> IngestReport:
        """Ingest, and check that the counts add up."""
        report = ingest(self.lake, paths, self.settings, CLOCK, **{"namespace": "shop", **options})  # type: ignore[arg-type]
        assert report.records == report.loaded + report.known + len(report.rejected)
        for file in report.files:
            assert file.records == file.loaded + file.known + file.rejected
        return report

    def traces(self) -> list[Trace]:
        """Everything that the lake holds."""
        ids = scan_events(self.lake, "shop", []).column("trace_id").to_pylist()
        return read_traces(self.lake, "shop", ids)

    def events(self) -> list[Event]:
        """Every event that the lake holds."""
        return [event for trace in self.traces() for event in trace.events]


@pytest.fixture
def loader(tmp_path: Path) -> Loader:
    """An empty lake."""
    return Loader(tmp_path)


def test_a_trajectory_becomes_a_trace_with_task_messages_calls_and_outcome(loader: Loader) -> None:
    report = loader.load(loader.write("runs.json", [trajectory(7)]))

    assert (report.loaded, report.known, report.rejected) == (1, 0, ())
    (trace,) = loader.traces()
    assert [(e.type, e.role, e.tool, e.error_code) for e in trace.events] == [
        ("task", "", "", ""),
        ("message", "system", "", ""),
        ("message", "user", "", ""),
        ("tool_call", "agent", "find_order", "order_not_found"),
        ("message", "agent", "", ""),
        ("tool_call", "agent", "find_order", ""),
        ("message", "agent", "", ""),
        ("outcome", "", "", ""),
    ]
    assert [e.seq for e in trace.events] == list(range(8))
    assert trace.goal == "Where is order 7?"
    assert trace.outcome == "success"
    assert trace.events[-1].score == 1.0
    assert {e.subject for e in trace.events} == {"customer_7"}
    assert {(e.at, e.time_source) for e in trace.events} == {(NOW, "ingest")}
    assert {e.source for e in trace.events} == {"ingest:openai-messages"}
    assert {e.source_ref for e in trace.events} == {"runs.json#record 1"}
    failed = trace.tool_calls[0]
    assert (failed.arguments, failed.result) == ('{"id": 0}', "Error: order not found")
    assert failed.error_message == "order not found"


def test_what_only_a_judge_knows_is_not_loaded(loader: Loader) -> None:
    record = {**trajectory(7), "ground_truth": "hidden", "reward_info": {"a": "hidden"}}
    loader.load(loader.write("runs.json", [record]))

    assert not [event for event in loader.events() if "hidden" in str(event)]


@pytest.mark.parametrize(
    ("reward", "outcome"), [(1, "success"), (0, "failure"), (0.4, "partial"), (-1, "failure"), (12, "unknown")]
)
def test_a_reward_is_the_outcome(loader: Loader, reward: float, outcome: str) -> None:
    loader.load(loader.write("runs.json", [trajectory(7, reward)]))

    (trace,) = loader.traces()
    assert (trace.outcome, trace.events[-1].score) == (outcome, reward)


def test_two_trials_of_a_task_share_its_task_id_and_other_tasks_of_that_number_do_not(loader: Loader) -> None:
    other = trajectory(7)
    other["info"] = {"task": {"user_id": "someone", "instruction": "another"}}
    loader.load(loader.write("runs.json", [trajectory(7, 1.0, 0), trajectory(7, 0.0, 1), trajectory(8), other]))

    ids = {trace.events[1].source_ref: trace.first("task_id") for trace in loader.traces()}
    assert len(ids) == 4
    assert ids["runs.json#record 1"] == ids["runs.json#record 2"]
    assert len(set(ids.values())) == 3


def test_loading_twice_gives_no_more(loader: Loader) -> None:
    path = loader.write("runs.json", [trajectory(order) for order in range(5)])
    first = loader.load(path)
    names = loader.lake.names("")
    second = loader.load(path)

    assert (first.loaded, first.known) == (5, 0)
    assert (second.loaded, second.known, second.events) == (0, 5, 0)
    assert loader.lake.names("") == names


def test_the_same_record_in_two_files_is_one_trace(loader: Loader) -> None:
    a = loader.write("a.json", [trajectory(1), trajectory(1)])
    b = loader.write("b.jsonl", json.dumps(trajectory(1)) + "\n" + json.dumps(trajectory(2)))
    report = loader.load(a, b)

    assert (report.loaded, report.known) == (2, 2)
    assert len(loader.traces()) == 2


def test_a_run_that_was_killed_between_two_files_is_completed_by_the_next(loader: Loader) -> None:
    stamped = trajectory(1)
    for number, message in enumerate(stamped["traj"]):  # type: ignore[arg-type,var-annotated]
        message["timestamp"] = f"2026-01-0{number + 1}T10:00:00Z"
    path = loader.write("runs.json", [stamped])
    loader.load(path)
    whole = loader.events()
    loader.lake.delete([name for name in loader.lake.names("") if "day=2026-01-03" in name])
    assert len(loader.events()) < len(whole)

    report = loader.load(path)
    assert (report.loaded, report.known, report.grown) == (0, 1, 1)
    assert loader.events() == whole


def test_many_traces_make_few_files(loader: Loader) -> None:
    loader.load(loader.write("runs.jsonl", "\n".join(json.dumps(trajectory(n)) for n in range(1200))))

    assert len(loader.traces()) == 1200
    assert len(loader.lake.names("ns=shop")) == 2


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("plain", lambda raw: raw),
        ("gz", gzip.compress),
        ("two gz in one file", lambda raw: gzip.compress(raw[:100]) + gzip.compress(raw[100:])),
        ("bom", lambda raw: b"\xef\xbb\xbf" + raw),
        ("utf-16", lambda raw: raw.decode().encode("utf-16")),
    ],
)
def test_packing_is_told_by_the_content_not_the_name(loader: Loader, name: str, pack: Callable[[bytes], bytes]) -> None:
    path = loader.write("data.bin", pack(json.dumps([trajectory(1), trajectory(2)]).encode()))

    assert loader.load(path).loaded == 2


def test_archives_and_folders_are_looked_into(loader: Loader) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as archive:
        for number in range(2):
            raw = json.dumps(trajectory(number)).encode()
            member = tarfile.TarInfo(f"runs/{number}.json")
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))
    loader.write("data/runs.tar.xz", packed.getvalue())
    loader.write("data/deep/more.jsonl", json.dumps(trajectory(5)) + "\n")
    loader.write("data/.hidden/no.jsonl", json.dumps(trajectory(6)) + "\n")
    loader.write("data/LICENCE", "Do what you like.")
    report = loader.load(loader.folder / "data")

    assert report.loaded == 3
    assert [row.where for row in report.rejected] == ["data/LICENCE"]
    refs = {event.source_ref for event in loader.events()}
    assert "data/runs.tar.xz!runs/1.json#line 1" in refs


def test_standard_input_is_a_source(loader: Loader, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(json.dumps(trajectory(1)).encode()))
    monkeypatch.setattr(sys, "stdin", stream)

    assert loader.load("-").loaded == 1


def test_a_broken_line_is_named_and_the_rest_loads(loader: Loader) -> None:
    lines = [json.dumps(trajectory(n)) for n in range(4)]
    lines[1] = lines[1][:50]
    lines[3] = '{"traj": [{"role": "user", "content": "hi"}, 7]}'
    report = loader.load(loader.write("runs.jsonl", "\n".join(lines)))

    assert report.loaded == 2
    assert [(row.where, row.why) for row in report.rejected] == [
        ("runs.jsonl#line 2", "cut off: Expecting value at character 50"),
        ("runs.jsonl#line 4", "message 2 is no object"),
    ]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_broken_element_of_an_array_is_named_and_the_rest_loads(loader: Loader, indent: int | None) -> None:
    elements = [json.dumps(trajectory(n), indent=indent) for n in range(4)]
    elements[1] = elements[1].replace('"reward": 1.0', '"reward": nothing')
    report = loader.load(loader.write("runs.json", "[" + ",\n".join(elements) + "]"))

    assert report.loaded == 3
    assert [row.where for row in report.rejected] == ["runs.json#record 2"]


def test_an_element_that_lost_a_bracket_does_not_take_the_rest_with_it(loader: Loader) -> None:
    elements = [json.dumps(trajectory(n)) for n in range(4)]
    elements[1] = elements[1][:-1]
    report = loader.load(loader.write("runs.json", "[\n" + ",\n".join(elements) + "\n]"))

    assert report.loaded == 3
    assert [row.where for row in report.rejected] == ["runs.json#record 2"]


def test_a_truncated_file_loads_up_to_the_damage(loader: Loader) -> None:
    packed = gzip.compress(json.dumps([trajectory(n, n / 100) for n in range(100)]).encode(), 1)
    report = loader.load(loader.write("runs.json.gz", packed[: len(packed) * 2 // 3]))

    assert 20 < report.loaded < 100
    assert "cut off" in report.rejected[0].why
    assert "ends early" in report.rejected[-1].why


def test_a_file_of_something_else_is_one_row_that_says_what_is_known(loader: Loader) -> None:
    report = loader.load(loader.write("prices.json", [{"price": n} for n in range(50)]))

    (row,) = report.rejected
    assert row.where == "prices.json"
    assert "openai-messages" in row.why


@pytest.mark.parametrize("data", [b"", b"   \n", b"\0\1\2", b"hello", b"\x1f\x8b\x08", b"[", b"{", b'"', b"[1, 2"])
def test_a_file_that_is_nothing_is_rejected(loader: Loader, data: bytes) -> None:
    report = loader.load(loader.write("x", data))

    assert report.loaded == 0
    assert report.rejected


def test_a_path_that_does_not_exist_is_wrong_usage_and_nothing_is_loaded(loader: Loader) -> None:
    path = loader.write("runs.json", [trajectory(1)])
    with pytest.raises(UsageError, match="no file or folder"):
        loader.load(path, loader.folder / "missing.json")
    with pytest.raises(UsageError, match="nothing to ingest"):
        loader.load()
    with pytest.raises(UsageError, match="openai-messages"):
        loader.load(path, format="csv")
    assert loader.traces() == []


def test_calls_and_results_that_do_not_match_are_kept_and_said(loader: Loader) -> None:
    record = {
        "messages": [
            {"role": "tool", "tool_call_id": "z", "name": "lost", "content": "42"},
            {"role": "assistant", "tool_calls": [call("a", "one", {}), call("b", "two", {})]},
            {"role": "tool", "tool_call_id": "b", "content": "2"},
        ]
    }
    report = loader.load(loader.write("runs.json", record))

    calls = [(e.tool, e.call_id, e.result, e.attributes) for e in loader.events() if e.type == "tool_call"]
    assert calls == [
        ("lost", "z", "42", '{"unmatched":"result without a call"}'),
        ("one", "a", "", '{"unmatched":"call without a result"}'),
        ("two", "b", "2", ""),
    ]
    assert report.files[0].notes == [
        "runs.json#line 1: 1 tool results without a call",
        "runs.json#line 1: 1 tool calls without a result",
    ]


def test_odd_text_is_kept_and_long_text_is_cut_with_its_hash(loader: Loader) -> None:
    odd = "NUL \\u0000, half a pair \\ud83d, a pair \\ud83d\\ude00, \\u202eright to left"
    raw = '{"messages": [{"role": "user", "content": "ODD"}, {"role": "user", "content": "LONG"}]}'
    raw = raw.replace("ODD", odd).replace("LONG", "é" * 600)
    loader.settings = Settings.load(home=loader.settings.home, recorder={"max_value_bytes": 1001})
    loader.load(loader.write("runs.json", raw))

    first, second = (e for e in loader.events() if e.type == "message")
    assert first.content == "NUL \0, half a pair \\ud83d, a pair 😀, \u202eright to left"
    assert second.content == "é" * 500
    assert [(cut.field, cut.bytes, len(cut.sha256)) for cut in second.cuts] == [("content", 1200, 64)]


def test_secrets_are_masked_before_anything_is_written(loader: Loader) -> None:
    key = "ghp_" + "a1B2" * 9
    message = {"role": "assistant", "tool_calls": [call("a", "login", {"token": key})]}
    path = loader.write("runs.json", {"messages": [{"role": "user", "content": f"use {key}"}, message]})
    loader.load(path)
    task, said, called = loader.events()
    assert key not in str(loader.events())
    assert (task.masked, said.masked, called.masked) == (1, 1, 1)

    loader.settings = Settings.load(home=loader.settings.home, recorder={"mask_secrets": False})
    loader.load(path, namespace="open")
    rows = scan_events(loader.lake, "open", ["content"])
    assert f"use {key}" in rows.column("content").to_pylist()


def test_a_session_that_went_on_gains_its_new_entries_only(loader: Loader) -> None:
    def entry(number: int, role: str, said: str) -> str:
        at = f"2026-01-01T10:00:0{number}Z"
        message = {"role": role, "content": said}
        return json.dumps({"type": role, "sessionId": "s", "uuid": f"u{number}", "timestamp": at, "message": message})

    lines = [entry(0, "user", "Hello"), entry(1, "assistant", "Hi"), entry(2, "user", "What now?")]
    loader.load(loader.write("log.jsonl", "\n".join(lines[:2])))
    report = loader.load(loader.write("log.jsonl", "\n".join(lines)))
    assert (report.loaded, report.known, report.grown, report.events) == (0, 1, 1, 1)
    (trace,) = loader.traces()
    assert [e.content for e in trace.events] == ["Hello", "Hello", "Hi", "What now?"]


def test_a_trace_whose_spans_lie_in_two_files_is_one(loader: Loader) -> None:
    def line(letter: str, parent: str, start: int) -> str:
        span = {
            "traceId": "5b8efff798038103d269b633813fc60c",
            "spanId": letter * 16,
            "parentSpanId": parent * 16,
            "name": letter,
            "startTimeUnixNano": str(1767225600 * 10**9 + start),
            "endTimeUnixNano": str(1767225601 * 10**9),
        }
        return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})

    one = loader.write("1.jsonl", line("b", "a", 2000))
    two = loader.write("2.jsonl", line("c", "a", 1000) + "\n" + line("a", "", 0))
    report = loader.load(one, two)
    assert (report.loaded, report.known, report.grown) == (1, 1, 1)
    (trace,) = loader.traces()
    assert [e.name for e in trace.events if e.type == "step"] == ["a", "c", "b"]
    assert loader.load(two, one).events == 0


def test_a_zip_is_an_archive_and_a_file_of_it_that_is_nothing_is_a_row(loader: Loader) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("export/conversations.json", json.dumps([trajectory(1)]))
        archive.writestr("export/chat.html", "<html>")
    report = loader.load(loader.write("export.zip", packed.getvalue()))
    assert report.loaded == 1
    assert [row.where for row in report.rejected] == ["export.zip!export/chat.html"]


@given(cut=st.integers(1, 400))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_torn_archive_is_given_a_verdict(loader: Loader, cut: int) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for number in range(3):
            raw = json.dumps(trajectory(number)).encode()
            member = tarfile.TarInfo(f"{number}.json")
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))
    assert loader.load(loader.write("runs.tgz", packed.getvalue()[:-cut])).records > 0


def test_defaults_fill_what_a_record_does_not_say(loader: Loader) -> None:
    path = loader.write("runs.json", [trajectory(1), {"messages": [{"role": "user", "content": "hi"}]}])
    loader.load(path, subject="someone", agent_role="clerk", task_type="orders")

    assert {e.subject for e in loader.events()} == {"customer_1", "someone"}
    assert {(e.agent_role, e.task_type) for e in loader.events()} == {("clerk", "orders")}


MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["user", "assistant", "tool", "system", "x"]) | st.none(),
        "content": st.none() | st.text(max_size=8) | st.lists(st.dictionaries(st.text(max_size=4), st.text())),
        "tool_calls": st.lists(st.none() | st.dictionaries(st.sampled_from(["id", "function", "name"]), st.text())),
        "timestamp": st.integers() | st.floats() | st.text(max_size=20),
    },
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10) | MESSAGE,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["messages", "traj", "reward", "task_id", "info", "task", "request", "choices", "user_id"])
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(records=st.lists(JSON, max_size=5), lines=st.booleans())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_is_given_a_verdict(loader: Loader, records: list[object], lines: bool) -> None:
    raw = "\n".join(map(json.dumps, records)) if lines else json.dumps(records)
    report = loader.load(loader.write("any.json", raw))

    assert report.records > 0


@given(data=st.data())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_mutated_or_truncated_file_is_given_a_verdict(loader: Loader, data: st.DataObject) -> None:
    records = [json.dumps(trajectory(n), indent=data.draw(st.sampled_from([None, 1]))) for n in range(3)]
    text = "[" + ",\n".join(records) + "]" if data.draw(st.booleans()) else "\n".join(records)
    raw = bytearray(text.encode())
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=4))
    packed = gzip.compress(bytes(raw)) if data.draw(st.booleans()) else bytes(raw)
    packed = packed[: data.draw(st.integers(0, len(packed)))]

    assert loader.load(loader.write("any", packed)).records > 0
