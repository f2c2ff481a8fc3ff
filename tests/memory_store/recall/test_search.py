"""Search: filter first, both legs, one ranking; what was just written takes part."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from hindlake.memory_store.embedders import Embedder, embedder_of
from hindlake.memory_store.embedders.texts import is_mostly_cjk
from hindlake.memory_store.recall.predicates import Filter
from hindlake.memory_store.recall.search import Hit, find
from hindlake.memory_store.schema import arrow_schema, table_of
from hindlake.memory_store.settings import SearchSettings, Settings
from hindlake.memory_store.store.tables import Tables

NOW = datetime(2026, 2, 1, tzinfo=UTC)
ACME = Filter(("acme",))

#   id        kind          subject  tool               text
STORE = """
    zh        experience    -        pay                支付API超时应重试三次
    mail      preference    ann      -                  Ann prefers e-mail over phone calls
    bobmail   preference    bob      -                  Bob prefers e-mail over phone calls
    late      fact          ann      -                  Order ORD-12345 was delivered late, a refund was asked for
    ontime    fact          ann      -                  Order ORD-12346 was delivered on time
    weather   experience    -        get_weather        When the call fails with 503, use the cached forecast
    rate      experience    -        get_exchange_rate  When the call fails with 503, ask for the date again
    budget    fact          ann      -                  预算现在是8000元
