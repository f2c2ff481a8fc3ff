"""JSON as models write it: what is whole is read, whatever is around it or missing from it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake.jobs.models.repair import find_json

_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
_SCALAR = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | _TEXT
_VALUE = st.recursive(
    _SCALAR, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4), max_leaves=12
)
_OBJECT = st.dictionaries(_TEXT, _VALUE, min_size=1, max_size=5)
_ITEMS = st.lists(st.fixed_dictionaries({"text": _TEXT, "weight": st.integers(0, 9)}), min_size=1, max_size=5)


@given(_OBJECT, st.booleans())
def test_good_json_is_read_as_it_is(value: dict[str, Any], ascii: bool) -> None:
    assert find_json(json.dumps(value, ensure_ascii=ascii)).value == value


@given(_OBJECT)
def test_the_forgiving_reader_agrees_with_the_strict_one(value: dict[str, Any]) -> None:
    spoiled = json.dumps(value)[:-1] + ",}"
    assert find_json(spoiled).value == value


@given(_OBJECT)
def test_fences_and_prose_around_json_are_passed_over(value: dict[str, Any]) -> None:
    assert find_json(f"Here you are:\n```json\n{json.dumps(value, indent=1)}\n```\nGlad to help.").value == value


@given(_ITEMS, st.data())
def test_of_a_reply_that_was_cut_off_every_whole_item_is_kept(items: list[dict[str, Any]], data: st.DataObject) -> None:
    text = json.dumps({"items": items})
    end = data.draw(st.integers(text.index("[") + 1, len(text) - 1))
    found = find_json(text[:end])
    whole = [item for place, item in enumerate(items) if len(json.dumps({"items": items[: place + 1]})) - 2 <= end]
    assert found.value == {"items": whole}
    assert found.cut


@given(_ITEMS, st.data())
def test_a_broken_item_costs_no_other(items: list[dict[str, Any]], data: st.DataObject) -> None:
    pieces = [json.dumps(item) for item in items]
    place = data.draw(st.integers(0, len(pieces)))
    pieces.insert(place, '{"text": , "weight" 3}')
    found = find_json('{"items": [' + ", ".join(pieces) + "]}")
    assert found.value == {"items": items}
    assert len(found.broken) == 1


@given(st.text() | st.text("{}[]\",:\\u0aé \n'“”<think>/-1.e") | st.text('{["\\u', max_size=400))
def test_no_text_makes_it_fail(text: str) -> None:
    value = find_json(text).value
    assert value is None or isinstance(value, dict | list)
    json.dumps(value, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": "\\uZZZZ", "b": 1}', {"a": "\\uZZZZ", "b": 1}),
        ('{"a": "\\ud800", "b": "\\u0000x"}', {"a": "\ufffd", "b": "x"}),
        ('{"a": "\\uZ \\ud83d\\ude00"}', {"a": "\\uZ 😀"}),
        ('{"a": "C:\\dir"}', {"a": "C:\\dir"}),
        ('{"a": "line\nline"}', {"a": "line\nline"}),
        ("{'a': 'it', b: True, c: None}", {"a": "it", "b": True, "c": None}),
        ('{"a": 1 // one\n}', {"a": 1}),
        ('{"a": “curly”}', {"a": "curly"}),
        ('{"a": "say "yes" now"}', {"a": 'say "yes" now'}),
        ('{"a": [1, 2,], }', {"a": [1, 2]}),
        ('<think>maybe {"a": 0}</think>{"a": 1}', {"a": 1}),
        ('I use {braces} often. {"a": 1}', {"a": 1}),
        ('\ufeff{"a": 1}', {"a": 1}),
        ("no json here", None),
        ("", None),
    ],
)
def test_what_models_do_to_json_is_undone(text: str, value: object) -> None:
    assert find_json(text).value == value


def test_deep_nesting_is_no_way_to_break_it() -> None:
    assert find_json("[" * 50_000).value is None
    assert find_json('{"a":' * 50_000).value in (None, {})
