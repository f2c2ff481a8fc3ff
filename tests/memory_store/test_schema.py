"""One schema: every column has one name, one type and one meaning, and an older file gains what it lacks."""

from __future__ import annotations

from dataclasses import fields

import msgspec
import pyarrow as pa
import pytest

from hindlake.jobs.reflecting.candidates import Candidate
from hindlake.memory_store.capture.events import Event
from hindlake.memory_store.schema import CONTENT, STATE, TABLES, arrow_schema, conform, table_of


@pytest.mark.parametrize("table", TABLES)
def test_a_table_has_no_column_twice_and_each_has_a_meaning(table: str) -> None:
    names = [column.name for column in TABLES[table]]
    assert len(names) == len(set(names))
    assert all(column.meaning for column in TABLES[table])
    assert arrow_schema(table).names == names


def test_a_name_has_one_type_in_all_tables() -> None:
    types: dict[str, set[str]] = {}
    for columns in TABLES.values():
        for column in columns:
            types.setdefault(column.name, set()).add(column.type)
    assert {name: kinds for name, kinds in types.items() if len(kinds) > 1} == {}


def test_an_event_has_exactly_the_columns_of_its_table() -> None:
    assert [field.name for field in msgspec.structs.fields(Event)] == arrow_schema("events").names


def test_a_candidate_has_no_field_that_is_no_column() -> None:
    columns = {column.name for column in CONTENT + STATE}
    assert {field.name for field in fields(Candidate)} <= columns


def test_rows_given_as_dicts_become_a_table() -> None:
    evidence = [{"trace_id": "t", "event_id": "e", "quote": "我的预算是 8000"}]
    rows = table_of([{"id": "m1", "evidence": evidence, "vector": [0.6, 0.8]}, {"id": "m2"}], "log")
    assert rows.schema == arrow_schema("log")
    assert rows.column("evidence").to_pylist() == [evidence, None]
    assert rows.column("vector").to_pylist()[0] == pytest.approx([0.6, 0.8])
    assert rows.column("state").to_pylist() == [None, None]
    assert table_of([], "log").num_rows == 0


def test_a_key_that_is_no_column_is_refused() -> None:
    with pytest.raises(ValueError, match="no such column in gate: \\['colour'\\]"):
        table_of([{"trace_id": "t"}, {"colour": "red"}], "gate")


def test_a_file_of_an_older_version_gains_columns_and_loses_unknown_ones() -> None:
    old = pa.table(
        {"colour": ["red"], "events": pa.array([3], pa.int32()), "trace_id": pa.array(["t"], pa.large_string())}
    )
    new = conform(old, "gate")
    assert new.schema == arrow_schema("gate")
    assert new.select(["trace_id", "events", "trigger"]).to_pylist() == [
        {"trace_id": "t", "events": 3, "trigger": None}
    ]


def test_conforming_what_conforms_changes_nothing() -> None:
    rows = table_of([{"trace_id": "t", "reflected": True}], "gate")
    assert conform(rows, "gate") == rows


def test_a_value_that_does_not_fit_its_type_is_an_error_not_a_null() -> None:
    with pytest.raises(pa.ArrowInvalid):
        conform(pa.table({"events": ["many"]}), "gate")
