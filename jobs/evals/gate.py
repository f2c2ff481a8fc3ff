"""What the gate saves (R6, R34): the share of traces that cost no call, by set and on mixes like a day's traces.

A set is a folder of its name below `data`; those that are missing are left out, and their share of a mix is divided
among the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ...memory_store.capture.events import Trace
from ...memory_store.errors import UsageError
from ...memory_store.settings import Settings
from ..reflecting.gate import gate
from .sets import NOW, dialogue_of, json_lines_of, json_of, traces_in

#: Most traces of one set.
_MOST = 2000


@dataclass(frozen=True)
class GatedSet:
    """A kind of traces, and its share of each mix."""

    #: What it is called in the table
    name: str
    #: The traces below `data`; none if the set is not there
    traces: Callable[[Path], Iterator[Trace]]
    #: Its share of each mix, in the order of `MIXES`
    weights: tuple[float, ...]


@dataclass(frozen=True)
class Saving:
    """What the gate made of a set."""

    name: str
    weights: tuple[float, ...]
    #: Traces
    n: int
    #: Share of traces that cost no call
    saved: float
    #: Traces that each trigger let through, most first
    through: dict[str, int]
    #: Traces that were left out, by the first trigger that they pulled, or `routine`
    left_out: dict[str, int]


def evaluate(data: Path, settings: Settings) -> tuple[list[Saving], dict[str, float]]:
    """What the gate saves of each set that lies below `data`, and of each mix.

    Raises `UsageError` if there is no set at all.
    """
    found = [_saving(kind, traces, settings) for kind in SETS if (traces := list(islice(kind.traces(data), _MOST)))]
    if not found:
        raise UsageError(f"{data} holds none of the folders {', '.join(FOLDERS)}: give the folder that holds them")
    mixes = {}
    for place, mix in enumerate(MIXES):
        if whole := sum(saving.weights[place] for saving in found):
            mixes[mix] = sum(saving.saved * saving.weights[place] for saving in found) / whole
    return found, mixes


def _saving(kind: GatedSet, traces: list[Trace], settings: Settings) -> Saving:
    rows = gate(traces, settings.gate, at=NOW, run="eval")
    through = Counter(str(row["trigger"]) for row in rows if row["reflected"])
    left_out = Counter(str(row["trigger"]) for row in rows if not row["reflected"])
    saved = left_out.total() / len(rows)
    return Saving(kind.name, kind.weights, len(rows), saved, dict(through.most_common()), dict(left_out.most_common()))


def _records(folder: str) -> Callable[[Path], Iterator[Trace]]:
    """Traces that ingest reads from a folder."""

    def traces(data: Path) -> Iterator[Trace]:
        for path in sorted((data / folder).glob("*.gz")):
            yield from (trace for _, trace in traces_in(path))

    return traces


def _tasks(outcome: str) -> Callable[[Path], Iterator[Trace]]:
    """Tasks with tools of one outcome."""
    folders = (_records("taubench"), _records("agentrx"))
    return lambda data: (trace for traces in folders for trace in traces(data) if trace.outcome == outcome)


def _longmemeval(data: Path) -> Iterator[Trace]:
    for path in sorted((data / "longmemeval").glob("*sessions.jsonl.gz")):
        for number, session in enumerate(json_lines_of(path)):
            turns = [(turn["role"] == "user", str(turn["content"])) for turn in session["turns"]]
            if trace := dialogue_of(path.name, number, turns):
                yield trace


def _locomo(data: Path) -> Iterator[Trace]:
    """Sessions of two people; the first is taken for the user."""
    for path in sorted((data / "locomo").glob("*.json.gz")):
        for sample in json_of(path):
            talk = sample["conversation"]
            for number in range(1, len(talk)):
                turns = [
                    (turn["speaker"] == talk["speaker_a"], str(turn["text"]))
                    for turn in talk.get(f"session_{number}", ())
                ]
                if trace := dialogue_of(str(sample["sample_id"]), number, turns):
                    yield trace


def _realmem(data: Path) -> Iterator[Trace]:
    for path in sorted((data / "realmem").glob("*.json.gz")):
        for number, session in enumerate(json_of(path)["dialogues"]):
            turns = [(turn["speaker"] == "User", str(turn["content"])) for turn in session["dialogue_turns"]]
            if trace := dialogue_of(path.name, number, turns):
                yield trace


#: The folders that are read.
FOLDERS = ("longmemeval", "locomo", "realmem", "taubench", "agentrx", "sweagent", "otel")
#: An assistant that mostly talks, one task in four with tools; and a service desk, where all work is done by tools.
MIXES = ("assistant", "service desk")
SETS = (
    GatedSet("assistant chats (longmemeval)", _longmemeval, (0.60, 0)),
    GatedSet("private chats (locomo)", _locomo, (0.05, 0)),
    GatedSet("long projects (realmem)", _realmem, (0.10, 0)),
    GatedSet("tool tasks, succeeded (taubench, agentrx)", _tasks("success"), (0.20, 0.85)),
    GatedSet("tool tasks, failed (taubench, agentrx)", _tasks("failure"), (0.05, 0.15)),
    GatedSet("coding runs (sweagent)", _records("sweagent"), (0, 0)),
    GatedSet("service traces (otel)", _records("otel"), (0, 0)),
)
