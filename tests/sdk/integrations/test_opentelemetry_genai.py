"""OpenTelemetry's own instrumentation of OpenAI's client, run for real: what it says of a run is a whole trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")
pytest.importorskip(
    "opentelemetry.instrumentation.genai.openai", reason="opentelemetry-instrumentation-genai-openai is not installed"
)

from openai import APIStatusError, OpenAI
from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.util.genai.handler import TelemetryHandler
from scripted import Body, ScriptedAgent, call

from hindlake.memory_store.capture.events import Event
from hindlake.sdk.integrations.opentelemetry import instrument
from hindlake.sdk.recorder import Recorder
from recorded_events import traces_of

ASKED, FAILED = "Where is parcel 17?", "Error: carrier did not answer"
TOOL = {"name": "track_parcel", "parameters": {"type": "object"}}


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    with Recorder(home=tmp_path / "home") as one:
        yield one


@pytest.fixture
def provider(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> Iterator[TracerProvider]:
    """A provider whose spans go into the lake, and to which the instrumentation says what is spoken."""
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "span_only")
    made = instrument(recorder, TracerProvider())
    OpenAIInstrumentor().instrument(tracer_provider=made)
    yield made
    OpenAIInstrumentor().uninstrument()


def completions(client: OpenAI, provider: TracerProvider, tool_span: bool) -> None:
    messages: list[Any] = [{"role": "system", "content": "You run a shop."}, {"role": "user", "content": ASKED}]
    tools: list[Any] = [{"type": "function", "function": TOOL}]
    said = client.chat.completions.create(model="m", messages=messages, tools=tools).choices[0].message
    assert said.tool_calls
    _track(provider, said.tool_calls[0].id, tool_span)
    messages += [
        said.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": said.tool_calls[0].id, "content": FAILED},
    ]
    assert list(client.chat.completions.create(model="m", messages=messages, stream=True))


def responses(client: OpenAI, provider: TracerProvider, tool_span: bool) -> None:
    asked: list[Any] = [{"role": "user", "content": ASKED}]
    told: dict[str, Any] = {"model": "m", "instructions": "You run a shop.", "tools": [{"type": "function", **TOOL}]}
    [item] = client.responses.create(input=asked, **told).output
    assert item.type == "function_call"
    _track(provider, item.call_id, tool_span)
    answer = {"type": "function_call_output", "call_id": item.call_id, "output": FAILED}
    assert list(
        client.responses.create(input=[*asked, item.model_dump(exclude_none=True), answer], stream=True, **told)
    )


def _track(provider: TracerProvider, call_id: str, tool_span: bool) -> None:
    """The agent runs the tool; with a span as OpenTelemetry's utilities for agents make one."""
    if tool_span:
        with TelemetryHandler(tracer_provider=provider).tool("track_parcel") as tool:
            tool.tool_call_id, tool.tool_call_result = call_id, FAILED


@pytest.mark.parametrize("lots", ["one lot", "many lots"])
@pytest.mark.parametrize("tool_span", [True, False], ids=["tool span", "no tool span"])
@pytest.mark.parametrize("api", [completions, responses], ids=lambda api: api.__name__)
def test_a_run_is_told_once_and_whole(
    api: Any, tool_span: bool, lots: str, recorder: Recorder, provider: TracerProvider
) -> None:
    def answer(body: Body) -> Any:
        if lots == "many lots":
            provider.force_flush()
        has_result = FAILED in str(body)
        return "It is late." if has_result else call("track_parcel", parcel=17)

    with (
        ScriptedAgent(answer) as model,
        OpenAI(base_url=model.url, api_key="none", max_retries=0) as client,
        TelemetryHandler(tracer_provider=provider).invoke_local_agent(agent_name="shop"),
    ):
        api(client, provider, tool_span)
        if lots == "many lots":
            provider.force_flush()
    provider.shutdown()
    [trace] = traces_of(recorder)
    assert _outline(trace.events) == [
        ("task", "", ASKED),
        ("message", "system", "You run a shop."),
        ("message", "user", ASKED),
        ("tool_call", "agent", "track_parcel"),
        ("message", "agent", "It is late."),
        ("outcome", "", "unknown"),
    ]
    [called] = [one for one in trace.events if one.type == "tool_call"]
    assert (called.arguments, called.result, called.error_code) == ('{"parcel":17}', FAILED, "carrier_did_not_answer")
    calls = [one for one in trace.events if one.type == "step" and one.input_tokens]
    assert [(one.model, one.input_tokens, one.output_tokens) for one in calls] == [("m", 20, 5)] * 2
    # An agent's span ends last: what was exported before has not its name.
    assert {one.agent for one in calls} == ({"shop"} if lots == "one lot" else {""})


def test_a_call_that_fails_has_its_error(recorder: Recorder, provider: TracerProvider) -> None:
    with (
        ScriptedAgent([500]) as model,
        OpenAI(base_url=model.url, api_key="none", max_retries=0) as client,
        pytest.raises(APIStatusError),
    ):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": ASKED}])
    provider.shutdown()
    [trace] = traces_of(recorder)
    assert [(one.type, one.error_code) for one in trace.events if one.error_code] == [
        ("step", "InternalServerError"),
        ("outcome", "InternalServerError"),
    ]


def _outline(events: list[Event]) -> list[tuple[str, str, str]]:
    return [(one.type, one.role, one.content or one.tool or one.outcome) for one in events if one.type != "step"]
