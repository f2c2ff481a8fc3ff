"""The scripted model: what it is told to say is what a client gets."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from hindlake.jobs.models.scripted_model import ScriptedModel, embed, say, status


def post(url: str, path: str, **body: Any) -> dict[str, Any]:
    request = urllib.request.Request(f"{url}/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as response:
        return dict(json.loads(response.read()))


def chat(url: str, text: str, **body: Any) -> str:
    reply = post(url, "chat/completions", model="m", messages=[{"role": "user", "content": text}], **body)
    return str(reply["choices"][0]["message"]["content"])


def test_turns_are_played_in_order_and_the_last_one_stays() -> None:
    with ScriptedModel([say("one"), say({"two": 2})]) as model:
        assert [chat(model.url, "x") for _ in range(3)] == ["one", '{"two": 2}', '{"two": 2}']
    assert [request.prompt for request in model.calls] == ["x", "x", "x"]


def test_a_script_can_be_a_function_of_the_request() -> None:
    with ScriptedModel(lambda request: say(request.prompt.upper())) as model:
        assert chat(model.url, "hello") == "HELLO"


def test_a_status_comes_with_its_message_and_retry_after() -> None:
    with ScriptedModel([status(429, "slow down", retry_after=7)]) as model:
        with pytest.raises(urllib.error.HTTPError) as caught:
            chat(model.url, "x")
        with caught.value as error:
            assert (error.code, error.headers["Retry-After"]) == (429, "7")
            assert json.loads(error.read())["error"]["message"] == "slow down"


def test_structure_that_it_does_not_know_is_refused() -> None:
    with ScriptedModel([say("{}")], modes=("json_object",)) as model:
        assert chat(model.url, "x", response_format={"type": "json_object"}) == "{}"
        with pytest.raises(urllib.error.HTTPError) as caught:
            chat(model.url, "x", response_format={"type": "json_schema", "json_schema": {}})
        with caught.value as error:
            assert b"json_schema is not supported" in error.read()


def test_embeddings_are_derived_from_the_text_and_can_go_wrong_on_demand() -> None:
    with ScriptedModel(dim=3) as model:
        data = post(model.url, "embeddings", model="m", input=["a", "b", "a"])["data"]
        assert [len(row["embedding"]) for row in data] == [3, 3, 3]
        assert data[0]["embedding"] == data[2]["embedding"] != data[1]["embedding"]
    with ScriptedModel([embed(None, [1.0], [None, 2.0])]) as model:
        data = post(model.url, "embeddings", model="m", input=["a", "b", "c"])["data"]
        assert [row["embedding"] for row in data] == [None, [1.0], [None, 2.0]]
