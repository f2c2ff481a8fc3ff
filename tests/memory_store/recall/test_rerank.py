"""Reranking: another order by an endpoint, and the order as it was where that has no answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake import Memory, Settings
from hindlake.memory_store.recall.ranking import Place
from hindlake.memory_store.recall.rerank import rerank
from hindlake.memory_store.recall.search import Hit
from hindlake.memory_store.settings import RerankSettings
from servers.rerankers import Endpoint, longest_first, rerank_endpoint

TEXTS = ["pay again", "pay with another card", "pay", "pay by bank transfer if the card is refused"]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with rerank_endpoint() as running:
        yield running


@pytest.fixture
def asked(endpoint: Endpoint) -> Endpoint:
    """The endpoint as it was at first."""
    endpoint.behave, endpoint.asked = longest_first, []
    return endpoint


def found(texts: list[str], **factors: float) -> list[Hit]:
    """Hits of some texts, each worth a little less than the one before; the last factor given is the last hit's."""
    hits = []
    for place, text in enumerate(texts):
        row = {"id": f"m{place}", "text": text, "at": datetime(2026, 1, 1, tzinfo=UTC)}
        legs = {"text": Place(place + 1, 9.0 - place, 1.0, 0.5)}
        hits.append(Hit(row, 0.9 - place * 0.1, 0.5, legs, factors if place == len(texts) - 1 else {}))
    return hits


def texts(hits: list[Hit]) -> list[str]:
    return [hit.row["text"] for hit in hits]


def by(endpoint: Endpoint, **more: Any) -> RerankSettings:
    return RerankSettings(url=endpoint.url, **{"timeout_seconds": 20.0, **more})


def test_the_best_are_put_in_the_order_of_the_reranker_with_its_raw_scores(asked: Endpoint) -> None:
    hits = rerank("the card is refused", found(TEXTS), by(asked, model="one", api_key="secret"))
    assert texts(hits) == sorted(TEXTS, key=len, reverse=True)
    assert [hit.legs["rerank"].rank for hit in hits] == [1, 2, 3, 4]
    assert hits[0].legs["rerank"].raw == 1.0 and hits[0].legs["text"].raw == 6.0
    assert not any(hit.rerank_error for hit in hits)
    [request] = asked.asked
    assert request == {"path": "/rerank", "key": "Bearer secret", "model": "one", "query": "the card is refused",
                       "documents": TEXTS, "top_n": 4}  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        ({"results": [{"index": 2, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.2}]}, "documents"),
        ({"data": [{"index": 2, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.2}]}, "documents"),
        ([{"index": 2, "score": 0.9}, {"index": 0, "score": 0.2}], "texts"),
        ([{"index": 2, "score": 4.1}, {"index": 0, "score": -3.7}], "texts"),
    ],
)
def test_every_shape_is_read_and_what_was_not_scored_comes_after(asked: Endpoint, answer: Any, body: Any) -> None:
    asked.behave = lambda _: (200, answer)
    hits = rerank("card", found(TEXTS), by(asked, body=body))
    assert [hit.row["id"] for hit in hits] == ["m2", "m0", "m1", "m3"]
    assert ["rerank" in hit.legs for hit in hits] == [True, True, False, False]
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True) and 0 <= scores[-1] <= scores[0] <= 1
    assert asked.asked[0][body] == TEXTS


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ((200, b"{not json"), "no JSON"),
        ((200, b"\xff\xfe"), "no JSON"),
        ((200, {"message": "hello"}), "no list"),
        ((200, {"results": []}), "scored nothing"),
        ((200, {"results": [{"index": 9, "relevance_score": 1}]}), "index 9 of 4"),
        ((200, {"results": [{"index": -1, "relevance_score": 1}]}), "index -1"),
        ((200, {"results": [{"index": 1, "relevance_score": 1}, {"index": 1, "relevance_score": 1}]}), "index 1"),
        ((200, {"results": [{"index": True, "relevance_score": 1}]}), "index True"),
        ((200, {"results": ["x"]}), "index None"),
        ((200, {"results": [{"index": 0, "relevance_score": "high"}]}), "no number"),
        ((200, b'{"results": [{"index": 0, "relevance_score": NaN}]}'), "no number"),
        ((401, {"message": "no key"}), "HTTP 401"),
        ((302, "http://127.0.0.1:9/elsewhere"), "HTTP 302"),
    ],
)
def test_a_bad_answer_leaves_the_order_and_is_said_on_the_hits(asked: Endpoint, said: Any, why: str) -> None:
    asked.behave = lambda _: said
    before = found(TEXTS)
    hits = rerank("card", before, by(asked))
    assert [(hit.row, hit.score, hit.legs) for hit in hits] == [(hit.row, hit.score, hit.legs) for hit in before]
    assert all(why in hit.rerank_error for hit in hits)
    assert len(asked.asked) == 1


