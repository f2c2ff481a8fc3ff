"""The decision log of a namespace, and how acts get their place in it.

`ns=<ns>/log/<number>.parquet`, numbered from 1 without a gap, never deleted. Rows carry `seq`, their place in the
namespace's log. A number is claimed only by *create*, so two settlers can never both write it; the one that lost
reads what the winner wrote and starts over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..errors import LakeError
from ..files.lake import Lake, namespace_path
from ..records.purged import Blocked, blocked, without_content
from ..schema import ADDING, STATE, arrow_schema, conform
from ..telemetry.otel import count
from .inbox import inbox_paths
from .placed import Placed

if TYPE_CHECKING:
    import pyarrow as pa

#: Inbox files whose acts come to lie in one file of the log.
SETTLE_FILES = 1000
#: Rows of the inbox that are held at once, unless one file has more, and compared with the log together.
SETTLE_ROWS = 20_000

_STATE = tuple(column.name for column in STATE)
#: Columns that say what a row of the log is about and what it sets.
KEYS = ["act", "seq", "run", "id", "decision", "verdict", *_STATE]
#: Files of the log whose keys are kept together in one file of `log-keys`.
KEY_BLOCK = 64
#: Decisions that are about no memory that must exist.
_FREE = {*ADDING, "refuse", "cool"}


def log_path(namespace: str, number: int) -> str:
    """The path of a file of the log.

    >>> log_path("acme", 7)
    'ns=acme/log/000000000007.parquet'
    """
    return namespace_path(namespace, "log", f"{number:012d}.parquet")


def log_paths(lake: Lake, namespace: str, after: int = 0) -> list[str]:
    """The files of the log with a number above `after`, in order. Raises `LakeError` where one is missing."""
    paths = lake.names(namespace_path(namespace, "log"), log_path(namespace, after) if after else "")
    for number, path in enumerate(paths, after + 1):
        if path != log_path(namespace, number):
            raise LakeError(
                f"the log of {namespace} lacks {log_path(namespace, number)}: bring it back from a backup; "
                "nothing after it can be trusted"
            )
    return paths


def read_log(lake: Lake, namespace: str, after_seq: int = 0, columns: list[str] | None = None) -> pa.Table:
    """Rows of the log with a `seq` above `after_seq`, in order, refused ones included.

    Files are read from the newest back until one lies wholly before: who is nearly up to date reads little.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = None if columns is None else list(dict.fromkeys(["seq", *columns]))
    paths = log_paths(lake, namespace)
    tables: list[pa.Table] = []
    if after_seq == 0:
        tables = [rows for _, rows in lake.read_tables(paths, wanted)]
    else:
        for path in reversed(paths):
            rows = lake.read_table(path, wanted)
            newer = rows.filter(pc.greater(rows.column("seq"), after_seq))
            if newer.num_rows:
                tables.insert(0, newer)
            if newer.num_rows < rows.num_rows or (rows.num_rows and rows.column("seq")[0].as_py() == after_seq + 1):
                break
    schema = arrow_schema("log")
    if wanted is not None:
        schema = pa.schema([schema.field(name) for name in wanted])
    if not tables:
        return schema.empty_table()
    whole = pa.concat_tables(tables, promote_options="default")
    return whole.select(schema.names).cast(schema) if wanted else conform(whole, "log")


def read_keys(lake: Lake, namespace: str, columns: Sequence[str] = tuple(KEYS)) -> Iterator[pa.Table]:
    """What each row of the log is about and what it sets (some of the columns `KEYS`), in order, in few reads.

    The keys of every `KEY_BLOCK` files of the log are kept in one file, which whoever misses it first makes: the same
    bytes whoever does, and nothing but a shortcut.
    """
    import pyarrow as pa

    paths = log_paths(lake, namespace)
    kept = set(lake.names(namespace_path(namespace, "log-keys")))
    blocks = []
    for end in range(KEY_BLOCK, len(paths) + 1, KEY_BLOCK):
        block = namespace_path(namespace, "log-keys", f"{end:012d}.parquet")
        blocks.append(block)
        if block not in kept:
            tables = [rows.select(KEYS) for _, rows in lake.read_tables(paths[end - KEY_BLOCK : end], KEYS)]
            lake.create_table(block, pa.concat_tables(tables))
    names = list(columns)
    for block in blocks:  # one by one: they are big
        yield lake.read_table(block, names).select(names)
    for _, rows in lake.read_tables(paths[len(blocks) * KEY_BLOCK :], names):
        yield rows.select(names)


