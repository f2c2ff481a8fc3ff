"""Arguments of tools: schemas that every provider takes, and what models send understood (R29)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindlake.memory_store.errors import UsageError
from hindlake.sdk.mcp.parameters import Parameter, meant
from hindlake.sdk.mcp.registry import Answer, Registry, Tool
from hindlake.sdk.mcp.tools import TOOLS

TEXT = Parameter("text", "string", "Text.")
COUNT = Parameter("count", "integer", "A count.", least=1, most=50)
SHARE = Parameter("share", "number", "A share.")
NAMES = Parameter("names", "array", "Names.")
KIND = Parameter("kind", "string", "A kind.", choices=("fact", "rule"))
ALL = (TEXT, COUNT, SHARE, NAMES, KIND)
#: Words of JSON schema that OpenAI, Anthropic and Gemini all take in tools.
COMMON = {"type", "description", "enum", "items", "properties", "required"}


def _words(schema: Any) -> set[str]:
    found = set(schema) - {"properties"}
    for one in schema.get("properties", {}).values():
        found |= _words(one)
    return found | (_words(schema["items"]) if "items" in schema else set())


@pytest.mark.parametrize("tool", list(TOOLS), ids=lambda tool: tool.name)
def test_a_schema_is_flat_and_uses_only_what_every_provider_takes(tool: Tool) -> None:
    schema = tool.schema
    assert schema["type"] == "object"  # Anthropic: input_schema is an object
    assert set(schema["required"]) <= set(schema["properties"])  # Gemini refuses others
    assert _words(schema) <= COMMON
    assert len(schema["properties"]) <= 6
    for name, one in schema["properties"].items():
        assert re.fullmatch(r"[a-z][a-z_]{0,63}", name)  # Gemini: snake case; OpenAI: a-z, A-Z, 0-9, _ and -
        assert one["type"] in ("string", "integer", "number", "array")  # one type, never null
        assert one["type"] == "string" or "enum" not in one  # Gemini: an enum is text
        assert one["type"] != "array" or one["items"] == {"type": "string"}
        assert all(one.get("enum", ["x"]))  # Gemini refuses empty values of an enum
        assert len(one["description"]) < 200


@pytest.mark.parametrize("tool", list(TOOLS), ids=lambda tool: tool.name)
def test_a_tool_says_in_plain_words_when_to_call_it(tool: Tool) -> None:
    assert re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}", tool.name)  # Gemini: begins with a letter or _
    description = TOOLS.description(tool)
    assert len(description) < 200
    assert re.search(r"[Cc]all this (when|before|after)", description)
    assert not re.search(r"vector|embedding|lake|hybrid|RRF|LanceDB|namespace", description)


@pytest.mark.parametrize(
    ("sent", "means"),
    [
        ({"count": "5"}, {"count": 5}),
        ({"count": " 5.0 "}, {"count": 5}),
        ({"count": 5.0}, {"count": 5}),
        ({"share": "0.7"}, {"share": 0.7}),
        ({"share": 1}, {"share": 1.0}),
        ({"names": "a, b"}, {"names": ["a", "b"]}),
        ({"names": "张三、李四"}, {"names": ["张三", "李四"]}),
        ({"names": '["a", "b, c"]'}, {"names": ["a", "b, c"]}),
        ({"names": ["a", 7, " "]}, {"names": ["a", "7"]}),
        ({"names": ""}, {"names": []}),
        ({"text": 7}, {"text": "7"}),
        ({"text": True}, {"text": "true"}),
        ({"text": ["only"]}, {"text": "only"}),
        ({"kind": " Fact "}, {"kind": "fact"}),
        ({"text": None, "count": None}, {}),
    ],
)
def test_what_can_only_mean_one_thing_is_taken_as_that(sent: dict[str, Any], means: dict[str, Any]) -> None:
    assert meant(ALL, sent, 100) == means


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ({"count": "many"}, 'count is "many": send a whole number from 1 to 50'),
        ({"count": 0}, "count is 0: send a whole number from 1 to 50"),
        ({"count": 2.5}, "send a whole number"),
        ({"count": True}, "count is true: send a whole number"),
        ({"count": "nan"}, "send a whole number"),
        ({"count": 10**400}, "send a whole number"),
        ({"share": "inf"}, "send a number from 0 to 1"),
        ({"share": [0.5]}, "send a number from 0 to 1"),
        ({"names": {"a": 1}}, "names is"),
        ({"names": "[" * 100}, "names is"),
        ({"names": [["a"]]}, "names is"),
        ({"names": ["a"] * 65}, "at most 64 names"),
        ({"text": {"a": 1}}, "text is"),
        ({"text": "x" * 101}, "text has 101 characters: send at most 100"),
        ({"names": ["x" * 101]}, "names is"),
        ({"kind": "opinion"}, "send one of fact, rule"),
        ({"namespace": "other"}, 'there is no argument "namespace": send text, count, share, names, kind'),
    ],
)
def test_what_can_not_be_meant_is_answered_with_what_to_send(sent: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(told)):
        meant(ALL, sent, 100)


def test_a_missing_argument_is_asked_for() -> None:
    for sent in ({}, {"text": None}, {"text": "  "}):
        with pytest.raises(UsageError, match="text is missing"):
            meant((Parameter("text", "string", "Text.", is_required=True),), sent, 100)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda some: st.lists(some) | st.dictionaries(st.text(), some),
    max_leaves=8,
)


@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from(["text", "count", "share", "names", "kind", "x"]), JSON))
def test_whatever_is_sent_is_understood_or_refused(sent: dict[str, Any]) -> None:
    """Refusals are short, and what is understood has the types and bounds that the schema says."""
    try:
        means = meant(ALL, sent, 50)
    except UsageError as error:
        assert len(str(error)) < 300
        return
    assert isinstance(means.get("text", ""), str) and len(means.get("text", "")) <= 50
    assert type(means.get("count", 1)) is int and 1 <= means.get("count", 1) <= 50
    assert 0 <= means.get("share", 0.0) <= 1
    assert all(isinstance(name, str) and name for name in means.get("names", []))
    assert means.get("kind", "fact") in ("fact", "rule")


def _tool(version: int = 1, description: str = "Look. Call this when you look.") -> Tool:
    return Tool("look", description, (TEXT,), lambda desk, sent: Answer(f"v{version}", {}), version=version)


def test_a_new_version_stands_beside_the_old_one_which_is_marked() -> None:
    """The name that clients know goes on working."""
    registry = Registry([_tool(), _tool(2)])
    assert [tool.name for tool in registry] == ["look", "look_v2"]
    old, new = registry
    assert registry.description(old) == "Old, kept for those who know it: call look_v2."
    assert registry.meta(old) == {
        "hindlake/version": 1, "hindlake/deprecated": True, "hindlake/replaced_by": "look_v2",
    }  # fmt: skip
    assert registry.meta(new) == {"hindlake/version": 2}
    assert registry.description(new) == new.description
    assert registry.find("look") is old


def test_a_registry_refuses_what_a_provider_would() -> None:
    with pytest.raises(UsageError, match="two tools"):
        Registry([_tool(), _tool()])
    with pytest.raises(UsageError, match="200 characters"):
        Registry([_tool(description="x" * 200)])
    with pytest.raises(UsageError, match="there is no tool"):
        Registry([_tool()]).find("remember")
