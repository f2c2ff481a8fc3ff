"""A text is recognised by its pieces wherever they lie, and by nothing else."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake.memory_store.records.pieces import WINDOW, Pieces, plain, strings

KEY = b"k" * 32
TEXT = "The customer prefers to be called on 555-0199 after six"
WORDS = st.text(st.sampled_from("ab c\u9884\u7b97"), max_size=60)


@given(st.lists(WORDS, max_size=4), WORDS)
def test_pieces_are_found_as_a_naive_search_finds_them(texts: list[str], other: str) -> None:
    long = [said for text in texts if len(said := plain(text)) >= WINDOW]
    windows = {said[at : at + WINDOW] for said in long for at in range(len(said) - WINDOW + 1)}
    said = plain(other)
    expected = sum(said[at : at + WINDOW] in windows for at in range(len(said) - WINDOW + 1))
    assert Pieces.of(long, KEY).hits([other]).get(0, 0) == expected


@pytest.mark.parametrize(
    "copy",
    [
        TEXT,
        f"He said: {TEXT.upper()}!",
        TEXT.replace(" ", "\n  "),
        TEXT[10:40],
        json.dumps({"a": [TEXT.replace("called", "\u00e7alled"), {TEXT: 1}]}),
    ],
)
def test_a_copy_is_found(copy: str) -> None:
    assert Pieces.of([TEXT], KEY).hits(["other", copy]).keys() == {1}


@pytest.mark.parametrize("other", ["", TEXT[:23], "The customers like to be written to", None])
def test_what_is_no_copy_is_not_found(other: str | None) -> None:
    assert not Pieces.of([TEXT], KEY).hits([other])


def test_escaped_text_in_json_is_found() -> None:
    text = "\u7528\u6237\u7684\u9884\u7b97\u4ece5000\u6539\u4e3a8000\u5143"
    assert Pieces.of([text], KEY).hits([json.dumps({"a": text})])


def test_a_short_text_is_found_as_words_and_a_very_short_one_only_alone() -> None:
    short, tiny = Pieces.of(["Ann is in Oslo"], KEY), Pieces.of(["Ann"], KEY)
    assert short.hits(["I think Ann is in Oslo now", "Ann is in Oslovia"]).keys() == {0}
    assert tiny.hits(["ann", "Ann said"]).keys() == {0}


def test_pieces_that_others_say_too_can_be_left_out() -> None:
    left = Pieces.of([TEXT], KEY).without(["the customer prefers to be called"])
    assert not left.hits(["The customer prefers to be called"])
    assert left.hits([TEXT])


def test_what_is_kept_of_pieces_recognises_them_and_holds_no_text() -> None:
    kept = json.loads(json.dumps(Pieces.of([TEXT], KEY).kept()))
    assert Pieces.from_kept(kept, KEY).hits([TEXT])
    assert not Pieces.from_kept(kept, b"x" * 32).hits([TEXT])
    assert all(isinstance(hash, int) for some in kept.values() for hash in some)


def test_every_string_of_a_column_is_seen_however_deep() -> None:
    deep = pa.chunked_array([pa.array([[{"a": "one", "b": ["two"]}], None, [{"a": "three", "b": []}]])])
    rows, texts = strings(deep)
    assert {(row, text) for row, text in zip(rows, texts, strict=True) if text in ("one", "two", "three")} == {
        (0, "one"), (0, "two"), (2, "three")
    }  # fmt: skip
    assert strings(pa.chunked_array([pa.array([b"one"])]))[1] == ["one"]
    assert strings(pa.chunked_array([pa.array(["one"]).dictionary_encode()]))[1] == ["one"]
    assert strings(pa.chunked_array([pa.array([1, 2])])) == ([], [])
