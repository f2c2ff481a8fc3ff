"""`hindlake run patterns`, as a user calls it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hindlake.memory_store.settings import Settings
from patterns_home import log
from shell import Shell


def test_a_dry_run_shows_what_a_run_then_keeps(shell: Shell, settings: Settings) -> None:
    log(settings, "abc", at=datetime.now(UTC) - timedelta(days=1))
    shown = shell("run", "patterns", "--dry-run")
    assert shown.code == 0, shown.err
    assert "go on with hoist" in shown.out
    done = shell("run", "patterns", "--json").json
    assert (done["counts"]["found"], done["counts"]["added"], done["not_due"]) == (1, 1, [])
    (hit,) = shell("search", "slip unknown", "--kind", "experience", "--json").json["hits"]
    assert "crane" in hit["text"]
    assert "was left alone" in shell("run", "patterns", "--every", "5").out


def test_loop_and_ray_exclude_each_other(shell: Shell, settings: Settings) -> None:
    assert shell("run", "patterns", "--loop", "--ray").code == 2
