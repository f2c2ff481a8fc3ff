"""What is kept of text that is too long, or that UTF-8 can't say."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake.memory_store.capture.events import Event
from hindlake.memory_store.capture.limits import cut, printable, visible
from hindlake.memory_store.capture.masking import Mask

SECRET = "AKIA" + "IOSFODNN7EXAMPLE"


def event(**fields: str) -> Event:
    return Event("acme", "t", "e", 0, datetime(2026, 3, 1, tzinfo=UTC), "tool_call", **fields)  # type: ignore[arg-type]


def unmasked(text: str) -> tuple[str, int]:
    return text, 0


@given(st.text(max_size=30), st.integers(20, 200))
def test_what_is_kept_is_the_beginning_and_fits(text: str, limit: int) -> None:
    """Oracle: the longest prefix whose UTF-8 fits."""
    text = visible(text * 20)
    one = event(content=text)
    cut(one, limit, unmasked)
    fitting = max((n for n in range(len(text) + 1) if len(text[:n].encode()) <= limit), default=0)
    assert one.content == text[:fitting]
    assert [c.bytes for c in one.cuts] == ([] if fitting == len(text) else [len(text.encode())])


def test_a_cut_says_length_and_hash_of_the_whole_and_json_stays_json() -> None:
    one = event(arguments=json.dumps({"a": "x" * 500}), tool="t" * 5_000)
    whole = one.arguments
    cut(one, 100, unmasked)
    assert json.loads(one.arguments) == {"$cut": whole[:100]}
    assert {c.field: c.sha256 for c in one.cuts} == {
        "arguments": hashlib.sha256(whole.encode()).hexdigest(),
        "tool": hashlib.sha256(b"t" * 5_000).hexdigest(),
    }
    assert one.tool == "t" * 100


def test_what_is_masked_before_a_cut_is_counted() -> None:
    one = event(content=f"{SECRET} {'z' * 500}")
    cut(one, 100, Mask().text)
    assert one.content.startswith("[masked:aws_key] zzz")
    assert one.masked == 1


@pytest.mark.parametrize(
    ("text", "seen"), [("", ""), ("a", "a"), ("é👩‍👧", "é👩‍👧"), ("\ud83d", "\\ud83d"), ("é\udc00.", "é\\udc00.")]
)
def test_lone_surrogates_are_written_out_in_every_text(text: str, seen: str) -> None:
    one = event(content=text, tool=text, subject=text)
    printable(one)
    assert (one.content, one.tool, one.subject, visible(text)) == (seen, seen, seen, seen)
