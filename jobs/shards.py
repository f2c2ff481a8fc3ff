"""The door to Ray: one function over many shards, in a plain loop or on workers, the same results in the same order.

A worker or a node that is lost in the middle loses nothing: its shard is worked on again, `TRIES` times in all. No
more shards are worked on at once than `at_once` or the workers allow, and no more results wait than a few a worker.
"""

from __future__ import annotations

import os
import socket
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from ..memory_store.errors import HindlakeError, LakeError, MissingExtra
from ..memory_store.files.lake_format import MARKER, read_format
from ..memory_store.settings import Settings
from ..memory_store.telemetry import events, logs, otel, spending

Engine = Literal["auto", "loop", "ray"]
Shard = TypeVar("Shard")
Result = TypeVar("Result")

#: How often a shard is begun whose worker is lost each time.
TRIES = 3
#: Shards that are out for each one that is worked on: the next is there when a worker has finished.
_AHEAD = 2
#: Results that may wait, for each shard that is out, while an earlier one takes long.
_WAITING = 4
#: Seconds after which a cluster without any processor is given up; one that grows by itself has that long.
NOBODY = 300.0
#: Seconds between two looks at the cluster while nothing ends.
_LOOK = 10.0


@dataclass(frozen=True)
class Placed(Generic[Result]):
    """What a shard gave, and where it was worked on."""

    result: Result
    #: loop or ray
    engine: str
    #: Host and process that did it
    host: str
    pid: int
    #: How often a worker was lost over it
    lost: int = 0
    #: What the worker has told, until it was told here
    lines: tuple[dict[str, Any], ...] = ()
    #: What its calls to models have used, until it was counted here
    spent: spending.Parts = field(default_factory=dict)

    @property
    def losses(self) -> dict[str, int]:
        """What a report counts of it: nothing where no worker was lost."""
        return {"lost_workers": self.lost} if self.lost else {}


def choose_engine(settings: Settings, engine: Engine, items: int, least: int = 0) -> Literal["loop", "ray"]:
    """Where work of this size runs: Ray starts in seconds, so small work stays in this process unless asked.

    `least`: from how many items on it runs on Ray; that of traces if it is 0.
    """
    if engine != "auto":
        return engine
    return "ray" if settings.ray_address or items >= (least or settings.jobs.ray_from_traces) else "loop"


