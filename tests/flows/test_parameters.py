"""Parameters of the flows are described, and checked before anything runs."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.exceptions import ParameterTypeError

DEPLOYMENTS: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[2] / "prefect.yaml").read_text()
)["deployments"]  # fmt: skip


def _flow(name: str) -> Any:
    module, _, function = name.rpartition(".")
    return getattr(importlib.import_module(module), function)


@pytest.mark.parametrize("entrypoint", sorted({one["entrypoint"] for one in DEPLOYMENTS}))
def test_every_parameter_says_what_it_is_and_every_flow_ends(entrypoint: str) -> None:
    flow = _flow(entrypoint)
    shown = flow.parameters.model_dump()["properties"]
    assert all(len(one.get("description", "")) > 10 for one in shown.values()), shown
    assert flow.retries == 0
    assert 0 < flow.timeout_seconds < 24 * 3600  # a purge is swept again after a day: no run may take longer


@pytest.mark.parametrize("one", DEPLOYMENTS, ids=lambda one: one["name"])
def test_a_deployment_runs_alone_at_a_time_of_a_zone_with_parameters_that_the_flow_takes(one: dict[str, Any]) -> None:
    assert one["concurrency_limit"] == {"limit": 1, "collision_strategy": "CANCEL_NEW"}
    assert all(set(schedule) == {"cron", "timezone"} for schedule in one.get("schedules", ()))
    needed = {"embedder": "wordllama"} if one["name"] == "reindex" else {}
    _flow(one["entrypoint"]).validate_parameters({**one["parameters"], **needed})


@pytest.mark.parametrize(
    "wrong",
    [
        {"namespaces": ["../other"]},
        {"namespaces": "default"},
        {"home": "http://example.com"},
        {"engine": "spark"},
        {"reflector": "magic"},
        {"traces": [""]},
        {"requested": "perhaps"},
    ],
    ids=str,
)
def test_what_can_not_be_meant_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParameterTypeError):
        _flow("hindlake.flows.reflect.reflect").validate_parameters(wrong)


@pytest.mark.parametrize("home", ["s3://bucket", "s3://bucket/prefix", "/srv/home", "home of mine", None])
def test_a_place_is_a_folder_or_a_prefix_of_a_bucket(home: str | None) -> None:
    assert _flow("hindlake.flows.collect.collect").validate_parameters({"home": home})["home"] == home


def test_a_month_and_a_size_are_checked() -> None:
    review = _flow("hindlake.flows.review.review")
    assert review.validate_parameters({"month": "2026-11", "size": 5})["month"] == "2026-11"
    for wrong in ({"month": "2026-13"}, {"month": "11"}, {"size": 0}):
        with pytest.raises(ParameterTypeError):
            review.validate_parameters(wrong)
