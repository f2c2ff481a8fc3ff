"""`hindlake run credit` and `hindlake run decay` as a person uses them."""

from __future__ import annotations

from datetime import timedelta

from hindlake.memory_store.clock import ManualClock, SystemClock
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from hindlake.sdk.memory import Memory
from hindlake.sdk.recorder import Recorder
from shell import Shell


def test_what_misleads_is_shown_first_then_quarantined_and_listed(shell: Shell, settings: Settings) -> None:
    with Memory(settings) as memory, Recorder(settings) as recorder:
        bad, good = memory.remember("cancel at once", "experience"), memory.remember("wait and retry", "experience")
        for number in range(18):
            with recorder.task("refund", task_type="refund") as task:
                memory.used([(bad, good)[number % 2]])
                task.outcome(("failure", "success")[number % 2])
    shown = shell("run", "credit", "--dry-run", "--json").json
    assert [(row["decision"], row["id"]) for row in shown["decisions"]] == [("quarantine", bad)]
    assert "quarantine" not in shell("status").out
    assert "1 quarantine" in shell("run", "credit").out
    assert f"quarantine {bad}  9 of the 9 tasks" in shell("status").out
    assert shell("status", "--json").json["quarantined"][0]["id"] == bad
    shell("restore", bad)
    assert shell("status", "--json").json["quarantined"] == []


def test_what_has_decayed_is_archived_and_what_is_long_away_is_cold(shell: Shell, settings: Settings) -> None:
    long_ago = ManualClock(SystemClock().now() - timedelta(days=300))
    memory = Memory(settings, clock=long_ago)
    old = memory.remember("the lift is out of order", importance=0.5)
    memory.remember("the roof is new", importance=1.0)
    gone = memory.remember("the lamp flickers")
    memory.forget(gone)
    shell("run", "reflect")
    assert shell("run", "decay", "--dry-run", "--json").json["counts"] == {"archive": 1, "alive": 1, "cooled": 1}
    done = shell("run", "decay", "--json").json
    assert done["counts"] == {"archive": 1, "alive": 1, "cooled": 1}
    assert [row["id"] for row in done["decisions"]] == [old]
    assert "importance 0.50 has decayed to 0.05 in 300 days" in done["decisions"][0]["reason"]
    assert "nothing to do" not in shell("run", "decay").out
    assert "1 in cold storage" in shell("status").out


def test_a_namespace_with_a_slip_is_told_and_not_made(shell: Shell, settings: Settings) -> None:
    Memory(settings).remember("the lift is out of order")
    for command in ("reflect", "credit", "decay"):
        told = shell("run", command, "--namespace", "defualt")
        assert told.code != 0
        assert "has no namespace defualt: it has default" in told.err
    assert Lake.open(settings).namespaces() == ["default"]
