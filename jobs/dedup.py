"""The job `dedup`: of memories that surely say the same, one wording is kept, the most-accessed one (R14).

Where one says all that another one says and more, it is the fuller one that is kept, so that nothing is lost (N6).
The others become `merged` and point to it; what was read of them counts for it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..memory_store.clock import Clock
from ..memory_store.inbox import Row
from ..memory_store.lake import Lake
from ..memory_store.settings import Settings
from ..memory_store.usage import heirs, inherited, read_usage
from .decide import Decided, DecideReport, View, decide
from .meet import JudgeOf, Met, Scale, meet, no_judge
from .neighbourhoods import Neighbourhood, neighbourhoods, over_shards
from .pairs import COLUMNS, Judge
from .shards import Engine

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

#: Kinds that can say the same; an episode is its trace.
KINDS = ("fact", "preference", "rule", "experience")
_COLUMNS = tuple(dict.fromkeys([*COLUMNS, "confidence", "quality", "added_seq", "superseded_by", "vector"]))


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
    yield from over_shards(
        partial(shard, reads=reads, judge=judge, holds_many=holds_many), shards, view.settings,
        "loop" if judge else engine, progress,
    )  # fmt: skip


def shard(
    some: Neighbourhood, *, reads: Mapping[str, int], judge: Judge | None, holds_many: Callable[[str], bool]
) -> Decided:
    """What is said twice in one shard, in whatever process this is."""
    rows, vectors = some.read(_COLUMNS)
    scale = Scale(some.embedder, Lake.open(some.settings))
    return twins(rows, vectors, scale, reads, judge=judge, holds_many=holds_many)


def accesses(view: View, *, write: bool) -> Mapping[str, int]:
    """How often each memory was put before an agent, what was merged into it included."""
    usage = read_usage(view.lake, view.namespace, write=write)
    if usage.num_rows:
        usage = inherited(usage, heirs(view.lake, view.namespace))
    summed = usage.group_by("id").aggregate([("reads", "sum")])
    return dict(zip(summed.column("id").to_pylist(), summed.column("reads_sum").to_pylist(), strict=True))


def twins(
    rows: Sequence[Row],
    vectors: npt.NDArray[np.float32],
    scale: Scale,
    reads: Mapping[str, int],
    *,
    judge: Judge | None = None,
    holds_many: Callable[[str], bool] = lambda attribute: False,
) -> Decided:
    """Decide on memories that may say the same: each that another one can stand for is merged into that one.

    A memory is merged only into one that says the same, or more, itself: never along a chain of likenesses.
    """
    decided = Decided()
    near: dict[int, list[Met]] = defaultdict(list)
    for met in meet(rows, vectors, scale, what="same", judge=judge, holds_many=holds_many, by_words=False):
        if met.verdict.joins:
            near[met.first].append(met)
            near[met.second].append(met)
    order = sorted(near, key=lambda place: _rank(rows[place], reads))
    gone: set[int] = set()
    for keeper in order:
        if keeper in gone:
            continue
        for met in sorted(near[keeper], key=lambda met: _rank(rows[met.other(keeper)], reads)):
            other = met.other(keeper)
            if other not in gone and met.absorbs(keeper):
                gone.add(other)
                decided.acts.append(merged(rows[other], rows[keeper], met.verdict.reason))
    # A keeper that a fuller one absorbed later passes on what it took.
    into = {act[0]["id"]: act[0]["superseded_by"] for act in decided.acts}
    for act in decided.acts:
        while act[0]["superseded_by"] in into:
            act[0]["superseded_by"] = act[1]["id"] = into[act[0]["superseded_by"]]
    decided.counts["kept"] = len(rows) - len(gone)
    return decided


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
