"""From the text of a reply to a model of it, item by item."""

from __future__ import annotations

import json
from typing import Literal

import pytest
from pydantic import Field

from hindlake.jobs.models.reading import ReplyModel, flat_schema, read_reply
from hindlake.jobs.reflecting.reply import ReflectReply


class Verdict(ReplyModel):
    """A reply without lists."""

    same: bool
    why: str = ""


def statement(**fields: object) -> dict[str, object]:
    return {"kind": "fact", "text": "The budget is 8000.", **fields}


def read(**fields: object) -> ReflectReply:
    reading = read_reply(json.dumps(fields), ReflectReply)
    assert reading.value is not None
    return reading.value


def test_a_missing_field_takes_its_default() -> None:
    reply = read(facts=[statement()])
    fact = reply.facts[0]
    assert (reply.summary, fact.quality, fact.confidence, fact.useful, fact.entities) == ("", 3, 0.5, True, [])


@pytest.mark.parametrize(
    ("field", "given", "taken"),
    [
        ("quality", "4", 4), ("quality", 4.4, 4), ("quality", "high", 3), ("quality", 9, 3), ("quality", None, 3),
        ("quality", True, 3), ("confidence", "0.7", 0.7), ("confidence", 95, 0.5), ("confidence", float("nan"), 0.5),
        ("importance", [1], 0.5), ("entities", "a, b、c", ["a", "b", "c"]), ("entities", {"x": 1}, []),
        ("entities", ["a", None, 3], ["a", "3"]), ("value", 8000, "8000"), ("useful", "yes", True),
        ("useful", "perhaps", True), ("kind", " FACT ", "fact"), ("quote", None, ""), ("nonsense", 1, None),
    ],
)  # fmt: skip
def test_a_field_of_a_wrong_type_is_read_with_patience(field: str, given: object, taken: object) -> None:
    reading = read_reply(json.dumps({"facts": [statement(**{field: given})]}), ReflectReply)
    assert reading.value is not None
    assert getattr(reading.value.facts[0], field, None) == taken
    assert not reading.lost


def test_an_item_that_is_none_is_lost_alone_and_says_why() -> None:
    items = [statement(text="one"), {"kind": "mood", "text": "glad"}, {"kind": "fact"}, "words", statement(text="two")]
    reading = read_reply(json.dumps({"summary": "s", "facts": items}), ReflectReply)
    assert reading.value is not None
    assert [fact.text for fact in reading.value.facts] == ["one", "two"]
    assert [(lost.field, lost.reason.partition(":")[0]) for lost in reading.lost] == [
        ("facts", "kind"), ("facts", "text"), ("facts", "Input should be a valid dictionary or instance of Statement"),
    ]  # fmt: skip
    assert json.loads(reading.lost[0].piece) == items[1]


def test_a_reply_without_what_it_needs_has_no_value_and_says_why() -> None:
    reading = read_reply('{"why": "who knows"}', Verdict)
    assert reading.value is None
    assert "same" in reading.problem


def test_a_schema_is_flat_and_leaves_limits_out() -> None:
    class Limited(ReplyModel):
        """Limits."""

        kind: Literal["a", "b"]
        text: str = Field("x", max_length=3, description="short")
        maybe: int | None = None

    assert flat_schema(Limited) == {
        "type": "object",
        "description": "Limits.",
        "properties": {
            "kind": {"type": "string", "enum": ["a", "b"]},
            "text": {"type": "string", "description": "short"},
            "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
        "required": ["kind", "text", "maybe"],
        "additionalProperties": False,
    }


def test_the_schema_of_a_reflection_is_small_and_nests_no_deeper_than_a_list_of_flat_items() -> None:
    schema = flat_schema(ReflectReply)
    assert len(json.dumps(schema)) < 6_000
    items = [field["items"] for field in schema["properties"].values() if field["type"] == "array"]
    assert len(items) == 3
    for item in items:
        for name, field in item["properties"].items():
            assert field["type"] != "object", name
            assert field.get("items", {"type": "string"}) == {"type": "string"}, name
