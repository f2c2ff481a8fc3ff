"""What turns say of their episodes: words by BM25 over what was found, meaning by the nearest turns."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hindlake.memory_store.embedders.calibration import Curve
from hindlake.memory_store.recall.asking import Candidate
from hindlake.memory_store.recall.passage_legs import SAID, SEVERAL, TURNS, episode_legs, pool_of
from hindlake.memory_store.recall.ranking import Leg
from hindlake.memory_store.text.terms import words

CURVE = Curve(unrelated=0.0, related=0.9)
WORDS = ("kiln", "glaze", "clay", "oven", "wheel")


def legs(query: str, turns: Sequence[tuple[str, str, float]]) -> dict[str, Leg]:
    """The legs over turns, each of an episode, with its text and its cosine."""
    rows = [{"episode": episode, "words": words(text)} for episode, text, _ in turns]
    candidates = [Candidate(str(n), 0.0, row, None) for n, row in enumerate(rows)]
    cosines = {str(n): cosine for n, (_, _, cosine) in enumerate(turns)}
    return {leg.name: leg for leg in episode_legs(pool_of(query, candidates, cosines), CURVE, 0.02, lambda name: 1.0)}


def naive(query: set[str], turns: Sequence[tuple[str, str, float]]) -> dict[str, float]:
    """BM25 without a length, k₁ = 1.2; a turn has a word or has it not."""
    episodes = {episode for episode, _, _ in turns}
    count = {e: {w: sum(w in text.split() for x, text, _ in turns if x == e) for w in query} for e in episodes}
    scores = {}
    for e in episodes:
        have = {w: sum(count[x][w] > 0 for x in episodes) for w in query}
        rare = {w: math.log(1 + (len(episodes) - have[w] + 0.5) / (have[w] + 0.5)) for w in query}
        scores[e] = sum(rare[w] * count[e][w] * 2.2 / (count[e][w] + 1.2) for w in query)
    return {e: score for e, score in scores.items() if score > 0}


TURNS_OF = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join),
        st.floats(0.05, 0.95).map(lambda value: round(value, 3)),
    ),
    min_size=1,
    max_size=12,
)


@given(st.sets(st.sampled_from(WORDS), min_size=1), TURNS_OF)
def test_words_and_meaning_of_turns_count_for_their_episode_as_plain_arithmetic_says(
    query: set[str], turns: list[tuple[str, str, float]]
) -> None:
    made = legs(" ".join(sorted(query)), turns)
    expected = naive(query, turns)
    assert {one.id for one in made[SAID].found} == set(expected)
    for one in made[SAID].found:
        assert math.isclose(one.raw, expected[one.id], rel_tol=1e-9)
    cosines = {e: sorted((cosine for x, _, cosine in turns if x == e), reverse=True) for e, _, _ in turns}
    assert {one.id: one.raw for one in made[TURNS].found} == {e: some[0] for e, some in cosines.items()}
    for one in made[SEVERAL].found:
        assert math.isclose(one.raw, float(np.mean(cosines[one.id][:3])), rel_tol=1e-9)
    for leg in made.values():
        assert [one.raw for one in leg.found] == sorted((one.raw for one in leg.found), reverse=True)


def test_an_episode_that_is_about_the_matter_goes_before_one_that_touches_on_it_once() -> None:
    turns = [("once", "kiln", 0.8), ("once", "tea", 0.1), ("once", "bread", 0.1)]
    turns += [("about", text, 0.78) for text in ("kiln", "the kiln", "a kiln")]
    made = legs("kiln", turns)
    assert [made[name].found[0].id for name in (SAID, TURNS, SEVERAL)] == ["about", "once", "about"]
