"""The job `dedup`: of memories that surely say the same, one wording is kept, the most-accessed one (R14).

Where one says all that another one says and more, it is the fuller one that is kept, so that nothing is lost (N6).
The others become `merged` and point to it; what was read of them counts for it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..memory_store.clock import Clock
from ..memory_store.files.lake import Lake
from ..memory_store.history.inbox import Row
from ..memory_store.records.usage import heirs, inherited, read_usage
from ..memory_store.settings import Settings
from .comparing.pairs import COLUMNS, Judge, Verdict
from .deciding.decide import Decided, DecideReport, View, decide
from .deciding.meet import JudgeOf, Scale, meet, no_judge
from .deciding.neighbourhoods import Neighbourhood, neighbourhoods, over_shards
from .shards import Engine

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

#: Kinds that can say the same; an episode is its trace.
KINDS = ("fact", "preference", "rule", "experience")
_COLUMNS = tuple(dict.fromkeys([*COLUMNS, "confidence", "quality", "added_seq", "superseded_by", "vector"]))
_RANKING = ("id", "confidence", "quality", "added_seq")

#: Kinds that can say what another one says.
_FAMILIES = (("fact", "preference"), ("rule",), ("experience",))


def dedup(
    lake: Lake,
    settings: Settings,
    clock: Clock,
    *,
    version: str,
    namespaces: Sequence[str] | None = None,
    judges: JudgeOf = no_judge,
    holds_many: Callable[[str], bool] = lambda attribute: False,
    engine: Engine = "auto",
    dry_run: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> DecideReport:
    """Retire what is said twice. Counts memories that were `kept`; `merge` are those that were retired.

    `judges` gives a namespace the judge of pairs that no guard decided, such as a model. `progress` is called with
    shards done and shards in all. Raises when the lake, the store or Ray fail.
    """
    chosen = partial(
        rule, judges=judges, holds_many=holds_many, engine=engine, write=not dry_run, progress=progress
    )  # fmt: skip
    return decide(
        lake, settings, clock, chosen, job="dedup", version=version, namespaces=namespaces, dry_run=dry_run
    )  # fmt: skip


def rule(
    view: View,
    *,
    judges: JudgeOf = no_judge,
    holds_many: Callable[[str], bool] = lambda attribute: False,
    engine: Engine = "auto",
    write: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Decided]:
    """What is said twice among the active memories of one namespace, one shard after the other."""
    reads, judge = accesses(view, write=write), judges(view.namespace)
    shards: list[Neighbourhood] = []
    for kinds in _FAMILIES:
        found = neighbourhoods(view, kinds)
        shards += found.shards
        yield Decided(counts=Counter(kept=found.alone))
    losses: Counter[str] = Counter()
    joinings = over_shards(
        partial(shard, judge=judge, holds_many=holds_many), shards, view.settings, "loop" if judge else engine,
        progress, losses,
    )  # fmt: skip
    parts: list[Joining] = []
    for place, joining in enumerate(joinings):
        parts.append(joining)
        whole = shards[place].part_of
        if not whole or place + 1 == len(shards) or shards[place + 1].part_of != whole:
            yield twins(parts, reads)
            parts = []
    yield Decided(counts=losses)


@dataclass(frozen=True)
class Joining:
    """Pairs of memories of which one can stand for the other."""

    #: Ids of the two, and what they are to each other
    pairs: list[tuple[str, str, Verdict]]
    #: By id, what ranks each that is in a pair
    rows: dict[str, Row]
    #: Memories that were looked at
    looked: int


def shard(some: Neighbourhood, *, judge: Judge | None, holds_many: Callable[[str], bool]) -> Joining:
    """What may be said twice in one shard, in whatever process this is."""
    rows, vectors = some.read(_COLUMNS)
    scale = Scale(some.embedder, Lake.open(some.settings))
    found = joining(rows, vectors, scale, judge=judge, holds_many=holds_many, cells=some.cells_of(rows))
    return replace(found, looked=some.own)


def accesses(view: View, *, write: bool) -> Mapping[str, int]:
    """How often each memory was put before an agent, what was merged into it included."""
    usage = read_usage(view.lake, view.namespace, write=write)
    if usage.num_rows:
        usage = inherited(usage, heirs(view.lake, view.namespace))
    summed = usage.group_by("id").aggregate([("reads", "sum")])
    return dict(zip(summed.column("id").to_pylist(), summed.column("reads_sum").to_pylist(), strict=True))


def joining(
    rows: Sequence[Row],
    vectors: npt.NDArray[np.float32],
    scale: Scale,
    *,
    judge: Judge | None = None,
    holds_many: Callable[[str], bool] = lambda attribute: False,
    cells: Sequence[npt.NDArray[np.int64]] | None = None,
) -> Joining:
    """Pairs of memories (columns `_COLUMNS`) that say the same, or of which one says more. `cells` as in `meet`."""
    found = Joining([], {}, len(rows))
    for met in meet(
        rows, vectors, scale, what="same", judge=judge, holds_many=holds_many, by_words=False, cells=cells
    ):  # fmt: skip
        if met.verdict.joins:
            first, second = rows[met.first], rows[met.second]
            found.pairs.append((first["id"], second["id"], met.verdict))
            for row in (first, second):
                found.rows[row["id"]] = {name: row.get(name) for name in _RANKING}
    return found


def twins(parts: Sequence[Joining], reads: Mapping[str, int]) -> Decided:
    """Decide on memories that may say the same: each that another one can stand for is merged into that one.

    A memory is merged only into one that says the same, or more, itself: never along a chain of likenesses. `parts`
    may share pairs; `reads`: how often each memory was put before an agent.
    """
    rows: dict[str, Row] = {}
    pairs: dict[tuple[str, str], Verdict] = {}
    for part in parts:
        rows |= part.rows
        pairs.update({(min(one, two), max(one, two)): _ordered(one, two, said) for one, two, said in part.pairs})
    near: dict[str, dict[str, Verdict]] = defaultdict(dict)
    for (one, two), verdict in pairs.items():
        near[one][two] = near[two][one] = verdict

    def rank(id: str) -> tuple[Any, ...]:
        return _rank(rows[id], reads)

    gone: set[str] = set()
    decided = Decided()
    for keeper in sorted(near, key=rank):
        if keeper in gone:
            continue
        for other in sorted(near[keeper], key=rank):
            verdict = near[keeper][other]
            stands = (min(keeper, other), max(keeper, other))[verdict.stands or 0]
            if other not in gone and (verdict.type == "same" or stands == keeper):
                gone.add(other)
                decided.acts.append(merged(rows[other], rows[keeper], verdict.reason))
    # A keeper that a fuller one absorbed later passes on what it took.
    into = {act[0]["id"]: act[0]["superseded_by"] for act in decided.acts}
    for act in decided.acts:
        while act[0]["superseded_by"] in into:
            act[0]["superseded_by"] = act[1]["id"] = into[act[0]["superseded_by"]]
    decided.counts["kept"] = sum(part.looked for part in parts) - len(gone)
    return decided


def _ordered(one: str, two: str, verdict: Verdict) -> Verdict:
    """A verdict on two memories as one on them in the order of their ids."""
    return verdict if one <= two or verdict.stands is None else replace(verdict, stands=1 - verdict.stands)


def merged(row: Row, keeper: Row, reason: str) -> list[Row]:
    """The act that merges a memory into another one; it holds only while that one stands."""
    return [
        {
            "decision": "merge",
            "id": row["id"],
            "state": "merged",
            "superseded_by": keeper["id"],
            "reason": f"{reason}: {keeper['id']}",
        },
        {"decision": "merge", "id": keeper["id"], "state": "active", "reason": f"stands for {row['id']}"},
    ]


def _rank(row: Row, reads: Mapping[str, int]) -> tuple[Any, ...]:
    """The most-accessed first, then the surest, the best, the oldest."""
    return (
        -reads.get(row["id"], 0),
        -(row.get("confidence") or 0.0),
        -(row.get("quality") or 0),
        row.get("added_seq") or 0,
        row["id"],
    )
