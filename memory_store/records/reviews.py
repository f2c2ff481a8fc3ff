"""Reviews: samples of what was reflected, and what people said of it. Append-only; the last verdict of a memory holds.

ns=<namespace>/reviews/sample-<id>.parquet   the memories of one sample, drawn once
ns=<namespace>/reviews/<id>.parquet          verdicts that were given together
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ..files.lake import Lake, namespace_path
from ..history.inbox import Row
from ..ids import derive_id
from ..schema import conform, table_of

#: What a person can say of a memory.
VERDICTS = ("right", "wrong", "unsure")
#: The mark of a memory that is in a sample, and of which nothing was said yet.
DRAWN = "drawn"
#: The quantile of 95 %.
_Z = 1.96


@dataclass(frozen=True)
class Verdict:
    """What a person says of a memory."""

    memory_id: str
    #: right · wrong · unsure
    verdict: str
    #: Why
    reason: str = ""
    #: How it should have been worded
    better: str = ""


def read_reviews(lake: Lake, namespace: str) -> list[Row]:
    """Every row of the table `reviews`, in the order in which they were written; the same row is there once."""
    rows: dict[str, Row] = {}
    for _, table in lake.read_tables(lake.names(namespace_path(namespace, "reviews"))):
        rows.update({row["review_id"]: row for row in conform(table, "reviews").to_pylist()})
    return sorted(rows.values(), key=lambda row: (row["at"], row["review_id"]))


def last_verdicts(reviews: Iterable[Row]) -> dict[str, Row]:
    """The verdict that holds for each memory that has one, by memory id, of rows as `read_reviews` gives them."""
    return {row["memory_id"]: row for row in reviews if row["verdict"] != DRAWN}


def read_sample(lake: Lake, namespace: str, sample: str, size: int) -> list[str]:
    """Ids of the memories of a sample that was fixed, in its order; none if it was not."""
    try:
        rows = lake.read_table(_sample_path(namespace, sample, size), ["memory_id"])
    except FileNotFoundError:
        return []
    ids: list[str] = rows.column("memory_id").to_pylist()
    return ids


def fix_sample(lake: Lake, namespace: str, sample: str, size: int, memories: Sequence[Row], at: datetime) -> list[str]:
    """Fix a sample: the rows of the log that added its memories, `size` of them at most. Return the ids that hold.

    A sample of that name and size that was fixed before stays as it is. One without memories is not fixed.
    """
    if not memories:
        return []
    rows = [
        {
            **_about(memory),
            "namespace": namespace,
            "review_id": derive_id(namespace, "review", sample, memory["id"], DRAWN),
            "at": at,
            "sample": sample,
            "verdict": DRAWN,
        }
        for memory in memories
    ]
    lake.create_table(_sample_path(namespace, sample, size), table_of(rows, "reviews"))
    return read_sample(lake, namespace, sample, size)


def write_verdicts(
    lake: Lake, namespace: str, given: Sequence[tuple[Verdict, Row]], at: datetime, sample: str = ""
) -> list[Row]:
    """Keep verdicts, each with the row of the log that added its memory; return the rows that are new.

    Of several verdicts on one memory the last one is kept. One that says what holds already, word for word, is not
    written again, so that the same file of verdicts twice is one.
    """
    before = last_verdicts(read_reviews(lake, namespace))
    rows: list[Row] = []
    for verdict, memory in {verdict.memory_id: (verdict, memory) for verdict, memory in given}.values():
        said = (verdict.verdict, verdict.reason, verdict.better)
        last = before.get(verdict.memory_id)
        if last and said == (last["verdict"], last["reason"], last["better"]):
            continue
        # A clock that is behind must not make a new verdict older than the one that it follows.
        later = max(at, last["at"] + timedelta(microseconds=1)) if last else at
        follows = last["review_id"] if last else ""
        rows.append(
            {
                **_about(memory),
                "namespace": namespace,
                "review_id": derive_id(namespace, "review", verdict.memory_id, *said, follows),
                "at": later,
                "sample": sample,
                "verdict": verdict.verdict,
                "reason": verdict.reason,
                "better": verdict.better,
            }
        )
    if rows:
        name = derive_id(namespace, "reviews", *(row["review_id"] for row in rows))
        lake.create_table(namespace_path(namespace, "reviews", f"{name}.parquet"), table_of(rows, "reviews"))
    return rows


def prompt_of(reflector: str, prompt_hash: str) -> str:
    """The version of the prompt that a reflector's name tells; empty for rules.

    >>> prompt_of("openai:gpt-4o-mini@reflect.v1", "8c1f"), prompt_of("rules@1", "")
    ('reflect.v1', '')
    """
    return reflector.rpartition("@")[2] if prompt_hash else ""


@dataclass(frozen=True)
class Share:
    """How many of the memories that were judged are right."""

    right: int
    wrong: int
    unsure: int

    @property
    def share(self) -> float | None:
        """Right ones of those that are right or wrong; None when there are none."""
        judged = self.right + self.wrong
        return self.right / judged if judged else None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Where the share lies with 95 % confidence, by Wilson's score interval; None when nothing was judged.

        >>> Share(85, 15, 0).bounds
        (0.767, 0.907)
        """
        judged = self.right + self.wrong
        if not judged:
            return None
        middle = (self.right + _Z**2 / 2) / (judged + _Z**2)
        spread = _Z * math.sqrt(self.right * self.wrong / judged + _Z**2 / 4) / (judged + _Z**2)
        return round(max(0.0, middle - spread), 3), round(min(1.0, middle + spread), 3)

    def plain(self) -> dict[str, Any]:
        """The figures as plain values."""
        share = None if self.share is None else round(self.share, 3)
        return {**vars(self), "share": share, "bounds": self.bounds}


def shares(verdicts: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Share]]:
    """The share right of all verdicts (under "all"), by kind, by reflector and by version of the prompt.

    A reflector is named without its prompt; memories that rules proposed have no prompt and are left out there.
    """
    counts: dict[str, dict[str, dict[str, int]]] = {name: {} for name in ("all", "kind", "reflector", "prompt")}
    for row in verdicts:
        keys = {
            "all": "all",
            "kind": row["kind"],
            "reflector": row["reflector"].removesuffix(f"@{row['prompt']}") if row["prompt"] else row["reflector"],
            "prompt": row["prompt"],
        }
        for group, key in keys.items():
            if key:
                counts[group].setdefault(key, defaultdict(int))[row["verdict"]] += 1
    return {
        group: {key: Share(*(some[name] for name in VERDICTS)) for key, some in sorted(keyed.items())}
        for group, keyed in counts.items()
    }


def _sample_path(namespace: str, sample: str, size: int) -> str:
    return namespace_path(namespace, "reviews", f"sample-{derive_id(namespace, 'sample', sample, size)}.parquet")


def _about(memory: Row) -> Row:
    """What a row says of its memory: nothing of what the memory says."""
    reflector, prompt_hash = memory["reflector"] or "", memory["prompt_hash"] or ""
    return {
        "memory_id": memory["id"],
        "reason": "",
        "better": "",
        "kind": memory["kind"],
        "reflector": reflector,
        "prompt": prompt_of(reflector, prompt_hash),
        "prompt_hash": prompt_hash,
        "reflected_at": memory["at"],
    }
