"""Reranking: the best of a search once more, by a model that reads query and memory together (R24).

It is asked over HTTP, by any endpoint of the shape that Cohere began: POST `{model, query, documents, top_n}`, answered
by `{results: [{index, relevance_score}]}`; also by `{data: [...]}`, and by a bare list of `{index, score}`. A search
never fails because of it: what can't be had in time leaves the order as it was, and the hits say so.
"""

from __future__ import annotations

import http.client
import json
import math
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..settings import RerankSettings
from .ranking import Place

if TYPE_CHECKING:
    from .search import Hit

#: Name of the leg that a reranked hit carries.
RERANK = "rerank"
#: Characters of a text, and of a query, that are sent: rerankers read some hundred tokens.
_CHARACTERS = 4_000
#: Most bytes of an answer.
_BYTES = 4_000_000
_PAUSE = 0.1


class _Unanswered(Exception):
    """The reranker did not answer, or not what was asked; the message says why. It never leaves this file."""

    def __init__(self, why: str, may_retry: bool = False) -> None:
        super().__init__(why)
        self.may_retry = may_retry


def rerank(query: str, hits: Sequence[Hit], settings: RerankSettings) -> list[Hit]:
    """The same hits, the first of them in the order of the reranker, best first.

    A hit that was scored has a leg `rerank` with the raw score; its `score` is that score between 0 and 1 times its
    factors, and the hits after the reranked ones keep their order below them. Where the reranker has no answer, all
    stay as they are and their `rerank_error` says why.
    """
    first, rest = list(hits[: settings.candidates]), list(hits[settings.candidates :])
    if not first:
        return []
    try:
        scores = _scores(query, [hit.row["text"] or "" for hit in first], settings)
    except _Unanswered as error:
        return [replace(hit, rerank_error=str(error)) for hit in hits]
    worth = dict(zip(scores, _worth(list(scores.values())), strict=True))
    order = sorted(worth, key=lambda place: (-scores[place], place))
    best = max(worth.values())
    done = []
    for rank, place in enumerate(order, 1):
        value, hit = worth[place], first[place]
        leg = Place(rank, scores[place], value / best if best > 0 else 0.0, value)
        done.append(replace(hit, score=value * math.prod(hit.factors.values()), legs={**hit.legs, RERANK: leg}))
    done.sort(key=lambda hit: (-hit.score, hit.legs[RERANK].rank))
    rest = [hit for place, hit in enumerate(first) if place not in scores] + rest
    top = min((hit.score for hit in done), default=0.0)
    scale = min(1.0, top / rest[0].score) if rest and rest[0].score > 0 else 1.0
    return done + [replace(hit, score=hit.score * scale) for hit in rest]


def _worth(scores: Sequence[float]) -> list[float]:
    """Scores between 0 and 1: as they are where all of them are, else through the logistic function."""
    if all(0 <= score <= 1 for score in scores):
        return list(scores)
    return [1 / (1 + math.exp(-min(max(score, -500.0), 500.0))) for score in scores]


def _scores(query: str, texts: Sequence[str], settings: RerankSettings) -> dict[int, float]:
    """The raw score of each text, by its place; one that the endpoint left out has none. Raises `_Unanswered`."""
    body: dict[str, Any] = {"query": _sendable(query), settings.body: [_sendable(text) for text in texts]}
    if settings.model:
        body["model"] = settings.model
    if settings.body == "documents":
        body["top_n"] = len(texts)
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if key := settings.api_key.get_secret_value():
        headers["Authorization"] = f"Bearer {key}"
    url = settings.url.rstrip("/")
    url = url if url.endswith("/rerank") else f"{url}/rerank"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")
    end = time.monotonic() + settings.timeout_seconds
    for attempt in range(settings.retries + 1):
        try:
            return _read(_post(request, end), len(texts))
        except _Unanswered as error:
            if not error.may_retry or attempt == settings.retries or time.monotonic() + _PAUSE >= end:
                raise
        time.sleep(_PAUSE)
    raise AssertionError("a loop that returns or raises")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would take the key and the texts to an address that nobody set."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _post(request: urllib.request.Request, end: float) -> bytes:
    opener = urllib.request.build_opener(_NoRedirect)
    parts: list[bytes] = []
    size = 0
    try:
        with opener.open(request, timeout=max(end - time.monotonic(), 0.01)) as answer:
            while part := answer.read1(65_536):
                size += len(part)
                parts.append(part)
                if size > _BYTES:
                    raise _Unanswered(f"the reranker's answer is longer than {_BYTES} bytes")
                if time.monotonic() > end:
                    raise TimeoutError
    except urllib.error.HTTPError as error:
        again = error.code in (408, 425, 429) or error.code >= 500
        error.close()
        raise _Unanswered(f"the reranker answered HTTP {error.code}", again) from error
    except TimeoutError as error:
        raise _Unanswered("the reranker did not answer in time") from error
    except (OSError, http.client.HTTPException) as error:
        if isinstance(getattr(error, "reason", None), TimeoutError):
            raise _Unanswered("the reranker did not answer in time") from error
        why = getattr(error, "reason", None) or error
        raise _Unanswered(f"the reranker can't be reached: {why}", may_retry=True) from error
    return b"".join(parts)


def _read(raw: bytes, count: int) -> dict[int, float]:
    """Scores by place, from an answer in any of the shapes."""
    try:
        said = json.loads(raw)
    except ValueError as error:
        raise _Unanswered("the reranker's answer is no JSON") from error
    items = said.get("results", said.get("data")) if isinstance(said, dict) else said
    if not isinstance(items, list):
        raise _Unanswered("the reranker's answer has no list of results")
    scores: dict[int, float] = {}
    for item in items:
        place = item.get("index") if isinstance(item, dict) else None
        score = item.get("relevance_score", item.get("score")) if isinstance(item, dict) else None
        if type(place) is not int or not 0 <= place < count or place in scores:
            raise _Unanswered(f"the reranker scored a text that it was not given: index {place!r} of {count}")
        if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
            raise _Unanswered(f"the reranker gave no number: {score!r}")
        scores[place] = float(score)
    if not scores:
        raise _Unanswered("the reranker scored nothing")
    return scores


def _sendable(text: str) -> str:
    return text[:_CHARACTERS].encode("utf-8", "replace").decode()
