"""The job `merge`: what complements each other about one thing becomes one fuller memory (R13, N6).

The new text is composed from what its parents say, word for word, and a parent that was composed itself is replaced
by its own parents: nothing is ever made from a merged text. Parents are retired and point to it, so that what was
read of them, and how it ended, counts for it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..memory_store.clock import END_OF_TIME, Clock
from ..memory_store.files.lake import Lake
from ..memory_store.history.inbox import Row
from ..memory_store.ids import derive_id
from ..memory_store.settings import Settings
from ..memory_store.text.language import is_cjk
from .comparing.pairs import Judge
from .comparing.wording import normal_text
from .deciding.decide import Decided, DecideReport, View, decide
from .deciding.meet import JudgeOf, Met, Scale, meet, no_judge
from .deciding.neighbourhoods import Neighbourhood, Rows, neighbourhoods, over_shards
from .shards import Engine

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

#: Kinds that are composed. A lesson stays as it was learned: composing lessons makes agents worse (arXiv 2605.12978).
KINDS = ("fact", "preference", "rule")
#: Label of a memory that was composed.
COMPOSED = "composed"
#: Most statements of one memory, and its longest text in characters.
MOST_PARENTS = 6
MOST_CHARACTERS = 400
#: Relations that let two statements stand in one memory.
_FIT = ("complements", "refines", "same")
_COLUMNS = (
    "id", "kind", "subject", "text", "attribute", "value", "valid_from", "tool", "error_code", "outcome", "task_type",
    "entities", "tags", "agent_role", "said_by", "language", "quality", "importance", "confidence", "evidence",
    "derived_from", "superseded_by", "state", "about", "need", "offer", "vector",
)  # fmt: skip


def merge(
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
    """Compose what belongs together. `add` are new memories, `kept` those that nothing was composed of.

    `judges` gives a namespace the judge of pairs that no guard decided, such as a model. `progress` is called with
    shards done and shards in all. Raises when the lake, the store or Ray fail.
    """
    chosen = partial(rule, judges=judges, holds_many=holds_many, engine=engine, progress=progress)
    return decide(
        lake, settings, clock, chosen, job="merge", version=version, namespaces=namespaces, dry_run=dry_run
    )  # fmt: skip


def rule(
    view: View,
    *,
    judges: JudgeOf = no_judge,
    holds_many: Callable[[str], bool] = lambda attribute: False,
    engine: Engine = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Decided]:
    """What belongs together among the active memories of one namespace, one shard of one kind after the other."""
    judge = judges(view.namespace)
    shards: list[Neighbourhood] = []
    for kind in KINDS:
        found = neighbourhoods(view, (kind,), shared=False, overlap=False)
        shards += found.shards
        yield Decided(counts=Counter(kept=found.alone))
    losses: Counter[str] = Counter()
    yield from over_shards(
        partial(shard, judge=judge, holds_many=holds_many), shards, view.settings, "loop" if judge else engine,
        progress, losses,
    )  # fmt: skip
    yield Decided(counts=losses)


def shard(some: Neighbourhood, *, judge: Judge | None, holds_many: Callable[[str], bool]) -> Decided:
    """What belongs together in one shard, in whatever process this is."""
    rows, vectors = some.read(_COLUMNS)
    scale = Scale(some.embedder, Lake.open(some.settings))
    parents = _parents(some, rows)
    return composed(rows, vectors, scale, parents, namespace=some.namespace, judge=judge, holds_many=holds_many)


def _parents(some: Neighbourhood, rows: Rows) -> Mapping[str, Row]:
    """The memories that composed ones were made of, by id."""
    table = rows.table.select(["tags", "derived_from"]).to_pylist()
    wanted = dict.fromkeys(id for row in table if COMPOSED in (row["tags"] or ()) for id in row["derived_from"] or ())
    if not wanted:
        return {}
    names = [name for name in _COLUMNS if name != "vector"]
    return {row["id"]: row for row in some.tables().rows(some.namespace, wanted, names).to_pylist()}


def composed(
    rows: Sequence[Row],
    vectors: npt.NDArray[np.float32],
    scale: Scale,
    parents: Mapping[str, Row],
    *,
    namespace: str,
    judge: Judge | None = None,
    holds_many: Callable[[str], bool] = lambda attribute: False,
) -> Decided:
    """Decide on memories of one kind: each cluster becomes a new memory, its members are retired.

    In a cluster every statement complements every other one. A statement that a later one could end by its attribute
    stays by itself, else a changed value would leave an old one inside a composed text. `parents`, by id, are the
    memories that composed ones were made of.
    """
    decided = Decided()
    free = [bool(row["subject"]) and (not row["attribute"] or holds_many(row["attribute"])) for row in rows]
    fits: dict[int, dict[int, Met]] = defaultdict(dict)
    for met in meet(rows, vectors, scale, what="topic", judge=judge, holds_many=holds_many):
        if met.verdict.type in _FIT and free[met.first] and free[met.second]:
            fits[met.first][met.second] = met
            fits[met.second][met.first] = met
    gone: set[int] = set()
    for start in sorted(fits, key=lambda place: (rows[place]["valid_from"], rows[place]["id"])):
        if start in gone:
            continue
        cluster = _cluster(start, fits, gone, rows, parents)
        if len(cluster) < 2 or not _says_more(cluster, fits):
            continue
        act = _act([rows[place] for place in cluster], parents, namespace)
        if act:
            gone.update(cluster)
            decided.acts.append(act)
    decided.counts["kept"] = len(rows) - len(gone)
    decided.counts["retired"] = len(gone)
    return decided


def _cluster(
    start: int, fits: Mapping[int, Mapping[int, Met]], gone: set[int], rows: Sequence[Row], parents: Mapping[str, Row]
) -> list[int]:
    """Rows that all fit each other, begun from one, within what a memory may hold."""
    cluster = [start]
    for other in sorted(fits[start], key=lambda place: (rows[place]["valid_from"], rows[place]["id"])):
        if other in gone or any(other not in fits[member] for member in cluster):
            continue
        leaves = _leaves([rows[place] for place in (*cluster, other)], parents)
        if leaves and len(leaves) <= MOST_PARENTS and len(compose([row["text"] for row in leaves])) <= MOST_CHARACTERS:
            cluster.append(other)
    return cluster


def _says_more(cluster: Sequence[int], fits: Mapping[int, Mapping[int, Met]]) -> bool:
    """Whether something in it complements something else; what only repeats is left to dedup."""
    return any(fits[one][two].verdict.type == "complements" for one in cluster for two in cluster if one < two)


def _leaves(rows: Sequence[Row], parents: Mapping[str, Row]) -> list[Row]:
    """What was said, oldest first: a composed memory is replaced by what it was made of. Empty if some is missing."""
    leaves: dict[str, Row] = {}
    for row in rows:
        if COMPOSED not in (row["tags"] or ()):
            leaves[row["id"]] = row
            continue
        for id in row["derived_from"]:
            if id not in parents:
                return []
            leaves[id] = parents[id]
    return sorted(leaves.values(), key=lambda row: (row["valid_from"], row["id"]))


def compose(texts: Sequence[str]) -> str:
    """One text that says all that the texts say, each in its own words; what another one contains is said once.

    >>> compose(["Likes e-mail.", "no phone calls", "Likes e-mail"])
    'Likes e-mail; no phone calls.'
    >>> compose(["喜欢邮件联系。", "不要打电话"])
    '喜欢邮件联系；不要打电话。'
    """
    kept: list[str] = []
    for text in texts:
        bare = text.strip().rstrip(".;。；")
        if not any(normal_text(bare) == normal_text(other) for other in kept):
            kept.append(bare)
    cjk = is_cjk("".join(kept))
    return ("；" if cjk else "; ").join(kept) + ("" if kept and kept[-1][-1:] in "!?！？" else "。" if cjk else ".")


def _act(rows: Sequence[Row], parents: Mapping[str, Row], namespace: str) -> list[Row]:
    leaves = _leaves(rows, parents)
    text = compose([row["text"] for row in leaves])
    id = derive_id(namespace, "mem", "composed", *(row["id"] for row in leaves))
    last = leaves[-1]
    evidence = {(item["trace_id"], item["event_id"]): item for row in leaves for item in row["evidence"] or ()}
    new: dict[str, Any] = {
        "decision": "add",
        "id": id,
        "kind": last["kind"],
        "text": text,
        "subject": last["subject"],
        "entities": _union(leaves, "entities"),
        "tags": [*(tag for tag in _union(leaves, "tags") if tag != COMPOSED), COMPOSED],
        "said_by": _same(leaves, "said_by") or "reflection",
        "task_type": _same(leaves, "task_type"),
        "tool": _same(leaves, "tool"),
        "agent_role": _same(leaves, "agent_role"),
        "about": _same(leaves, "about"),
        "language": _same(leaves, "language"),
        "quality": max((row["quality"] or 0 for row in leaves), default=0) or None,
        "importance": max(row["importance"] or 0.0 for row in leaves),
        "confidence": min(row["confidence"] or 0.0 for row in leaves),
        "evidence": list(evidence.values()),
        "derived_from": [row["id"] for row in leaves],
        "reflector": "merge@1",
        "state": "active",
        "strength": 1.0,
        "valid_from": last["valid_from"],
        "valid_to": END_OF_TIME,
        "superseded_by": "",
        "reason": f"says what {len(leaves)} memories say about one thing",
    }
    retired = [
        {"decision": "merge", "id": row["id"], "state": "merged", "superseded_by": id, "reason": f"is part of {id}"}
        for row in rows
    ]
    return [new, *retired]


def _union(rows: Sequence[Row], column: str) -> list[str]:
    return list(dict.fromkeys(item for row in rows for item in row[column] or ()))


def _same(rows: Sequence[Row], column: str) -> str:
    """What all of them have in a column; empty when they differ."""
    values = {row[column] or "" for row in rows}
    return values.pop() if len(values) == 1 else ""
