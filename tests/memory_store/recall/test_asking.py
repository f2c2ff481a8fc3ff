"""What a search asks of a table: the nearest whatever a filter leaves, in one version, whatever else goes on."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from hindlake.memory_store.recall.asking import Near, Worded
from hindlake.memory_store.recall.predicates import Filter
from hindlake.memory_store.schema import arrow_schema, table_of
from hindlake.memory_store.settings import IndexSettings, Settings
from hindlake.memory_store.store.stored import PACKED
from hindlake.memory_store.store.tables import MEMORIES, Tables

ALL = Filter(("acme",))
DIM, ROWS = 16, 1_500
COLUMNS = [name for name in arrow_schema(MEMORIES).names if name != "vector"]


def tool(number: int) -> str:
    """One in a hundred, one in ten, or another."""
    return "rare" if number % 100 == 0 else "some" if number % 10 == 1 else "other"


def row(number: int, vector: Any, seq: int = 1) -> dict[str, Any]:
    """A memory."""
    return {
        "namespace": "acme", "id": f"m{number}", "seq": seq, "kind": "fact", "state": "active", "tool": tool(number),
        "text": f"order {number}", "subject": "", "vector": vector.tolist(),
        "evidence": [{"trace_id": f"t{number}", "event_id": "e", "quote": "q"}],
    }  # fmt: skip


def unit(rows: Any) -> Any:
    """Rows of unit length."""
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def clustered(rng: np.random.Generator, count: int) -> Any:
    """Vectors in clusters, as those of texts are."""
    centres = np.random.default_rng(0).normal(size=(20, DIM))
    return unit(centres[rng.integers(20, size=count)] + rng.normal(size=(count, DIM)) * 0.5)


@pytest.fixture(scope="module")
def vectors() -> Any:
    """Vectors of the memories, by number."""
    return clustered(np.random.default_rng(1), ROWS)


def filled(home: str, vectors: Any, **index: int) -> Tables:
    """Tables of the memories, indexed as soon as they may be."""
    early = {"scan_rows": 100, "vector_numbers": 1_000, "exact_matches": 20, "waiting_rows": 10, **index}
    settings = Settings.load(home=home, index=IndexSettings(**early))
    tables = Tables.create(f"{home}/store/one", DIM, settings)
    tables.upsert(table_of([row(number, vector) for number, vector in enumerate(vectors)], MEMORIES))
    tables.index()
    return tables


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory, vectors: Any) -> Tables:
    """Tables that tests only read."""
    return filled(str(tmp_path_factory.mktemp("asking")), vectors)


@pytest.mark.parametrize("tools", [None, ("some",), ("rare",)])
def test_whatever_a_filter_leaves_the_nearest_are_found(tables: Tables, vectors: Any, tools: Any) -> None:
    places = [n for n in range(ROWS) if tools is None or tool(n) in tools]
    shares = []
    for query in clustered(np.random.default_rng(2), 15):
        best = sorted(places, key=lambda n, q=query: -float(vectors[n] @ q))[:10]
        found = tables.vector_leg(query, Filter(("acme",), tools=tools), 10)
        scores = {candidate.id: candidate.score for candidate in found}
        assert all(scores[f"m{n}"] == pytest.approx(float(vectors[n] @ query), abs=1e-4) for n in best[:1])
        shares.append(len({f"m{n}" for n in best} & scores.keys()) / 10)
    assert np.mean(shares) >= 0.95


def test_what_an_exact_search_finds_does_not_depend_on_indexes(tables: Tables, vectors: Any) -> None:
    [query] = clustered(np.random.default_rng(3), 1)
    best = sorted(range(ROWS), key=lambda n: -float(vectors[n] @ query))[:10]
    assert [one.id for one in tables.vector_leg(query, ALL, 10, exact=True)] == [f"m{n}" for n in best]


def test_legs_are_asked_together_and_rows_come_whole(tables: Tables, vectors: Any) -> None:
    near, worded = tables.ask(
        [Near(vectors[7], ALL, 3), Worded("order 1234", ALL, 3)],
        COLUMNS,
        vectors_of="words",
    )
    assert (near[0].id, near[0].vector) == ("m7", None)
    assert worded[0].id == "m1234"
    assert worded[0].vector is not None and worded[0].vector == pytest.approx(vectors[1234])
    [stored] = tables.rows("acme", ["m1234"], COLUMNS).to_pylist()
    assert {name: worded[0].row[name] for name in COLUMNS} == stored
    assert stored["evidence"] == [{"trace_id": "t1234", "event_id": "e", "quote": "q"}]


def test_a_store_without_packed_rows_answers_alike(settings: Settings, vectors: Any) -> None:
    tables = filled(settings.home, vectors[:200])
    legs = [Near(vectors[7], ALL, 5), Worded("order 99", ALL, 5)]

    def answer() -> list[list[tuple[str, dict[str, Any]]]]:
        found = tables.ask(legs, COLUMNS)
        return [[(one.id, {name: one.row[name] for name in COLUMNS}) for one in leg] for leg in found]

    before = answer()
    tables._door.write(MEMORIES, lambda table: table.drop_columns([PACKED]))
    assert answer() == before


def test_new_rows_are_found_before_and_after_the_indexes_take_them_in(settings: Settings, vectors: Any) -> None:
    tables = filled(settings.home, vectors[:300])
    assert {one.waiting for one in tables.coverage()[MEMORIES]} == {0}
    [query] = clustered(np.random.default_rng(4), 1)
    tables.upsert(table_of([row(ROWS + n, unit(query + n / 1_000)) for n in range(40)], MEMORIES))
    waiting = {one.column: one.waiting for one in tables.coverage()[MEMORIES]}
    assert waiting["vector"] == waiting["tool"] == waiting["words"] == 40
    before = [one.id for one in tables.vector_leg(query, ALL, 5)]
    assert before[0] == f"m{ROWS}"
    tables.index()
    assert {one.waiting for one in tables.coverage()[MEMORIES]} == {0}
    assert [one.id for one in tables.vector_leg(query, ALL, 5)] == before


def test_an_index_of_another_kind_is_replaced_once(settings: Settings, vectors: Any) -> None:
    from lancedb.index import BTree

    tables = filled(settings.home, vectors[:200])
    tables._door.write(MEMORIES, lambda table: table.create_index("tool", config=BTree(), replace=True))
    tables.index()
    assert {one.kind for one in tables.coverage()[MEMORIES] if one.column == "tool"} == {"BITMAP"}
    version = tables._door.table(MEMORIES).version
    tables.index()
    assert tables._door.table(MEMORIES).version == version


def test_readers_never_fail_while_a_writer_merges_and_indexes(settings: Settings, vectors: Any) -> None:
    tables = filled(settings.home, vectors[:300])
    readers = [Tables.open(tables.url, settings) for _ in range(2)]
    done, failed, seen = threading.Event(), [], []

    def read(reader: Tables, number: int) -> None:
        while not done.is_set():
            try:
                found = reader.vector_leg(vectors[number], ALL, 3, ["seq"])
                seen.append((found[0].id, len(found)))
            except Exception as error:
                failed.append(error)

    threads = [threading.Thread(target=read, args=(reader, number)) for number, reader in enumerate(readers)]
    for thread in threads:
        thread.start()
    for seq in range(2, 5):
        tables.upsert(table_of([row(n, vectors[n], seq) for n in range(100)], MEMORIES))
        tables.index()
    done.set()
    for thread in threads:
        thread.join()
    assert failed == []
    assert {count for _, count in seen} <= {3} and {id for id, _ in seen} <= {"m0", "m1"}
    assert readers[0].vector_leg(vectors[5], ALL, 1, ["seq"])[0].row["seq"] == 4


def test_a_fold_is_seen_at_once_however_seldom_others_writes_are_looked_for(settings: Settings, vectors: Any) -> None:
    tables = Tables.open(filled(settings.home, vectors[:200]).url, settings, refresh=3600)
    assert tables.folded_to("acme") == 0
    assert [one.id for one in tables.text_leg("order 777", ALL, 1)] != ["m777"]
    tables.upsert(table_of([row(777, vectors[777])], MEMORIES))
    tables.set_folded_to("acme", 9)
    assert tables.folded_to("acme") == 9
    assert [one.id for one in tables.text_leg("order 777", ALL, 1)] == ["m777"]