def head(lake: Lake, namespace: str) -> tuple[int, int]:
    """The number of the newest file of the log and the `seq` of its last row; (0, 0) when there is none."""
    paths = log_paths(lake, namespace)
    if not paths:
        return 0, 0
    return len(paths), _last_seq(lake.read_table(paths[-1], ["seq"]))


def _last_seq(rows: pa.Table) -> int:
    return int(rows.column("seq")[-1].as_py())


@dataclass
class SettleReport:
    """What one settle did. `accepted + refused + dropped` is the number of acts that it found."""

    #: Acts that were accepted
    accepted: list[str] = field(default_factory=list)
    #: Acts that were refused, and why
    refused: dict[str, str] = field(default_factory=dict)
    #: Acts that were in the log already
    dropped: list[str] = field(default_factory=list)
    #: Inbox files that can't be read; they stay where they are
    damaged: list[str] = field(default_factory=list)
    #: `seq` of the last row of the log
    seq: int = 0

    def add(self, other: SettleReport) -> None:
        """Count another report in."""
        self.accepted += other.accepted
        self.refused |= other.refused
        self.dropped += other.dropped
        self.damaged += other.damaged
        self.seq = other.seq


def settle(lake: Lake, namespace: str) -> SettleReport:
    """Give every act that is in the inbox now its place in the log, or refuse it with a reason. Any process may, at
    any time. What is written while it works is left to the next one, so that busy writers can't keep it for ever.

    Nothing is lost or doubled by a crash: before the log file is created nothing has happened, and what is left in
    the inbox after it is recognised by its act. Losing the race for a number means starting over.
    """
    # User acts first, so that what a user said wins over what a run proposes in the same breath.
    waiting = sorted(inbox_paths(lake, namespace), key=lambda path: (not path.rsplit("/", 1)[1].startswith("u-"), path))
    report = SettleReport(seq=head(lake, namespace)[1])
    placed = Placed()
    for files in _portions(lake, waiting, report.damaged):
        while files := _settle_some(lake, namespace, files, placed, report):
            pass  # another settler took a number: what it wrote is read, and the rest is compared anew
    return report


_Files = list[tuple[str, "pa.Table"]]


def _portions(lake: Lake, paths: list[str], damaged: list[str]) -> Iterator[_Files]:
    """Files of the inbox with their rows, about `SETTLE_ROWS` rows at a time."""
    files: _Files = []
    size = 0
    for path, rows in lake.read_tables(paths, damaged=damaged):
        files.append((path, rows))
        size += rows.num_rows
        if size >= SETTLE_ROWS:
            yield _adds_first(files)
            files, size = [], 0
    if files:
        yield _adds_first(files)


def _adds_first(files: _Files) -> _Files:
    """Files of users in which all rows add before those that change, since they come to lie in several of the log."""

    def late(file: tuple[str, pa.Table]) -> int:
        path, rows = file
        return 2 * ("/p-" in path) + (not set(rows.column("decision").unique().to_pylist()) <= set(ADDING))

    return sorted(files, key=late) if len(files) > SETTLE_FILES else files


