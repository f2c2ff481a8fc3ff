"""The check of the chaos suite catches what it is there for: planted losses, planted duplicates, and the like."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos import sabotage
from chaos.check import check
from chaos.ledger import Ledger, read_ledgers
from chaos.template import Template
from hindlake.flows.maintenance import NIGHTLY, run_steps
from hindlake.memory_store.clock import SystemClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.store.generations import build
from hindlake.sdk.memory import Memory

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home at rest and its ledger, as a round leaves them."""
    folder = tmp_path_factory.mktemp("rested")
    template = Template(folder / "template")
    settings = Settings.load(home=str(folder / "home"), embedder="wordllama")
    (folder / "desk").mkdir()
    template.copy(settings, folder / "desk")
    ledger = Ledger(folder / "desk", "agent1")
    with Memory(settings) as memory:
        for number in range(3):
            text = f"Ticket t{number} was opened."
            ledger.note("remember", id=memory.remember(text), text=text)
    assert not run_steps(NIGHTLY, settings, SystemClock(), version="chaos").failed
    return folder


@pytest.fixture
def desk(rested: Path, tmp_path: Path) -> tuple[Settings, list[dict[str, Any]]]:
    """A copy of it that may be broken."""
    shutil.copytree(rested / "home", tmp_path / "home")
    return Settings.load(home=str(tmp_path / "home"), embedder="wordllama"), read_ledgers(rested / "desk")


def test_a_home_at_rest_passes(desk: tuple[Settings, list[dict[str, Any]]]) -> None:
    verdict = check(*desk, {})
    assert verdict.is_right, verdict
    assert verdict.acknowledged == {"event": 2, "remember": 3}


@pytest.mark.parametrize(
    ("act", "of", "kind"),
    [
        (sabotage.lose_memory, "remember", "lost"),
        (sabotage.change_memory, "remember", "lost"),
        (sabotage.lose_event, "event", "lost"),
        (sabotage.double_memory, "remember", "doubled"),
        (sabotage.double_act, "remember", "doubled"),
        (sabotage.double_event, "event", "doubled"),
        (sabotage.tear_log, "remember", "wrong"),
    ],
)
def test_what_is_planted_is_caught(
    desk: tuple[Settings, list[dict[str, Any]]], act: Callable[[Lake, dict[str, Any]], None], of: str, kind: str
) -> None:
    settings, ledger = desk
    lake = Lake.open(settings)
    act(lake, next(entry for entry in ledger if entry["what"] == of))
    if kind != "wrong" and act is not sabotage.double_act:
        build(lake, settings, SystemClock())  # so that the store agrees with the log, and the ledger alone can tell
    verdict = check(settings, ledger, {})
    assert [name for name in ("lost", "doubled", "wrong") if getattr(verdict, name)] == [kind], verdict


def test_a_store_that_differs_from_the_lake_is_caught(desk: tuple[Settings, list[dict[str, Any]]]) -> None:
    settings, ledger = desk
    lake = Lake.open(settings)
    sabotage.lose_memory(lake, next(entry for entry in ledger if entry["what"] == "remember"))
    assert any(said.startswith("the store has") for said in check(settings, ledger, {}).wrong)


def test_purged_text_that_is_still_there_is_caught(desk: tuple[Settings, list[dict[str, Any]]]) -> None:
    settings, ledger = desk
    one = next(entry for entry in ledger if entry["what"] == "remember")
    verdict = check(settings, ledger, {one["id"]: one["text"]})
    assert verdict.lost == [f"the purge of {one['id']}"]
    assert any("still says what was purged" in said for said in verdict.wrong)
