"""Runs: one execution of a job, kept as a value beside what it made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Literal

import msgspec

from ..clock import Clock, SystemClock
from ..errors import HindlakeError, LakeError
from ..files.lake import Lake, namespace_path
from ..ids import sortable_id
from ..settings import Settings
from ..telemetry.events import claimed_id
from ..telemetry.spending import USED, Ledger, Parts, Usage, counted_in

#: Files read at once.
_READERS = 8


@dataclass(frozen=True, kw_only=True)
class Spent(Usage):
    """What a run has used for one purpose, of one model."""

    #: reflect · judge (pairs of memories) · patterns · embed
    purpose: str
    #: Name of the model
    model: str


class Run(msgspec.Struct, kw_only=True):
    """One execution of a job over one namespace: what went in, what came out, what it cost."""

    #: Id, shared by the namespaces that one call worked on
    run_id: str
    #: Name of the job
    job: str
    namespace: str
    #: Version of hindlake
    version: str
    started_at: datetime
    ended_at: datetime | None = None
    #: running · done · stopped (at its budget) · failed
    status: Literal["running", "done", "stopped", "failed"] = "running"
    #: What it was called with
    parameters: dict[str, str | int | float | bool] = {}
    #: What reflected: rules or a model, with version
    reflector: str = ""
    prompt_hash: str = ""
    #: loop or ray, and the worker processes as host:pid
    engine: str = ""
    workers: list[str] = []
    #: Place in the log up to which it had read
    read_to: int = 0
    #: What it did, by name
    counts: dict[str, int] = {}
    input_tokens: int = 0
    output_tokens: int = 0
    #: Micro-dollars
    cost: int = 0
    #: The same by purpose and model
    spent: list[Spent] = []
    #: Why it failed
    error: str = ""


def new_run_id() -> str:
    """A new id; runs sort by when they began."""
    return claimed_id() or sortable_id()


def write_run(lake: Lake, run: Run) -> None:
    """Keep a run, and what calls of its `accounted` block have used until now; the same run written again, further on,
    replaces what was kept.
    """
    account = _ACCOUNT.get()
    if account is not None and account[0] is run:
        note_spent(run, account[1].parts)
    lake.put(_path(run.namespace, run.run_id), msgspec.json.encode(run))


#: The run that an `accounted` block is about, and what its calls are counted in.
_ACCOUNT: ContextVar[tuple[Run, Ledger] | None] = ContextVar("hindlake_account", default=None)


@contextmanager
def accounted(lake: Lake, run: Run, clock: Clock, *, dry_run: bool = False) -> Iterator[None]:
    """Calls to models in this block are the run's: each `write_run` in it says what they have used until then. What
    none has said is written at the end, also when the block raises.

    So a run that is otherwise not kept, since it found nothing to do or is a dry one, is kept if it cost something.
    """
    ledger = Ledger()
    token = _ACCOUNT.set((run, ledger))
    try:
        with counted_in(ledger):
            yield
    except BaseException as error:
        if run.status == "running" and dry_run:
            run.status, run.error = "failed", type(error).__name__
        with suppress(LakeError):  # the error that is on its way says more
            _close(lake, run, ledger, dry_run)
        raise
    finally:
        _ACCOUNT.reset(token)
    if run.status == "running":
        run.status, run.ended_at = "done", clock.now()
    _close(lake, run, ledger, dry_run)


def _close(lake: Lake, run: Run, ledger: Ledger, dry_run: bool) -> None:
    """Keep a run if it has used more than was written of it."""
    parts = ledger.parts
    if parts == parts_of(run):
        return
    note_spent(run, parts)
    if dry_run:
        run.job = f"{run.job}-dry-run"  # it is no run of the job for whoever asks when that was done
    write_run(lake, run)


@contextmanager
def spent_kept(settings: Settings, job: str, namespaces: Sequence[str] | None = None) -> Iterator[None]:
    """Keep what calls of this block have used that no run counts, such as those of a fold, as a run of its own: of the
    namespace that is named, if it is one, else of that of the settings.
    """
    ledger, began = Ledger(), SystemClock().now()
    try:
        with counted_in(ledger):
            yield
    finally:
        if ledger.parts:
            namespace = namespaces[0] if namespaces and len(namespaces) == 1 else settings.namespace
            run = Run(run_id=new_run_id(), job=job, namespace=namespace, version="", started_at=began, status="done")
            run.ended_at = SystemClock().now()
            note_spent(run, ledger.parts)
            with suppress(HindlakeError):  # a lake that is away has failed the block already
                write_run(Lake.open(settings), run)


def note_spent(run: Run, parts: Parts) -> None:
    """Say in a run what calls have used."""
    run.spent = [
        Spent(purpose=purpose, model=model, **asdict(usage)) for (purpose, model), usage in sorted(parts.items())
    ]
    whole = sum(parts.values(), Usage())
    run.input_tokens, run.output_tokens, run.cost = whole.input_tokens, whole.output_tokens, whole.cost


def parts_of(run: Run) -> Parts:
    """What a run says that calls have used, by purpose and model."""
    return {(one.purpose, one.model): Usage(*(getattr(one, name) for name in USED)) for one in run.spent}


def read_run(lake: Lake, namespace: str, run_id: str) -> Run | None:
    """A run by its id, None if there is none."""
    try:
        return msgspec.json.decode(lake.get(_path(namespace, run_id)), type=Run)
    except FileNotFoundError:
        return None


def last_runs(lake: Lake, namespace: str, limit: int = 5) -> list[Run]:
    """The newest runs of a namespace, newest first."""
    paths = lake.names(namespace_path(namespace, "runs"))[-limit:]
    return [msgspec.json.decode(lake.get(path), type=Run) for path in reversed(paths)]


def all_runs(lake: Lake, namespace: str) -> list[Run]:
    """Every run of a namespace, oldest first."""
    paths = lake.names(namespace_path(namespace, "runs"))
    with ThreadPoolExecutor(_READERS) as pool:
        return [msgspec.json.decode(data, type=Run) for data in pool.map(lake.get, paths)]


def _path(namespace: str, run_id: str) -> str:
    return namespace_path(namespace, "runs", f"{run_id}.json")
