"""Two agents that OpenTelemetry instruments, one by its GenAI conventions and one by OpenInference's: both are traces.

The spans are those that instrumentations make; here they are made by hand, so that the example needs no more than

    pip install 'hindlake[otel]'
    python examples/opentelemetry_agent.py
"""

from __future__ import annotations

import json
import sys
from tempfile import mkdtemp

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Status, StatusCode, Tracer

from hindlake import Recorder, Settings
from hindlake.memory_store.capture.traces import read_traces, scan_events
from hindlake.memory_store.files.lake import Lake
from hindlake.sdk.integrations.opentelemetry import instrument

ASKED = "Where is parcel 17?"
FAILED = "Error: carrier did not answer"


def by_genai(tracer: Tracer) -> None:
    """An agent as OpenTelemetry's own conventions describe one."""
    user = {"role": "user", "parts": [{"type": "text", "content": ASKED}]}
    call = {"type": "tool_call", "id": "c1", "name": "track_parcel", "arguments": {"parcel": 17}}
    with tracer.start_as_current_span("invoke_agent shop") as agent:
        agent.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop", "user.id": "ann"})
        with tracer.start_as_current_span("chat m1") as chat:
            chat.set_attributes({
                "gen_ai.operation.name": "chat", "gen_ai.request.model": "m1", "gen_ai.usage.input_tokens": 12,
                "gen_ai.input.messages": json.dumps([user]),
                "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [call]}]),
            })  # fmt: skip
        with tracer.start_as_current_span("execute_tool track_parcel") as tool:
            tool.set_attributes({
                "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "track_parcel",
                "gen_ai.tool.call.id": "c1", "gen_ai.tool.call.result": FAILED,
            })  # fmt: skip
            tool.set_status(Status(StatusCode.ERROR, FAILED))
        agent.set_attribute("hindlake.outcome", "failure")


def by_openinference(tracer: Tracer) -> None:
    """The same agent in the words of OpenInference, as Phoenix and others have them."""
    calls = "llm.output_messages.0.message.tool_calls.0.tool_call."
    with tracer.start_as_current_span("shop") as agent:
        agent.set_attributes({"openinference.span.kind": "AGENT", "input.value": ASKED, "user.id": "ann"})
        with tracer.start_as_current_span("ChatCompletion") as chat:
            chat.set_attributes({
                "openinference.span.kind": "LLM", "llm.model_name": "m1", "llm.token_count.prompt": 12,
                "llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": ASKED,
                "llm.output_messages.0.message.role": "assistant", f"{calls}id": "c1",
                f"{calls}function.name": "track_parcel", f"{calls}function.arguments": '{"parcel": 17}',
            })  # fmt: skip
        with tracer.start_as_current_span("track_parcel") as tool:
            tool.set_attributes({
                "openinference.span.kind": "TOOL", "tool.name": "track_parcel", "tool_call.id": "c1",
                "output.value": FAILED,
            })  # fmt: skip
        agent.set_attribute("hindlake.outcome", "failure")


def main(home: str) -> None:
    """Run both and show what the lake has of them."""
    settings = Settings.load(home=home)
    with Recorder(settings) as recorder:
        provider = instrument(recorder, TracerProvider())
        for run in (by_genai, by_openinference):
            run(provider.get_tracer("shop"))
        provider.shutdown()
    lake = Lake.open(settings)
    ids = scan_events(lake, settings.namespace, []).column("trace_id").to_pylist()
    for trace in read_traces(lake, settings.namespace, ids):
        call = next(event for event in trace.events if event.type == "tool_call")
        end = trace.events[-1]
        print(
            f"{trace.events[0].content} {call.tool} {call.arguments}: {call.error_code}; {end.outcome} ({end.subject})"
        )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else mkdtemp())
