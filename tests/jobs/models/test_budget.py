"""The ceiling of a run."""

from __future__ import annotations

import pickle
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake.jobs.models.budget import Budget, estimate_tokens
from hindlake.memory_store.errors import BudgetExceeded

_CALLS = st.lists(st.tuples(st.integers(1, 400), st.integers(1, 400), st.floats(0, 1), st.floats(0, 1)), max_size=40)


@given(_CALLS, st.integers(1, 3_000), st.integers(0, 400))
def test_what_was_used_never_passes_a_ceiling_when_forecasts_hold(
    calls: list[tuple[int, int, float, float]], tokens: int, cost: int
) -> None:
    budget = Budget(tokens, cost, input_price=150_000, output_price=600_000)
    used = spent = 0
    for estimate, limit, share_in, share_out in calls:
        try:
            hold = budget.reserve(estimate, limit)
        except BudgetExceeded:
            would = budget.tokens + estimate + limit, budget.cost + budget.price(estimate, limit)
            assert would[0] > tokens or (cost and would[1] > cost)
            continue
        used_in, used_out = int(estimate * share_in), int(limit * share_out)
        spent += budget.settle(hold, used_in, used_out).cost
        used += used_in + used_out
    assert (budget.tokens, budget.cost) == (used, spent)
    assert used <= tokens
    assert not cost or spent <= cost


def test_a_call_waits_while_only_calls_in_flight_stand_in_its_way() -> None:
    budget = Budget(tokens=1_000)
    first = budget.reserve(100, 500)
    got: list[object] = []
    thread = threading.Thread(target=lambda: got.append(budget.reserve(100, 500)))
    thread.start()
    thread.join(0.05)
    assert (thread.is_alive(), got) == (True, [])
    budget.settle(first, 100, 50)
    thread.join(10)
    assert len(got) == 1
    with pytest.raises(BudgetExceeded):
        budget.reserve(900, 500)


def test_no_ceiling_is_no_ceiling() -> None:
    budget = Budget()
    budget.settle(budget.reserve(10**9, 10**9), 10**9, 10**9)
    assert budget.reserve(10**9, 10**9).cost == 0


def test_a_budget_that_was_pickled_in_mid_call_holds_nothing_back() -> None:
    budget = Budget(tokens=1_000)
    budget.settle(budget.reserve(100, 100), 100, 50)
    budget.reserve(100, 500)
    copy = pickle.loads(pickle.dumps(budget))
    assert copy.tokens == 150
    copy.reserve(100, 700)


@given(st.text())
def test_an_estimate_grows_with_the_text(text: str) -> None:
    assert len(text) / 3 <= estimate_tokens(text) <= len(text)
    assert estimate_tokens(text + "x") >= estimate_tokens(text)
