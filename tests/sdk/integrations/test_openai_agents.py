"""Runs of the OpenAI Agents SDK are traces, and its agents can ask the memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agents", reason="the extra openai-agents is not installed")

import agents
from agents import Agent, MaxTurnsExceeded, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool
from openai import AsyncOpenAI
from scripted import Answer, ScriptedAgent, call

from hindlake.memory_store.capture.reads import read_days, scan_reads
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from hindlake.sdk.integrations.openai_agents import HindlakeProcessor, memory_tools
from hindlake.sdk.mcp.tools import TOOLS
from hindlake.sdk.memory import Memory
from hindlake.sdk.recorder import Recorder
from recorded_events import Told, told, traces_of

ASKED = "Please refund order A-1001."


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    with Recorder(home=tmp_path / "home") as one:
        agents.set_trace_processors([HindlakeProcessor(one)])
        yield one
    agents.set_trace_processors([])


@pytest.fixture
def memory(recorder: Recorder) -> Iterator[Memory]:
    with Memory(Settings.load(home=recorder.settings.home, embedder="wordllama")) as one:
        yield one


def refund_order(order: str) -> str:
    """Refund an order."""
    return f"Error: name the payment method of {order}"


def run(
    script: list[Answer],
    *,
    responses: bool = False,
    stream: bool = False,
    turns: int = 9,
    tools: Any = (),
    **trace: Any,
) -> str:
    """Run a shop's agent, which hands over to its boss, against a scripted model."""

    async def work() -> str:
        kind = OpenAIResponsesModel if responses else OpenAIChatCompletionsModel
        async with AsyncOpenAI(base_url=model.url, api_key="none", max_retries=0) as client:
            asked = kind(model="m1", openai_client=client)
            boss = Agent("boss", instructions="You decide.", model=asked)
            shop = Agent(
                "shop", instructions="You run a shop.", model=asked, handoffs=[boss],
                tools=[function_tool(refund_order), *tools],
            )  # fmt: skip
            with agents.trace("Refunds", **trace):
                if not stream:
                    return str((await Runner.run(shop, ASKED, max_turns=turns)).final_output)
                result = Runner.run_streamed(shop, ASKED, max_turns=turns)
                async for _ in result.stream_events():
                    pass
                return str(result.final_output)

    with ScriptedAgent(script) as model:
        return asyncio.run(work())


def outline(found: Told) -> list[tuple[str, str, str]]:
    return [one for one in found.outline if one[0] != "step"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("responses", [False, True], ids=["chat", "responses"])
def test_a_run_with_a_tool_and_a_handoff_is_one_trace(recorder: Recorder, responses: bool, stream: bool) -> None:
    script: list[Answer] = [call("refund_order", order="A-1001"), call("transfer_to_boss"), "Call us, please."]
    metadata = {"hindlake.subject": "ann", "hindlake.outcome": "failure", "shop": "north"}
    assert run(script, responses=responses, stream=stream, group_id="c-7", metadata=metadata) == "Call us, please."
    [found] = traces_of(recorder)
    assert outline(found) == [
        ("task", "", ASKED),
        ("message", "system", "You run a shop."),
        ("message", "user", ASKED),
        ("tool_call", "agent", "refund_order"),
        ("tool_call", "agent", "transfer_to_boss"),
        ("message", "system", "You decide."),
        ("message", "agent", "Call us, please."),
        ("outcome", "", "failure"),
    ]
    assert {(one.subject, one.conversation_id, one.source) for one in found.events} == {("ann", "c-7", "openai-agents")}
    [called] = [one for one in found.events if one.tool == "refund_order"]
    assert json.loads(called.arguments) == {"order": "A-1001"}
    assert called.error_code == "name_the_payment_method_of"
    assert called.latency_us and called.call_id
    steps = [one for one in found.events if one.type == "step"]
    model_calls = "response" if responses else "generation"
    assert {one.name for one in steps} == {"Refunds", "shop", "boss", "handoff", model_calls}
    asked = [one for one in steps if one.name == model_calls]
    assert {(one.model, one.input_tokens, one.output_tokens) for one in asked} == {("m1", 20, 5)}
    assert recorder.status().failed == 0


def test_a_run_that_fails_is_a_failure_with_its_reason(recorder: Recorder) -> None:
    with pytest.raises(MaxTurnsExceeded):
        run([call("refund_order", order="A-1001")], turns=1)
    found = told(recorder).events[-1]
    assert (found.type, found.outcome, found.error_code) == ("outcome", "failure", "max_turns_exceeded")


def test_a_tool_that_raises_is_a_tool_call_with_an_error(recorder: Recorder) -> None:
    def honest(_: Any, error: Exception) -> str:
        return f"{type(error).__name__}: {error}"

    def track(order: str) -> str:
        raise LookupError(f"no order {order}")

    def pay(order: str) -> str:
        raise LookupError(f"no order {order}")

    tools = [function_tool(track, failure_error_function=honest), function_tool(pay)]
    run([call("track", order="A-1"), call("pay", order="A-1"), "Sorry."], tools=tools)
    codes = {one.tool: one.error_code for one in told(recorder).events if one.type == "tool_call"}
    assert codes == {"track": "LookupError", "pay": "tool_execution_failed"}


def test_an_agent_asks_the_memory_and_the_read_is_its_traces(recorder: Recorder, memory: Memory) -> None:
    id = memory.remember("Refunds above 500 need a manager.", kind="rule")
    memory.remember("Ben pays by card.", subject="ben")
    script: list[Answer] = [
        call("memory_query", query="refund", top_k="2"),
        call("memory_write", content="Ann prefers e-mail.", memory_type="preference"),
        call("memory_query", query="how does ben pay?", subject="ben"),
        call("memory_forget", id=id),
        "Done.",
    ]
    assert run(script, tools=memory_tools(memory, subject="ann")) == "Done."
    memory.close()
    [found] = traces_of(recorder)
    answers = [one.result for one in found.events if one.type == "tool_call"]
    assert "need a manager" in answers[0]
    assert answers[1].startswith("Kept as memory")
    assert "serves one subject" in answers[2]
    assert "only a person changes rules" in answers[3]
    assert [hit.text for hit in memory.search("how to reach Ann?", subject="ann", kinds=["preference"])] == [
        "Ann prefers e-mail."
    ]
    lake = Lake.open(recorder.settings)
    files = [path for paths in read_days(lake, "default").values() for path in paths]
    [read] = [row for table in scan_reads(lake, files) for row in table.to_pylist() if row["trace_id"]]
    assert (read["trace_id"], read["ids"]) == (found.events[0].trace_id, [id])


def test_the_tools_are_those_of_the_mcp_server(memory: Memory) -> None:
    made = {tool.name: tool for tool in memory_tools(memory)}
    assert {name: tool.params_json_schema for name, tool in made.items()} == {tool.name: tool.schema for tool in TOOLS}
    reading = {tool.name for tool in memory_tools(memory, can_write=False)}
    assert reading == {"memory_query", "memory_explain", "retrieve_experience"}


def test_a_run_goes_on_when_recording_fails(recorder: Recorder) -> None:
    recorder.append = lambda event: 1 / 0  # type: ignore[assignment,return-value]
    assert run(["Hello."]) == "Hello."
    assert recorder.status().failed > 0
