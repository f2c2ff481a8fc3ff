"""The flow collect, as a worker would run it, without a server."""

from __future__ import annotations

import importlib
from pathlib import Path

import yaml

from hindlake.memory_store.settings import Settings
from hindlake.sdk.recorder import Recorder

DEPLOYMENTS = Path(__file__).parents[2] / "prefect.yaml"


def test_what_was_logged_is_collected_and_counts_are_all_that_is_told(settings: Settings) -> None:
    from hindlake.flows.collect import collect_task

    recorder = Recorder(settings)
    assert recorder.feedback("trace-1", "a secret remark")
    recorder._spool.seal()
    result = collect_task.fn(settings.home, None)
    assert result["collect"]["events"] + result["compact"]["files"] >= 1
    assert result["compact"]["young"] + result["compact"]["alone"] == result["compact"]["files"] == 1
    assert all(type(count) is int for counts in result.values() for count in counts.values())


def test_every_deployment_names_a_flow_and_says_what_it_does() -> None:
    deployments = yaml.safe_load(DEPLOYMENTS.read_text())["deployments"]
    assert {one["name"] for one in deployments} >= {"hourly", "collect"}
    for one in deployments:
        module, name = one["entrypoint"].rsplit(".", 1)
        assert getattr(importlib.import_module(module), name).name == name
        assert one["description"].endswith(".")
