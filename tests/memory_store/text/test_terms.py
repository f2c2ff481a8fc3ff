"""Terms: what is indexed of a text, and that a query meets it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake.memory_store.text.terms import identifiers, query_words, row_terms, row_words, terms, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Where is ORD-12345?", ["ord-12345"]),
        ("ORD-12345,ORD-9; (ORD-7)", ["ord-12345", "ord-9", "ord-7"]),
        ("http_client.py raised ECONNRESET.", ["http_client.py", "econnreset"]),
        ("pay a@b.com via https://a.b/c", ["a@b.com", "a.b/c"]),
        ("gpt-4o and v2.3.1", ["gpt-4o", "v2.3.1"]),
        ("订单ORD-99号", ["ord-99"]),
        ("ＯＲＤ－１２", ["ord-12"]),
        ("well-known e-mail, 5 days, 10.5 s. The End", []),
    ],
)
def test_identifiers_are_told_from_words(text: str, expected: list[str]) -> None:
    assert list(identifiers(text)) == expected


@given(text=st.text())
def test_any_text_can_be_indexed_and_searched(text: str) -> None:
    assert len(words(text).encode().split()) >= len(list(identifiers(text)))
    assert query_words(text) == words(text[:4000])


@given(text=st.text(alphabet=st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF), min_size=2, max_size=20))
def test_each_part_of_a_chinese_text_shares_a_term_with_the_whole(text: str) -> None:
    for place in range(len(text) - 1):
        assert terms(text[place : place + 2]) <= terms(text)


def test_made_up_words_have_no_vowel_and_no_digit() -> None:
    made = words("支付 ORD-12345").split()[1:]
    assert len(made) == 4  # the identifier, two characters and their pair
    assert not set("".join(made)) & set("aeiouys0123456789")


def test_what_the_text_says_already_is_indexed_once() -> None:
    row = {"text": "Call get_rate again", "tool": "get_rate", "entities": ["Rate Bureau"], "trigger": None}
    assert row_words(row).count("get_rate") == 1
    assert {"bureau", "get_rate", "again"} <= row_terms(row)


def test_an_entity_inside_a_word_is_not_said_already() -> None:
    assert row_words({"text": "failed", "entities": ["Ai"]}).split()[:2] == ["failed", "ai"]


def test_words_meet_their_other_endings() -> None:
    assert terms("refunded parcels") == terms("refunds parcel")


def test_stop_words_are_no_terms() -> None:
    assert terms("what is the") == set()
