"""What one worker does with one shard of texts: embed them, and keep the vectors as they come."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from ..memory_store.embedders import Embedder, metered
from ..memory_store.embedders.endpoint import BATCH
from ..memory_store.errors import BudgetExceeded, EmbedderError
from ..memory_store.files.lake import Lake
from ..memory_store.records.vectors import VectorCache
from ..memory_store.settings import Settings
from ..memory_store.telemetry.events import in_this_run
from .models.budget import Budget, Hold, Usage, estimate_tokens

#: Texts that a model of this machine is given first; what takes less than `_QUICK` seconds is given twice as many.
_FIRST = 64
_QUICK = 1.0


class CallMeter:
    """Counts the calls to an endpoint: none passes the ceiling, and no more are begun than a minute may have."""

    def __init__(self, budget: Budget, per_minute: float = 0) -> None:
        #: What was used
        self.budget = budget
        self._gap = 60 / per_minute if per_minute else 0.0
        self._next = 0.0
        self._lock = threading.Lock()

    def reserve(self, texts: Sequence[str]) -> Hold:
        """Wait for a call's turn. Raises `BudgetExceeded`."""
        hold = self.budget.reserve(sum(map(estimate_tokens, texts)), 0)
        with self._lock:
            now = time.monotonic()
            self._next = max(now, self._next + self._gap)
            wait = self._next - now
        time.sleep(wait)
        return hold

    def settle(self, hold: Hold, tokens: int | None, *, failed: bool) -> Usage:
        """Count a call; what no one counted is what was estimated."""
        return self.budget.settle(
            hold, hold.input_tokens if tokens is None else tokens, 0, failed=failed, estimated=tokens is None
        )


@dataclass(frozen=True)
class EmbedTask:
    """Texts of one namespace that have no vector of a model yet."""

    settings: Settings
    namespace: str
    embedder: str
    dim: int
    texts: tuple[str, ...]
    budget: Budget
    per_minute: float


@dataclass
class EmbedResult:
    """What became of a shard."""

    embedded: int = 0
    #: Texts that the model refused, and why: they are found by their words
    refused: dict[str, str] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    #: Whether the budget was reached; what was paid for is kept
    stopped: bool = False
    #: Why the model can't be used at all; empty if it can
    failure: str = ""


def embed_shard(task: EmbedTask) -> EmbedResult:
    """Work on one shard, in whatever process this is. A shard that is killed has kept all that was answered."""
    before = task.budget.usage
    cache = VectorCache(Lake.open(task.settings), task.namespace, task.embedder)
    embedder = metered(task.embedder, task.settings, CallMeter(task.budget, task.per_minute), task.dim)
    result = EmbedResult()
    paths: list[str] = []
    if task.embedder.startswith("openai:"):
        starts = range(0, len(task.texts), BATCH)
        with ThreadPoolExecutor(task.settings.model.concurrency) as pool:

            def embed(at: int) -> None:
                _embed(task.texts[at : at + BATCH], embedder, cache, result, paths)

            list(pool.map(in_this_run(embed), starts))
    else:
        for texts in _growing(task.texts):
            _embed(texts, embedder, cache, result, paths)
    cache.join(paths)
    result.usage = task.budget.usage - before
    return result


def _embed(texts: Sequence[str], embedder: Embedder, cache: VectorCache, result: EmbedResult, paths: list[str]) -> None:
    if result.stopped or result.failure:
        return
    try:
        made = embedder.embed(texts)
    except BudgetExceeded:
        result.stopped = True
        return
    except EmbedderError as error:
        result.failure = str(error)
        return
    good = [place for place in range(len(texts)) if place not in made.failures]
    if path := cache.put({texts[place]: made.vectors[place] for place in good}):
        paths.append(path)
    result.embedded += len(good)
    result.refused.update({texts[place]: reason for place, reason in made.failures.items()})


def _growing(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Parts of texts, larger ones where a part took no time: what is lost by a kill is seconds of work."""
    start, size = 0, _FIRST
    while start < len(texts):
        began = time.monotonic()
        yield texts[start : start + size]
        start += size
        if time.monotonic() - began < _QUICK:
            size *= 2
