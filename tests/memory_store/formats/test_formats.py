"""Each format on a record of its kind, and how they are told apart."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake.memory_store.capture.events import Event
from hindlake.memory_store.errors import UsageError
from hindlake.memory_store.formats import (
    FORMATS,
    Draft,
    Record,
    RecordError,
    Stamp,
    detect,
    finish,
    format_named,
    trace_id_of,
)
from hindlake.memory_store.formats.labels import is_label, without_labels
from hindlake.memory_store.formats.loose import moment

STAMP = Stamp("shop", moment("2026-03-01T00:00:00Z") or pytest.fail())

SWE = {
    "environment": "main",
    "trajectory": [
        {"action": "ls -a\n", "observation": "a.py", "thought": "Look around.", "response": "Look around.\nls -a",
         "state": {"open_file": "n/a"}, "execution_time": 0.5},
        {"action": "edit 1:1\nx", "observation": "Your proposed edit has introduced new syntax error(s).",
         "thought": "Change it.", "response": "Change it.\nedit 1:1\nx"},
        {"action": "", "observation": "Say what to do.", "thought": "Hm."},
    ],
    "history": [
        {"role": "system", "content": "You are a programmer.", "agent": "main"},
        {"role": "user", "content": "An example.", "is_demo": True},
        {"role": "user", "content": "Fix the sum."},
        {"role": "assistant", "content": "Look around.", "tool_calls": [
            {"id": "c1", "function": {"name": "bash", "arguments": '{"command": "ls -a"}'}}]},
    ],
    "info": {"exit_status": "exit_cost", "model_stats": {"api_calls": 3}, "edited_files30": "long"},
    "replay_config": json.dumps({"problem_statement": {"id": "sum-1"}, "agent": {"model": {"name": "m"}}}),
}  # fmt: skip
GROUP = {
    "question": "How many lines?", "question_ID": "q-1", "is_correct": False, "ground_truth": "secret",
    "mistake_reason": "secret", "level": "2", "system_prompt": {"Counter": "You count."},
    "history": [
        {"role": "assistant", "name": "Counter", "content": "Run\n```python\nprint(1/0)\n```"},
        {"role": "user", "name": "Computer_terminal",
         "content": "exitcode: 1 (execution failed)\nCode output: Traceback (most recent call last):\n  x\n"
                    "ZeroDivisionError: division by zero"},
        {"role": "human", "content": "Hurry."},
    ],
}  # fmt: skip
CHATGPT = {
    "title": "Cake", "conversation_id": "talk-1", "create_time": 1767225600.5, "current_node": "d",
    "mapping": {
        "r": {"message": None, "parent": None, "children": ["a"]},
        "a": {"message": {"author": {"role": "user"}, "create_time": 1767225601,
                          "content": {"content_type": "text", "parts": ["A cake?"]}},
              "parent": "r", "children": ["b", "x"]},
        "x": {"message": {"author": {"role": "assistant"}, "content": {"parts": ["No."]}},
              "parent": "a", "children": []},
        "b": {"message": {"author": {"role": "assistant"}, "recipient": "python",
                          "content": {"content_type": "code", "text": "bake()"}}, "parent": "a", "children": ["c"]},
        "c": {"message": {"author": {"role": "tool", "name": "python"}, "content": {"parts": ["baked"]}},
              "parent": "b", "children": ["d"]},
        "d": {"message": {"author": {"role": "assistant"}, "metadata": {"model_slug": "m"},
                          "content": {"parts": ["Here."]}}, "parent": "c", "children": []},
    },
}  # fmt: skip
CLAUDE = [
    {"type": "user", "sessionId": "s", "uuid": "u1", "timestamp": "2026-01-01T10:00:00Z", "cwd": "/x",
     "message": {"role": "user", "content": "List the files."}},
    {"type": "assistant", "sessionId": "s", "uuid": "u2", "timestamp": "2026-01-01T10:00:01Z",
     "message": {"id": "m1", "role": "assistant", "model": "m", "usage": {"input_tokens": 5, "output_tokens": 1},
                 "content": [{"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": "ls"}}]}},
    {"type": "user", "sessionId": "s", "uuid": "u3", "timestamp": "2026-01-01T10:00:03Z", "toolUseResult": {"x": 1},
     "message": {"role": "user", "content": [
         {"type": "tool_result", "tool_use_id": "c", "is_error": True, "content": "Exit code 2\nno"}]}},
    {"type": "progress", "sessionId": "s", "uuid": "u4", "timestamp": "2026-01-01T10:00:04Z", "data": {"n": 1}},
]  # fmt: skip
OTLP = {"resourceSpans": [{"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]},
        "scopeSpans": [{"scope": {"name": "lib"}, "spans": [
            {"traceId": "W47/95gDgQPSabYzgT/GDA==", "spanId": "7uGbfsPBsXM=", "name": "root",
             "startTimeUnixNano": "1767225600000000000", "endTimeUnixNano": "1767225601000000000",
             "attributes": [{"key": "n", "value": {"intValue": "3"}},
                            {"key": "l", "value": {"arrayValue": {"values": [{"boolValue": True}]}}}],
             "status": {"code": "STATUS_CODE_ERROR", "message": "KeyError: 'x'"}}]}]}]}  # fmt: skip
JAEGER = {"data": [{"traceID": "5b8efff798038103d269b633813fc60c", "processes": {"p1": {"serviceName": "shop"}},
          "spans": [
    {"traceID": "5b8efff798038103d269b633813fc60c", "spanID": "eee19b7ec3c1b173", "operationName": "root",
     "references": [], "startTime": 1767225600000000, "duration": 1000000, "processID": "p1",
     "tags": [{"key": "error", "type": "bool", "value": True}, {"key": "otel.status_code", "value": "ERROR"},
              {"key": "otel.status_description", "value": "KeyError: 'x'"}, {"key": "n", "type": "int64", "value": 3}],
     "logs": []}]}]}  # fmt: skip
TREE = {"trace_id": "5b8efff798038103d269b633813fc60c", "spans": [
    {"span_id": "eee19b7ec3c1b173", "span_name": "root", "timestamp": "2026-01-01T00:00:00Z", "duration": "PT1S",
     "status_code": "Error", "status_message": "KeyError: 'x'", "span_attributes": {"n": 3}, "child_spans": [
         {"span_id": "aaa19b7ec3c1b173", "span_name": "child", "timestamp": "2026-01-01T00:00:00.5Z",
          "duration": "PT0.25S", "status_code": "Ok", "child_spans": [], "annotations": ["secret"]}]}]}  # fmt: skip
CONSOLE = {"name": "root", "context": {"trace_id": "0x5b8efff798038103d269b633813fc60c",
           "span_id": "0xeee19b7ec3c1b173"}, "parent_id": None, "start_time": "2026-01-01T00:00:00.000000Z",
           "end_time": "2026-01-01T00:00:01.000000Z", "attributes": {"n": 3},
           "status": {"status_code": "ERROR", "description": "KeyError: 'x'"}}  # fmt: skip
CHAT = {"messages": [{"role": "user", "content": "hi"}]}
EXAMPLES: dict[str, list[object]] = {
    "swe-agent": [SWE], "group-chat": [GROUP], "chatgpt": [CHATGPT], "claude-code": list(CLAUDE), "otlp": [OTLP],
    "jaeger": [JAEGER], "openinference": [TREE], "openai-messages": [CHAT],
    "chat-lines": [{"role": "user", "content": "hi"}],
}  # fmt: skip


def drafts(*values: object) -> list[Draft]:
    """What the records of one file give."""
    found: list[Draft] = []
    parts: dict[str, list[object]] = {}
    format = detect(values[0])
    assert format is not None
    for number, value in enumerate(values, 1):
        for key, part in format.split(Record(f"f#record {number}", value)):
            if key:
                parts.setdefault(key, []).append(part)
            else:
                found.append(format.join(key, [part]))
    return [*found, *(format.join(key, some) for key, some in parts.items())]


def events(*values: object) -> list[Event]:
    (draft,) = drafts(*values)
    return finish(draft, STAMP, "ingest:test")


@pytest.mark.parametrize("name", [format.name for format in FORMATS])
def test_each_format_knows_its_own_and_is_known_by_its_name(name: str) -> None:
    for value in EXAMPLES[name]:
        found = detect(value)
        assert found is not None and found.name == name
    assert format_named(name).name == name


def test_a_format_that_does_not_exist_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="chatgpt"):
        format_named("csv")


def test_a_swe_agent_step_is_a_thought_and_a_tool_call() -> None:
    found = events(SWE)
    assert [(e.type, e.role, e.content or e.tool, e.error_code) for e in found] == [
        ("task", "", "Fix the sum.", ""),
        ("message", "system", "You are a programmer.", ""),
        ("message", "user", "An example.", ""),
        ("message", "user", "Fix the sum.", ""),
        ("message", "agent", "Look around.", ""),
        ("tool_call", "agent", "bash", ""),
        ("message", "agent", "Change it.", ""),
        ("tool_call", "agent", "edit", "your_proposed_edit_has_introduced_new_syntax_error"),
        ("message", "agent", "Hm.", ""),
        ("message", "system", "Say what to do.", ""),
        ("outcome", "", "exit status: exit_cost", "exit_cost"),
    ]
    assert (found[0].task_id, found[0].model, found[-1].outcome) == ("sum-1", "m", "failure")
    assert (found[5].latency_us, found[5].arguments) == (500_000, '{"command": "ls -a"}')


def test_that_a_patch_was_submitted_is_no_success() -> None:
    assert events({**SWE, "info": {"exit_status": "submitted"}})[-1].outcome == "unknown"


def test_what_an_executor_answers_is_a_tool_call_with_the_code_before_it() -> None:
    found = events(GROUP)
    assert [(e.type, e.role, e.agent, e.content or e.tool) for e in found] == [
        ("task", "", "", "How many lines?"),
        ("message", "system", "Counter", "You count."),
        ("message", "agent", "Counter", "Run\n```python\nprint(1/0)\n```"),
        ("tool_call", "agent", "", "Computer_terminal"),
        ("message", "user", "", "Hurry."),
        ("outcome", "", "", ""),
    ]
    assert (found[3].arguments, found[3].error_code) == ('{"code":"print(1/0)\\n"}', "ZeroDivisionError")
    assert (found[-1].outcome, found[0].task_id) == ("failure", "q-1")
    assert "secret" not in str(found)


def test_a_chatgpt_conversation_is_the_branch_that_the_user_ended_on() -> None:
    (draft,) = drafts(CHATGPT)
    found = finish(draft, STAMP, "ingest:test")
    assert [(e.type, e.role, e.content or e.tool, e.result) for e in found] == [
        ("task", "", "A cake?", ""),
        ("message", "user", "A cake?", ""),
        ("tool_call", "agent", "python", "baked"),
        ("message", "agent", "Here.", ""),
    ]
    assert draft.notes == ["1 messages on branches that the user left"]
    assert {e.conversation_id for e in found} == {"talk-1"}
    assert found[1].at.isoformat() == "2026-01-01T00:00:01+00:00"


def test_a_claude_code_session_is_one_trace_with_its_calls_joined() -> None:
    found = events(*CLAUDE)
    assert [(e.type, e.role, e.content or e.tool or e.name, e.error_code) for e in found] == [
        ("task", "", "List the files.", ""),
        ("message", "user", "List the files.", ""),
        ("tool_call", "agent", "Bash", "exit_2"),
        ("step", "", "progress", ""),
    ]
    assert (found[2].latency_us, found[2].input_tokens, found[2].output_tokens) == (2_000_000, 5, 1)
    assert found[3].attributes == '{"data":{"n":1}}'


def test_a_session_that_went_on_keeps_the_ids_of_what_was_there() -> None:
    before, after = ({e.event_id for e in events(*CLAUDE[:n])} for n in (3, 4))
    assert before < after


def test_a_call_whose_result_comes_later_is_another_event_than_the_call_alone() -> None:
    alone, answered = ({e.event_id for e in events(*CLAUDE[:n]) if e.type == "tool_call"} for n in (2, 3))
    assert alone and answered and not alone & answered


def test_an_entry_without_a_session_is_refused() -> None:
    with pytest.raises(RecordError, match="names no session"):
        drafts({"type": "summary", "summary": "A chat", "leafUuid": "x"})


@pytest.mark.parametrize("value", [OTLP, JAEGER, TREE, CONSOLE], ids=["otlp", "jaeger", "tree", "console"])
def test_one_span_in_four_formats_is_the_same_event(value: object) -> None:
    (draft,) = drafts(value)
    step = finish(draft, STAMP, "ingest:test")[1]
    assert trace_id_of("shop", draft) == trace_id_of("shop", drafts(JAEGER)[0])
    assert step.event_id == events(JAEGER)[1].event_id
    assert (step.name, step.latency_us, step.error_code, step.error_message) == (
        "root", 1_000_000, "KeyError", "KeyError: 'x'",
    )  # fmt: skip
    assert step.at.isoformat() == "2026-01-01T00:00:00+00:00"
    assert json.loads(step.attributes)["n"] == 3


def test_children_of_a_span_tree_are_parts_of_their_parent() -> None:
    found = events(TREE)
    assert [(e.type, e.name) for e in found] == [("task", ""), ("step", "root"), ("step", "child"), ("outcome", "")]
    assert found[2].parent_event_id == found[1].event_id
    assert "secret" not in str(found)


@pytest.mark.parametrize(
    "record",
    [
        {"request": {"messages": [{"role": "user", "content": "hi"}], "model": "m"},
         "response": {"choices": [{"message": {"role": "assistant", "content": "hello"}}]}},
        {"custom_id": "r-1", "body": {"messages": [{"role": "user", "content": "hi"}], "model": "m"},
         "response": {"body": {"choices": [{"message": {"role": "assistant", "content": "hello"}}]}}},
        {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"}]},
        [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}],
    ],
    ids=["log", "batch", "sharegpt", "list"],
)  # fmt: skip
def test_messages_are_found_where_they_lie(record: object) -> None:
    assert [(e.type, e.content) for e in events(record)] == [("task", "hi"), ("message", "hi"), ("message", "hello")]


def test_what_a_record_says_beside_its_messages_is_kept() -> None:
    record = {"request": {"messages": [{"role": "user", "content": "hi"}], "tools": ["t"], "model": "m"},
              "response": {"choices": [{"message": {"role": "assistant", "content": "hello"}}]},
              "input": "a word", "info": {"task": {"instruction": "hidden"}, "cost": 3},
              "solution": "hidden"}  # fmt: skip
    start = events(record)[0]
    assert json.loads(start.attributes) == {"input": "a word", "info": {"cost": 3}, "request": {"tools": ["t"]}}
    assert start.model == "m"


def test_lines_of_two_conversations_are_two_traces() -> None:
    lines = [{"role": "user", "content": str(n), "session_id": str(n % 2)} for n in range(6)]
    found = [[e.content for e in draft.events if e.type == "message"] for draft in drafts(*lines)]
    assert found == [["0", "2", "4"], ["1", "3", "5"]]


def test_labels_are_taken_out_at_any_depth() -> None:
    assert without_labels({"a": [{"true_answer": 1, "labels": 2}]}) == {"a": [{"labels": 2}]}
    assert all(map(is_label, ["mistake_step", "Annotator Metadata", "reward_info", "gt_data_hash", "labels"]))
    assert not any(map(is_label, ["answer", "label_printer", "golden_gate", "goldfish", "question", "history"]))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, list[object]]:
    """A record of some format in which some values were replaced by anything."""
    name = draw(st.sampled_from(sorted(EXAMPLES)))

    def change(value: object, depth: int) -> object:
        if depth > 1 and draw(st.integers(0, 9)) == 0:
            return draw(JSON)
        if isinstance(value, dict):
            kept = {key: change(inner, depth + 1) for key, inner in value.items() if draw(st.integers(0, 14))}
            return kept
        if isinstance(value, list):
            return [change(inner, depth + 1) for inner in value]
        return value

    return name, [change(value, 0) for value in EXAMPLES[name]]


@given(mutated())
def test_a_mutated_record_is_read_or_refused(case: tuple[str, list[object]]) -> None:
    name, values = case
    format = format_named(name)
    parts: dict[str, list[object]] = {}
    for value in values:
        for forced in {format.name: format, **({found.name: found} if (found := detect(value)) else {})}.values():
            try:
                for key, part in forced.split(Record("f", value)):
                    parts.setdefault(key, []).append(part)
                    made = finish(forced.join(key, [part]), STAMP, "ingest:test")
                    assert made[0].type == "task" or forced.name == "otlp"
                    assert len({event.event_id for event in made}) == len(made)
                    assert all(isinstance(event.content + event.result + event.arguments, str) for event in made)
            except RecordError as error:
                assert str(error)
