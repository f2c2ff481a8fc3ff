"""Names are one by their form alone, or not at all: everything else is a proposal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake.memory_store.text.names import is_identifier, is_organised, likeness, name_key

PIECES = st.sampled_from(
    ["Dr.", "mr", "Prof", "Anna", "Müller", "ＡＰＩ", "支付", "张伟", "先生", "女士", "101",
     "ORD-12", " ", "  ", "\u3000",
     "\"", "“", "」", "ß", "İ", "ﬁ", "\0", "\ud800", ".", "-", "한국", "é", "e\u0301"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=6).map("".join) | st.text(max_size=20))
def test_the_form_of_a_form_is_itself(name: str) -> None:
    key = name_key(name)
    assert name_key(key) == key
    assert key == key.strip()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Ｐay  API", "pay api"), ("支付 API", "支付API"), ("Dr. Sarah Connor", "SARAH CONNOR"), ("张伟先生", "张伟"),
        ("《三体》", "三体"), ("“Acme”", "acme"), ("Prof. Dr. Anna Lee", "anna lee"), ("ECONNRESET", "econnreset"),
    ],
)  # fmt: skip
def test_case_width_spaces_and_honorifics_make_no_other_name(first: str, second: str) -> None:
    assert name_key(first) == name_key(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Room 101", "Room 102"), ("ORD-1", "ORD-12"), ("http_client.py", "http_client"), ("Mr. Smith", "Mrs. Smith"),
        ("王先生", "王女士"), ("王先生", "王"), ("欧阳先生", "欧阳"), ("一号楼", "二号楼"), ("Ford", "Ford Inc."),
        ("李伟", "李薇"),
    ],
)  # fmt: skip
def test_other_names_stay_other_names_whatever_they_look_like(first: str, second: str) -> None:
    assert name_key(first) != name_key(second)
    assert likeness(first, second) is None


@pytest.mark.parametrize(
    ("first", "second", "like"),
    [
        ("São Paulo", "Sao Paulo", "spelling"), ("web-hook relay", "Webhook Relay", "spelling"),
        ("Sarah", "Sarah Connor", "short form"), ("R. Smith", "Robert Smith", "short form"),
        ("TLS", "Transport Layer Security", "letters"), ("Jonahtan Smith", "Jonathan Smith", "slip"),
        ("Acmme Logistics", "Acme Logistics", "slip"), ("Brian", "Brain", None), ("Martin Fox", "Marvin Fox", None),
        ("Sarah", "Sarahs", None), ("Sa", "Sa Connor", None),
    ],
)  # fmt: skip
def test_what_may_be_one_is_told_from_what_is_not(first: str, second: str, like: str | None) -> None:
    assert likeness(first, second) == likeness(second, first) == like


@given(st.integers(0, 99), st.integers(0, 99), st.sampled_from(["Room {}", "{}号楼", "ORD-{}", "Gate {}A", "v{}.py"]))
def test_a_number_that_differs_is_never_a_likeness(one: int, two: int, name: str) -> None:
    first, second = name.format(one), name.format(two)
    assert likeness(first, second) is None
    assert (name_key(first) == name_key(second)) == (one == two)
    assert is_identifier(first)


def test_companies_and_people_are_told_apart() -> None:
    assert is_organised("Deutsche Bank") and is_organised("顺丰公司") and is_organised("Acme GmbH")
    assert not is_organised("Banks") and not is_organised("Anna Cole") and not is_organised("王公")
