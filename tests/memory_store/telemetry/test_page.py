"""The page of what is told lists what is told, no more and no less."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from hindlake.memory_store.telemetry.events import EVENTS, FIELDS
from hindlake.memory_store.telemetry.otel import FIGURES, SPANS

PAGE = Path(__file__).parents[3] / "docs" / "observability.md"


def rows() -> Iterator[str]:
    """The rows of its tables, as the code has them."""
    for name, event in EVENTS.items():
        yield f"| `{name}` | {logging.getLevelName(event.level).lower()} | {event.says} |"
    for name, holds in FIELDS.items():
        yield f"| `{name}` | {holds} |"
    for name, covers in SPANS.items():
        yield f"| `{name} …` | {covers} |"
    for name, figure in FIGURES.items():
        by = ", ".join(f"`{attribute}`" for attribute in figure.attributes)
        yield f"| `{name}` | {figure.kind} | {figure.unit} | {figure.says} | {by} |"


def test_the_page_lists_what_is_told() -> None:
    shown = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    settings = [line for line in shown if line.startswith("| `HINDLAKE_")]
    assert shown == [*settings, *rows()]
