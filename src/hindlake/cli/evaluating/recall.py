"""Recall of labelled sets: each asked through `sdk.Memory.search`, as a user would, with the settings given."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...memory_store.clock import ManualClock
from ...memory_store.files.lake import Lake
from ...memory_store.settings import Settings
from ...sdk.memory import Memory
from . import histories, scores
from .ablation import ablations
from .histories import History, Question
from .logbook import event_of, log_histories, progress, subject_of, trace_of
from .precision import measure_precision

_Found = Callable[[Sequence[str], frozenset[str]], Mapping[str, float]]


@dataclass(frozen=True)
class _Set:
    """How a set is asked and scored."""

    #: Histories, by the folder of the data
    read: Callable[[Path], Iterator[History]]
    #: What is searched for: "passage" finds turns, "episode" sessions
    kind: str
    #: Hits that are asked for
    limit: int
    score: _Found


def _locomo(found: Sequence[str], gold: frozenset[str]) -> dict[str, float]:
    return {f"r{k}": scores.recall(found, gold, k) for k in (1, 5, 10)}


def _memdaily(found: Sequence[str], gold: frozenset[str]) -> dict[str, float]:
    return {f"r{k}": scores.recall(found, gold, k) for k in (1, 3, 5)} | {"empty": float(not found)}


def _longmemeval(found: Sequence[str], gold: frozenset[str]) -> dict[str, float]:
    return {
        "hit1": scores.hit(found, gold),
        "r5": scores.all_found(found, gold, 5),
        "ndcg10": scores.ndcg(found, gold, 10),
    }


#: Sets by name; those that share histories are logged once.
SETS: Mapping[str, _Set] = {
    "locomo": _Set(histories.locomo, "passage", 10, _locomo),
    "locomo_session": _Set(histories.locomo, "episode", 10, _locomo),
    "longmemeval": _Set(histories.longmemeval, "episode", 10, _longmemeval),
    "memdaily": _Set(histories.memdaily, "passage", 10, _memdaily),
}
#: What is told on the way and is no figure of a set.
_TOLD = ("p50_ms", "failed")
#: Figures that are counts of questions, not means over them.
_COUNTS = ("empty",)


def measure(
    data: Path, names: Sequence[str], settings: Settings, cache: Path | None, every: int = 1, is_ablation: bool = False
) -> dict[str, dict[str, Any]]:
    """Figures of the sets named, of each n-th history; sets that the folder lacks are left out. `is_ablation`: figures
    by row of `ablations`, of all sets but precision.

    `cache`: where vectors are kept between measurements. Nothing but a temporary home is written. Standard error is
    told each set's figures when it is done, with the median time of a search (embedding the query included) and the
    cases that failed.
    """
    results: dict[str, dict[str, Any]] = {}
    logged: tuple[Any, list[History], Settings] | None = None
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            if name == "precision":
                figures = {} if is_ablation else measure_precision(data, _home(settings, f"{folder}/precision"))
            else:
                one = SETS[name]
                if logged is None or logged[0] is not one.read:
                    found = list(one.read(data))[::every]
                    home = _home(settings, f"{folder}/{name}")
                    if found:
                        log_histories(Lake.open(home), home, found, cache)
                    logged = (one.read, found, home)
                if is_ablation and logged[1]:
                    rows = ablations(logged[2], one.kind)
                    results[name] = {row: _figures(row, _ask(name, one, logged[1], how)) for row, how in rows.items()}
                    continue
                figures = _ask(name, one, logged[1], logged[2]) if logged[1] else {}
            if figures:
                results[name] = _figures(name, figures)
    return results


def _figures(name: str, figures: dict[str, Any]) -> dict[str, Any]:
    """The figures, without what is only told on the way."""
    print(name, *(f"{key} {value}" for key, value in figures.items()), file=sys.stderr, flush=True)
    return {key: value for key, value in figures.items() if key not in _TOLD}


def _home(settings: Settings, home: str) -> Settings:
    """The same settings for a home of its own."""
    return settings.model_copy(update={"home": home, "spool": "", "namespace": "eval"})


def _ask(name: str, one: _Set, told: Sequence[History], settings: Settings) -> dict[str, Any]:
    clock = ManualClock()
    memory = Memory(settings, clock=clock)
    total = sum(len(history.questions) for history in told)
    rows: list[Mapping[str, float]] = []
    times: list[float] = []
    for number, history in enumerate(told):
        for question in history.questions:
            clock.time = question.at
            start = time.perf_counter()
            hits = memory.search(
                question.text, kinds=[one.kind], subject=subject_of(number), limit=one.limit, log_read=False
            )
            times.append(time.perf_counter() - start)
            cited = [hit.evidence[0] for hit in hits if hit.evidence]
            found = list(
                dict.fromkeys(item["event_id"] if one.kind == "passage" else item["trace_id"] for item in cited)
            )
            rows.append(one.score(found, _gold(one.kind, number, history, question)))
        progress(name, len(rows), total)
    figures: dict[str, Any] = {}
    for key in rows[0] if rows else ():
        values = [row[key] for row in rows]
        figures[key] = int(sum(values)) if key in _COUNTS else round(sum(values) / len(values), 4)
    return figures | {"n": len(rows), "p50_ms": round(sorted(times)[len(times) // 2] * 1e3, 1) if times else None}


def _gold(kind: str, number: int, history: History, question: Question) -> frozenset[str]:
    if kind == "episode":
        return frozenset(trace_of(number, id) for id in question.sessions)
    place = {turn.id: session.id for session in history.sessions for turn in session.turns}
    return frozenset(event_of(number, place[id], id) for id in question.turns if id in place)
