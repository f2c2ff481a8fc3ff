"""The ceiling of a run: tokens and money, forecast before each call to the model and settled after it (N7)."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any

from ...memory_store.errors import BudgetExceeded
from ...memory_store.settings import ModelSettings
from ...memory_store.telemetry.spending import Usage as Usage
from ...memory_store.text.tokens import estimate_tokens as estimate_tokens


@dataclass(frozen=True)
class Hold:
    """What one call may use, set aside until it is settled."""

    #: Tokens of the prompt as estimated from its text, before the correction that the budget applies
    estimate: int
    #: Tokens of the prompt as forecast
    input_tokens: int
    #: Most tokens of the answer
    output_tokens: int
    #: What both may cost, in micro-dollars
    cost: int


@dataclass(frozen=True)
class Forecast:
    """What asking will use at most, if every question is answered at once: kept replies cost nothing.

    A question that has to be asked a second time, because its reply was cut off or held no JSON, comes on top.
    """

    #: Calls that are to be made
    calls: int = 0
    #: Tokens of their prompts, estimated high
    input_tokens: int = 0
    #: Most tokens of their answers
    output_tokens: int = 0
    #: Micro-dollars
    cost: int = 0
    #: Questions that were asked already in a batch, and are in no other figure
    out: int = 0

    @property
    def tokens(self) -> int:
        """Tokens, in and out."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Forecast) -> Forecast:
        return Forecast(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))


