"""Rounds of chaos: whatever dies, stands still, is full, lies or comes twice, nothing acknowledged is lost or doubled.

`CHAOS_ROUNDS=200 CHAOS_SEED=1` runs more of them, or others; docs/durability.md tells what they are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from chaos.__main__ import told
from chaos.disk import can_mount
from chaos.plan import FAULTS, draw
from chaos.rounds import run_round
from chaos.template import Template
from servers.embeddings import Embeddings
from servers.faulty import KINDS
from servers.s3 import S3Server

ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "12"))
SEED = int(os.environ.get("CHAOS_SEED", "1"))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """The home that rounds begin with."""
    return Template(tmp_path_factory.mktemp("template"))


@pytest.fixture(scope="module")
def embeddings() -> Iterator[Embeddings]:
    """The endpoint of a second embedding model."""
    server = Embeddings()
    yield server
    server.close()


def test_the_first_rounds_have_every_fault() -> None:
    kinds = {kind for seed in range(1, 60) for kind in draw(seed, can_fill=True).faults}
    assert kinds == {*FAULTS, *KINDS}


def test_a_seed_gives_one_plan() -> None:
    assert draw(7, can_fill=True) == draw(7, can_fill=True) != draw(8, can_fill=True)


@pytest.mark.slow
def test_a_disk_can_be_filled_here() -> None:
    if reason := can_mount():
        pytest.skip(reason)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(SEED, SEED + ROUNDS))
def test_nothing_acknowledged_is_lost_or_doubled(
    seed: int, s3: S3Server, embeddings: Embeddings, template: Template, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run_round(draw(seed, can_fill=not can_mount()), s3.endpoint, embeddings, template)
    with capsys.disabled():
        print(f"\n{told(done)}")
    assert done.is_right, told(done)
