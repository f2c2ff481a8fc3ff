"""An OpenAI client that is recorded behaves as one that is not, and its task has what was said, once."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from hindlake.memory_store.capture.reads import read_days, scan_reads
from hindlake.memory_store.errors import UsageError
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from hindlake.sdk.async_memory import AsyncMemory
from hindlake.sdk.integrations.openai import recorded
from hindlake.sdk.memory import Memory
from hindlake.sdk.recorder import Recorder

pytest.importorskip("openai", reason="the extra openai is not installed")

import openai
from openai import AsyncOpenAI, OpenAI
from scripted import ScriptedAgent, call

from recorded_events import Told, told

SYSTEM = {"role": "system", "content": "You run a shop."}
ASKED = {"role": "user", "content": "Please refund order A-1001."}
REFUSED = "Error: name the payment method"


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    with Recorder(home=tmp_path / "home", agent="shop") as one:
        yield one


_clients: list[OpenAI] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while _clients:
        _clients.pop().close()


def client_of(model: ScriptedAgent) -> OpenAI:
    _clients.append(OpenAI(base_url=model.url, api_key="none", max_retries=0))
    return _clients[-1]


def async_client_of(model: ScriptedAgent) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=model.url, api_key="none", max_retries=0)


def run_chat(client: OpenAI, stream: bool) -> list[str]:
    """An agent that asks, runs the tool it is told to, and asks again with the whole conversation."""
    messages: list[Any] = [SYSTEM, ASKED]
    said = []
    for _ in range(2):
        if stream:
            with client.chat.completions.stream(model="m1", messages=messages) as pieces:
                for _piece in pieces:
                    pass
                message: Any = pieces.get_final_completion().choices[0].message
        else:
            message = client.chat.completions.create(model="m1", messages=messages).choices[0].message
        messages.append(message)
        said.append(message.content or "")
        for one in message.tool_calls or []:
            messages.append({"role": "tool", "tool_call_id": one.id, "content": REFUSED})
    return said


async def run_responses(model: ScriptedAgent, recorder: Recorder, stream: bool) -> list[str]:
    """The same over the Responses API, in an event loop."""
    async with async_client_of(model) as client:
        return await _run_responses(recorded(client, recorder), stream)


async def _run_responses(client: AsyncOpenAI, stream: bool) -> list[str]:
    items: list[Any] = [ASKED]
    said = []
    for _ in range(2):
        asked: dict[str, Any] = {"model": "m1", "instructions": SYSTEM["content"], "input": items}
        if stream:
            async with client.responses.stream(**asked) as pieces:
                async for _piece in pieces:
                    pass
                response: Any = await pieces.get_final_response()
        else:
            response = await client.responses.create(**asked)
        items += response.output
        said.append(response.output_text)
        for one in response.output:
            if one.type == "function_call":
                items.append({"type": "function_call_output", "call_id": one.call_id, "output": REFUSED})
    return said


SCRIPT = [call("refund_order", order="A-1001"), "I could not refund it."]
CONVERSATION = [
    ("task", "", "refund"),
    ("message", "system", "You run a shop."),
    ("message", "user", "Please refund order A-1001."),
    ("step", "", "model_call"),
    ("tool_call", "", "refund_order"),
    ("message", "agent", "I could not refund it."),
    ("outcome", "", "failure"),
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", ["chat", "responses"])
def test_a_conversation_with_a_tool_is_told_once_however_often_it_is_sent(
    recorder: Recorder, api: str, stream: bool
) -> None:
    with ScriptedAgent(SCRIPT) as model, recorder.task("refund") as task:
        if api == "chat":
            said = run_chat(recorded(client_of(model), recorder), stream)
        else:
            said = asyncio.run(run_responses(model, recorder, stream))
        task.outcome("failure")
    assert said == ["", "I could not refund it."]
    found = told(recorder)
    assert found.outline == CONVERSATION
    step, called, answer = found.events[3:6]
    assert (step.model, step.input_tokens, step.output_tokens) == ("m1", 20, 5)
    assert json.loads(called.arguments) == {"order": "A-1001"}
    assert (called.result, called.error_code) == (REFUSED, "name_the_payment_method")
    assert called.latency_us is not None and called.call_id
    assert (answer.model, answer.output_tokens) == ("m1", 5)
    assert json.loads(answer.attributes)["id"].endswith("_2" if api == "responses" else "-2")


def test_a_client_stays_the_client_that_it_was(recorder: Recorder) -> None:
    class Sum(BaseModel):
        total: int

    with ScriptedAgent(['{"total": 3}']) as model:
        plain, client = client_of(model), recorded(client_of(model), recorder)
        assert type(client) is OpenAI
        with recorder.task("add"):
            for one in (plain, client):
                parsed = one.chat.completions.parse(model="m1", messages=[ASKED], response_format=Sum)  # type: ignore[list-item]
                assert parsed.choices[0].message.parsed == Sum(total=3)
                raw = one.chat.completions.with_raw_response.create(model="m1", messages=[ASKED])  # type: ignore[list-item]
                assert raw.http_response.status_code == 200
                assert raw.parse().choices[0].message.content == '{"total": 3}'
                with one.chat.completions.with_streaming_response.create(model="m1", messages=[ASKED]) as bytes:  # type: ignore[list-item]
                    assert b"total" in b"".join(bytes.iter_bytes())
                with one.chat.completions.create(model="m1", messages=[ASKED], stream=True) as pieces:  # type: ignore[list-item]
                    assert type(pieces) is openai.Stream
                    assert "".join(p.choices[0].delta.content or "" for p in pieces if p.choices) == '{"total": 3}'
                assert len(one.embeddings.create(model="e", input="text").data[0].embedding) == 8
    found = told(recorder)
    assert [one for one in found.outline if one[0] != "step"] == [
        ("task", "", "add"),
        ("message", "user", "Please refund order A-1001."),
        *[("message", "agent", '{"total": 3}')] * 3,
        ("outcome", "", "unknown"),
    ]
    assert '"unread"' in next(one.attributes for one in found.events if one.type == "step")
    assert recorder.status().failed == 0


def test_a_copy_of_a_recorded_client_is_recorded(recorder: Recorder) -> None:
    with ScriptedAgent(["Hello."]) as model, recorder.task("greet"):
        client = recorded(client_of(model), recorder).with_options(timeout=5).copy(max_retries=1)
        client.chat.completions.create(model="m1", messages=[ASKED])  # type: ignore[list-item]
        with pytest.raises(UsageError, match="recorded already"):
            recorded(client, recorder)
    assert ("message", "agent", "Hello.") in told(recorder).outline
    with pytest.raises(UsageError, match="not object"):
        recorded(object(), recorder)


def test_what_a_call_raises_is_told_and_raised(recorder: Recorder) -> None:
    with ScriptedAgent([429]) as model:
        client = recorded(client_of(model), recorder)
        with pytest.raises(openai.RateLimitError), recorder.task("greet"):
            client.chat.completions.create(model="m1", messages=[ASKED])  # type: ignore[list-item]
        with pytest.raises(openai.RateLimitError):  # outside of a task
            client.responses.create(model="m1", input="Hello?")
    inside, own = (told(recorder, number) for number in (0, 1))
    for found, goal in ((inside, "greet"), (own, "Hello?")):
        said = json.loads(found.events[2].attributes)
        assert (said["error_code"], found.events[2].model) == ("status_429", "m1")
        assert (found.outline[0], found.events[-1].outcome) == (("task", "", goal), "failure")


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_a_stream_that_its_reader_leaves_is_told_as_far_as_it_came(recorder: Recorder, api: str) -> None:
    with ScriptedAgent(["It will arrive on Monday, I hope."]) as model, recorder.task("track"):
        client = recorded(client_of(model), recorder)
        if api == "chat":
            pieces: Any = client.chat.completions.create(model="m1", messages=[ASKED], stream=True)  # type: ignore[list-item]
            for number, _ in enumerate(pieces):
                if number == 2:
                    break
        else:
            pieces = client.responses.create(model="m1", input="Where is it?", stream=True)
            for one in pieces:
                if getattr(one, "delta", "") == " arrive":
                    break
        del pieces
        gc.collect()
    found = told(recorder)
    answer = next(one for one in found.events if one.role == "agent")
    assert answer.content == "It will arrive"
    assert json.loads(answer.attributes)["status"] in ("left by its reader", "in_progress")


def test_a_stream_that_breaks_raises_what_it_raised_and_is_told(recorder: Recorder) -> None:
    with ScriptedAgent(["It will arrive."]) as model, recorder.task("track"):
        model.serve = _half  # type: ignore[method-assign]
        client = recorded(client_of(model), recorder)
        with pytest.raises(openai.APIError):
            list(client.chat.completions.create(model="m1", messages=[ASKED], stream=True))  # type: ignore[list-item]
    found = told(recorder)
    answer = next(one for one in found.events if one.role == "agent")
    assert (answer.content, json.loads(answer.attributes)["error_message"]) == ("It wi", "overloaded")


def _half(method: str, path: str, raw: bytes) -> tuple[int, str]:
    chunk = {"id": "c1", "model": "m1", "choices": [{"index": 0, "delta": {"content": "It wi"}}]}
    return 200, f"data: {json.dumps(chunk)}\n\ndata: {json.dumps({'error': {'message': 'overloaded'}})}\n\n"


def test_the_past_of_a_conversation_is_not_told_again_in_the_next_task(recorder: Recorder) -> None:
    with ScriptedAgent(["Yes.", "On Monday."]) as model:
        client = recorded(client_of(model), recorder)
        messages: list[Any] = [SYSTEM, {"role": "user", "content": "My budget is 500. Is it in stock?"}]
        for again in ("When does it arrive?", ""):
            with recorder.task("ask", conversation_id="c-1"):
                answer = client.chat.completions.create(model="m1", messages=messages).choices[0].message
            messages += [answer, {"role": "user", "content": again}]
    assert [one for one in told(recorder, 1).outline if one[0] == "message"] == [
        ("message", "system", "You run a shop."),
        ("message", "user", "When does it arrive?"),
        ("message", "agent", "On Monday."),
    ]


def test_calls_without_a_result_are_told_when_the_task_ends(recorder: Recorder) -> None:
    with ScriptedAgent([call("submit", answer=42)]) as model, recorder.task("solve") as task:
        recorded(client_of(model), recorder).chat.completions.create(model="m1", messages=[ASKED])  # type: ignore[list-item]
        task.outcome("success")
    found = told(recorder)
    assert found.outline[-1] == ("tool_call", "", "submit")
    assert json.loads(found.events[-1].attributes) == {"unmatched": "call without a result"}


def test_tools_that_are_logged_elsewhere_are_not_told_twice(recorder: Recorder) -> None:
    @recorder.tool()
    def refund_order(order: str) -> str:
        return REFUSED

    with ScriptedAgent(SCRIPT) as model, recorder.task("refund"):
        refund_order("A-1001")
        run_chat(recorded(client_of(model), recorder, tool_calls=False), stream=False)
    assert [one[2] for one in told(recorder).outline if one[0] == "tool_call"] == ["refund_order"]


def test_tools_that_the_provider_runs_are_tool_calls(recorder: Recorder) -> None:
    searched = {"id": "ws_1", "type": "web_search_call", "status": "completed",
                "action": {"type": "search", "query": "parcel strike"}}  # fmt: skip
    asked = {"id": "mcp_1", "type": "mcp_call", "name": "lookup", "server_label": "shop", "arguments": '{"order":1}',
             "output": None, "error": {"type": "mcp_protocol_error", "code": 404, "message": "no such order"},
             "status": "failed"}  # fmt: skip
    thought = {"id": "rs_1", "type": "reasoning", "summary": []}
    with ScriptedAgent(["There is a strike."]) as model, recorder.task("track"):
        client = recorded(client_of(model), recorder)
        serve = model.serve

        def with_tools(method: str, path: str, raw: bytes) -> Any:
            status, body = serve(method, path, raw) or (404, {})
            assert isinstance(body, dict)
            body["output"] = [thought, searched, asked, *body["output"]]
            return status, body

        model.serve = with_tools  # type: ignore[method-assign]
        first = client.responses.create(model="m1", input="Why is it late?")
        client.responses.create(model="m1", input=[*first.output, {"role": "user", "content": "Thanks."}])  # type: ignore[list-item]
    calls = [one for one in told(recorder).events if one.type == "tool_call"][:2]
    assert [(one.tool, bool(one.error_code)) for one in calls] == [("web_search", False), ("lookup", True)]
    assert json.loads(calls[0].arguments)["query"] == "parcel strike"


def test_what_is_known_stands_before_what_the_user_said_and_counts_as_read_once(
    recorder: Recorder, tmp_path: Path
) -> None:
    settings = Settings.load(home=str(tmp_path / "home"), embedder="wordllama")
    memory = Memory(settings)
    id = memory.remember("Refunds above 500 need a manager.", kind="rule")
    memory.remember("Ann wants refunds by bank transfer.", kind="preference", subject="ann")
    with ScriptedAgent(SCRIPT) as model, recorder.task("refund", subject="ann") as task:
        run_chat(recorded(client_of(model), recorder, memory=memory), stream=True)
    memory.close()
    for sent in model.sent:
        block = sent["messages"][1]
        assert block["role"] == "user" and "need a manager" in block["content"] and "bank transfer" in block["content"]
        assert sent["messages"][2] == ASKED
    assert not any("manager" in one[2] for one in told(recorder).outline)  # what was recalled is no one's words
    lake = Lake.open(settings)
    files = [path for paths in read_days(lake, "default").values() for path in paths]
    [read] = [row for table in scan_reads(lake, files) for row in table.to_pylist()]
    assert (read["trace_id"], read["injected"], id in read["ids"]) == (task.trace_id, True, True)


def test_an_async_client_is_given_what_is_known_without_blocking_its_loop(recorder: Recorder, tmp_path: Path) -> None:
    memory = AsyncMemory(Settings.load(home=str(tmp_path / "home"), embedder="wordllama"))
    memory.memory.remember("Parcels to islands take a week.")

    async def ask() -> None:
        async with async_client_of(model) as client, recorder.task("track"):
            await recorded(client, recorder, memory=memory).responses.create(
                model="m1", input="How long do parcels to islands take?"
            )
        await memory.close()

    with ScriptedAgent(["A week."]) as model:
        asyncio.run(ask())
    block, asked = model.sent[0]["input"]
    assert "take a week" in block["content"]
    assert asked == {"role": "user", "content": "How long do parcels to islands take?"}


def test_a_call_goes_on_when_memory_and_recording_fail(recorder: Recorder, tmp_path: Path) -> None:
    class Broken:
        def context(self, task: str, **more: object) -> None:
            raise OSError("the disk is gone")

    recorder.now = lambda: 1 / 0  # type: ignore[assignment,return-value]
    with ScriptedAgent(["Hello."]) as model:
        client = recorded(client_of(model), recorder, memory=Broken())  # type: ignore[arg-type]
        answer = client.chat.completions.create(model="m1", messages=[ASKED], stream=True)  # type: ignore[list-item]
        assert "".join(one.choices[0].delta.content or "" for one in answer if one.choices) == "Hello."
    assert recorder.status().failed > 0


def test_calls_at_once_in_tasks_of_their_own_do_not_mix(recorder: Recorder) -> None:
    def answer(body: dict[str, Any]) -> str:
        return "re: " + str(body["messages"][-1]["content"])

    async def one(client: AsyncOpenAI, number: int) -> None:
        async with recorder.task(f"task {number}"):
            for turn in range(3):
                said: Any = [{"role": "user", "content": f"{number}.{turn}"}]
                await client.chat.completions.create(model="m1", messages=said)

    async def all_of_them() -> None:
        async with async_client_of(model) as client:
            recorded(client, recorder)
            await asyncio.gather(*(one(client, number) for number in range(8)))

    with ScriptedAgent(answer) as model:
        asyncio.run(all_of_them())
    for number in range(8):
        found: Told = told(recorder, number)
        mine = found.outline[0][2].removeprefix("task ")
        expected = [(r, f"{p}{mine}.{turn}") for turn in range(3) for r, p in (("user", ""), ("agent", "re: "))]
        assert [one[1:] for one in found.outline if one[0] == "message"] == expected
