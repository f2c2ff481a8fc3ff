"""Spans of a live agent reach the lake."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from hindlake.jobs.ingest import ingest
from hindlake.memory_store.capture.events import Event
from hindlake.memory_store.capture.traces import read_traces, scan_events
from hindlake.memory_store.clock import SystemClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from hindlake.sdk.recorder import Recorder

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")

from opentelemetry.sdk.trace import ReadableSpan, Tracer, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult

from hindlake.sdk.otel import HindlakeSpanExporter

SYSTEM = {"role": "system", "parts": [{"type": "text", "content": "You run a library."}]}
USER = {"role": "user", "parts": [{"type": "text", "content": "Is the atlas in?"}]}
ASKED = {"type": "tool_call", "id": "c1", "name": "shelf", "arguments": {"book": "atlas"}}
CALL = {"role": "assistant", "parts": [ASKED]}
RESULT = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "result": "Error: no such shelf"}]}
ANSWER = {"role": "assistant", "parts": [{"type": "text", "content": "I can't find its shelf."}]}


class Memory(SpanExporter):
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans.extend(spans)
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        pass


def run_agent(tracer: Tracer, *, with_tool_span: bool = True) -> None:
    """An agent that asks its model, calls a tool that fails, and answers."""
    with tracer.start_as_current_span("invoke_agent librarian") as root:
        root.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "librarian",
                             "gen_ai.conversation.id": "talk-1", "user.id": "reader-7",
                             "hindlake.outcome": "partial", "hindlake.score": 0.5})  # fmt: skip
        with tracer.start_as_current_span("chat") as chat:
            chat.set_attributes({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m1",
                                 "gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 3,
                                 "gen_ai.input.messages": json.dumps([SYSTEM, USER]),
                                 "gen_ai.output.messages": json.dumps([CALL])})  # fmt: skip
        if with_tool_span:
            with tracer.start_as_current_span("execute_tool shelf") as tool:
                tool.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "shelf",
                                     "gen_ai.tool.call.id": "c1",
                                     "gen_ai.tool.call.result": "Error: no such shelf"})  # fmt: skip
        with tracer.start_as_current_span("chat") as chat:
            chat.set_attributes({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m1",
                                 "gen_ai.input.messages": json.dumps([SYSTEM, USER, CALL, RESULT]),
                                 "gen_ai.output.messages": json.dumps([ANSWER])})  # fmt: skip


def events(home: Path) -> list[Event]:
    settings = Settings.load(home=str(home))
    lake = Lake.open(settings)
    ids = scan_events(lake, "default", []).column("trace_id").to_pylist()
    return [event for trace in read_traces(lake, "default", ids) for event in trace.events]


@pytest.mark.parametrize("processor", [SimpleSpanProcessor, BatchSpanProcessor])
@pytest.mark.parametrize("with_tool_span", [True, False])
def test_an_agents_spans_become_one_trace_whichever_lots_they_come_in(
    tmp_path: Path, processor: type[SimpleSpanProcessor] | type[BatchSpanProcessor], with_tool_span: bool
) -> None:
    with Recorder(home=tmp_path / "home") as recorder:
        provider = TracerProvider()
        provider.add_span_processor(processor(HindlakeSpanExporter(recorder)))
        run_agent(provider.get_tracer("test"), with_tool_span=with_tool_span)
        assert provider.force_flush()
        provider.shutdown()

    found = events(tmp_path / "home")
    assert [(e.type, e.role, e.content or e.tool or e.name) for e in found if e.type != "step"] == [
        ("task", "", "Is the atlas in?"),
        ("message", "system", "You run a library."),
        ("message", "user", "Is the atlas in?"),
        ("tool_call", "agent", "shelf"),
        ("message", "agent", "I can't find its shelf."),
        ("outcome", "", ""),
    ]
    call = next(e for e in found if e.type == "tool_call")
    assert (call.arguments, call.error_code) == ('{"book":"atlas"}', "no_such_shelf")
    assert sum(e.type == "step" for e in found) == 3
    assert (found[-1].outcome, found[-1].score) == ("partial", 0.5)
    assert {e.source for e in found} == {"otel"}
    assert found[0].subject == "reader-7"


def test_exporting_live_and_ingesting_a_collectors_file_is_once(tmp_path: Path) -> None:
    memory = Memory()
    with Recorder(home=tmp_path / "home") as recorder:
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(HindlakeSpanExporter(recorder)))
        provider.add_span_processor(SimpleSpanProcessor(memory))
        run_agent(provider.get_tracer("test"))
        provider.force_flush()
        provider.shutdown()
    live = events(tmp_path / "home")
    path = tmp_path / "spans.jsonl"
    path.write_text("\n".join(span.to_json(indent=None) for span in memory.spans))

    settings = Settings.load(home=str(tmp_path / "home"))
    report = ingest(Lake.open(settings), [path], settings, SystemClock(), namespace="default")
    assert (report.loaded, report.known, report.events) == (0, 1, 0)
    assert events(tmp_path / "home") == live


def test_a_failed_root_is_a_failed_task_with_its_exception(tmp_path: Path) -> None:
    with Recorder(home=tmp_path / "home") as recorder:
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(HindlakeSpanExporter(recorder)))
        with pytest.raises(LookupError), provider.get_tracer("test").start_as_current_span("job"):
            raise LookupError("no such book")
        provider.shutdown()

    found = events(tmp_path / "home")
    assert [(e.type, e.error_code, e.error_message) for e in found[1:]] == [
        ("step", "LookupError", "LookupError: no such book"),
        ("outcome", "LookupError", "LookupError: no such book"),
    ]
    assert found[-1].outcome == "failure"


def test_a_call_without_a_result_waits_until_the_root_ends(tmp_path: Path) -> None:
    with Recorder(home=tmp_path / "home") as recorder:
        exporter = HindlakeSpanExporter(recorder)
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        tracer = provider.get_tracer("test")
        with tracer.start_as_current_span("root"):
            with tracer.start_as_current_span("chat") as chat:
                chat.set_attributes({"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps([CALL])})
            assert exporter.force_flush()
            assert [e.type for e in events(tmp_path / "home")] == ["step"]
        provider.shutdown()

    calls = [e for e in events(tmp_path / "home") if e.type == "tool_call"]
    assert [(e.tool, "call without a result" in e.attributes) for e in calls] == [("shelf", True)]


def test_a_full_disk_is_a_failure_that_is_counted_and_does_not_reach_the_agent(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    settings = Settings.load(home=str(tmp_path / "home"), spool=str(tmp_path / "file" / "spool"))
    with Recorder(settings) as recorder:
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(HindlakeSpanExporter(recorder)))
        with provider.get_tracer("test").start_as_current_span("job"):
            pass
        provider.shutdown()
        assert recorder.status().failed > 0
