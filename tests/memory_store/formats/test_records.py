"""From bytes to records, whatever is broken between them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindlake.memory_store.formats.records import Broken, Record, read_records
from hindlake.memory_store.formats.sources import Source

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=5), VALUES, min_size=1, max_size=3)


def read(raw: bytes, size: int = 7) -> list[Record | Broken]:
    chunks = [raw[start : start + size] for start in range(0, len(raw), size)]
    return list(read_records(Source("f", chunks)))


@settings(max_examples=40)
@given(values=st.lists(VALUES, min_size=1, max_size=5), indent=st.sampled_from([None, 0, 2]), size=st.integers(1, 40))
def test_the_elements_of_an_array_are_its_records_however_the_bytes_come(
    values: list[object], indent: int | None, size: int
) -> None:
    raw = json.dumps(values, indent=indent, ensure_ascii=False).encode("utf-8", "surrogatepass")
    assert [item.value for item in read(raw, size) if isinstance(item, Record)] == values


@settings(max_examples=40)
@given(values=st.lists(OBJECTS, min_size=1, max_size=5), size=st.integers(1, 40))
def test_each_line_is_a_record(values: list[object], size: int) -> None:
    found = read("\r\n".join(map(json.dumps, values)).encode(), size)
    assert found == [Record(f"f#line {n}", value) for n, value in enumerate(values, 1)]


@settings(max_examples=40)
@given(values=st.lists(OBJECTS, min_size=1, max_size=4), size=st.integers(1, 40))
def test_objects_one_behind_another_are_records(values: list[object], size: int) -> None:
    raw = "\n".join(json.dumps(value, indent=1) for value in values).encode()
    assert [item.value for item in read(raw, size) if isinstance(item, Record)] == values


@settings(max_examples=40)
@given(raw=st.binary(max_size=60), size=st.integers(1, 9))
def test_any_bytes_are_records_or_say_where_they_are_broken(raw: bytes, size: int) -> None:
    found = read(raw, size)
    assert found
    assert all(isinstance(item, Record) or (item.where.startswith("f") and item.why) for item in found)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ('[{"a": 1}, {"a": }, {"a": 3}]', [1, "f#record 2", 3]),
        ('[\n{"a": 1},\n{"a": "x},\n{"a": 3},\n{"a": 4}]', [1, "f#record 2", 3, 4]),
        ('[\n  {"a": 1},\n  {"a": [2},\n  {"a": 3}\n]', [1, "f#record 2", 3]),
        ('[{"a": 1}, {"a": 2}', [1, 2, "f#record 3"]),
        ('[{"a": 1}, {"a": ', [1, "f#record 2"]),
        ('{"a": 1}\n{"a": \n\n{"a": 3}', [1, "f#line 2", 3]),
        ('not json\n{"a": 2}\n', ["f#line 1", 2]),
        ('{"a": 1}{"a": 2}', [1, 2]),
        ('{"a": NaN}', ["nan"]),
        ("[]", ["f"]),
    ],
)
def test_what_is_broken_is_named_and_the_rest_is_read(raw: str, expected: list[object]) -> None:
    found = []
    for item in read(raw.encode()):
        if isinstance(item, Broken):
            found.append(item.where)
        else:
            assert isinstance(item.value, dict)
            value = item.value["a"]
            found.append("nan" if value != value else value)
    assert found == expected


def test_arrays_one_behind_another_are_told_apart() -> None:
    found = read(b"[1, 2]\n[3]\n[[4]]")
    assert [(item.value, item.array) for item in found if isinstance(item, Record)] == [
        (1, 1), (2, 1), (3, 2), ([4], 3),
    ]  # fmt: skip


def test_a_value_nested_too_deeply_is_named() -> None:
    (found,) = read(b"[" + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"]", 1 << 16)
    assert isinstance(found, Broken)
    assert found.why == "nested too deeply"
