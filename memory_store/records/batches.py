"""Batches of questions that were sent to a model's provider, and what became of them: one file a step.

    ns=<namespace>/batches/<batch>.open.json   it is about to be sent: written before anything leaves this machine
    ns=<namespace>/batches/<batch>.sent.json   the provider has it, under this name
    ns=<namespace>/batches/<batch>.done.json   it is over, and every reply is kept

They hold keys and numbers, never a text.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeVar

import msgspec

from ..errors import LakeError
from ..files.lake import Lake, namespace_path
from ..ids import sortable_id


class AskedQuestion(msgspec.Struct, frozen=True, array_like=True):
    """A question of a batch."""

    #: Its key, which is its name in the batch too
    key: str
    #: Tokens of its prompt, as estimated from its text
    estimate: int
    #: Most tokens of its answer
    limit: int
    #: Whether plain text was asked for
    plain: bool = False
    #: Batches that it was in before and that gave no reply
    tries: int = 0


class OpenBatch(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch is to hold."""

    batch_id: str
    at: datetime
    #: Run that asks
    run: str
    base_url: str
    model: str
    #: How structure is asked for: json_schema · json_object · text
    mode: str
    #: Parameters that are left out
    dropped: tuple[str, ...] = ()
    questions: tuple[AskedQuestion, ...]
    #: What it may use: tokens in and out, and micro-dollars
    tokens: int
    cost: int


class SentBatch(msgspec.Struct, frozen=True, kw_only=True):
    """What the provider calls it."""

    remote_id: str
    #: The file of its questions there
    file_id: str


class DoneBatch(msgspec.Struct, frozen=True, kw_only=True):
    """How a batch ended, and what was learned for the next."""

    batch_id: str
    at: datetime
    #: Run that collected it
    run: str
    base_url: str
    model: str
    #: completed · expired · cancelled · failed: so said the provider · unsent: it never got there · gone: it is not
    #: there any more
    status: Literal["completed", "expired", "cancelled", "failed", "unsent", "gone"]
    #: Why it failed
    reason: str = ""
    #: Questions with a reply, with an error, and with neither
    answered: int = 0
    failed: int = 0
    unanswered: int = 0
    #: Lines that could not be understood, that no one asked for, or that came twice
    strange: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    #: Micro-dollars
    cost: int = 0
    #: How structure is to be asked for, which parameters to leave out, how many questions to send at most
    mode: str = "json_schema"
    dropped: tuple[str, ...] = ()
    most: int = 0
    #: Tokens that the model counts for one that is estimated
    ratio: float = 1.0


@dataclass(frozen=True)
class Out:
    """A batch that is not over."""

    batch: OpenBatch
    #: None: it was begun, and no one noted that the provider has it
    sent: SentBatch | None


_S = TypeVar("_S", OpenBatch, SentBatch, DoneBatch)


def new_batch_id() -> str:
    """A new id; batches sort by when they began."""
    return sortable_id()


def write_open(lake: Lake, namespace: str, batch: OpenBatch) -> None:
    """Note that a batch is about to be sent."""
    lake.put(_path(namespace, batch.batch_id, "open"), msgspec.json.encode(batch))


def write_sent(lake: Lake, namespace: str, batch_id: str, sent: SentBatch) -> None:
    """Note that the provider has it."""
    lake.put(_path(namespace, batch_id, "sent"), msgspec.json.encode(sent))


def write_done(lake: Lake, namespace: str, done: DoneBatch) -> bool:
    """Note that it is over; False if another run was first."""
    return lake.create(_path(namespace, done.batch_id, "done"), msgspec.json.encode(done))


def batches_out(lake: Lake, namespace: str) -> list[Out]:
    """Batches that are not over, oldest first."""
    steps = _steps(lake, namespace)
    found = []
    for batch_id, there in sorted(steps.items()):
        if "open" in there and "done" not in there:
            batch = _read(lake, namespace, batch_id, "open", OpenBatch)
            sent = _read(lake, namespace, batch_id, "sent", SentBatch) if "sent" in there else None
            found.append(Out(batch, sent))
    return found


def is_over(lake: Lake, namespace: str, batch_id: str) -> bool:
    """Whether a run has noted that a batch is over."""
    return lake.exists(_path(namespace, batch_id, "done"))


def last_done(lake: Lake, namespace: str) -> DoneBatch | None:
    """The newest batch that is over, None if there is none."""
    over = [batch_id for batch_id, there in _steps(lake, namespace).items() if "done" in there]
    return _read(lake, namespace, max(over), "done", DoneBatch) if over else None


def questions_out(lake: Lake, namespace: str) -> int:
    """Questions whose answers are awaited from batches."""
    return sum(len(out.batch.questions) for out in batches_out(lake, namespace))


def _steps(lake: Lake, namespace: str) -> dict[str, set[str]]:
    steps: dict[str, set[str]] = {}
    for path in lake.names(namespace_path(namespace, "batches")):
        batch_id, _, step = path.rpartition("/")[2].removesuffix(".json").rpartition(".")
        steps.setdefault(batch_id, set()).add(step)
    return steps


def _read(lake: Lake, namespace: str, batch_id: str, step: str, type: type[_S]) -> _S:
    path = _path(namespace, batch_id, step)
    try:
        return msgspec.json.decode(lake.get(path), type=type)
    except msgspec.MsgspecError as error:
        raise LakeError(f"{path} can't be understood ({error}): bring it back from a backup, or delete it") from error


def _path(namespace: str, batch_id: str, step: str) -> str:
    return namespace_path(namespace, "batches", f"{batch_id}.{step}.json")
