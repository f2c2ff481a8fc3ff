"""The job `promote`: what distinct traces confirm rises to knowledge (R4, R19).

A memory is confirmed by each trace that shows it: those of its own evidence, and those of the memories that were
merged into it. Being said twice in one trace is being said once, and what only a tool or a web page says is not
confirmed by being read again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..memory_store.clock import Clock
from ..memory_store.files.lake import Lake
from ..memory_store.history.inbox import Row
from ..memory_store.settings import Settings
from .deciding.decide import Decided, DecideReport, View, decide

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Places = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]

#: Columns of the store that promoting looks at.
COLUMNS = ("id", "state", "confidence", "superseded_by", "said_by", "tags")
#: Kinds that can rise.
KINDS = ("fact", "preference", "rule", "experience")
#: Who can't confirm by being read again.
_UNTRUSTED = ("tool", "web")
#: Memories that count how often they were shown themselves.
_COUNTS_ITSELF = "pattern"
#: A smaller gain in confidence is no decision.
_LEAST_GAIN = 0.01
#: States of memories whose evidence may count.
_STATES = ("active", "merged", "superseded")
#: Decisions that are held as Python values at once.
_BATCH_ROWS = 20_000


def promote(
    lake: Lake,
    settings: Settings,
    clock: Clock,
    *,
    version: str,
    namespaces: Sequence[str] | None = None,
    dry_run: bool = False,
) -> DecideReport:
    """Raise the confidence of what enough traces confirm. Raises when the lake or the store fail."""
    return decide(
        lake, settings, clock, rule, job="promote", version=version, namespaces=namespaces, dry_run=dry_run
    )  # fmt: skip


def rule(view: View) -> Iterator[Decided]:
    """What the memories of one namespace deserve. Evidence is read a kind at a time, and of it only traces are kept."""
    import pyarrow as pa

    memories = view.memories(COLUMNS, kinds=KINDS, states=_STATES)
    shown = [traces_of(view.memories(["id", "evidence"], kinds=(kind,), states=_STATES)) for kind in KINDS]
    yield from promotions(memories, pa.concat_tables(shown), view.settings.jobs.promote_traces)


def promotions(memories: pa.Table, shown: pa.Table, least: int) -> Iterator[Decided]:
    """Decide on memories (columns `COLUMNS`): each active one that at least `least` traces confirm is promoted.

    `shown` are the traces of the memories, as `traces_of` gives them.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    traces = confirmations(memories, shown)
    active = _flags(pc.equal(memories.column("state"), "active"))
    untrusted = active & _flags(pc.is_in(memories.column("said_by"), value_set=pa.array(_UNTRUSTED)))
    patterns = active & ~untrusted & _counting_itself(memories.column("tags"))
    asked = active & ~untrusted & ~patterns
    sure = np.array([confirmed(count) for count in range(int(traces.max(initial=0)) + 1)])[traces]
    known = sure < pc.fill_null(memories.column("confidence"), 0.0).to_numpy() + _LEAST_GAIN
    counts = {
        "untrusted": untrusted, "patterns": patterns, "unconfirmed": asked & (traces < least),
        "known": asked & (traces >= least) & known,
    }  # fmt: skip
    yield Decided(counts=+Counter({name: int(rows.sum()) for name, rows in counts.items()}))
    places = np.flatnonzero(asked & (traces >= least) & ~known)
    for start in range(0, len(places), _BATCH_ROWS):
        some = places[start : start + _BATCH_ROWS]
        ids = memories.column("id").take(pa.array(some)).to_pylist()
        yield Decided([[_promoted(id, count)] for id, count in zip(ids, traces[some].tolist(), strict=True)])


def _promoted(id: str, traces: int) -> Row:
    return {
        "decision": "promote", "id": id, "confidence": confirmed(traces), "reason": f"{traces} traces confirm it",
    }  # fmt: skip


def confirmed(traces: int) -> float:
    """Confidence in what this many traces show and none denies: Laplace's rule of succession, (n + 1) / (n + 2).

    >>> confirmed(2), confirmed(8)
    (0.75, 0.9)
    """
    return (traces + 1) / (traces + 2)


def traces_of(memories: pa.Table) -> pa.Table:
    """The traces that memories (columns `id` and `evidence`) rest on, columns `id` and `trace_id`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = [pa.table({"id": pa.array([], pa.string()), "trace_id": pa.array([], pa.string())})]
    for batch in memories.select(["id", "evidence"]).to_batches():
        evidence = batch.column("evidence")
        trace = pc.struct_field(pc.list_flatten(evidence), "trace_id")
        rows = pa.table({"id": batch.column("id").take(pc.list_parent_indices(evidence)), "trace_id": trace})
        found.append(rows.filter(pc.not_equal(pc.fill_null(trace, ""), "")))
    return pa.concat_tables(found)


def confirmations(memories: pa.Table, shown: pa.Table) -> Places:
    """How many distinct traces show each memory (columns `id`, `state` and `superseded_by`), those of memories that
    were merged into it included; 0 for one that is not active. `shown` as in `promotions`.
    """
    import numpy as np
    import pyarrow.compute as pc

    ids = memories.column("id").combine_chunks()
    place = pc.index_in(shown.column("id").combine_chunks(), value_set=ids)
    trace = shown.column("trace_id").combine_chunks().dictionary_encode()
    heirs = np.append(_heirs(memories), -1)
    by = heirs[pc.fill_null(place, -1).to_numpy(zero_copy_only=False)]
    numbers = by * len(trace.dictionary) + trace.indices.to_numpy(zero_copy_only=False)
    distinct = np.unique(numbers[by >= 0]) // max(len(trace.dictionary), 1)
    return np.bincount(distinct, minlength=len(ids)).astype(np.int64)


def _heirs(memories: pa.Table) -> Places:
    """For each memory the place of the active one that it was merged into, its own if it is active, else -1."""
    import numpy as np
    import pyarrow.compute as pc

    count = memories.num_rows
    ids = memories.column("id").combine_chunks()
    merged = _flags(pc.equal(memories.column("state"), "merged"))
    into = pc.index_in(memories.column("superseded_by").combine_chunks(), value_set=ids)
    into = pc.fill_null(into, count).to_numpy(zero_copy_only=False).astype(np.int64)
    # One place more, for what is not there. Each step doubles how far a row looks, so a ring ends too.
    heirs = np.append(np.where(merged, into, np.arange(count)), count)
    for _ in range(count.bit_length()):
        heirs = heirs[heirs]
    active = np.append(_flags(pc.equal(memories.column("state"), "active")), False)
    return np.where(active[heirs], heirs, -1)[:count]


def _counting_itself(tags: pa.ChunkedArray) -> Flags:
    import numpy as np
    import pyarrow.compute as pc

    lists = tags.combine_chunks()
    found = np.zeros(len(lists), bool)
    is_it = pc.equal(pc.list_flatten(lists), _COUNTS_ITSELF)
    found[pc.list_parent_indices(lists).filter(is_it).to_numpy(zero_copy_only=False)] = True
    return found


def _flags(values: pa.ChunkedArray) -> Flags:
    """A column of truths; what is null is not true."""
    import numpy as np
    import pyarrow.compute as pc

    return np.asarray(pc.fill_null(values, False).to_numpy(), bool)
