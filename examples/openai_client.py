"""An agent that fails at something today and knows better tomorrow, with the client of OpenAI and no other framework.

A scripted model plays the part of the language model; everything else is the real thing. Run it with

    pip install 'hindlake[recall,jobs,openai]'
    python examples/openai_client.py
"""

from __future__ import annotations

import json
import subprocess
import sys
from tempfile import mkdtemp
from typing import Any

from openai import OpenAI
from scripted import Body, ScriptedAgent, call

from hindlake import Memory, Recorder, Settings
from hindlake.sdk.integrations.openai import recorded


def refund_order(order: str, payment_method: str = "") -> str:
    """The shop's own function: it wants to know where the money goes."""
    if payment_method:
        return "refunded"
    return json.dumps({"error": {"code": "payment_method_required", "message": "Name the payment method."}})


def get_order(order: str) -> str:
    """Another one."""
    return json.dumps({"order": order, "payment_method": "card"})


TOOLS = {"refund_order": refund_order, "get_order": get_order}


def model(body: Body) -> Any:
    """A model that does the obvious, unless its memory says that the payment method has to be looked up first."""
    said = body["messages"]
    told = "\n".join(str(one.get("content")) for one in said)
    results = [one["content"] for one in said if one["role"] == "tool"]
    knows_better = "payment_method_required" in told.partition("Please refund")[0]
    if not results:
        return call("get_order", order="A-1001") if knows_better else call("refund_order", order="A-1001")
    if results[-1] == "refunded":
        return "It is refunded."
    if "payment_method_required" in results[-1]:
        return call("get_order", order="A-1001")
    return call("refund_order", order="A-1001", payment_method=json.loads(results[-1])["payment_method"])


def work(client: OpenAI, recorder: Recorder, request: str) -> int:
    """The agent: it asks its model and runs the tools that it is told to. Returns how many calls of tools it took."""
    messages: list[Any] = [{"role": "system", "content": "You run a shop."}, {"role": "user", "content": request}]
    calls = 0
    with recorder.task(request, task_type="refund") as task:
        while True:
            answer = client.chat.completions.create(model="scripted", messages=messages).choices[0].message
            messages.append(answer)
            for one in answer.tool_calls or []:
                assert one.type == "function"
                result = TOOLS[one.function.name](**json.loads(one.function.arguments))
                messages.append({"role": "tool", "tool_call_id": one.id, "content": result})
                calls += 1
            if not answer.tool_calls:
                task.outcome("success")
                return calls


def main(home: str) -> None:
    """Two days in the life of the agent."""
    settings = Settings.load(home=home, embedder="wordllama")
    with (
        ScriptedAgent(model) as server,
        Recorder(settings) as recorder,
        Memory(settings) as memory,
        OpenAI(base_url=server.url, api_key="none") as plain,
    ):
        client = recorded(plain, recorder, memory=memory)
        print("today:", work(client, recorder, "Please refund order A-1001."), "calls of tools")
        recorder.flush()

        reflect = [sys.executable, "-m", "hindlake.cli", "--home", home, "run", "reflect"]
        subprocess.run(reflect, check=True, stdout=subprocess.DEVNULL)

        print("tomorrow:", work(client, recorder, "Please refund order A-1002."), "calls of tools")
        block = server.sent[-1]["messages"][1]["content"]
    print(next(line for line in block.splitlines() if "payment_method_required" in line))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else mkdtemp())
