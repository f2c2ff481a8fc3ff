"""`hindlake replay` and `hindlake explain --query` as people and scripts see them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hindlake.cli.session import safe
from hindlake.sdk.memory import Memory
from hindlake.sdk.recorder import Recorder
from shell import Shell


@pytest.fixture
def lived(shell: Shell, home: Path) -> Shell:
    """A home in which a task read a memory that is said over several lines, with signs that a terminal obeys."""
    with Memory(home=str(home)) as memory:
        memory.remember("Refunds go\nby bank\x1b[2J transfer \u202e!", "rule", subject="ann")
        recorder = Recorder(memory.settings)
        with recorder.task("Refund Ann", subject="ann", task_id="refund-ann") as task:
            memory.used(memory.search("how are refunds paid?", subject="ann"))
            task.tool_call("pay", error_code="LIMIT")
            task.outcome("failure")
        recorder.close()
    return shell


def test_a_replay_reads_as_lines_under_their_day_and_controls_no_terminal(lived: Shell) -> None:
    told = lived("replay", "--since", "1h", "--subject", "ann")
    assert told.code == 0
    assert "\x1b" not in told.out and "\u202e" not in told.out
    words = [line.split()[1:3] for line in told.out.splitlines() if line.startswith("  ") and line[2].isdigit()]
    assert words == [
        ["write", "remember"], ["trace", "started"], ["read", "search"], ["read", "used"], ["trace", "ended"],
        ["write", "episode"],
    ]  # fmt: skip
    assert "Refunds go by bank◦[2J transfer ◦!" in told.out
    assert told.out.rstrip().endswith("2 write, 2 trace, 2 read")


def test_a_replay_as_json_is_one_object_and_as_a_page_one_file(lived: Shell, tmp_path: Path) -> None:
    told = lived("replay", "--since", "1h", "--trace", "refund-ann", "--json")
    assert told.json["counts"] == {"trace": 2, "read": 2, "step": 1, "write": 1}
    assert [entry["kind"] for entry in told.json["entries"]].count("step") == 1
    named = {id for entry in told.json["entries"] for id in entry.get("memories", [])}
    assert named == set(told.json["memories"])
    file = tmp_path / "page.html"
    made = lived("replay", "--since", "1h", "--html", str(file), "--most", "2", "--json")
    assert (made.json["shown"], made.json["left_out"], made.json["purged"]) == (2, 4, 0)
    assert file.read_text(encoding="utf-8").startswith("<!doctype html>")
    said = lived("replay", "--since", "1h", "--html", str(file), "--most", "2")
    assert "2 entries in " in said.out and "; 4 earlier ones are left out" in said.out


def test_nothing_in_a_period_is_said_and_a_time_that_is_none_is_wrong_usage(lived: Shell) -> None:
    assert "nothing happened then" in lived("replay", "--since", "2020-01-01", "--until", "2020-01-02").err
    wrong = lived("replay", "--since", "soon")
    assert wrong.code == 2 and "'soon' is no time" in wrong.err


def test_a_search_is_explained_with_what_was_expected(lived: Shell) -> None:
    told = lived("explain", "--query", "how are refunds paid?", "--json").json
    (cut,) = told["cut"]
    assert (told["hits"], cut["reason"], cut["subject"]) == ([], "subject", "ann")
    found = lived("explain", "--query", "refunds", "--subject", "ann", "--expected", cut["id"])
    assert "returned: it is hit 1 of 1" in found.out and "vector" in found.out
    for wrong in (["explain"], ["explain", "ID", "--query", "q"], ["explain", "--query", "q", "--as-of", "1"]):
        assert lived(*wrong).code == 2


def test_what_a_terminal_would_obey_is_shown_instead() -> None:
    assert safe("a\r\x9b\u200eb\u2066\ud800") == "a◦◦◦b◦◦"
    assert safe("日本 👩\u200d💻\n\tشكرا") == "日本 👩\u200d💻\n\tشكرا"
