"""Rows in memory: a search finds in them what the table would say, whatever was written since they were copied."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hindlake.memory_store.recall.asking import Near
from hindlake.memory_store.recall.conditions import where
from hindlake.memory_store.recall.predicates import Filter, matches
from hindlake.memory_store.resident import files, rows
from hindlake.memory_store.resident.files import copied, folder_of, newest_copy
from hindlake.memory_store.resident.following import Resident
from hindlake.memory_store.schema import table_of
from hindlake.memory_store.settings import IndexSettings, Settings
from hindlake.memory_store.store.tables import MEMORIES, Tables

DIM = 8
ALL = Filter(("acme",))
FILTERS = [
    ALL,
    Filter(("acme",), tools=("pay", "")),
    Filter(("acme", "other"), states=None, subjects=("ann",)),
    Filter(("acme",), entities=("PARIS",), not_ids=("m1", "m2")),
    Filter(("acme",), where=~where(tool="pay") | where(tags=["vip"])),
    Filter(("none",)),
]


def unit(rng: np.random.Generator, *shape: int) -> Any:
    """Vectors of unit length."""
    some = rng.normal(size=(*shape, DIM))
    return (some / np.linalg.norm(some, axis=-1, keepdims=True)).astype(np.float32)


def memory(number: int, seq: int, rng: np.random.Generator) -> dict[str, Any]:
    """A memory of which all but the id is drawn anew; one in ten has no vector."""
    return {
        "namespace": "other" if number % 7 == 3 else "acme", "id": f"m{number}", "seq": seq, "kind": "fact",
        "state": rng.choice(["active", "active", "pending", "deleted"]), "tool": rng.choice(["pay", "book", ""]),
        "subject": rng.choice(["", "ann", "bob"]), "entities": [["Paris"], ["Rome", "paris"], []][rng.integers(3)],
        "tags": [["vip"], None][rng.integers(2)], "text": f"note {number} of {seq}",
        "vector": unit(rng).tolist() if rng.random() > 0.1 else None,
    }  # fmt: skip


def opened(home: str, **index: int) -> tuple[Tables, Settings]:
    """Empty tables, whose rows are copied from the first on."""
    settings = Settings.load(home=home, index=IndexSettings(**{"scan_rows": 0, "waiting_rows": 15, **index}))
    return Tables.create(f"{home}/store/one", DIM, settings), settings


def resident(tables: Tables) -> Resident | None:
    """What lies in memory of the newest version."""

    async def look(snapshot: Any) -> Resident | None:
        return snapshot.resident  # type: ignore[no-any-return]

    return tables._door.ask(MEMORIES, look)


def naive(known: dict[str, dict[str, Any]], filter: Filter, query: Any, limit: int) -> list[tuple[str, str, float]]:
    """The nearest, one by one."""
    passing = [row for row in known.values() if row["vector"] is not None and matches(row, filter)]
    scored = [(row["id"], row["text"], float(np.dot(row["vector"], query))) for row in passing]
    return sorted(scored, key=lambda one: -one[2])[:limit]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("seed", "steps"), [(1, 12), pytest.param(2, 40, marks=pytest.mark.slow)])
def test_whatever_is_written_the_nearest_are_those_of_the_newest_version(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, seed: int, steps: int
) -> None:
    """Rows come, change, go and move, copies are made and fall behind: the naive search agrees at every step."""
    monkeypatch.setattr(files, "_ONE_CELL", 100)
    chance, rng = random.Random(seed), np.random.default_rng(seed)
    tables, own = opened(settings.home)
    reader = Tables.open(tables.url, own)
    known: dict[str, dict[str, Any]] = {}
    used = 0
    for seq in range(1, steps):
        step = chance.choice(["add", "add", "change", "index", "index", "cool", "compact"]) if seq > 2 else "add"
        if step in ("add", "change"):
            numbers = range(seq * 100, seq * 100 + chance.randint(1, 25))
            if step == "change":
                numbers = [int(id[1:]) for id in chance.sample(sorted(known), min(6, len(known)))]  # type: ignore[assignment]
            fresh = [memory(number, seq, rng) for number in numbers]
            tables.upsert(table_of(fresh, MEMORIES))
            known |= {row["id"]: row for row in fresh}
        elif step == "index":
            tables.index()
        elif step == "compact":
            tables._door.write(MEMORIES, lambda table: table.optimize())
        else:
            tables.cool("acme", ("deleted",), seq)
            known = {id: row for id, row in known.items() if (row["namespace"], row["state"]) != ("acme", "deleted")}
        used += resident(reader) is not None
        [query] = unit(rng, 1)
        for filter in FILTERS:
            legs = [Near(query, filter, 5, exact=True)]
            [found] = reader.ask(legs, ["text"], vectors_of="all")
            wanted = naive(known, filter, query, 5)
            assert [(one.id, one.row["text"]) for one in found] == [(id, text) for id, text, _ in wanted]
            assert [one.score for one in found] == pytest.approx([score for *_, score in wanted], abs=1e-5)
            assert all(one.vector == pytest.approx(known[one.id]["vector"]) for one in found)
    assert used > 1


def test_of_many_the_nearest_cells_are_looked_at(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_ONE_CELL", 100)
    rng = np.random.default_rng(5)
    tables, _ = opened(settings.home)
    centres = unit(rng, 30)
    made = [memory(number, 1, rng) for number in range(1_200)]
    for row in made:
        near = centres[int(row["id"][1:]) % 30] + rng.normal(size=DIM) * 0.05
        row["vector"] = (near / np.linalg.norm(near)).astype(np.float32).tolist()
    tables.upsert(table_of(made, MEMORIES))
    tables.index()
    for budget, least in ((1_500, 0.95), (10, 0.3)):
        monkeypatch.setattr(rows, "_NUMBERS", budget)
        for filter in (ALL, Filter(("acme",), tools=("pay",))):
            shares = []
            for query in centres[:10]:
                best = {id for id, *_ in naive({row["id"]: row for row in made}, filter, query, 10)}
                found = tables.vector_leg(query, filter, 10)
                assert len(found) == 10
                shares.append(len(best & {one.id for one in found}) / 10)
            assert np.mean(shares) >= least


def test_a_table_is_not_asked_for_what_all_rows_pass(settings: Settings) -> None:
    rng = np.random.default_rng(8)
    tables, _ = opened(settings.home)
    made = [memory(number, 1, rng) for number in range(40)]
    tables.upsert(table_of(made, MEMORIES))
    tables.index()
    asked = Filter(("acme",), kinds=("fact", "rule"), subjects=("ann",), tools=("pay",))
    others = [row | {"kind": "episode"} for row in (memory(45, 1, rng), memory(46, 1, rng))]
    for row, kinds in (({}, None), (others[0], None), (others[1], asked.kinds)):
        if row:
            made.append(row)
            tables.upsert(table_of([row], MEMORIES))
        known = resident(tables)
        assert known is not None
        assert known.needed(asked) == Filter(("acme",), kinds=kinds, subjects=("ann",), tools=("pay",))
        for filter in (asked, *FILTERS):
            passing = [[matches(one, some) for one in made] for some in (filter, known.needed(filter))]
            assert passing[0] == passing[1]


def test_a_copy_is_made_once_and_goes_where_it_may_not_be(settings: Settings) -> None:
    rng = np.random.default_rng(6)
    tables, own = opened(settings.home)
    tables.upsert(table_of([memory(number, 1, rng) for number in range(60)], MEMORIES))
    tables.index()
    first = newest_copy(tables.url, MEMORIES)
    assert first is not None
    [(name, texts)] = copied(tables.url)
    assert name == f"memories.resident/{first.name}"
    assert "note 7 of 1" in texts.column("packed").to_pylist()[texts.column("id").to_pylist().index("m7")]
    tables.index()
    assert newest_copy(tables.url, MEMORIES) == first
    none = own.model_copy(update={"index": own.index.model_copy(update={"resident_mb": 0})})
    Tables.open(tables.url, none).index()
    assert newest_copy(tables.url, MEMORIES) is None
    assert list(folder_of(tables.url, MEMORIES).iterdir()) == []


@pytest.mark.parametrize("harm", ["vectors", "meta.json", "cut", "format"])
def test_a_copy_that_is_not_whole_is_no_answer(settings: Settings, harm: str) -> None:
    rng = np.random.default_rng(7)
    tables, own = opened(settings.home)
    made = [memory(number, 1, rng) for number in range(60)]
    tables.upsert(table_of(made, MEMORIES))
    tables.index()
    copy = newest_copy(tables.url, MEMORIES)
    assert isinstance(copy, Path)
    if harm == "format":
        meta = (copy / "meta.json").read_text()
        (copy / "meta.json").write_text(meta.replace('"format":1', '"format":0'))
    elif harm == "cut":
        (copy / "vectors").write_bytes((copy / "vectors").read_bytes()[:-40])
    else:
        (copy / harm).unlink()
    reader = Tables.open(tables.url, own)
    assert resident(reader) is None
    [query] = unit(rng, 1)
    wanted = [id for id, *_ in naive({row["id"]: row for row in made}, ALL, query, 5)]
    assert [one.id for one in reader.vector_leg(query, ALL, 5)] == wanted
    tables.index()
    assert resident(Tables.open(tables.url, own)) is not None
