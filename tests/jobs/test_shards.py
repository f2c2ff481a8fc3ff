"""The door to Ray: what it raises when it can't start names the way out."""

from __future__ import annotations

import pytest

from hindlake.jobs.shards import _start, choose_engine, map_shards
from hindlake.memory_store.errors import HindlakeError
from hindlake.memory_store.settings import Settings


class _Busy:
    """Ray on a machine that is too busy, as its node says it."""

    def init(self, **_: object) -> None:
        """Wait for half a minute and give up."""
        raise Exception("The current node timed out during startup.")


def test_ray_that_does_not_start_is_an_error_that_names_the_way_out(settings: Settings) -> None:
    with pytest.raises(HindlakeError, match=r"timed out during startup.*--loop"):
        _start(_Busy(), settings)


def test_small_work_stays_in_this_process_unless_it_is_asked_for_or_there_is_a_cluster(settings: Settings) -> None:
    cluster = Settings.load(home=settings.home, ray_address="10.0.0.1:6379")
    assert [choose_engine(settings, "auto", 10), choose_engine(settings, "ray", 1)] == ["loop", "ray"]
    assert [choose_engine(settings, "auto", 5_000), choose_engine(settings, "auto", 5_000, least=6_000)] == [
        "ray",
        "loop",
    ]
    assert [choose_engine(cluster, "auto", 1), choose_engine(cluster, "loop", 1)] == ["ray", "loop"]


def test_a_loop_gives_results_in_the_order_of_the_shards_and_raises_what_a_shard_raises(settings: Settings) -> None:
    assert [placed.result for placed in map_shards(abs, [-3, 2, -1], settings, "loop")] == [3, 2, 1]
    with pytest.raises(ZeroDivisionError):
        list(map_shards(lambda shard: 1 // shard, [1, 0], settings, "loop"))
