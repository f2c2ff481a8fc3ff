"""An agent of the OpenAI Agents SDK whose runs are traces, and which asks its memory by the tools of the MCP server.

A scripted model plays the part of the language model; everything else is the real thing. Run it with

    pip install 'hindlake[recall,jobs,openai-agents]'
    python examples/openai_agents_sdk.py
"""

from __future__ import annotations

import asyncio
import sys
from tempfile import mkdtemp

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_trace_processors, trace
from openai import AsyncOpenAI
from scripted import ScriptedAgent, call

from hindlake import Memory, Recorder, Settings
from hindlake.memory_store.capture.traces import read_traces, scan_events
from hindlake.memory_store.files.lake import Lake
from hindlake.sdk.integrations.openai_agents import HindlakeProcessor, memory_tools

SCRIPT = [
    call("memory_query", query="refund"),
    call("refund_order", order="A-1001", payment_method="card"),
    call("memory_write", content="Ann's card was refunded once.", memory_type="fact"),
    "It is refunded to your card.",
]


@function_tool
def refund_order(order: str, payment_method: str) -> str:
    """Refund an order."""
    return f"{order} refunded to {payment_method}"


async def run(url: str, memory: Memory) -> None:
    """One request of a customer."""
    async with AsyncOpenAI(base_url=url, api_key="none") as client:
        model = OpenAIChatCompletionsModel(model="scripted", openai_client=client)
        tools = [refund_order, *memory_tools(memory, subject="ann")]
        shop = Agent("shop", instructions="You run a shop.", model=model, tools=tools)
        about = {"hindlake.subject": "ann", "hindlake.task_type": "refund", "hindlake.outcome": "success"}
        with trace("Refunds", group_id="conversation-1", metadata=about):
            result = await Runner.run(shop, "Please refund order A-1001.")
    print(result.final_output)


def main(home: str) -> None:
    """Run the agent, and show its trace."""
    settings = Settings.load(home=home, embedder="wordllama")
    with ScriptedAgent(SCRIPT) as server, Recorder(settings) as recorder, Memory(settings) as memory:
        memory.remember("Refunds need the payment method.", kind="rule")
        set_trace_processors([HindlakeProcessor(recorder)])  # in place of the one that sends traces to OpenAI
        asyncio.run(run(server.url, memory))
        recorder.flush()
    lake = Lake.open(settings)
    ids = scan_events(lake, settings.namespace, []).column("trace_id").to_pylist()
    [found] = read_traces(lake, settings.namespace, ids)
    for event in found.events:
        if event.type in ("message", "tool_call", "outcome"):
            print(" ", event.type, event.tool or event.content or event.outcome)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else mkdtemp())
