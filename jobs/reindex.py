"""The job `reindex`: everything is embedded by another model, beside the generation in use, and readers are switched.

1. What the model has not embedded yet is embedded, over shards, into the vector cache of the lake. Work is found by
   what is missing there, so that a run that was killed, or stopped at its budget, goes on where it was.
2. A generation is built from the lake and that cache, and caught up with what was written meanwhile.
3. It is checked against the one in use.
4. Readers are switched by a create: of two re-indexes one wins, and the other says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from ..memory_store.capture.reads import roll_reads
from ..memory_store.clock import Clock
from ..memory_store.embedders import Embedded, Embedder, embedder_of, metered
from ..memory_store.errors import BudgetExceeded, EmbedderError
from ..memory_store.files.lake import Lake
from ..memory_store.history.log import settle
from ..memory_store.records import runs
from ..memory_store.records.texts import embedded_texts
from ..memory_store.records.vectors import VectorCache
from ..memory_store.settings import Settings
from ..memory_store.store.generation_check import Check, check
from ..memory_store.store.generations import ensure, make
from ..memory_store.store.registry import Claim, Generation, claim, current, drop, find, mark_ready, switch, usable
from .embed_shard import CallMeter, EmbedResult, EmbedTask, embed_shard
from .models.budget import Budget, Forecast, Usage, estimate_tokens
from .shards import Crew, Engine, choose_engine, crew

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

#: Texts of one shard.
SHARD_TEXTS = 2_000
#: Least share of the true nearest that the index of a new generation must find.
LEAST_RECALL = 0.95

#: Told what a phase is called; gives what is told of its progress, done and all.
Started = Callable[[str], Callable[[int, int], None]]


@dataclass(frozen=True)
class Limits:
    """What embedding may cost, where an endpoint is asked; 0: no limit."""

    #: Tokens
    tokens: int = 0
    #: Micro-dollars
    cost: int = 0
    #: Micro-dollars of a million tokens
    price: int = 0
    #: Requests a minute
    per_minute: float = 0

    @classmethod
    def of(
        cls, settings: Settings, tokens: int | None = None, price: int | None = None, per_minute: float = 0
    ) -> Limits:
        """Those that the settings give to one run of a model, but for what is given."""
        model = settings.model
        tokens = model.budget_tokens if tokens is None else tokens
        return cls(tokens, model.budget_cost, model.input_price if price is None else price, per_minute)


@dataclass
class ReindexReport:
    """What a run did. texts = kept + embedded + refused + left, and left is 0 unless it stopped."""

    run_id: str
    embedder: str
    counts: Counter[str] = field(
        default_factory=lambda: Counter(dict.fromkeys(("texts", "kept", "embedded", "refused", "left"), 0))
    )
    #: loop or ray
    engine: str = "loop"
    forecast: Forecast = field(default_factory=Forecast)
    usage: Usage = field(default_factory=Usage)
    #: Why texts were refused, how often
    reasons: Counter[str] = field(default_factory=Counter)
    #: Whether the run stopped at its budget; the next goes on
    stopped: bool = False
    #: Number of the generation that was built; 0: none was
    generation: int = 0
    #: The one that readers used before
    before: int = 0
    check: Check | None = None
    #: Whether readers use it now
    switched: bool = False
    #: Why they don't; empty if they do
    reason: str = ""

    def summary(self) -> dict[str, Any]:
        """The report as plain values: ids and numbers, never a text."""
        found = {name: value for name, value in vars(self).items() if name != "check"}
        return found | {
            "counts": dict(self.counts), "reasons": dict(self.reasons), "forecast": asdict(self.forecast),
            "usage": asdict(self.usage), "check": self.check.summary() if self.check else None,
        }  # fmt: skip


def reindex(
    lake: Lake,
    settings: Settings,
    clock: Clock,
    embedder: str,
    *,
    version: str,
    limits: Limits | None = None,
    engine: Engine = "auto",
    queries: int = 50,
    least_recall: float = LEAST_RECALL,
    use: bool = True,
    dry_run: bool = False,
    started: Started = lambda phase: lambda done, total: None,
    announce: Callable[[Forecast], None] = lambda forecast: None,
) -> ReindexReport:
    """Embed everything with another model (as in the setting `embedder`), and switch readers to it.

    `queries`: how many of the last real ones of each namespace are asked of both generations. Without `use` the
    generation is left ready beside the one in use. With `dry_run` only what it will cost is said. `announce` is told
    that before the first call.

    Raises `EmbedderError` when the model can't be used, after what was embedded is kept, and what lake and store raise.
    """
    model = embedder_of(settings.model_copy(update={"embedder": embedder}))
    report = ReindexReport(runs.new_run_id(), model.name)
    before = ensure(lake, settings, clock)
    report.before = before.number
    work = _Work(lake, settings, clock, model, limits or Limits.of(settings), report, version)
    namespaces = lake.namespaces()
    for namespace in namespaces:
        settle(lake, namespace)
    roll_reads(lake, settings)
    missing = work.find_missing(namespaces, started("look"))
    announce(report.forecast)
    if dry_run:
        return report
    work.embed(missing, engine, started("embed"))
    if report.stopped:
        report.reason = "stopped at its budget: run it again to go on, or raise the budget"
        return report
    if current(lake).embedder != before.embedder:
        report.reason = (
            f"readers were switched to {current(lake).embedder} meanwhile: run it again if you still want it"
        )
        return report
    claimed = claim(lake, clock, model.name, model.dim, f"reindex {report.run_id}")
    report.generation = claimed.number
    try:
        make(lake, settings, claimed, work.spared, started("fold"))
        report.check = check(lake, settings, clock, before, claimed, work.spared, queries, least_recall)
    except BudgetExceeded as error:
        drop(lake, settings, find(lake, claimed.number))
        report.stopped, report.reason, report.generation = True, str(error), 0
        return report
    mark_ready(lake, claimed, report.check.summary())
    if report.check.against:
        report.reason = "; ".join(report.check.against)
    elif use:
        report.switched, report.reason = _switch(lake, settings, clock, claimed, before)
    else:
        report.reason = f"ready: `hindlake generations use {claimed.number}` switches readers to it"
    return report


class _Work:
    """What one run embeds."""

    def __init__(
        self,
        lake: Lake,
        settings: Settings,
        clock: Clock,
        model: Embedder,
        limits: Limits,
        report: ReindexReport,
        version: str,
    ) -> None:
        self.lake, self.settings, self.clock = lake, settings, clock
        self.model, self.limits, self.report, self.version = model, limits, report, version
        self.budget = Budget(limits.tokens, limits.cost, input_price=limits.price)
        self.refused: dict[str, str] = {}
        asked = metered(model.name, settings, CallMeter(self.budget, limits.per_minute), model.dim)
        #: The model, within the budget, and not asked again for what it refused
        self.spared = _Spared(asked, self.refused)

    def find_missing(
        self, namespaces: Sequence[str], progress: Callable[[int, int], None]
    ) -> dict[str, dict[bytes, None]]:
        """Hashes of the texts that the model has not embedded yet, by namespace; and what they will cost."""
        found: dict[str, dict[bytes, None]] = {}
        counts, tokens = self.report.counts, 0
        for namespace in namespaces:
            cache = VectorCache(self.lake, namespace, self.model.name)
            missing: dict[bytes, None] = {}
            seen: set[bytes] = set()
            for texts in embedded_texts(self.lake, namespace, self.model.name):
                hashes = cache.hashes(texts)
                for text, hash, is_there in zip(texts, hashes, cache.holds(hashes).tolist(), strict=True):
                    if hash in seen:
                        continue
                    seen.add(hash)
                    counts["texts"] += 1
                    counts["kept"] += is_there
                    if not is_there:
                        missing[hash] = None
                        tokens += estimate_tokens(text)
                progress(counts["texts"], counts["texts"])
            found[namespace] = missing
        if self.is_paid:
            total = counts["texts"] - counts["kept"]
            self.report.forecast = Forecast(-(-total // 64), tokens, 0, self.budget.price(tokens, 0))
        return found

    @property
    def is_paid(self) -> bool:
        """Whether an endpoint is asked."""
        return self.model.name.startswith("openai:")

    def embed(
        self, missing: dict[str, dict[bytes, None]], engine: Engine, progress: Callable[[int, int], None]
    ) -> None:
        """Embed what is missing. Raises `EmbedderError` when the model can't be used, after what it gave is kept."""
        total = sum(map(len, missing.values()))
        where = "loop" if self.is_paid and engine == "auto" else choose_engine(
            self.settings, engine, total, self.settings.jobs.ray_from_memories
        )  # fmt: skip
        self.report.engine = where
        progress(0, total)
        with crew(self.settings, where if total else "loop") as workers:
            done = self._embed_in(workers, missing, total, progress)
        self.report.counts["left"] = total - done

    def _embed_in(
        self,
        workers: Crew,
        missing: dict[str, dict[bytes, None]],
        total: int,
        progress: Callable[[int, int], None],
    ) -> int:
        """Embed what is missing, by these workers; how many texts were dealt with."""
        settings, budget, per_minute, at_once = self.settings, self.budget, self.limits.per_minute, 0
        if workers.engine == "ray":
            # Workers can't see what the others spend and ask: each shard has its share of the ceiling, and each that
            # is worked on of the calls in flight and of those of a minute.
            budget = self.budget.share(max(1, -(-total // SHARD_TEXTS)) + len(missing))
            if self.is_paid:
                at_once, calls = workers.calls(settings.model.concurrency)
                per_minute /= at_once
                model = settings.model.model_copy(update={"concurrency": calls})
                settings = settings.model_copy(update={"model": model})
        done, failure = 0, ""
        for namespace, hashes in missing.items():
            record = self._record(namespace)
            with runs.accounted(self.lake, record, self.clock):
                tasks = self._tasks(settings, namespace, hashes, budget, per_minute)
                for placed in workers.map(embed_shard, tasks, at_once):
                    self.report.counts.update(placed.losses)
                    self._take(placed.result, record)
                    failure = failure or placed.result.failure
                    done += placed.result.embedded + len(placed.result.refused)
                    progress(done, total)
                    if failure or (self.report.stopped and workers.engine == "loop"):
                        break
                record.status = "failed" if failure else "stopped" if self.report.stopped else "done"
                record.error, record.ended_at = failure, self.clock.now()
                if record.counts:
                    runs.write_run(self.lake, record)
                if failure:
                    raise EmbedderError(f"{failure}; what it embedded is kept: run it again to go on")
                if self.report.stopped and workers.engine == "loop":
                    break
        return done

    def _tasks(
        self, settings: Settings, namespace: str, hashes: dict[bytes, None], budget: Budget, per_minute: float
    ) -> Iterator[EmbedTask]:
        """Shards of the texts that have these hashes, in the order in which a fold will want them."""
        if not hashes:
            return
        cache = VectorCache(self.lake, namespace, self.model.name)
        task = EmbedTask(settings, namespace, self.model.name, self.model.dim, (), budget, per_minute)
        waiting: list[str] = []
        for texts in embedded_texts(self.lake, namespace, self.model.name):
            for text, hash in zip(texts, cache.hashes(texts), strict=True):
                if hash in hashes:
                    del hashes[hash]
                    waiting.append(text)
            while len(waiting) >= SHARD_TEXTS:
                yield replace(task, texts=tuple(waiting[:SHARD_TEXTS]))
                waiting = waiting[SHARD_TEXTS:]
        if waiting:
            yield replace(task, texts=tuple(waiting))

    def _take(self, result: EmbedResult, record: runs.Run) -> None:
        counts = {"embedded": result.embedded, "refused": len(result.refused)}
        self.report.counts.update(counts)
        self.report.reasons.update(result.refused.values())
        self.report.usage += result.usage
        self.report.stopped |= result.stopped
        self.refused |= result.refused
        record.counts = {name: record.counts.get(name, 0) + value for name, value in counts.items()}

    def _record(self, namespace: str) -> runs.Run:
        return runs.Run(
            run_id=self.report.run_id, job="reindex", namespace=namespace, version=self.version,
            started_at=self.clock.now(), parameters={"embedder": self.model.name}, engine=self.report.engine,
        )  # fmt: skip


class _Spared:
    """An embedder that is not asked again for texts that it has refused."""

    def __init__(self, embedder: Embedder, refused: dict[str, str]) -> None:
        self._embedder, self._refused = embedder, refused
        self.name, self.dim, self.queries, self.curve = (
            embedder.name, embedder.dim, embedder.queries, embedder.curve
        )  # fmt: skip

    def passages(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of texts to be found, NaN for one that was refused."""
        return self.embed(texts).vectors

    def embed(self, texts: Sequence[str], query: bool = False) -> Embedded:
        """The same, with the reason of each text that has no vector."""
        import numpy as np

        asked = [text for text in texts if query or text not in self._refused]
        made = self._embedder.embed(asked, query) if asked else Embedded(np.empty((0, self.dim), np.float32))
        vectors = np.full((len(texts), self.dim), np.nan, dtype=np.float32)
        failures: dict[int, str] = {}
        rows = count()
        for place, text in enumerate(texts):
            if not query and text in self._refused:
                failures[place] = self._refused[text]
                continue
            row = next(rows)
            vectors[place] = made.vectors[row]
            if row in made.failures:
                failures[place] = made.failures[row]
        return Embedded(vectors, failures)


def _switch(lake: Lake, settings: Settings, clock: Clock, claimed: Claim, before: Generation) -> tuple[bool, str]:
    """Switch readers, unless another re-index was faster; a rebuild with the old model in between is no hindrance."""
    switches = claimed.switches
    while True:
        if switch(lake, clock, claimed, switches):
            return True, ""
        now = current(lake)
        why = usable(lake, settings, find(lake, claimed.number))
        if now.embedder != before.embedder or why:
            return False, why or (
                f"another re-index was faster: readers use generation {now.number} ({now.embedder}); this one is ready "
                f"as generation {claimed.number}: `hindlake generations use {claimed.number}`, or `drop` it"
            )
        switches = len(lake.names("current"))
