"""The flow review, as a worker would run it, without a server."""

from __future__ import annotations

import pytest

from hindlake.memory_store.errors import UsageError
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from review_home import keep, lesson


def test_the_sample_is_drawn_and_counts_are_all_that_is_told(settings: Settings, lake: Lake) -> None:
    from hindlake.flows.review import review_task

    keep(lake, lesson("a"), lesson("b"))
    first = review_task.fn(settings.home, None, "2026-02", 1)
    assert first == {"namespaces": 1, "drawn": 1, "judged": 0}
    assert review_task.fn(settings.home, ["default"], "2026-02", 1) == first
    with pytest.raises(UsageError, match="has no namespace other"):
        review_task.fn(settings.home, ["other"], "2026-02", 1)