def test_an_overloaded_endpoint_is_asked_again_in_one_layer(asked: Endpoint) -> None:
    said = iter([(503, {}), (429, {})])
    asked.behave = lambda body: next(said, None) or longest_first(body)
    assert texts(rerank("card", found(TEXTS), by(asked, retries=2)))[0] == TEXTS[3]
    asked.behave, asked.asked = lambda _: (500, {}), []
    hits = rerank("card", found(TEXTS), by(asked, retries=2))
    assert texts(hits) == TEXTS and "HTTP 500" in hits[0].rerank_error and len(asked.asked) == 3


def test_an_endpoint_that_is_silent_or_gone_is_given_up(asked: Endpoint) -> None:
    asked.behave = lambda _: None
    hits = rerank("card", found(TEXTS), by(asked, timeout_seconds=0.2, retries=5))
    assert texts(hits) == TEXTS and "in time" in hits[0].rerank_error and len(asked.asked) == 1
    with rerank_endpoint() as short:
        gone = by(short)
    assert "can't be reached" in rerank("card", found(TEXTS), gone)[0].rerank_error


def test_only_so_many_are_sent_and_the_rest_keep_their_order_below(asked: Endpoint) -> None:
    hits = rerank("card", found(TEXTS), by(asked, candidates=2))
    assert texts(hits) == [TEXTS[1], TEXTS[0], TEXTS[2], TEXTS[3]]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert rerank("card", [], by(asked)) == []


def test_what_is_known_of_a_memory_still_weighs(asked: Endpoint) -> None:
    hits = rerank("card", found(TEXTS, usage=0.01), by(asked))
    assert texts(hits)[-1] == TEXTS[3] and hits[-1].legs["rerank"].rank == 1


@given(st.lists(st.text(max_size=5), min_size=1, max_size=4))
def test_any_text_can_be_sent(endpoint: Endpoint, some: list[str]) -> None:
    endpoint.behave = lambda body: (200, [{"index": place, "score": 0.5} for place in range(len(body["documents"]))])
    hits = rerank("\ud800" + some[0], found(some), by(endpoint))
    assert texts(hits) == some and "rerank" in hits[0].legs


def test_a_search_asks_the_endpoint_that_is_set_and_answers_without_it(asked: Endpoint, settings: Settings) -> None:
    more = {"rerank": {"url": asked.url, "timeout_seconds": 20}, "embedder": "wordllama"}
    on = Settings.load(home=settings.home, model={"calls": "on"}, **more)
    with Memory(on) as memory:
        for text in TEXTS:
            memory.remember(text)
        best = memory.search("pay", limit=1, log_read=False)
        assert [hit.text for hit in best] == [TEXTS[3]] and best[0].legs["rerank"]["rank"] == 1
        assert sorted(asked.asked[0]["documents"]) == sorted(TEXTS)
        assert not memory.search("", log_read=False)[0].legs and len(asked.asked) == 1
        asked.behave = lambda _: (500, {})
        [hit] = memory.search("pay", limit=1, log_read=False)
        assert "HTTP 500" in hit.rerank_error and "rerank" not in hit.legs
        json.dumps([hit.rerank_error, hit.legs])
    asked.asked.clear()
    with Memory(Settings.load(home=settings.home, **more)) as memory:  # calls are off in tests
        assert memory.search("pay", log_read=False) and not asked.asked
