"""Entities: what a text names, in English, Chinese and both."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake.memory_store.text.entities import entities_of, find_entities, merge_entities
from hindlake.memory_store.text.language import language_of


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Ship ORD-12345 to Tampa, ask Priya Raman", {"ORD-12345", "Tampa", "Priya Raman"}),
        ("read tcp: ECONNRESET in lib/http_client.py", {"ECONNRESET", "lib/http_client.py"}),
        ("a KeyError after get_user_details", {"KeyError", "get_user_details"}),
        ("订单ORD-7788由王经理处理，发到南京市", {"ORD-7788", "王经理", "南京市"}),
        ("我叫赵小川，在清河大学上学", {"赵小川", "清河大学"}),
        (
            "写信到 li.na@example.org 或看 https://example.org/a?b=1。",
            {"li.na@example.org", "https://example.org/a?b=1"},
        ),
        ("《三体》还没还", {"三体"}),
        ("Please help me. The total is 20 and I paid", set()),
        ("", set()),
    ],
)
def test_a_text_names_these_things(text: str, names: set[str]) -> None:
    assert set(entities_of(text)) == names


def test_each_entity_comes_once_and_in_order() -> None:
    assert entities_of("to Oslo, from Rome, to oslo and Oslo") == ("Oslo", "Rome")
    assert merge_entities([["Oslo"], ["OSLO", "Rome"]]) == ("Oslo", "Rome")


@given(st.text(max_size=500))
def test_every_entity_stands_in_the_normalised_text(text: str) -> None:
    import unicodedata

    normal = unicodedata.normalize("NFKC", text)
    for entity in find_entities(text):
        assert normal[entity.start : entity.start + len(entity.text)] == entity.text


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("where is my parcel", "en"),
        ("我的包裹在哪", "zh"),
        ("支付API超时了", "zh"),
        ("荷物はどこですか", "ja"),
        ("소포가 어디에 있나요", "ko"),
        ("где моя посылка", "und-Cyrl"),
        ("dove si trova il mio pacco", "und-Latn"),
        ("12345", ""),
        ("", ""),
    ],
)
def test_a_language_is_told_by_its_script(text: str, language: str) -> None:
    assert language_of(text) == language
