"""The Prefect flow `review`. What Prefect keeps of it are counts, never the text of a memory."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from prefect import flow, task
from pydantic import Field

from ..memory_store.clock import SystemClock
from .parameters import Month, Namespace, Place, settings_of
from .pipeline import run_review
from .shown import show_result


@task(name="draw-sample", retries=0)
def review_task(home: str | None, namespaces: list[str] | None, month: str, size: int) -> dict[str, int]:
    """Run the job once. A sample that was drawn before stays as it is."""
    return asdict(run_review(settings_of(home), SystemClock(), namespaces=namespaces or None, month=month, size=size))


@flow(name="review", retries=0, timeout_seconds=3600)
def review(
    home: Place | None = None,
    namespaces: list[Namespace] | None = None,
    month: Month = "",
    size: Annotated[int, Field(ge=1, le=10_000)] = 100,
) -> dict[str, Any]:
    """Fix the sample of a month that people are to judge (`hindlake review`): monthly. Returns counts.

    Args:
        home: Folder or s3://bucket/prefix; empty: as the worker's settings say.
        namespaces: The namespaces to work in; empty: all.
        month: A month such as 2026-11; empty: last month.
        size: Reflections of a namespace that are drawn, at most.
    """
    result = review_task(home, namespaces, month, size)
    show_result("review", [{"counts": result}], f"{result['drawn'] - result['judged']} memories wait to be judged")
    return result
