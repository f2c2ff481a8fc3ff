"""What was read before others wrote is decided on as it is now."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hindlake.jobs.deciding.propose import Proposer
from hindlake.jobs.reflecting.rules.attributes import holds_many
from hindlake.memory_store.clock import SystemClock
from hindlake.memory_store.embedders import embedder_named
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.store.generations import ensure, open_tables
from hindlake.sdk.memory import Memory


def proposer_of(lake: Lake, settings: Settings) -> Proposer:
    generation = ensure(lake, settings, SystemClock())
    tables, embedder = open_tables(settings, generation), embedder_named(generation.embedder, settings)
    return Proposer(lake, tables, embedder, settings.namespace, "run-1", SystemClock())


@pytest.mark.parametrize(
    ("change", "state"),
    [
        (lambda memory, id: memory.update(id, "Ticket 7 takes the place of ticket 5."), "superseded"),
        (lambda memory, id: memory.forget(id), "deleted"),
    ],
)
def test_what_a_user_changed_after_a_job_had_read_it_stays_changed(
    lake: Lake, settings: Settings, change: Callable[[Memory, str], object], state: str
) -> None:
    memory = Memory(settings)
    id, other = (memory.remember(text, kind="fact") for text in ("Ticket 5 was opened.", "Trains run late."))
    proposer = proposer_of(lake, settings)
    proposer.catch_up()
    pending = proposer.pending()
    assert {row["id"] for row in pending} == {id, other}
    change(memory, id)
    outcome = proposer.propose([], pending, [], holds_many=holds_many)
    assert memory.explain(id).memory["state"] == state
    assert memory.explain(other).memory["state"] == "active"
    assert (outcome.counts["pending"], outcome.counts["activated"], outcome.counts["unsettled"]) == (1, 1, 0)
