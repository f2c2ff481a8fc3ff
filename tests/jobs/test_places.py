"""The same function in a loop, on Ray workers and as a Prefect flow: the same store, and proof of where it ran."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from hindlake.flows.pipeline import run_collect, run_reflect
from hindlake.memory_store.clock import ManualClock, SystemClock
from hindlake.memory_store.settings import Settings
from story_home import TODAY, log_rows, log_story, store_rows


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_loop_ray_and_prefect_give_the_same_store_and_say_where_they_ran(tmp_path: Path) -> None:
    told = Settings.load(home=str(tmp_path / "told"))
    log_story(told)
    run_collect(told, ManualClock(TODAY))
    homes = {}
    for name in ("loop", "ray", "prefect"):
        homes[name] = Settings.load(home=str(tmp_path / name))
        shutil.copytree(told.home, homes[name].home)
    here = f"{os.uname().nodename}:{os.getpid()}"

    in_loop = run_reflect(homes["loop"], SystemClock(), version="test", engine="loop")
    assert (in_loop.engine, in_loop.workers) == ("loop", {here})

    on_ray = run_reflect(homes["ray"], SystemClock(), version="test", engine="ray")
    assert on_ray.engine == "ray"
    assert on_ray.workers
    assert here not in on_ray.workers

    flow_run = as_flow(homes["prefect"])
    assert flow_run["state"] == "COMPLETED"
    assert flow_run["result"]["counts"]["traces"] == 9

    for name in ("ray", "prefect"):
        assert log_rows(homes[name]) == log_rows(homes["loop"]), name
        assert store_rows(homes[name]) == store_rows(homes["loop"]), name


def as_flow(settings: Settings) -> dict[str, Any]:
    """Run the flow on a server of its own, and ask that server how the run ended."""
    from prefect.client.orchestration import get_client
    from prefect.testing.utilities import prefect_test_harness

    from hindlake.flows.reflect import reflect

    async def last_run() -> Any:
        async with get_client() as client:
            runs = await client.read_flow_runs()
            return runs[0]

    with prefect_test_harness(server_startup_timeout=120):
        result = reflect(settings.home, None, "rules", "loop")
        flow_run = asyncio.run(last_run())
    return {"result": result, "state": flow_run.state.type.value, "name": flow_run.name}
