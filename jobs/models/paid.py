"""What a reflector has besides, whose questions cost money: a forecast, a ceiling, and batches."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Protocol, runtime_checkable

from ...memory_store.clock import Clock
from ...memory_store.files.lake import Lake
from ..comparing.pair_judge import ModelJudge
from ..reflecting.candidates import Reflector, TraceGroup
from .batch_desk import BatchDesk
from .budget import Budget, Forecast, Usage


@runtime_checkable
class PaidReflector(Reflector, Protocol):
    """A reflector that asks a model."""

    @property
    def budget(self) -> Budget:
        """What the run may use and has used."""
        ...

    @property
    def usage(self) -> Usage:
        """What was used so far."""
        ...

    @property
    def is_batched(self) -> bool:
        """Whether questions go through the Batch API."""
        ...

    def share(self, parts: int, calls: int = 0) -> PaidReflector:
        """As that of `Reflector`."""
        ...

    def forecast(self, group: TraceGroup) -> Forecast:
        """What `reflect` would use at most. Calls no one when the reflector is one of `kept_only`."""
        ...

    def kept_only(self, out: Set[str] = frozenset(), failed: Mapping[str, str] | None = None) -> PaidReflector:
        """The same reflector without calls: what it would ask is in `Reflection.waiting`."""
        ...

    def desk(self, lake: Lake, namespace: str, run_id: str, clock: Clock) -> BatchDesk:
        """Where the batches of a namespace are sent and collected."""
        ...

    def pair_judge(self, namespace: str) -> ModelJudge:
        """What judges pairs of memories of a namespace, by the same model and from the same budget."""
        ...
