"""The tables of a generation: what was merged is there once, its newest state, found by words and by meaning."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as trial
from hypothesis import strategies as st

from hindlake.memory_store.errors import NoGeneration, StoreError
from hindlake.memory_store.recall.predicates import Filter
from hindlake.memory_store.schema import arrow_schema, table_of
from hindlake.memory_store.settings import IndexSettings, Settings
from hindlake.memory_store.store import tables as module
from hindlake.memory_store.store.tables import Tables

ACME = Filter(("acme",))


def row(id: str, seq: int = 1, **columns: Any) -> dict[str, Any]:
    """A row of the store."""
    return {"namespace": "acme", "id": id, "seq": seq, "kind": "fact", "state": "active", "text": id} | columns


def put(tables: Tables, *rows: dict[str, Any]) -> None:
    """Merge rows in."""
    tables.upsert(table_of(list(rows), "memories"))


def unit(*numbers: float) -> Any:
    """A unit vector."""
    vector = np.array(numbers, dtype=np.float32)
    return vector / np.linalg.norm(vector)


@pytest.fixture
def tables(settings: Settings) -> Tables:
    """Empty tables for vectors of 4 numbers."""
    return Tables.create(f"{settings.home}/store/one", 4, settings)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """Tables that hold a few memories, for tests that only read."""
    home = tmp_path_factory.mktemp("shared")
    tables = Tables.create(f"{home}/store/one", 4, Settings.load(home=str(home)))
    texts = ["支付API超时应重试三次", "Order ORD-12345 was delivered late", "Order ORD-12346 arrived on time",
             "look into http_client.py when ECONNRESET comes", "not before 10:30", "预算 8000 元"]  # fmt: skip
    put(tables, *(row(f"m{place}", text=text) for place, text in enumerate(texts)))
    return tables


def indexed_from(settings: Settings, **index: int) -> Tables:
    """Empty tables whose indexes begin early."""
    return Tables.create(f"{settings.home}/store/two", 4, settings.model_copy(update={"index": IndexSettings(**index)}))


def found(tables: Tables, query: str, filter: Filter = ACME) -> list[str]:
    """Ids by words, best first."""
    return [candidate.id for candidate in tables.text_leg(query, filter, 10)]


def test_a_later_row_replaces_an_earlier_one_and_never_the_other_way_round(tables: Tables) -> None:
    put(tables, row("a", 2, state="pending"))
    put(tables, row("a", 3, state="superseded"))
    put(tables, row("a", 1, state="active"))
    assert tables.rows("acme", ["a"], ["seq", "state"]).to_pylist() == [{"seq": 3, "state": "superseded"}]


def test_one_merge_may_name_a_memory_twice(tables: Tables) -> None:
    put(tables, row("a", 1, text="old"), row("b"), row("a", 2, text="new"))
    assert tables.rows("acme", ["a", "b"], ["text"]).column("text").to_pylist() == ["new", "b"]


def test_two_namespaces_may_use_one_id(tables: Tables) -> None:
    put(tables, row("a", text="ours"), row("a", 9, namespace="other", text="theirs"))
    put(tables, row("a", 2, text="ours, newer"))
    assert tables.rows("acme", ["a"], ["text"]).to_pylist() == [{"text": "ours, newer"}]
    assert tables.rows("other", ["a"], ["text"]).to_pylist() == [{"text": "theirs"}]


def test_all_columns_come_back_as_they_went_in(tables: Tables) -> None:
    went = row(
        "a", entities=["API", "x'y"], tags=[], attribute="budget", importance=0.5,
        valid_from=datetime(2026, 1, 1, tzinfo=UTC),
        evidence=[{"trace_id": "t", "event_id": "e", "quote": "don't\x00"}], vector=[0.6, 0.0, 0.8, 0.0],
    )  # fmt: skip
    put(tables, went)
    came = tables.rows("acme", ["a"])
    assert came.schema.names == arrow_schema("memories").names
    assert came.equals(table_of([went], "memories"))


def test_rows_come_in_the_order_asked_for_and_unknown_ids_are_left_out(tables: Tables) -> None:
    put(tables, *(row(f"m{number}") for number in range(5)))
    assert tables.rows("acme", ["m3", "no", "m0", "m3"], ["id"]).column("id").to_pylist() == ["m3", "m0"]
    assert tables.rows("acme", []).num_rows == 0
    assert tables.rows("other", ["m3"]).num_rows == 0


def test_a_merge_of_no_rows_is_fine(tables: Tables) -> None:
    put(tables)
    assert tables.counts("acme") == {}


def test_memories_are_counted_by_kind_and_state(tables: Tables) -> None:
    put(tables, row("a"), row("b", state="merged"), row("c"), row("d", namespace="other"))
    assert tables.counts("acme") == {("fact", "active"): 2, ("fact", "merged"): 1}


def test_the_place_that_was_folded_to_never_goes_back(tables: Tables) -> None:
    assert tables.folded_to("acme") == 0
    for seq in (5, 3):
        tables.set_folded_to("acme", seq)
    assert (tables.folded_to("acme"), tables.folded_to("other")) == (5, 0)


def test_rows_without_a_vector_are_found_by_words_only(tables: Tables) -> None:
    put(tables, row("none"), row("nan", vector=[float("nan")] * 4), row("empty", vector=[]),
        row("has", vector=[1.0, 0.0, 0.0, 0.0]))  # fmt: skip
    assert [c.id for c in tables.vector_leg(unit(1, 1, 0, 0), ACME, 10)] == ["has"]
    assert sorted(found(tables, "none nan empty has")) == ["empty", "nan", "none"]  # "has" is a stop word


@pytest.mark.parametrize("vector", [[1.0], [1.0] * 5, [float("inf")] * 4, [0.0] * 4])
def test_a_vector_that_no_embedder_of_this_generation_makes_is_refused(vector: list[float], tables: Tables) -> None:
    with pytest.raises(StoreError, match="memory bad"):
        put(tables, row("good", vector=[1.0, 0.0, 0.0, 0.0]), row("bad", vector=vector))


@pytest.mark.parametrize("column", ["id", "namespace", "seq"])
def test_a_row_without_its_key_is_refused(column: str, tables: Tables) -> None:
    with pytest.raises(StoreError, match=column):
        put(tables, row("a") | {column: None})


def test_vectors_are_scored_by_their_cosine(tables: Tables) -> None:
    put(tables, row("same", vector=unit(1, 2, 3, 4)), row("half", vector=unit(1, 0, 0, 0)))
    scores = {c.id: c.score for c in tables.vector_leg(unit(1, 2, 3, 4), ACME, 10)}
    assert scores == pytest.approx({"same": 1.0, "half": float(unit(1, 2, 3, 4)[0])}, abs=1e-5)


def test_a_query_that_can_not_be_embedded_finds_nothing_near(tables: Tables) -> None:
    put(tables, row("a", vector=unit(1, 0, 0, 0)))
    assert tables.vector_leg(np.full(4, np.nan, dtype=np.float32), ACME, 10) == []


def test_the_filter_comes_before_the_cut_in_both_legs(tables: Tables) -> None:
    put(tables, *(row(f"m{n}", text="refund", vector=unit(1, n / 100, 0, 0)) for n in range(60)))
    put(tables, row("far", text="a refund, said at much greater length", tool="pay", vector=unit(1, 2, 0, 0)))
    paid = Filter(("acme",), tools=("pay",))
    assert [c.id for c in tables.vector_leg(unit(1, 0, 0, 0), paid, 3)] == ["far"]
    assert found(tables, "refund", paid) == ["far"]


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("超时", "m0"), ("支付超时怎么办", "m0"), ("预算", "m5"), ("ORD-12345", "m1"), ("ord-12346?", "m2"),
        ("delivering", "m1"), ("http_client.py", "m3"), ("econnreset", "m3"), ("10:30", "m4"), ("元", "m5"),
        ("８０００", "m5"),
    ],
)  # fmt: skip
def test_words_are_found_in_any_script_and_identifiers_whole(query: str, best: str, shared: Tables) -> None:
    assert found(shared, query)[0] == best


@pytest.mark.parametrize(
    "query",
    ["", " ", "OR", "AND NOT", '"', "a-b \"c' (", "text:budget", "+late -order *", "\\", "😀", "\x00", "\ud800", "%",
     "[x", "order " * 20_000, "支付" * 20_000],
)  # fmt: skip
def test_a_query_is_words_and_never_an_expression(query: str, shared: Tables) -> None:
    assert set(found(shared, query)) <= {f"m{number}" for number in range(6)}


def test_a_query_with_operators_finds_what_its_words_find(shared: Tables) -> None:
    assert found(shared, '"late" OR -refund') == found(shared, "late refund") == ["m1"]


@trial(max_examples=60)
@given(query=st.text(max_size=40))
def test_no_query_breaks_the_text_leg(query: str, shared: Tables) -> None:
    assert len(found(shared, query)) <= 6


def test_trigger_tool_and_entities_are_found_too(tables: Tables) -> None:
    put(tables, row("a", text="Ask for the date again.", trigger="the exchange rate fails", tool="get_rate",
                    error_code="E503", entities=["东京办公室"]))  # fmt: skip
    assert all(found(tables, query) == ["a"] for query in ("exchange rate", "get_rate", "E503", "东京", "date"))


def test_indexes_change_nothing_that_is_found(settings: Settings) -> None:
    tables = indexed_from(settings, scan_rows=100, waiting_rows=10)
    rng = np.random.default_rng(0)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    many = [
        row(f"m{n}", text=f"refund number {n % 17} order {n}", tool=("pay", "mail", None)[n % 3],
            entities=[f"e{n % 5}"],
            subject=("ann", "bob", "")[n % 3], valid_from=start + timedelta(hours=n), vector=unit(*rng.normal(size=4)))
        for n in range(400)
    ]  # fmt: skip
    put(tables, *many)
    filters = (ACME, Filter(("acme",), tools=("pay",)), Filter(("acme",), entities=("e1", "e2"), subjects=("ann",)),
               Filter(("acme",), since=start + timedelta(hours=200), not_tools=("mail",)))  # fmt: skip

    def answers() -> list[Any]:
        near = [[c.id for c in tables.vector_leg(unit(1, 2, 3, 4), f, 20)] for f in filters]
        return [near, [sorted(c.id for c in tables.text_leg("order 7", f, 400)) for f in filters]]

    before = answers()
    tables.index()
    assert answers() == before
    tables.index()
    put(tables, row("m7", 2, text="refund number 7 order 7", state="deleted"))
    assert "m7" not in answers()[1][0]


def test_approximate_vectors_are_refined_and_selective_filters_exact(settings: Settings) -> None:
    tables = indexed_from(settings, vector_numbers=2_000, exact_matches=100)
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(1_000, 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    put(tables, *(row(f"m{n}", tool="rare" if n % 100 == 0 else "", vector=v) for n, v in enumerate(vectors)))
    tables.index()
    query = unit(1, -1, 2, 0)
    for filter, places in ((ACME, range(1_000)), (Filter(("acme",), tools=("rare",)), range(0, 1_000, 100))):
        exact = sorted(places, key=lambda n: -float(vectors[n] @ query))[:5]
        got = tables.vector_leg(query, filter, 5)
        assert {c.id for c in got} == {f"m{n}" for n in exact}
        assert [c.score for c in got] == pytest.approx([float(vectors[n] @ query) for n in exact], abs=1e-4)


def test_readers_see_what_another_process_wrote(tables: Tables, settings: Settings) -> None:
    reader = Tables.open(tables.url, settings)
    assert found(reader, "parcel") == []
    put(tables, row("a", text="parcel"))
    assert found(reader, "parcel") == ["a"]


def test_what_is_written_after_a_long_silence_is_seen_at_once(tables: Tables, settings: Settings) -> None:
    put(tables, row("a", text="first"))
    tables.set_folded_to("acme", 1)
    reader = Tables.open(tables.url, settings)
    for name in ("memories", "folds"):
        os.utime(f"{tables.url}/{name}.lance/_versions", (1_700_000_000, 1_700_000_000))
    for seq in (2, 3):
        assert found(reader, "first") == found(reader, "first") == ["a"]
        assert reader.folded_to("acme") == reader.folded_to("acme") == seq - 1
        put(tables, row(f"b{seq}", seq, text=f"written {seq}"))
        tables.set_folded_to("acme", seq)
        assert reader.folded_to("acme") == seq
        assert found(reader, f"written {seq}")[0] == f"b{seq}"


def test_a_reader_outlives_a_clean_up_of_the_version_it_knows(tables: Tables, settings: Settings) -> None:
    put(tables, row("a", text="parcel"))
    reader = Tables.open(tables.url, settings, refresh=3600)
    assert found(reader, "parcel") == ["a"]
    for seq in range(2, 6):
        put(tables, row("a", seq, text="parcel"), row("b", seq, text="parcel"))
    with pytest.warns(UserWarning, match="every version"):
        tables._door.table("memories").optimize(cleanup_older_than=timedelta(0), delete_unverified=True)
    assert sorted(found(reader, "parcel")) in (["a"], ["a", "b"])
    assert reader.scan(ACME).num_rows == 2


def test_there_is_no_store_where_none_was_built(settings: Settings) -> None:
    with pytest.raises(NoGeneration, match="rebuild"):
        Tables.open(f"{settings.home}/store/none", settings)


def test_a_generation_is_never_built_over_another(tables: Tables, settings: Settings) -> None:
    with pytest.raises(StoreError, match="already"):
        Tables.create(tables.url, 4, settings)


_WRITER = """
import sys
from hindlake.memory_store.store import indexes
from hindlake.memory_store.schema import table_of
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.store.tables import Tables
writer, url, home = int(sys.argv[1]), sys.argv[2], sys.argv[3]
tables = Tables.open(url, Settings.load(home=home))
indexes._WAITING_SHARE = indexes._WAITING_LEAST = 0
print("ready", flush=True)
sys.stdin.readline()
for turn in range(3):
    rows = [{"namespace": "acme", "id": f"m{turn}-{n}", "seq": writer + 1, "kind": "fact", "state": "active",
             "text": f"writer {writer}", "vector": [1.0, 0.0, 0.0, 0.0]} for n in range(20)]
    tables.upsert(table_of(rows, "memories"))
    tables.set_folded_to("acme", writer + 1)
    if writer == 0:
        tables.index()