def _settle_some(lake: Lake, namespace: str, files: _Files, placed: Placed, report: SettleReport) -> _Files:
    """Settle files, `SETTLE_FILES` to a file of the log; return those that are left if another settler came between."""
    import pyarrow as pa

    number, seq = head(lake, namespace)
    known = _Known(lake, namespace, pa.concat_tables([rows.select(["id", "act"]) for _, rows in files]), placed)
    for start in range(0, len(files), SETTLE_FILES):
        some = files[start : start + SETTLE_FILES]
        step = SettleReport(seq=seq)
        inbox = pa.concat_tables([rows for _, rows in some], promote_options="default")
        rows = _settled(known, conform(inbox, "log"), seq, step)
        if rows.num_rows:
            if not lake.create_table(log_path(namespace, number + 1), rows):
                return files[start:]
            known.keep()
            number, seq = number + 1, seq + rows.num_rows
            step.seq = seq
        lake.delete(path for path, _ in some)
        report.add(step)
        count("hindlake.decisions", len(step.accepted), {"verdict": "accepted"})
        count("hindlake.decisions", len(step.refused), {"verdict": "refused"})
    return []


def _settled(known: _Known, inbox: pa.Table, seq: int, report: SettleReport) -> pa.Table:
    """Rows of the inbox as they come into the log after a place, with their verdicts, those that are there left out."""
    import pyarrow as pa

    verdicts, order = _judge(known, inbox, seq, report)
    rows = inbox.take(pa.array(order, pa.int64()))
    acts = rows.column("act").to_pylist()
    numbers = pa.array(range(seq + 1, seq + 1 + len(order)), pa.int64())
    said = rows.column("reason").to_pylist()
    reasons = [verdicts[act] or reason or "" for act, reason in zip(acts, said, strict=True)]
    rows = _with(rows, "seq", numbers)
    verdict = pa.array(["refused" if verdicts[act] else "accepted" for act in acts], pa.string())
    rows = _with(rows, "verdict", verdict)
    # What is refused because it was purged must not lie in the log all the same.
    rows = without_content(rows, pa.array([act in known.unsayable for act in acts], pa.bool_()))
    return _with(rows, "reason", pa.array(reasons, pa.string()))


