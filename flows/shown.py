"""What a person sees of a run in Prefect: how far it is, and what it did. Ids, counts and money, never a text."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.context import TaskRunContext
from prefect.logging import get_run_logger

#: Seconds between two updates of a progress artifact.
SECONDS = 5.0


class Shown:
    """The progress artifact of a run: made when the first portion is done, and brought up to date now and then.

    Where Prefect's server can't be told, that is logged, nothing more is shown, and the job goes on. Outside of a task
    run it shows nothing.
    """

    def __init__(self, key: str, what: str) -> None:
        self._key, self._what = key, what
        self._id: UUID | None = None
        self._next = 0.0

    def __call__(self, done: int, total: int) -> None:
        """So much of so much is done."""
        now = time.monotonic()
        if TaskRunContext.get() is None or total <= 0 or (now < self._next and done < total):
            return
        self._next = now + SECONDS
        with _Unharmed(self):
            self._show(100.0 * min(done, total) / total, f"{self._what}: {done:,} of {total:,}")

    def _show(self, share: float, said: str) -> None:
        if self._id is None:
            created: Any = create_progress_artifact(share, key=self._key, description=said)
            self._id = created
        else:
            update_progress_artifact(self._id, share, description=said)

    def stop(self) -> None:
        """Show nothing more."""
        self._next = float("inf")
        self._show = lambda share, said: None  # type: ignore[method-assign]


class _Unharmed:
    """The boundary to Prefect's server: that progress can't be shown stops no job."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        get_run_logger().warning("progress is not shown any more: %s", type(error).__name__)
        self._shown.stop()
        return True


def show_result(flow: str, results: Sequence[Mapping[str, Any]], note: str = "") -> None:
    """Make the two artifacts that tell what a run did: `<flow>-counts`, a table, and `<flow>-result`, a summary.

    Each of `results` is the summary of a report: `counts`, and, where it has them, `step`, `run_id`, `error`, `engine`,
    `workers`, `cost` (micro-dollars), `input_tokens`, `output_tokens`, `stopped`, `busy`. `note` is said first.
    """
    create_table_artifact(
        key=f"{flow}-counts",
        table=[
            {"step": str(one.get("step", flow)), "run": one.get("run_id", ""), "what": what, "count": count}
            for one in results
            for what, count in sorted(one["counts"].items())
        ],
        description=note or f"What {flow} counted",
    )
    create_markdown_artifact(key=f"{flow}-result", markdown=result_text(flow, results, note), description=note or flow)


def result_text(flow: str, results: Sequence[Mapping[str, Any]], note: str = "") -> str:
    """The summary in Markdown."""
    lines = [f"### {flow}", ""]
    lines += [note, ""] if note else []
    lines += ["| step | run | did | cost | more |", "|---|---|---|---|---|"]
    for one in results:
        did = ", ".join(f"{count:,} {what.replace('_', ' ')}" for what, count in sorted(one["counts"].items()) if count)
        run = f"`{one['run_id']}`" if one.get("run_id") else ""
        cells = (str(one.get("step", flow)), run, did or "nothing to do", _cost(one), _more(one))
        lines.append(f"| {' | '.join(cells)} |")
    if any(one.get("run_id") for one in results):
        lines += ["", "`hindlake undo RUN` takes back what a run decided."]
    return "\n".join(lines)


def _cost(result: Mapping[str, Any]) -> str:
    if not (result.get("input_tokens") or result.get("output_tokens") or result.get("cost")):
        return "none"
    tokens = f"{result.get('input_tokens', 0):,} + {result.get('output_tokens', 0):,} tokens"
    return f"{result.get('cost', 0) / 1e6:.4f} USD, {tokens}"


def _more(result: Mapping[str, Any]) -> str:
    said = []
    if result.get("error"):
        said.append(f"failed: {result['error']}; the next run makes up for it")
    if result.get("engine"):
        workers = len(result.get("workers", ()))
        said.append(f"on {result['engine']}" + (f", {workers} workers" if workers > 1 else ""))
    if result.get("stopped"):
        said.append("stopped at its budget; the next run goes on")
    if result.get("busy"):
        said.append(f"left to another run: {', '.join(result['busy'])}")
    return "; ".join(said)