"""


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Embedder:
    """The embedder that users have who set nothing."""
    return embedder_of(Settings.load(home=str(tmp_path_factory.mktemp("home")), embedder="auto"))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory, embedder: Embedder) -> Tables:
    """A store of the rows above."""
    home = str(tmp_path_factory.mktemp("store"))
    tables = Tables.create(f"{home}/one", embedder.dim, Settings.load(home=home))
    tables.upsert(table_of(with_vectors(rows(STORE), embedder), "memories"))
    return tables


def rows(drawn: str) -> list[dict[str, Any]]:
    """Rows as drawn: id, kind, subject, tool, text; a dash is nothing."""
    result = []
    for seq, line in enumerate(drawn.strip().splitlines(), 1):
        id, kind, subject, tool, text = line.split(None, 4)
        result.append({"namespace": "acme", "id": id, "seq": seq, "kind": kind, "subject": subject.strip("-"),
                       "tool": tool.strip("-"), "text": text, "state": "active", "confidence": 0.9, "importance": 0.5,
                       "strength": 1.0, "valid_from": datetime(2026, 1, 1, tzinfo=UTC)})  # fmt: skip
    return result


def with_vectors(some: list[dict[str, Any]], embedder: Embedder) -> list[dict[str, Any]]:
    """The rows with their vectors."""
    vectors = embedder.passages([row["text"] for row in some])
    return [row | {"vector": vector.tolist()} for row, vector in zip(some, vectors, strict=True)]


def ids(hits: list[Hit]) -> list[str]:
    """Ids, best first."""
    return [hit.row["id"] for hit in hits]


def ask(tables: Tables, embedder: Embedder, query: str, filter: Filter = ACME, **more: Any) -> list[Hit]:
    """Search with the defaults."""
    return find(tables, embedder, query, filter, more.pop("settings", SearchSettings()), NOW, **more)


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("支付超时怎么办", "zh"), ("payment API timeout, what now", "zh"), ("我的预算是多少", "budget"),
        ("ORD-12346", "ontime"),
        ("was the refund asked for?", "late"), ("how does Bob want to be contacted", "bobmail"),
    ],
)  # fmt: skip
def test_a_question_finds_its_memory(query: str, best: str, tables: Tables, embedder: Embedder) -> None:
    assert ids(ask(tables, embedder, query))[0] == best


def test_a_failed_weather_call_never_answers_a_failed_exchange_rate_call(tables: Tables, embedder: Embedder) -> None:
    query = "the call failed with 503, use the cached forecast"
    assert ids(ask(tables, embedder, query, replace(ACME, tools=("get_exchange_rate",)))) == ["rate"]


def test_what_is_about_another_subject_is_not_returned(tables: Tables, embedder: Embedder) -> None:
    hits = ids(ask(tables, embedder, "e-mail or phone", replace(ACME, subjects=("ann",)), limit=20))
    assert "mail" in hits and "bobmail" not in hits and "weather" in hits


def test_another_namespace_is_never_read(tables: Tables, embedder: Embedder) -> None:
    overlay = with_vectors(rows("new fact - - a refund"), embedder)
    assert ask(tables, embedder, "refund", Filter(("other",)), overlay=overlay) == []


def test_nothing_relevant_scores_low_and_a_floor_leaves_it_out(tables: Tables, embedder: Embedder) -> None:
    hits = ask(tables, embedder, "the mating habits of penguins")
    assert hits and all(hit.score < 0.3 and hit.relevance < 0.3 for hit in hits)
    left = ask(tables, embedder, "the mating habits of penguins", floor=0.3)
    assert all(is_mostly_cjk(hit.row["text"]) for hit in left)
    left = ask(tables, embedder, "预算", floor=0.3)
    assert [hit.row["id"] for hit in left if is_mostly_cjk(hit.row["text"])] == ["budget"]


def test_a_hit_tells_its_legs_ranks_raw_scores_and_factors(tables: Tables, embedder: Embedder) -> None:
    best = ask(tables, embedder, "Was ORD-12345 delivered late?")[0]
    assert (best.row["id"], best.legs["vector"].rank, best.legs["text"].rank) == ("late", 1, 1)
    assert 0.5 < best.legs["vector"].raw <= 1 < best.legs["text"].raw
    assert set(best.factors) == {"confidence", "decay", "strength"}
    assert list(best.row) == [name for name in arrow_schema("memories").names if name != "vector"]


@pytest.mark.parametrize("fusion", ["score", "rrf"])
def test_hits_come_best_first_in_either_fusion(fusion: Any, tables: Tables, embedder: Embedder) -> None:
    hits = ask(tables, embedder, "refund for the late order", settings=SearchSettings(fusion=fusion), limit=8)
    assert ids(hits)[0] == "late"
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@pytest.mark.parametrize("fusion", ["score", "rrf"])
def test_what_was_just_written_is_found_by_words_and_by_meaning(
    fusion: Any, tables: Tables, embedder: Embedder
) -> None:
    overlay = with_vectors(rows("new fact ann - Parcel ZX-77 got lost in Hamburg\nother fact bob - x"), embedder)
    settings = SearchSettings(fusion=fusion)
    for query in ("ZX-77", "where did the parcel vanish?", "Hamburg"):
        assert ids(ask(tables, embedder, query, overlay=overlay, settings=settings))[0] == "new"
    assert "new" not in ids(ask(tables, embedder, "预算", overlay=overlay, settings=settings, limit=1))


def test_what_was_just_written_does_not_push_away_what_fits_better(tables: Tables, embedder: Embedder) -> None:
    drawn = "\n".join(f"new{number} fact - - The office plant number {number} was watered" for number in range(20))
    hits = ids(ask(tables, embedder, "was ORD-12345 late", overlay=with_vectors(rows(drawn), embedder)))
    assert hits[:2] == ["late", "ontime"]


def test_a_fresh_row_without_a_vector_is_found_by_its_words(tables: Tables, embedder: Embedder) -> None:
    assert ids(ask(tables, embedder, "ZX-77", overlay=rows("new fact - - Parcel ZX-77 is lost")))[0] == "new"


def test_what_the_store_has_too_is_the_stores_to_answer_for(tables: Tables, embedder: Embedder) -> None:
    stale = with_vectors(rows("late fact ann - An older text about a parrot"), embedder)
    hits = ask(tables, embedder, "older text about a parrot", overlay=stale, limit=20)
    assert [hit.row["text"] for hit in hits if hit.row["id"] == "late"] == [rows(STORE)[3]["text"]]


def test_hidden_memories_are_left_out_and_others_move_up(tables: Tables, embedder: Embedder) -> None:
    hits = ids(ask(tables, embedder, "order delivered", replace(ACME, not_ids=("late", "new")), limit=2,
                   overlay=with_vectors(rows("new fact - - order delivered"), embedder)))  # fmt: skip
    assert len(hits) == 2 and not {"late", "new"} & set(hits)


def test_a_down_ranked_memory_falls_behind(tables: Tables, embedder: Embedder) -> None:
    twins = with_vectors(rows("a fact - - The moon is full\nb fact - - The moon is full"), embedder)
    twins[0]["strength"] = 0.5
    assert ids(ask(tables, embedder, "is the moon full", overlay=twins))[:2] == ["b", "a"]


@pytest.mark.parametrize("query", ["", " ", "\x00", "\ud800", "OR", '"', "😀", "x" * 100_000])
def test_odd_queries_return_a_list(query: str, tables: Tables, embedder: Embedder) -> None:
    assert isinstance(ask(tables, embedder, query, vector=embedder.queries([query[:50]])[0]), list)


def test_a_limit_of_nothing_returns_nothing(tables: Tables, embedder: Embedder) -> None:
    assert ask(tables, embedder, "refund", limit=0) == []


def test_more_may_be_asked_for_than_there_is(tables: Tables, embedder: Embedder) -> None:
    hits = ids(ask(tables, embedder, "refund", limit=1_000))
    assert sorted(hits) == sorted(row["id"] for row in rows(STORE))


def test_a_known_query_vector_is_not_made_again(tables: Tables, embedder: Embedder) -> None:
    vector = embedder.queries(["预算"])[0]
    assert ids(ask(tables, embedder, "zzz", vector=vector))[0] == "budget"
    assert np.isfinite(vector).all()


def test_what_shares_no_word_must_be_closer_in_meaning(tables: Tables, embedder: Embedder) -> None:
    every = ids(ask(tables, embedder, "was ORD-12345 refunded", limit=20))
    some = ids(ask(tables, embedder, "was ORD-12345 refunded", limit=20, lone_floor=0.7))
    assert some[0] == "late" and len(some) < len(every)
    alone = ask(tables, embedder, "how is she to be reached", lone_floor=0.7)
    assert alone  # no memory shares a word with it, so meaning alone decides


def test_words_are_not_asked_for_where_the_scripts_differ(tables: Tables, embedder: Embedder) -> None:
    hits = ask(tables, embedder, "how often should a payment be tried again after a time-out", lone_floor=0.99)
    assert "zh" in ids(hits)


def test_the_time_that_a_query_names_is_preferred(tables: Tables, embedder: Embedder) -> None:
    drawn = "may fact - - We met at the harbour\njune fact - - We met at the harbour"
    overlay = with_vectors(rows(drawn), embedder)
    overlay[1]["valid_from"] = datetime(2025, 6, 3, tzinfo=UTC)
    for query, best in (("where did we meet in June 2025", "june"), ("where did we meet in January 2026", "may")):
        hits = ask(tables, embedder, query, overlay=overlay)
        assert ids(hits)[0] == best and "dates" in hits[0].legs


def test_recency_is_asked_only_when_it_has_a_weight(tables: Tables, embedder: Embedder) -> None:
    late = replace(ACME, tools=("pay",))
    assert "recency" not in ask(tables, embedder, "支付", late)[0].legs
    recent = SearchSettings(weights={"recency": 0.05})
    now = datetime(2026, 1, 15, tzinfo=UTC)
    assert "recency" in find(tables, embedder, "支付", late, recent, now)[0].legs


def test_a_leg_of_no_weight_is_not_asked(tables: Tables, embedder: Embedder) -> None:
    words = ask(tables, embedder, "refund", settings=SearchSettings(weights={"vector": 0}))
    assert ids(words) == ["late"]
    meaning = ask(tables, embedder, "refund", settings=SearchSettings(weights={"text": 0}))
    assert all("text" not in hit.legs for hit in meaning)


def test_an_identifier_ranks_above_its_parts(tables: Tables, embedder: Embedder) -> None:
    drawn = "whole fact - - ZX-4411 was lost\nparts fact - - ZX sent 4411 cards and 4411 ZX again"
    overlay = with_vectors(rows(drawn), embedder)
    assert ids(ask(tables, embedder, "what about ZX-4411?", overlay=overlay))[0] == "whole"