"""


def test_writers_at_once_double_nothing_and_the_newest_wins(tables: Tables, settings: Settings) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(n), tables.url, settings.home],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for n in range(3)
    ]
    for writer in writers:
        assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=90)
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    rows = tables.scan(ACME, ["id", "seq", "text"])
    assert rows.num_rows == len(set(rows.column("id").to_pylist())) == 60
    assert set(rows.column("text").to_pylist()) == {"writer 2"}
    assert tables.folded_to("acme") == 3


def test_tables_in_a_bucket_work_alike(s3_settings: Settings) -> None:
    tables = Tables.create(f"{s3_settings.home}/store/one", 4, s3_settings)
    put(tables, row("a", text="支付超时", vector=unit(1, 0, 0, 0)), row("b", text="parcel"))
    tables.set_folded_to("acme", 2)
    again = Tables.open(tables.url, s3_settings)
    assert (found(again, "支付"), again.folded_to("acme"), again.dim) == (["a"], 2, 4)
    assert [c.id for c in again.vector_leg(unit(1, 0, 0, 0), ACME, 5)] == ["a"]
    with pytest.raises(NoGeneration):
        Tables.open(f"{s3_settings.home}/store/two", s3_settings)


def test_a_scan_of_many_rows_is_whole(tables: Tables) -> None:
    ids = [f"m{n}" for n in range(30_000)]
    schema = arrow_schema("memories")
    columns = {
        "namespace": ["acme"] * len(ids), "id": ids, "seq": range(len(ids)), "state": ["active"] * len(ids),
        "text": ids,
    }  # fmt: skip
    tables.upsert(pa.table({name: pa.array(columns[name], schema.field(name).type) for name in columns}))
    assert tables.scan(ACME, ["id"]).num_rows == len(ids)
    assert tables.rows("acme", reversed(ids), ["id"]).column("id").to_pylist() == ids[::-1]


@pytest.mark.filterwarnings("ignore:optimize")
def test_versions_of_the_place_that_was_folded_to_do_not_pile_up(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_VERSIONS", 8)
    monkeypatch.setattr(module, "_GRACE", timedelta(microseconds=1))
    versions = []
    for seq in range(1, 30):
        tables.set_folded_to("acme", seq)
        tables.index()
        versions.append(len(tables._door.table(module.FOLDS).list_versions()))
    assert tables.folded_to("acme") == 29
    assert max(versions) <= 9


def test_an_index_that_is_missing_is_made_again_and_one_of_an_empty_table_is_filled(tables: Tables) -> None:
    tables.index()
    put(tables, *(row(f"m{number}", text=f"order {number} was late") for number in range(300)))
    tables.index()
    table = tables._door.table(module.MEMORIES)
    (words,) = table.list_indices()
    assert table.index_stats(words.name).num_unindexed_rows == 0
    table.drop_index(words.name)
    assert table.list_indices() == []
    tables.index()
    assert len(found(tables, "order 7 late")) == 10
    assert [index.columns for index in table.list_indices()] == [["words"]]


def test_many_namespaces_are_rows_of_the_same_tables(tables: Tables) -> None:
    before = tables._door.names()
    for number in range(40):
        put(tables, row("a", namespace=f"tenant{number}"))
    assert tables._door.names() == before
