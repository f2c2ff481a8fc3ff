"""Two generations side by side: memories gained, lost and changed, what they cost, and what real queries find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ..clock import Clock
from ..embedders import embedder_named
from ..files.lake import Lake
from ..recall.predicates import READABLE, Filter
from ..records.runs import read_run
from ..schema import STATE
from ..settings import Settings
from .generation_check import Replayed, last_queries, replay
from .generations import catch_up, open_tables
from .registry import Generation, Known
from .tables import Tables

if TYPE_CHECKING:
    import pyarrow as pa

#: Memories of each sort that are named; all are counted.
NAMED = 200
_COMPARED = [column.name for column in STATE]
_SHOWN = ["id", "kind", "text", "subject", "confidence"]


@dataclass(frozen=True)
class Side:
    """One of the two."""

    number: int
    state: str
    embedder: str
    reason: str
    #: Memories that can be recalled, by kind
    memories: dict[str, int]
    #: What made them, and what that cost: runs, calls, tokens in and out, micro-dollars
    reflectors: list[str]
    cost: dict[str, int]


@dataclass
class Diff:
    """What a search could find in one generation and not in the other."""

    before: Side
    after: Side
    #: How many memories of each kind are only in the second, only in the first, in both and different
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    #: Of each of these `NAMED` at most, by namespace and id
    gained: list[dict[str, Any]] = field(default_factory=list)
    lost: list[dict[str, Any]] = field(default_factory=list)
    #: With what was and what is, by column
    changed: list[dict[str, Any]] = field(default_factory=list)
    replayed: list[Replayed] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """The same as plain values."""
        found = asdict(self)
        found["overlap"] = round(sum(one.overlap for one in self.replayed) / max(len(self.replayed), 1), 4)
        found["changed_firsts"] = sum(one.first_before != one.first_after for one in self.replayed)
        return found


def diff(
    lake: Lake,
    settings: Settings,
    clock: Clock,
    before: tuple[Known, Lake],
    after: tuple[Known, Lake],
    *,
    queries: int = 50,
) -> Diff:
    """Compare two generations, each with the lake that it shows: the branch of a re-reflection, else this one. Both
    are brought up to their logs first.

    `queries`: how many of the last real ones are asked of both.
    """
    sides = (before, after)
    tables = []
    for known, own in sides:
        tables.append(open_tables(settings, known.claim))
        catch_up(own, tables[-1], embedder_named(known.claim.embedder, settings))
    namespaces = lake.namespaces()
    live = [{name: _live(one, name) for name in namespaces} for one in tables]
    told = [_side(known, own, rows) for (known, own), rows in zip(sides, live, strict=True)]
    found = Diff(told[0], told[1])
    counts: dict[str, Counter[str]] = {name: Counter() for name in ("gained", "lost", "changed")}
    for name in namespaces:
        one, two = live[0][name], live[1][name]
        found.lost += _only(name, one, two, tables[0], counts["lost"])
        found.gained += _only(name, two, one, tables[1], counts["gained"])
        found.changed += _changed(name, one, two, tables[1], counts["changed"])
    for some in (found.lost, found.gained, found.changed):
        del some[NAMED:]
    found.counts = {name: dict(sorted(count.items())) for name, count in counts.items()}
    if queries:
        asked = {name: last_queries(lake, name, queries) for name in namespaces}
        old, new = ((own, _generation(known)) for known, own in sides)
        found.replayed = replay(settings, clock, old, new, asked)
    return found


def _live(tables: Tables, namespace: str) -> pa.Table:
    where = Filter((namespace,), states=READABLE)
    return tables.scan(where, ["id", "kind", "run", *_COMPARED])


def _side(known: Known, lake: Lake, live: dict[str, pa.Table]) -> Side:
    kinds: Counter[str] = Counter()
    cost: Counter[str] = Counter(runs=0, calls=0, input_tokens=0, output_tokens=0, cost=0)
    reflectors: dict[str, None] = {}
    for namespace, rows in live.items():
        kinds.update(rows.column("kind").to_pylist())
        for id in sorted({id for id in rows.column("run").to_pylist() if id}):
            if (run := read_run(lake, namespace, id)) is None:
                continue
            cost.update(
                runs=1, calls=run.counts.get("calls", 0), input_tokens=run.input_tokens,
                output_tokens=run.output_tokens, cost=run.cost,
            )  # fmt: skip
            if run.reflector:
                reflectors[run.reflector] = None
    claim = known.claim
    return Side(
        claim.number, known.state, claim.embedder, claim.reason, dict(sorted(kinds.items())), list(reflectors),
        dict(cost),
    )  # fmt: skip


def _only(namespace: str, one: pa.Table, two: pa.Table, tables: Tables, counts: Counter[str]) -> list[dict[str, Any]]:
    """Memories of the first that the second lacks."""
    import pyarrow.compute as pc

    mine = one.filter(pc.invert(pc.is_in(one.column("id"), value_set=two.column("id").combine_chunks())))
    counts.update(mine.column("kind").to_pylist())
    return _rows(namespace, mine.column("id").to_pylist(), tables)


def _changed(
    namespace: str, one: pa.Table, two: pa.Table, tables: Tables, counts: Counter[str]
) -> list[dict[str, Any]]:
    """Memories that both have, and that are not the same in both."""
    import pyarrow.compute as pc

    both = pc.index_in(two.column("id"), value_set=one.column("id").combine_chunks())
    now = two.filter(pc.is_valid(both)).select(["id", "kind", *_COMPARED])
    was = one.take(both.drop_null()).select(_COMPARED)
    differs: dict[str, dict[str, tuple[Any, Any]]] = {}
    ids, kinds = now.column("id").to_pylist(), now.column("kind").to_pylist()
    for name in _COMPARED:
        pairs = zip(was.column(name).to_pylist(), now.column(name).to_pylist(), strict=True)
        for place, (old, new) in enumerate(pairs):
            if old != new:
                differs.setdefault(ids[place], {})[name] = old, new
    counts.update(kind for id, kind in zip(ids, kinds, strict=True) if id in differs)
    return [{**row, "columns": differs[row["id"]]} for row in _rows(namespace, list(differs), tables)]


def _rows(namespace: str, ids: Sequence[str], tables: Tables) -> list[dict[str, Any]]:
    rows = tables.rows(namespace, ids[:NAMED], _SHOWN).to_pylist()
    return [{"namespace": namespace, **row} for row in rows]


def _generation(known: Known) -> Generation:
    claim = known.claim
    return Generation(claim.number, claim.name, claim.embedder, claim.dim, claim.claimed_at, claim.reason)
