"""Spans become events: each span one, each message once, a call and its span one."""

from __future__ import annotations

import json
import random

import pytest

from hindlake.memory_store.capture.events import Event
from hindlake.memory_store.formats import Stamp, finish
from hindlake.memory_store.formats.loose import moment
from hindlake.memory_store.formats.spans import Said, Span, SpanEvent, spans_draft

START = 1_767_225_600_000_000_000
SECOND = 1_000_000_000
STAMP = Stamp("shop", moment(START) or pytest.fail())


def span(id: str, parent: str = "", start: float = 0, end: float = 1, **fields: object) -> Span:
    name = str(fields.pop("name", id))
    made = Span("t", id, name, parent, START + round(start * SECOND), START + round(end * SECOND))
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def shown(events: list[Event]) -> list[tuple[str, str, str]]:
    return [(e.type, e.role, e.content or e.tool or e.name) for e in events]


MESSAGES = [("system", "You count birds."), ("user", "How many?")]
OPENINFERENCE = {
    "openinference.span.kind": "LLM",
    **{f"llm.input_messages.{n}.message.role": role for n, (role, _) in enumerate(MESSAGES)},
    **{f"llm.input_messages.{n}.message.content": said for n, (_, said) in enumerate(MESSAGES)},
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "count",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"of":"birds"}',
    "llm.model_name": "m", "llm.token_count.prompt": 7, "llm.token_count.completion": 2,
}  # fmt: skip
TRACELOOP = {
    "llm.request.type": "chat",
    **{f"gen_ai.prompt.{n}.role": role for n, (role, _) in enumerate(MESSAGES)},
    **{f"gen_ai.prompt.{n}.content": said for n, (_, said) in enumerate(MESSAGES)},
    "gen_ai.completion.0.role": "assistant",
    "gen_ai.completion.0.tool_calls.0.id": "c",
    "gen_ai.completion.0.tool_calls.0.name": "count",
    "gen_ai.completion.0.tool_calls.0.arguments": '{"of":"birds"}',
    "gen_ai.request.model": "m", "gen_ai.usage.prompt_tokens": "7", "gen_ai.usage.completion_tokens": 2,
}  # fmt: skip
CALL = {"type": "tool_call", "id": "c", "name": "count", "arguments": {"of": "birds"}}
GENAI = {
    "gen_ai.operation.name": "chat",
    "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "You count birds."}]),
    "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": "How many?"}]}]),
    "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [CALL], "finish_reason": "tool_call"}]),
    "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": 2,
}  # fmt: skip
ADK = {
    "gcp.vertex.agent.llm_request": json.dumps({"config": {"system_instruction": "You count birds."}, "contents": [
        {"role": "user", "parts": [{"text": "How many?"}]}]}),
    "gcp.vertex.agent.llm_response": json.dumps({"content": {"role": "model", "parts": [
        {"function_call": {"id": "c", "name": "count", "args": {"of": "birds"}}}]}}),
    "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": 2,
}  # fmt: skip
VERCEL = {
    "gen_ai.operation.name": "chat", "ai.model.id": "m", "ai.usage.promptTokens": 7, "ai.usage.completionTokens": 2,
    "ai.prompt.messages": json.dumps([{"role": role, "content": said} for role, said in MESSAGES]),
    "ai.response.toolCalls": json.dumps([{"toolCallId": "c", "toolName": "count", "args": {"of": "birds"}}]),
}  # fmt: skip
GENAI_EVENTS = [
    SpanEvent("gen_ai.system.message", {"content": "You count birds."}),
    SpanEvent("gen_ai.user.message", {"content": "How many?"}),
    SpanEvent("gen_ai.choice", {"index": 0, "finish_reason": "tool_calls", "message": json.dumps({"tool_calls": [
        {"id": "c", "function": {"name": "count", "arguments": '{"of":"birds"}'}}]})}),
]  # fmt: skip
OLD_GENAI = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 7,
             "gen_ai.usage.output_tokens": 2}  # fmt: skip


@pytest.mark.parametrize(
    ("attributes", "events"),
    [(OPENINFERENCE, []), (TRACELOOP, []), (GENAI, []), (ADK, []), (VERCEL, []), (OLD_GENAI, GENAI_EVENTS)],
    ids=["openinference", "traceloop", "genai", "adk", "vercel", "genai events"],
)
def test_every_generation_of_the_conventions_says_the_same(
    attributes: dict[str, object], events: list[SpanEvent]
) -> None:
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "count", "gen_ai.tool.call.id": "c",
            "gen_ai.tool.call.result": "14"}  # fmt: skip
    draft = spans_draft("t", [
        span("root", end=9),
        span("llm", "root", 1, 2, attributes=attributes, events=events),
        span("tool", "root", 3, 4, attributes=tool),
    ])  # fmt: skip

    assert shown(draft.events) == [
        ("task", "", "How many?"),
        ("step", "", "root"),
        ("step", "agent", "llm"),
        ("message", "system", "You count birds."),
        ("message", "user", "How many?"),
        ("tool_call", "agent", "count"),
        ("outcome", "", ""),
    ]
    llm, call = draft.events[2], draft.events[5]
    assert (llm.model, llm.input_tokens, llm.output_tokens, llm.latency_us) == ("m", 7, 2, 1_000_000)
    assert (call.arguments.replace(" ", ""), call.result, call.parent_event_id) == ('{"of":"birds"}', "14", "root")
    assert draft.events[3].parent_event_id == "llm"


