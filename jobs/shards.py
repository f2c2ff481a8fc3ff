"""The door to Ray: one function over many shards, in a plain loop or on workers, the same results in the same order."""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from ..memory_store.errors import HindlakeError, MissingExtra
from ..memory_store.settings import Settings

Engine = Literal["auto", "loop", "ray"]
Shard = TypeVar("Shard")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Placed(Generic[Result]):
    """What a shard gave, and where it was worked on."""

    result: Result
    #: loop or ray
    engine: str
    #: Host and process that did it
    host: str
    pid: int


def choose_engine(settings: Settings, engine: Engine, items: int, least: int = 0) -> Literal["loop", "ray"]:
    """Where work of this size runs: Ray starts in seconds, so small work stays in this process unless asked.

    `least`: from how many items on it runs on Ray; that of traces if it is 0.
    """
    if engine != "auto":
        return engine
    return "ray" if settings.ray_address or items >= (least or settings.jobs.ray_from_traces) else "loop"


def map_shards(
    function: Callable[[Shard], Result], shards: Iterable[Shard], settings: Settings, engine: Literal["loop", "ray"]
) -> Iterator[Placed[Result]]:
    """Apply a picklable function to every shard, and yield the results in the order of the shards.

    On Ray a shard whose worker died is tried again, twice; an error that the function raises is raised here as it
    is. No more shards are in flight than twice the workers, so results don't pile up.
    """
    if engine == "loop":
        for shard in shards:
            yield _place(function, shard, "loop")
        return
    yield from _on_ray(function, shards, settings)


def _place(function: Callable[[Shard], Result], shard: Shard, engine: str) -> Placed[Result]:
    return Placed(function(shard), engine, socket.gethostname(), os.getpid())


def _on_ray(
    function: Callable[[Shard], Result], shards: Iterable[Shard], settings: Settings
) -> Iterator[Placed[Result]]:
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
        task = door.remote(num_cpus=1, max_retries=2)(_place)
        limit = 2 * max(1, int(door.cluster_resources().get("CPU", 1)))
        waiting: list[Any] = []
        for shard in shards:
            waiting.append(task.remote(function, shard, "ray"))
            if len(waiting) >= limit:
                yield _result(door, waiting.pop(0))
        for reference in waiting:
            yield _result(door, reference)
    finally:
        if started:
            door.shutdown()


class _Starting:
    """What Ray raises when it can't start, which is anything, becomes an error that names the way out."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            raise HindlakeError(
                f"Ray could not be started or reached ({error}): run it again when the machine is less busy, check "
                "HINDLAKE_RAY_ADDRESS, or work without Ray (--loop)"
            ) from error


def _start(ray: Any, settings: Settings) -> None:
    with _Starting(), warnings.catch_warnings():
        # Ray's own processes are forked and replaced at once; LanceDB warns of those that go on.
        warnings.filterwarnings("ignore", message="lancedb fork support")
        _init(ray, settings)


def _init(ray: Any, settings: Settings) -> None:
    if settings.ray_address:
        ray.init(address=settings.ray_address, log_to_driver=False, logging_level="ERROR")
        return
    ray.init(
        num_cpus=settings.jobs.ray_workers or os.cpu_count() or 1,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=200 * 2**20,
    )


def _result(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise (error.cause if isinstance(error.cause, Exception) else error) from None
