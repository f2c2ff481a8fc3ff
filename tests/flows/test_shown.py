"""What a person sees of a run: ids, counts and money, without a server."""

from __future__ import annotations

from hindlake.flows.shown import Shown, result_text


def test_a_summary_tells_runs_counts_and_cost_and_what_was_left_to_others() -> None:
    text = result_text(
        "nightly",
        [
            {"step": "settle", "run_id": "", "counts": {"accepted": 1200, "refused": 0}},
            {
                "step": "dedup", "run_id": "01abc", "counts": {"merge_pairs": 2}, "cost": 12_300, "input_tokens": 4000,
                "output_tokens": 50, "engine": "ray", "workers": ["a:1", "b:2"], "stopped": True, "busy": ["acme"],
            },
            {"step": "merge", "run_id": "", "counts": {}, "error": "see its task"},
        ],
        "2 steps done, 1 failed: merge",
    )  # fmt: skip
    assert text.splitlines() == [
        "### nightly",
        "",
        "2 steps done, 1 failed: merge",
        "",
        "| step | run | did | cost | more |",
        "|---|---|---|---|---|",
        "| settle |  | 1,200 accepted | none |  |",
        "| dedup | `01abc` | 2 merge pairs | 0.0123 USD, 4,000 + 50 tokens | on ray, 2 workers; stopped at its budget; "
        "the next run goes on; left to another run: acme |",
        "| merge |  | nothing to do | none | failed: see its task; the next run makes up for it |",
        "",
        "`hindlake undo RUN` takes back what a run decided.",
    ]


def test_a_summary_of_nothing_names_no_run() -> None:
    assert result_text("collect", [{"counts": {"events": 0}}]).splitlines()[-1] == (
        "| collect |  | nothing to do | none |  |"
    )


def test_progress_is_silent_outside_of_a_task_run() -> None:
    Shown("k-progress", "traces")(1, 2)