def _with(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    at = rows.schema.get_field_index(name)
    return rows.set_column(at, rows.schema.field(at), values)


class _Known:
    """What the log says about the acts and memories that an inbox names."""

    def __init__(self, lake: Lake, namespace: str, inbox: pa.Table, placed: Placed) -> None:
        import pyarrow.compute as pc

        self.acts: set[str] = set()
        self.added: set[str] = set()
        self.purged: set[str] = set()
        self.changed: dict[str, dict[str, int]] = defaultdict(dict)
        #: The last place at which each run made a memory active
        self.activated: dict[str, int] = {}
        #: The run, and what it had read, of the rows that are about to get their places
        self._settling: dict[int, tuple[str, int | None]] = {}
        self._placed = placed
        self._blocked: Callable[[], Blocked] = lambda: blocked(lake, namespace)
        #: Acts that are refused because they say what was purged
        self.unsayable: set[str] = set()
        ids, acts = pc.unique(inbox.column("id")), pc.unique(inbox.column("act"))
        for raw in read_keys(lake, namespace):
            self._note_activations(raw)
            hit = pc.or_(pc.is_in(raw.column("id"), value_set=ids), pc.is_in(raw.column("act"), value_set=acts))
            rows: pa.Table = raw.filter(hit)
            for row in rows.to_pylist():
                self.acts.add(row["act"])
                if row["verdict"] == "accepted":
                    self.note(row, row["seq"])

    @cached_property
    def blocked(self) -> Blocked:
        """What was purged, read when it is first asked."""
        return self._blocked()

    def _note_activations(self, rows: pa.Table) -> None:
        import pyarrow.compute as pc

        accepted = pc.equal(rows.column("verdict"), "accepted")
        active = rows.filter(pc.and_(accepted, pc.equal(rows.column("decision"), "activate")))
        last = active.group_by("run").aggregate([("seq", "max")])
        for row in last.to_pylist():
            self.activated[row["run"] or ""] = row["seq_max"]

    def settled(self, row: dict[str, Any], seq: int) -> None:
        """Take a row into account that this settle accepts."""
        self._settling[seq] = (row["run"] or "", row["read_to"])
        self.note(row, seq)

    def keep(self) -> None:
        """The rows that were about to get their places have them."""
        for seq, own in self._settling.items():
            self._placed.add(seq, own)
        self._settling = {}

    def late(self, row: dict[str, Any]) -> list[str]:
        """Columns that a proposal sets and that changed since its proposer had read, but not by that proposer itself
        in the same breath.
        """
        changed = self.changed.get(row["id"], {})
        own = (row["run"] or "", row["read_to"])
        return [
            name
            for name in _STATE
            if row[name] is not None
            and changed.get(name, 0) > row["read_to"]
            and (self._settling.get(changed[name]) or self._placed.get(changed[name])) != own
        ]

    def overtaken(self, row: dict[str, Any]) -> bool:
        """Whether another run made a memory active that the proposer could not know."""
        own = row["run"] or ""
        return any(run != own and seq > row["read_to"] for run, seq in self.activated.items())

    def note(self, row: dict[str, Any], seq: int) -> None:
        """Take an accepted row into account."""
        if row["decision"] == "activate":
            self.activated[row["run"] or ""] = seq
        if row["decision"] in ADDING:
            self.added.add(row["id"])
        elif row["decision"] == "purge":
            self.purged.add(row["id"])
        if row["decision"] != "refuse":
            self.changed[row["id"]].update({name: seq for name in _STATE if row.get(name) is not None})


def _judge(known: _Known, inbox: pa.Table, seq: int, report: SettleReport) -> tuple[dict[str, str], list[int]]:
    """The reason for which each act is refused ("" if it is accepted), and the rows to log, in order."""
    rows = inbox.select([*KEYS, "read_to", "evidence"]).to_pylist()
    by_act: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        by_act.setdefault(row["act"], []).append(place)
    verdicts: dict[str, str] = {}
    order: list[int] = []
    for act in _in_order(by_act, rows, known.added):
        places = by_act[act]
        if act in known.acts:
            report.dropped.append(act)
            continue
        reason = _objection([rows[place] for place in places], known)
        verdicts[act] = reason
        if reason:
            report.refused[act] = reason
        else:
            report.accepted.append(act)
        for place in places:
            order.append(place)
            if not reason:
                known.settled(rows[place], seq + len(order))
    return verdicts, order


def _in_order(by_act: dict[str, list[int]], rows: list[dict[str, Any]], known: set[str]) -> list[str]:
    """Acts in the order found, but for one that rests on what another adds: it comes after that, whatever its name."""
    adder: dict[str, str] = {}
    for row in rows:
        if row["decision"] in ADDING and row["id"] not in known:
            adder.setdefault(row["id"], row["act"])
    ordered: dict[str, None] = {}
    for act in by_act:
        waiting = [act]
        while waiting:
            some = [rows[place] for place in by_act[waiting[-1]]]
            own = {row["id"] for row in some if row["decision"] in ADDING}
            needs = {adder[row["id"]] for row in some if row["id"] in adder and row["id"] not in own}
            if missing := sorted(needs.difference(ordered, waiting)):
                waiting += missing
            else:
                ordered[waiting.pop()] = None
    return list(ordered)


def _objection(rows: Sequence[dict[str, Any]], known: _Known) -> str:
    """Why an act must be refused as a whole; empty if nothing speaks against it."""
    own = {row["id"] for row in rows if row["decision"] in ADDING}
    for row in rows:
        decision, id, read_to = row["decision"], row["id"], row["read_to"]
        if id in known.purged or (decision in ADDING and id in known.blocked.ids):
            known.unsayable.add(row["act"])
            return f"{id} was purged"
        if decision in (*ADDING, "refuse") and known.blocked.rests_on_it_alone(row["evidence"]):
            known.unsayable.add(row["act"])
            return f"what {id} rests on was purged"
        if decision == "add" and id in known.added:
            return f"{id} exists already"
        if decision not in _FREE and id not in known.added and id not in own:
            return f"{id} does not exist"
        if read_to is None:
            continue
        # An alias may be said again, unless somebody has said otherwise since.
        if (decision not in _FREE or decision == "alias") and (late := known.late(row)):
            return f"{', '.join(late)} of {id} changed after the proposer had read"
        if decision == "activate" and known.overtaken(row):
            return f"another run made memories active after the proposer of {id} had read"
    return ""
