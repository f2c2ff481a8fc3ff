"""Ranking: pure, absolute where it says so, and equal to ten obvious lines."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake.memory_store.recall.ranking import (
    Found,
    Leg,
    Ranking,
    coverage,
    decayed,
    fuse,
    most_factor,
    row_factors,
    shares,
    text_relevance,
    usefulness,
)
from hindlake.memory_store.records.usage import Use
from hindlake.memory_store.settings import SearchSettings

NOW = datetime(2026, 6, 1, tzinfo=UTC)

unit = st.floats(0, 1)
ids = st.sampled_from("abcdefgh")


@st.composite
def legs(draw: st.DrawFn) -> list[Leg]:
    """Some legs over a few memories."""
    result = []
    for name in ("vector", "text", "fresh")[: draw(st.integers(0, 3))]:
        chosen = draw(st.lists(ids, unique=True, max_size=8))
        found = [Found(id, draw(st.floats(-1, 30)), draw(unit), draw(unit)) for id in chosen]
        result.append(Leg(name, draw(st.sampled_from([0.0, 0.25, 0.5, 1.0])), found))
    return result


factor_sets = st.dictionaries(ids, st.dictionaries(st.sampled_from(["decay", "confidence"]), unit, max_size=2))


def naive(some: list[Leg], fusion: str, k: int, factors: dict[str, Any]) -> dict[str, float]:
    """The score of each memory, by the obvious loops."""
    fused: dict[str, float] = {}
    missing: dict[str, float] = {}
    for leg in some:
        for rank, found in enumerate(leg.found, 1):
            term = leg.weight / (k + rank) if fusion == "rrf" else leg.weight * found.share
            fused[found.id] = fused.get(found.id, 0) + term
            missing[found.id] = missing.get(found.id, 1) * (1 - (found.relevance if leg.weight else 0))
    best = max(sorted(fused), key=lambda id: fused[id], default="")
    for id in fused:
        if fusion == "score" and best:
            top = sum(leg.weight * f.share for leg in some for f in leg.found if f.id == best)
            level = (1 - missing[best]) / top if top else 0
        else:
            level = 1
        missing[id + "!"] = level
    result = {}
    for id, value in fused.items():
        value *= missing[id + "!"]
        for factor in factors.get(id, {}).values():
            value *= factor
        result[id] = value
    return result


@given(some=legs(), fusion=st.sampled_from(["score", "rrf"]), k=st.integers(1, 100), factors=factor_sets)
def test_fusion_equals_the_obvious_loops(some: list[Leg], fusion: Any, k: int, factors: dict[str, Any]) -> None:
    ranked = fuse(some, fusion, k, factors)
    assert {hit.id: hit.score for hit in ranked} == pytest.approx(naive(some, fusion, k, factors), rel=1e-9, abs=1e-12)


@given(some=legs(), factors=factor_sets)
def test_hits_fall_in_score_and_stay_between_zero_and_one(some: list[Leg], factors: dict[str, Any]) -> None:
    ranked = fuse(some, factors=factors)
    assert [hit.score for hit in ranked] == sorted((hit.score for hit in ranked), reverse=True)
    assert all(0 <= hit.score <= 1 + 1e-9 and 0 <= hit.relevance <= 1 for hit in ranked)


@given(some=legs())
def test_each_hit_says_where_each_leg_had_it(some: list[Leg]) -> None:
    by_id = {hit.id: hit.legs for hit in fuse(some)}
    places = {(leg.name, rank): found for leg in some for rank, found in enumerate(leg.found, 1)}
    told = {(name, place.rank): (id, place.raw) for id, by_leg in by_id.items() for name, place in by_leg.items()}
    assert told == {key: (found.id, found.raw) for key, found in places.items()}


@given(some=legs(), fusion=st.sampled_from(["score", "rrf"]), factors=factor_sets, best=st.floats(1, 2))
def test_the_best_come_as_if_all_were_looked_at(some: list[Leg], fusion: Any, factors: Any, best: float) -> None:
    factors = {id: {**own, "usefulness": best} if "decay" in own else own for id, own in factors.items()}
    asked: list[str] = []

    def own(id: str) -> dict[str, float]:
        asked.append(id)
        return dict(factors.get(id, {}))

    every = [Ranking(some, fusion).of(id, factors.get(id, {})) for leg in some for id in {one.id for one in leg.found}]
    ordered = sorted({one.id: one for one in every}.values(), key=lambda hit: (-hit.score, -hit.relevance, hit.id))
    assert list(Ranking(some, fusion).best_first(own, best)) == ordered == fuse(some, fusion, 60, factors)
    assert sorted(asked) == sorted(one.id for one in ordered)


def test_what_can_come_no_further_up_is_not_weighed() -> None:
    leg = Leg("vector", 1.0, [Found(f"{place:02}", 0.9, 1 - place / 10, 0.9) for place in range(10)])
    asked: list[str] = []

    def own(id: str) -> dict[str, float]:
        asked.append(id)
        return {"confidence": 0.75}

    assert [hit.id for hit, _ in zip(Ranking([leg]).best_first(own), range(3), strict=False)] == ["00", "01", "02"]
    assert len(asked) < 10


@given(uses=st.lists(st.builds(Use, st.just(NOW), st.none() | st.floats(-1, 1), st.none() | st.floats(-1, 1))))
def test_no_row_is_multiplied_by_more_than_the_most(uses: list[Use]) -> None:
    row = {"kind": "experience", "confidence": 1.0, "importance": 1.0, "strength": 1.0, "valid_from": NOW}
    settings = SearchSettings()
    most = most_factor(uses, settings)
    assert all(math.prod(row_factors(row, NOW, use, settings).values()) <= most for use in (None, *uses))


def test_nothing_found_is_nothing_ranked() -> None:
    assert fuse([]) == fuse([Leg("vector", 1.0, [])]) == []


def test_a_share_next_to_nothing_makes_no_score_infinite() -> None:
    assert fuse([Leg("vector", 0.25, [Found("a", 0.0, 2e-313, 1.0)])])[0].score == 0


def test_the_best_of_nothing_relevant_scores_low() -> None:
    junk = [Leg("vector", 0.5, [Found("a", 0.75, 1.0, 0.02)]), Leg("text", 0.5, [Found("a", 0.5, 1.0, 0.04)])]
    assert fuse(junk)[0].score < 0.1


def test_reciprocal_ranks_add_up_as_published() -> None:
    some = [Leg("vector", 1.0, [Found("a", 0.9, 1, 1), Found("b", 0.8, 1, 1)]), Leg("text", 1.0, [Found("b", 7, 1, 1)])]
    assert {hit.id: hit.score for hit in fuse(some, "rrf", 60)} == pytest.approx({"b": 1 / 62 + 1 / 61, "a": 1 / 61})


def test_equal_scores_come_in_the_order_of_ids() -> None:
    some = [Leg("vector", 1.0, [Found(id, 0.9, 0.5, 0.5) for id in "cab"])]
    assert [hit.id for hit in fuse(some)] == ["a", "b", "c"]


def test_a_memory_ranked_down_by_half_falls_behind_one_half_as_good() -> None:
    some = [Leg("vector", 1.0, [Found("down", 0.9, 1.0, 0.9), Found("up", 0.8, 0.6, 0.5)])]
    ranked = fuse(some, factors={"down": row_factors({"strength": 0.5}, NOW)})
    assert [hit.id for hit in ranked] == ["up", "down"]


@given(raws=st.lists(st.floats(-1, 1), max_size=9), base=st.floats(-1, 0.9))
def test_shares_keep_the_order_and_the_best_is_the_most(raws: list[float], base: float) -> None:
    result = shares(raws, base, 0.02)
    assert all(0 <= share <= 1 for share in result)
    pairs = sorted(zip(raws, result, strict=True))
    assert [share for _, share in pairs] == sorted(result)
    if raws and max(raws) > base + 0.02:
        assert max(result) == 1


@given(a=st.floats(0, 100), b=st.floats(0, 100))
def test_more_shared_words_are_never_less_relevant(a: float, b: float) -> None:
    assert (text_relevance(a) <= text_relevance(b)) or a > b
    assert 0 <= text_relevance(a) < 1


def test_coverage_is_the_share_of_the_query() -> None:
    assert [coverage(set("abcd"), set(text)) for text in ("ab", "abcdef", "")] == [0.5, 1, 0]
    assert coverage(set(), set("a")) == 0


@given(importance=unit, days=st.floats(0, 4000))
def test_importance_decays_by_its_formula_and_slower_the_more_important(importance: float, days: float) -> None:
    assert decayed(importance, days) == pytest.approx(importance * math.exp(-0.01 * (1 - importance / 2) * days))
    assert decayed(1.0, days) >= decayed(importance, days)


def test_a_time_in_the_future_does_not_raise_importance() -> None:
    assert decayed(0.5, -10) == 0.5


def test_a_row_that_says_nothing_of_itself_is_not_weighed() -> None:
    assert row_factors({"confidence": None, "valid_from": NOW}, NOW) == {}


def test_age_and_doubt_weigh_little_against_what_was_asked() -> None:
    old = {"confidence": 0.0, "importance": 0.0, "valid_from": NOW - timedelta(days=3650), "strength": 1.0}
    assert math.prod(row_factors(old, NOW).values()) == pytest.approx(0.8 * 0.9)


def test_what_is_still_read_is_not_stale_and_an_idle_experience_ranks_lower() -> None:
    row = {"kind": "experience", "importance": 0.5, "valid_from": NOW - timedelta(days=200)}

    def factors(kind: str, days: float) -> dict[str, float]:
        return row_factors({**row, "kind": kind}, NOW, Use(NOW - timedelta(days=days), None, None))

    never = row_factors(row, NOW)
    assert factors("fact", 1)["decay"] > never["decay"]
    assert factors("fact", 300)["decay"] == never["decay"]
    assert "usage" not in never
    assert ["usage" in factors(kind, days) for kind, days in (("experience", 59), ("fact", 61))] == [False, False]
    assert factors("experience", 61)["usage"] == 0.5


@given(low=st.floats(-1, 1), high=st.floats(-1, 1), weight=unit)
def test_only_a_sure_gain_or_loss_moves_the_rank(low: float, high: float, weight: float) -> None:
    low, high = sorted((low, high))
    factor = usefulness(low, high, weight)
    assert 0 <= factor <= 2
    if low <= 0 <= high:
        assert factor == 1
    else:
        assert factor == 1 + weight * min(abs(low), abs(high)) * math.copysign(1, low)
    assert row_factors({}, NOW, Use(NOW, low, high))["usefulness"] == usefulness(low, high, 0.3)