@dataclass(frozen=True)
class Crew:
    """Who works on shards: this process, or the workers of a Ray cluster."""

    settings: Settings
    engine: Literal["loop", "ray"]
    #: How many shards are worked on at once
    size: int = 1
    _ray: Any = field(default=None, repr=False)

    def calls(self, most: int, own: int = 0) -> tuple[int, int]:
        """How many shards may be worked on at once, and how many calls each may have in flight, so that all of them
        and `own` calls of this process are never more than `most`.

        >>> Crew(Settings(), "ray", 8).calls(4)
        (4, 1)
        >>> Crew(Settings(), "ray", 2).calls(8, own=1)
        (2, 3)
        """
        at_once = max(1, min(self.size, most - own))
        return at_once, max(1, (most - own) // at_once)

    def map(
        self, function: Callable[[Shard], Result], shards: Iterable[Shard], at_once: int = 0
    ) -> Iterator[Placed[Result]]:
        """Apply a picklable function to every shard, and yield the results in the order of the shards.

        An error that the function raises is raised here as it is. `at_once`: no more shards than this are out at the
        same time; with 1 none is while a result is looked at. Raises `HindlakeError` when a shard's worker was lost
        `TRIES` times, and when no worker is left.
        """
        if self.engine == "loop":
            for shard in shards:
                yield Placed(function(shard), "loop", socket.gethostname(), os.getpid())
            return
        yield from _Window(self, function, at_once or _AHEAD * self.size).run(shards)


@contextmanager
def crew(settings: Settings, engine: Literal["loop", "ray"]) -> Iterator[Crew]:
    """Workers for a block. Ray is started, or a cluster joined, unless this process has done so already."""
    if engine == "loop":
        yield Crew(settings, engine)
        return
    try:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray
    except ImportError:
        raise MissingExtra.needs("ray", "jobs") from None
    door: Any = ray  # Ray's own types are incomplete
    started = not door.is_initialized()
    if started:
        _start(door, settings)
    try:
        yield Crew(settings, engine, max(1, _processors(door)), door)
    finally:
        if started:
            door.shutdown()


def map_shards(
    function: Callable[[Shard], Result], shards: Iterable[Shard], settings: Settings, engine: Literal["loop", "ray"]
) -> Iterator[Placed[Result]]:
    """What `Crew.map` gives, with workers of its own."""
    with crew(settings, engine) as own:
        yield from own.map(function, shards)


@dataclass(frozen=True)
class _About:
    """What a worker is told beside its shard."""

    settings: Settings
    #: Id of the lake, which a worker must see; empty where no file says it
    lake: str
    told: events.Told | None
    #: To join the OpenTelemetry trace
    carrier: dict[str, str]
    #: Least level of the lines that are wanted
    level: int


def _work(function: Callable[[Shard], Result], shard: Shard, number: int, about: _About) -> Placed[Result]:
    """Work on one shard, in a worker."""
    _check_lake(about)
    with (
        logs.collected(about.level) as lines,
        spending.counted_in(spending.Ledger()) as ledger,
        events.telling(about.told),
        otel.joined(about.settings, about.carrier),
        otel.span(f"shard {function_name(function)}", {"hindlake.shard": number}),
    ):
        result = function(shard)
    return Placed(result, "ray", socket.gethostname(), os.getpid(), 0, tuple(lines), ledger.parts)


def function_name(function: Callable[..., object]) -> str:
    """The name of a function, a partial one's too."""
    inner: Any = function
    while hasattr(inner, "func"):
        inner = inner.func
    return str(getattr(inner, "__name__", type(inner).__name__))


def _check_lake(about: _About) -> None:
    """A worker on a machine that does not see the lake would find nothing to do, and say that all is done."""
    if about.lake and (seen := _lake_id(about.settings)) != about.lake:
        raise LakeError(
            f"the worker on {socket.gethostname()} {'sees another lake' if seen else 'sees no lake'} at "
            f"{about.settings.home}: set HINDLAKE_HOME to s3://bucket/prefix, or mount one folder at this path on "
            "every machine of the cluster"
        )


def _lake_id(settings: Settings) -> str:
    """The id of a lake in a folder; empty where there is none. A bucket is the same from everywhere."""
    marker = Path(settings.home, "lake", MARKER)
    if settings.is_remote or not marker.exists():
        return ""
    return read_format(marker.read_bytes(), str(marker.parent)).lake


@dataclass
class _Out(Generic[Shard]):
    """A shard that is out, or has ended and is not the oldest."""

    shard: Shard
    number: int
    reference: Any
    lost: int = 0
    #: What it gave, or the error that its function raised; None while it is worked on
    end: Placed[Any] | Exception | None = None


class _Window(Generic[Shard, Result]):
    """The shards that are out, oldest first."""

    def __init__(self, own: Crew, function: Callable[[Shard], Result], most: int) -> None:
        self._ray, self._function, self._most = own._ray, function, most
        # Ray itself would try again, without bound where memory ran out: here it is counted and told.
        self._task = self._ray.remote(num_cpus=1, max_retries=0)(_work)
        level = events.LOGGER.getEffectiveLevel()
        self._about = _About(own.settings, _lake_id(own.settings), events.current(), otel.carried(), level)
        self._out: list[_Out[Shard]] = []

    def run(self, shards: Iterable[Shard]) -> Iterator[Placed[Result]]:
        """What each shard gave, in order."""
        for number, shard in enumerate(shards, 1):
            while self._is_full():
                yield self._oldest()
            self._out.append(_Out(shard, number, self._begin(shard, number)))
        while self._out:
            yield self._oldest()

    def _begin(self, shard: Shard, number: int) -> Any:
        return self._task.remote(self._function, shard, number, self._about)

    def _is_full(self) -> bool:
        """Whether the oldest is to be looked at before another one is begun."""
        while True:
            going_on = [one for one in self._out if one.end is None]
            if self._most == 1 and self._out:
                return True
            if len(going_on) < self._most and len(self._out) < _WAITING * self._most:
                return False
            if self._out[0].end is not None or len(going_on) < self._most:
                return True
            self._wait(going_on)

    def _oldest(self) -> Placed[Result]:
        """What the oldest shard gave."""
        oldest = self._out[0]
        while oldest.end is None:
            self._wait([one for one in self._out if one.end is None])
        self._out.pop(0)
        if isinstance(oldest.end, Exception):
            raise oldest.end from None
        logs.tell_again(oldest.end.lines, oldest.end.host, oldest.end.pid)
        spending.spend(oldest.end.spent)
        return replace(oldest.end, lost=oldest.lost, lines=(), spent={})

    def _wait(self, some: list[_Out[Shard]]) -> None:
        """Wait until one of some shards has ended, well or badly. Raises `HindlakeError` when no worker is left."""
        by_reference = {one.reference: one for one in some}
        began = time.monotonic()
        while True:
            ended, _ = self._ray.wait(list(by_reference), timeout=_LOOK, fetch_local=False)
            for reference in ended:
                self._look_at(by_reference[reference])
            if ended:
                return
            if _processors(self._ray):
                began = time.monotonic()
            elif time.monotonic() - began > NOBODY:
                raise HindlakeError(
                    f"no worker is left in the Ray cluster for {NOBODY:.0f} s: start some and run it again (what was "
                    "done is kept), or work without Ray (--loop)"
                )

    def _look_at(self, one: _Out[Shard]) -> None:
        """See how a shard has ended. It is begun again at once if its worker was lost."""
        try:
            one.end = self._ray.get(one.reference)
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, Exception) else error
            one.end = self._lost(one, cause) if isinstance(cause, MemoryError) else cause
        except self._ray.exceptions.RayError as error:
            one.end = self._lost(one, error)

    def _lost(self, one: _Out[Shard], error: Exception) -> HindlakeError | None:
        """Begin a shard again whose worker was lost; the error to raise if that was the last time."""
        one.lost += 1
        kind = type(error).__name__
        events.tell("shard_lost", shard=one.number, attempt=one.lost, error=kind)
        otel.count("hindlake.shard.losses", 1, {"error.type": kind})
        if one.lost < TRIES:
            one.reference = self._begin(one.shard, one.number)
            return None
        out_of_memory = isinstance(error, MemoryError | self._ray.exceptions.OutOfMemoryError)
        return HindlakeError(
            f"shard {one.number} of {function_name(self._function)} lost its worker {one.lost} times, the last by "
            f"{kind}: {_LESS_MEMORY if out_of_memory else _LOOK_AT_RAY}"
        )


