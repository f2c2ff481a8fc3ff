"""`hindlake run nightly`, `weekly`, `dedup`, `merge`, `promote` as scripts see them."""

from __future__ import annotations

import pytest

from hindlake.flows import maintenance
from hindlake.memory_store.errors import StoreError
from shell import Shell


def test_a_week_is_shown_then_done_and_each_step_can_be_undone(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HINDLAKE_EMBEDDER", "wordllama")
    for text in ("Likes green tea.", "likes green tea", "Lives in Oslo."):
        shell("remember", text, "--subject", "ann")
    shown = shell("run", "nightly", "--dry-run", "--json").json
    assert [step["step"] for step in shown["steps"]] == list(maintenance.NIGHTLY)
    assert {row["decision"] for row in shown["steps"][1]["decisions"]} == {"activate", "merge"}
    done = shell("run", "weekly", "--json").json
    assert [step["step"] for step in done["steps"]] == list(maintenance.WEEKLY)
    assert done["steps"][1]["counts"] == shown["steps"][1]["counts"]
    assert done["failed"] == []
    assert "decisions" not in done["steps"][1]
    resolved = done["steps"][1]["run_id"]
    assert shell("undo", resolved, "--json").json["counts"]
    again = shell("run", "nightly")
    assert (again.code, "2 activated" in again.out) == (0, True)
    for job in ("dedup", "merge", "promote"):
        one = shell("run", job, "--json").json
        assert (one["job"], bool(one["run_id"])) == (job, True)
        assert "nothing was written" in shell("run", job, "--dry-run").out


def test_a_step_that_fails_is_told_and_the_exit_code_is_1(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise StoreError("the disk is full: free some space")

    monkeypatch.setattr(maintenance, "dedup", fails)
    shell("remember", "Likes tea.", "--subject", "ann")
    done = shell("run", "nightly")
    assert done.code == 1
    assert "dedup failed: StoreError: the disk is full" in done.out
    assert "sweep" in done.out.splitlines()[-1]


def test_two_engines_at_once_are_wrong_usage(shell: Shell) -> None:
    assert shell("run", "nightly", "--ray", "--loop").code == 2
