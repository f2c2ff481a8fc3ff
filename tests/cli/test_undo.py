"""`hindlake undo` and `hindlake restore` as scripts see them."""

from __future__ import annotations

from hindlake.memory_store.settings import Settings
from shell import Shell
from story_home import log_story


def test_a_run_is_found_in_the_list_and_taken_back(shell: Shell) -> None:
    assert shell("undo", "--json").json == {"runs": []}
    log_story(Settings.load(home=str(shell.home)))
    shell("run", "reflect")
    (reflected,) = shell("undo", "--json").json["runs"]
    assert (reflected["job"], reflected["status"]) == ("reflect", "done")
    id = reflected["run_id"]
    assert id in shell("undo").out
    shown = shell("undo", id, "--dry-run", "--json").json
    assert shell("search", "", "--subject", "*", "--json").json["hits"]
    done = shell("undo", id, "--json").json
    assert shown["counts"] == done["counts"]
    assert done["counts"]["deleted"] > 0
    assert shell("search", "", "--subject", "*", "--json").json["hits"] == []
    assert shell("undo").out.splitlines()[0].startswith(done["run_id"])
    again = shell("undo", done["run_id"])
    assert (again.code, "reverted" in again.out) == (0, True)
    assert shell("search", "", "--subject", "*", "--json").json["hits"]


def test_a_run_that_is_not_known_exits_with_2(shell: Shell) -> None:
    done = shell("undo", "nobody")
    assert (done.code, done.out) == (2, "")
    assert "hindlake undo" in done.err


def test_what_was_forgotten_comes_back(shell: Shell) -> None:
    id = shell("remember", "The kettle leaks").out.strip()
    shell("forget", id)
    assert shell("search", "kettle", "--json").json["hits"] == []
    assert shell("restore", id, "--json").json == {"id": id, "state": "pending"}
    assert [hit["id"] for hit in shell("search", "kettle", "--json").json["hits"]] == [id]
    assert shell("restore", id).code == 2
