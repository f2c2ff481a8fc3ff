"""Messages of every common shape become the same events."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hindlake.memory_store.formats.conversation import Conversation, is_message, role_of

ARGUMENTS = '{"city":"Oslo"}'

SHAPES: dict[str, list[dict[str, object]]] = {
    "openai": [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": None,
         "tool_calls": [{"id": "c", "function": {"name": "weather", "arguments": ARGUMENTS}}]},
        {"role": "tool", "tool_call_id": "c", "content": "Error: no such city"},
        {"role": "assistant", "content": "No idea."},
    ],
    "openai functions": [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": None, "function_call": {"name": "weather", "arguments": ARGUMENTS}},
        {"role": "function", "name": "weather", "content": "Error: no such city"},
        {"role": "assistant", "content": "No idea."},
    ],
    "responses": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
        {"type": "function_call", "call_id": "c", "name": "weather", "arguments": ARGUMENTS},
        {"type": "function_call_output", "call_id": "c", "output": "Error: no such city"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "No idea."}]},
    ],
    "anthropic": [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant",
         "content": [{"type": "tool_use", "id": "c", "name": "weather", "input": {"city": "Oslo"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "is_error": True,
                                      "content": [{"type": "text", "text": "Error: no such city"}]}]},
        {"role": "assistant", "content": [{"type": "text", "text": "No idea."}]},
    ],
    "genai parts": [
        {"role": "user", "parts": [{"type": "text", "content": "Weather?"}]},
        {"role": "assistant",
         "parts": [{"type": "tool_call", "id": "c", "name": "weather", "arguments": {"city": "Oslo"}}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "result": "Error: no such city"}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "No idea."}]},
    ],
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_gives_the_same_events(shape: str) -> None:
    talk = Conversation()
    for message in SHAPES[shape]:
        assert is_message(message) or "parts" in message
        talk.add(message)
    assert [(e.type, e.role, e.content, e.tool, e.arguments, e.error_code) for e in talk.end()] == [
        ("message", "user", "Weather?", "", "", ""),
        ("tool_call", "agent", "", "weather", ARGUMENTS, "no_such_city"),
        ("message", "agent", "No idea.", "", "", ""),
    ]
    assert talk.notes() == []


def test_sharegpt_turns_are_messages() -> None:
    talk = Conversation()
    talk.add({"from": "human", "value": "Hi"})
    talk.add({"from": "gpt", "value": "Hello"})
    assert [(e.role, e.content) for e in talk.end()] == [("user", "Hi"), ("agent", "Hello")]


def test_calls_with_one_id_are_answered_in_order() -> None:
    talk = Conversation()
    for number in range(2):
        talk.call("t", {"n": number}, "call_0")
        talk.result(f"r{number}", "call_0")
    assert [(e.arguments, e.result) for e in talk.end()] == [('{"n":0}', "r0"), ('{"n":1}', "r1")]


def test_parallel_calls_find_their_results_by_id() -> None:
    talk = Conversation()
    talk.call("t", {}, "a")
    talk.call("t", {}, "b")
    talk.result("for b", "b")
    talk.result("for a", "a")
    assert [(e.call_id, e.result) for e in talk.end()] == [("a", "for a"), ("b", "for b")]


def test_the_time_between_call_and_result_is_its_latency() -> None:
    talk = Conversation()
    talk.call("t", {}, "a", datetime(2026, 1, 1, 10, 0, 0, tzinfo=UTC))
    talk.result("x", "a", at=datetime(2026, 1, 1, 10, 0, 2, tzinfo=UTC))
    assert talk.end()[0].latency_us == 2_000_000


def test_what_the_source_says_about_failure_wins() -> None:
    talk = Conversation()
    talk.call("read", {}, "a")
    talk.call("read", {}, "b")
    talk.result("Error: is the title of the page", "a", failed=False)
    talk.result("all is well", "b", failed=True)
    assert [e.error_code for e in talk.end()] == ["", "all_is_well"]


def test_blocks_that_are_no_text_are_kept_beside_the_message() -> None:
    talk = Conversation()
    talk.add({"role": "user", "content": [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": "u"}]})
    (said,) = talk.end()
    assert (said.content, said.attributes) == ("See", '{"blocks":[{"type":"image_url","image_url":"u"}]}')


def test_a_role_that_is_a_name_is_an_agent() -> None:
    assert [role_of(name) for name in ("Planner", "HUMAN", "developer", "observation")] == [
        "agent", "user", "system", "tool",
    ]  # fmt: skip
    talk = Conversation()
    talk.add({"role": "Planner", "content": "First the map."})
    assert [(e.role, e.agent) for e in talk.end()] == [("agent", "Planner")]