_LESS_MEMORY = (
    "its memory ran out. Give workers more, have fewer of them on a machine (HINDLAKE_JOBS_RAY_WORKERS), make shards "
    "of traces smaller (HINDLAKE_JOBS_SHARD_TRACES), or work without Ray (--loop); what was done is kept"
)
_LOOK_AT_RAY = (
    "look at `ray status` and at the logs of Ray, then run it again, or without Ray (--loop); what was done is kept"
)


def _processors(ray: Any) -> int:
    """Processors of the machines that are alive."""
    return int(ray.cluster_resources().get("CPU", 0))


class _Starting:
    """What Ray raises when it can't start, which is anything, becomes an error that names the way out."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            raise HindlakeError(
                f"Ray could not be started or reached ({error}): run it again when the machine is less busy, check "
                "HINDLAKE_RAY_ADDRESS and the cluster's token (RAY_AUTH_MODE, RAY_AUTH_TOKEN), or work without Ray "
                "(--loop)"
            ) from error


def _start(ray: Any, settings: Settings) -> None:
    with _Starting(), warnings.catch_warnings():
        # Ray's own processes are forked and replaced at once; LanceDB warns of those that go on.
        warnings.filterwarnings("ignore", message="lancedb fork support")
        _init(ray, settings)


def _has_token() -> bool:
    """Whether this machine has a token for Ray clusters."""
    named = any(os.environ.get(name) for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"))
    return named or Path("~/.ray/auth_token").expanduser().exists()


def _init(ray: Any, settings: Settings) -> None:
    if settings.ray_address:
        # `ray start` takes a token where one lies; to an address that is named, `ray.init` would bring none.
        if "RAY_AUTH_MODE" not in os.environ and _has_token():
            os.environ["RAY_AUTH_MODE"] = "token"
        ray.init(address=settings.ray_address, log_to_driver=False, logging_level="ERROR")
        return
    ray.init(
        num_cpus=settings.jobs.ray_workers or os.cpu_count() or 1,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=200 * 2**20,
    )