class Budget:
    """What a run may use and has used. Share one between all threads of a run; a ceiling of 0 is none.

    A call is forecast as its prompt and the most that it may answer, so a run stops before the call that could pass
    the ceiling. Estimates follow the model: once it counts more tokens than estimated, forecasts grow by that factor.

    A pickled budget is a budget of its own that begins at what was used until then: give each process its `share`.
    """

    def __init__(self, tokens: int = 0, cost: int = 0, *, input_price: int = 0, output_price: int = 0) -> None:
        #: Ceiling of tokens, in and out; 0: none
        self.max_tokens = tokens
        #: Ceiling of money in micro-dollars; 0: none
        self.max_cost = cost
        #: Micro-dollars of a million tokens of prompts
        self.input_price = input_price
        #: Micro-dollars of a million tokens of answers
        self.output_price = output_price
        #: Tokens of prompts
        self.input_tokens = 0
        #: Tokens of answers
        self.output_tokens = 0
        #: Micro-dollars
        self.cost = 0
        #: Calls to the model, failed ones included
        self.calls = 0
        #: Calls that gave no answer
        self.failed_calls = 0
        #: Calls whose tokens are estimated, because the answer did not say or never came
        self.estimated_calls = 0
        #: Calls for a question that was asked before and whose answer was never kept: paid for again
        self.repeated_calls = 0
        self._held_tokens = 0
        self._held_cost = 0
        self._aside_tokens = 0
        self._aside_cost = 0
        self._ratio = 1.0
        self._changed = threading.Condition()

    @classmethod
    def of(cls, settings: ModelSettings) -> Budget:
        """The budget that the settings give to one run. In a batch a call costs its part of the price."""
        part = settings.batch_price if settings.mode == "batch" else 1
        return cls(
            settings.budget_tokens,
            settings.budget_cost,
            input_price=math.ceil(settings.input_price * part),
            output_price=math.ceil(settings.output_price * part),
        )

    @property
    def tokens(self) -> int:
        """Tokens used, in and out."""
        return self.input_tokens + self.output_tokens

    @property
    def usage(self) -> Usage:
        """What was used so far."""
        return Usage(
            self.calls,
            self.failed_calls,
            self.estimated_calls,
            self.repeated_calls,
            self.input_tokens,
            self.output_tokens,
            self.cost,
        )

    @property
    def ratio(self) -> float:
        """Tokens of prompts as the model counts them, for one that is estimated; at least 1."""
        return self._ratio

    def forecast(self, estimates: Sequence[int], output_tokens: int) -> Forecast:
        """What questions with prompts of so many estimated tokens, and answers of at most so many, will use."""
        tokens = [math.ceil(estimate * self._ratio) for estimate in estimates]
        cost = sum(self.price(some, output_tokens) for some in tokens)
        return Forecast(len(tokens), sum(tokens), len(tokens) * output_tokens, cost)

    def exceeded_by(self, forecast: Forecast) -> bool:
        """Whether a forecast is more than what is left."""
        return not self._fits(forecast.tokens + self._held_tokens, forecast.cost + self._held_cost)

    def set_aside(self, tokens: int, cost: int) -> None:
        """Hold back what batches that are out may use until they are collected."""
        with self._changed:
            self._aside_tokens += tokens
            self._aside_cost += cost

    def add(self, usage: Usage) -> None:
        """Count what others have used of this budget, by a `share` of it."""
        with self._changed:
            for name, value in asdict(usage).items():
                setattr(self, name, getattr(self, name) + value)

    def learn(self, ratio: float) -> None:
        """Raise forecasts to what a model was seen to count."""
        with self._changed:
            self._ratio = max(self._ratio, ratio)

    def share(self, parts: int) -> Budget:
        """A new budget with one of so many equal parts of what is left: for work that other processes do.

        A part of a ceiling that is used up is a ceiling of one token, which no call fits.

        >>> Budget(tokens=9_000).share(3).max_tokens
        3000
        """
        tokens = max(1, (self.max_tokens - self.tokens - self._aside_tokens) // parts) if self.max_tokens else 0
        cost = max(1, (self.max_cost - self.cost - self._aside_cost) // parts) if self.max_cost else 0
        return Budget(tokens, cost, input_price=self.input_price, output_price=self.output_price)

    def price(self, input_tokens: int, output_tokens: int) -> int:
        """What so many tokens cost, in micro-dollars, rounded up.

        >>> Budget(input_price=150_000, output_price=600_000).price(1_000, 10)
        156
        """
        return -(-(input_tokens * self.input_price + output_tokens * self.output_price) // 1_000_000)

    def reserve(self, estimate: int, output_tokens: int, *, wait: bool = True) -> Hold:
        """Set aside what a call may use; wait while only calls in flight stand in the way.

        Raises `BudgetExceeded` when the call could pass the ceiling whatever those give back, or at once with
        `wait=False`: of a batch nothing comes back in this run.
        """
        with self._changed:
            while True:
                input_tokens = math.ceil(estimate * self._ratio)
                tokens, cost = input_tokens + output_tokens, self.price(input_tokens, output_tokens)
                if self._fits(tokens + self._held_tokens, cost + self._held_cost):
                    break
                if not wait or not self._held_tokens or not self._fits(tokens, cost):
                    raise BudgetExceeded(self._message(tokens, cost))
                self._changed.wait()
            self._held_tokens += tokens
            self._held_cost += cost
            return Hold(estimate, input_tokens, output_tokens, cost)

    def settle(
        self,
        hold: Hold,
        input_tokens: int,
        output_tokens: int,
        *,
        failed: bool = False,
        estimated: bool = False,
        repeated: bool = False,
    ) -> Usage:
        """Replace what was set aside by what the call used, and return that."""
        with self._changed:
            self._held_tokens -= hold.input_tokens + hold.output_tokens
            self._held_cost -= hold.cost
            cost = self.price(input_tokens, output_tokens)
            self.input_tokens += input_tokens
            self.output_tokens += output_tokens
            self.cost += cost
            self.calls += 1
            self.failed_calls += failed
            self.estimated_calls += estimated
            self.repeated_calls += repeated
            if not estimated and not failed and hold.estimate:
                self._ratio = max(self._ratio, input_tokens / hold.estimate)
            self._changed.notify_all()
            return Usage(1, failed, estimated, repeated, input_tokens, output_tokens, cost)

    def _fits(self, tokens: int, cost: int) -> bool:
        tokens += self.tokens + self._aside_tokens
        cost += self.cost + self._aside_cost
        return (not self.max_tokens or tokens <= self.max_tokens) and (not self.max_cost or cost <= self.max_cost)

    def _message(self, tokens: int, cost: int) -> str:
        used = []
        if self.max_tokens:
            used.append(f"{self.tokens + self._held_tokens + self._aside_tokens:,} of {self.max_tokens:,} tokens")
        if self.max_cost:
            used.append(f"{self.cost + self._held_cost + self._aside_cost:,} of {self.max_cost:,} micro-dollars")
        return (
            f"the run has used {' and '.join(used)}, and its next call may use {tokens:,} tokens and cost {cost:,} "
            "micro-dollars: run again to go on (what was paid for is kept), or raise HINDLAKE_MODEL_BUDGET_TOKENS or "
            "HINDLAKE_MODEL_BUDGET_COST"
        )

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["_changed"]
        return {**state, "_held_tokens": 0, "_held_cost": 0}  # calls in flight are this process's own

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._changed = threading.Condition()