def test_a_message_of_a_growing_history_is_one_event() -> None:
    history: list[dict[str, object]] = []
    spans = [span("root", end=99)]
    for turn in range(5):
        history.append({"role": "user", "content": "go on"})
        answer = {"role": "assistant", "content": f"step {turn}"}
        spans.append(span(f"llm{turn}", "root", 2 * turn, 2 * turn + 1, attributes={
            "gen_ai.input.messages": json.dumps(history), "gen_ai.output.messages": json.dumps([answer])}))  # fmt: skip
        history.append(answer)
    said = [e.content for e in spans_draft("t", spans).events if e.type == "message"]
    assert said == [word for turn in range(5) for word in ("go on", f"step {turn}")]


def test_of_nested_calls_that_say_the_same_only_the_inner_one_speaks() -> None:
    attributes = {"gen_ai.output.messages": json.dumps([{"role": "assistant", "content": "fourteen"}])}
    draft = spans_draft("t", [
        span("root", end=9),
        span("outer", "root", 1, 4, attributes=attributes),
        span("inner", "outer", 2, 3, attributes=attributes),
    ])  # fmt: skip
    assert [(e.content, e.parent_event_id) for e in draft.events if e.type == "message"] == [("fourteen", "inner")]


def test_nothing_of_a_span_is_dropped() -> None:
    attributes: dict[str, object] = {"http.url": "http://x", "input.value": "in", "output.value": "out"}
    step = span("s", attributes=attributes, events=[SpanEvent("retry", {"n": 1}, START)], resource={"service": "a"},
                more={"links": ["l"]})  # fmt: skip
    event = spans_draft("t", [step]).events[1]
    assert (event.arguments, event.result) == ("in", "out")
    assert json.loads(event.attributes) == {
        "span_id": "s", "kind": "step", "http.url": "http://x", "resource": {"service": "a"}, "links": ["l"],
        "events": [{"name": "retry", "at": "2026-01-01 00:00:00+00:00", "n": 1}],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"events": [SpanEvent("exception", {"exception.type": "shop.errors.OutOfStock"})]}, "OutOfStock"),
        ({"attributes": {"error.type": "timeout"}}, "timeout"),
        ({"attributes": {"http.status_code": 503}}, "503"),
        ({"status_message": "TypeError: no"}, "TypeError"),
        ({"status_message": "the shelf is empty"}, "the_shelf_is_empty"),
        ({}, "error"),
    ],
)
def test_a_span_that_failed_has_the_most_literal_code_there_is(fields: dict[str, object], code: str) -> None:
    events = spans_draft("t", [span("s", failed=True, **fields)]).events
    assert events[1].error_code == code
    assert (events[-1].outcome, events[-1].error_code) == ("failure", code)


def test_a_trace_in_lots_gives_the_events_of_the_whole() -> None:
    spans = [
        span("root", end=9, attributes={"gen_ai.agent.name": "counter"}),
        span("llm", "root", 1, 2, attributes=GENAI),
        span("tool", "root", 3, 4, attributes={"gen_ai.tool.name": "count", "gen_ai.tool.call.id": "c"}),
    ]
    whole = {event.event_id for event in finish(spans_draft("t", spans), STAMP, "otel")}
    said = Said()
    lots = [spans_draft("t", [one], said) for one in sorted(spans, key=lambda one: one.end_ns)]
    assert {event.event_id for lot in lots for event in finish(lot, STAMP, "otel")} == whole


def test_the_order_of_the_spans_in_the_file_does_not_matter() -> None:
    spans = [span(str(n), str(n // 2) if n else "", n / 100, 9 - n / 100) for n in range(50)]
    expected = finish(spans_draft("t", spans), STAMP, "otel")
    random.Random(1).shuffle(spans)
    assert finish(spans_draft("t", [*spans, spans[3]]), STAMP, "otel") == expected


def test_a_cycle_of_parents_ends() -> None:
    events = spans_draft("t", [span("a", "b", attributes=GENAI), span("b", "a", attributes=GENAI)]).events
    assert [e.type for e in events if e.type == "step"] == ["step", "step"]
