"""The Prefect flow `review`. What Prefect keeps of it are counts, never the text of a memory."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from prefect import flow, task
from prefect.artifacts import create_table_artifact

from ..memory_store.clock import SystemClock
from ..memory_store.settings import Settings
from .pipeline import run_review


@task(name="draw-sample", retries=0)
def review_task(home: str | None, namespaces: list[str] | None, month: str, size: int) -> dict[str, int]:
    """Run the job once. A sample that was drawn before stays as it is."""
    report = run_review(Settings.load(home=home), SystemClock(), namespaces=namespaces, month=month, size=size)
    return asdict(report)


@flow(name="review")
def review(
    home: str | None = None, namespaces: list[str] | None = None, month: str = "", size: int = 100
) -> dict[str, Any]:
    """Fix the sample of last month that people are to judge (`hindlake review`): monthly.

    `home` and `namespaces` are those of the worker's settings, and all, unless given; `month` is one such as 2026-11.
    Returns counts.
    """
    result = review_task(home, namespaces, month, size)
    create_table_artifact(
        key="review-counts",
        table=[{"what": name, "count": count} for name, count in result.items()],
        description=f"{result['drawn'] - result['judged']} memories wait to be judged",
    )
    return result
