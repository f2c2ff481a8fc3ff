"""The command line as scripts see it: one JSON object, diagnostics apart, and three exit codes."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import typer.main

from hindlake.cli import app
from shell import Shell

DATA = Path(os.environ.get("HINDLAKE_DATA") or Path(__file__).parents[3] / "shared" / "data")


def runs(path: Path) -> Path:
    """A small file of OpenAI-message records: two failed and solved runs of one task, and a broken record."""

    def call(id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        function = {"name": name, "arguments": json.dumps(arguments)}
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": id, "type": "function", "function": function}],
        }

    def record(task: int, trial: int, reward: float, *messages: dict[str, Any]) -> dict[str, Any]:
        return {"task_id": task, "trial": trial, "reward": reward, "traj": list(messages)}

    refused = "Error: voucher cannot be combined with points"
    failed = record(
        1, 0, 0.0,
        {"role": "user", "content": "Book the blue room for Monday, please."},
        call("c1", "book_room", {"pay": ["voucher", "points"]}),
        {"role": "tool", "tool_call_id": "c1", "name": "book_room", "content": refused},
        {"role": "assistant", "content": "It did not work, sorry."},
    )  # fmt: skip
    solved = record(
        1, 1, 1.0,
        {"role": "user", "content": "Book the blue room for Monday, please."},
        call("c1", "book_room", {"pay": ["voucher", "points"]}),
        {"role": "tool", "tool_call_id": "c1", "name": "book_room", "content": refused},
        call("c2", "book_room", {"pay": ["voucher"]}),
        {"role": "tool", "tool_call_id": "c2", "name": "book_room", "content": '{"status": "booked"}'},
        {"role": "assistant", "content": "Booked."},
    )  # fmt: skip
    path.write_bytes(gzip.compress(json.dumps([failed, {"traj": 7}, solved]).encode()))
    return path


@pytest.fixture
def learned(shell: Shell, tmp_path: Path) -> Shell:
    shell("ingest", str(runs(tmp_path / "runs.json.gz")))
    assert shell("run", "reflect", "--json").code == 0
    return shell


def test_ingest_counts_what_it_loaded_and_says_where_it_could_not(shell: Shell, tmp_path: Path) -> None:
    file = runs(tmp_path / "runs.json.gz")
    first = shell("ingest", str(file), "--json")
    assert (first.code, first.json["loaded"], first.json["known"]) == (0, 2, 0)
    (rejected,) = first.json["rejected"]
    assert "runs.json.gz" in rejected["where"]
    assert rejected["why"]
    again = shell("ingest", str(file), "--json").json
    assert (again["loaded"], again["known"], len(again["rejected"])) == (0, 2, 1)


def test_status_of_a_home_where_nothing_has_happened_yet(shell: Shell) -> None:
    value = shell("status", "--json").json
    assert value["lake"] == {"traces": 0, "events": 0, "tool_errors": 0}
    assert (value["store"]["memories"], value["store"]["pending"]) == ({}, 0)


def test_status_counts_lake_and_store(learned: Shell) -> None:
    value = learned("status", "--json").json
    assert (value["lake"]["traces"], value["lake"]["tool_errors"]) == (2, 2)
    assert value["store"]["memories"]["episode"] == 2
    assert value["store"]["memories"]["experience"] >= 1
    assert value["store"]["folded_to"] > 0
    assert value["store"]["generation"]
    assert value["runs"][0]["status"] == "done"
    waiting = {"events": 0, "oldest": None, "inbox": 0, "log": 0, "traces": 0, "questions": 0}
    assert value["waiting"] == waiting
    assert "episode" in learned("status").out


def test_status_counts_what_is_not_folded_yet(learned: Shell) -> None:
    before = learned("status", "--json").json["store"]
    id = learned("remember", "The blue room has no projector", "--json").json["id"]
    after = learned("status", "--json").json["store"]
    assert (after["memories"]["fact"], after["pending"]) == (1, before["pending"] + 1)
    learned("forget", id)
    assert learned("status", "--json").json["store"]["memories"] == before["memories"]


def test_search_and_explain_lead_from_a_question_to_the_events_behind_the_answer(learned: Shell) -> None:
    hits = learned("search", "voucher and points", "--tool", "book_room", "--json").json["hits"]
    keys = {
        "id", "kind", "text", "score", "state", "subject", "entities", "tool", "outcome", "error_code", "valid_from",
        "evidence",
    }  # fmt: skip
    assert keys <= hits[0].keys()
    assert (hits[0]["kind"], hits[0]["tool"], hits[0]["state"]) == ("experience", "book_room", "active")
    conditions = ("--any", "tool=book_room", "--any", "error-code=E0", "--all", "kind=experience", "--json")
    some = learned("search", "voucher and points", *conditions).json["hits"]
    assert some[0]["id"] == hits[0]["id"] and {hit["tool"] for hit in some} == {"book_room"}
    without = learned("search", "voucher and points", "--not", "tool=book_room", "--json").json["hits"]
    assert hits[0]["id"] not in {hit["id"] for hit in without}
    told = learned("explain", "--query", "voucher and points", *conditions).json["hits"]
    assert [verdict["id"] for verdict in told] == [hit["id"] for hit in some]
    assert all(place["rank"] >= 1 for verdict in told for place in verdict["legs"].values())
    value = learned("explain", hits[0]["id"], "--json").json
    assert any("voucher cannot be combined" in item["quote"] for item in value["evidence"])
    assert value["run"]["job"] == "reflect"
    assert [item["decision"] for item in value["decisions"]][:2] == ["add", "activate"]
    shown = learned("explain", hits[0]["id"]).out
    assert "voucher cannot be combined" in shown
    assert value["run"]["run_id"] in shown


def test_a_rebuild_from_the_lake_alone_answers_as_before(learned: Shell) -> None:
    question = ("search", "voucher and points", "--json", "--limit", "9")
    before = learned(*question).json["hits"]
    shutil.rmtree(learned.home / "store")
    assert learned("rebuild", "--json").code == 0
    after = learned(*question).json["hits"]
    assert [(hit["id"], hit["text"]) for hit in after] == [(hit["id"], hit["text"]) for hit in before]


def test_without_its_store_a_search_names_the_command_that_brings_it_back(learned: Shell) -> None:
    shutil.rmtree(learned.home / "store")
    done = learned("search", "voucher")
    assert done.code == 1
    assert "hindlake rebuild" in done.err


def test_the_same_run_again_changes_nothing(learned: Shell) -> None:
    before = learned("status", "--json").json
    assert learned("run", "reflect", "--json").json["counts"]["traces"] == 0
    after = learned("status", "--json").json
    assert (after["store"], after["lake"]) == (before["store"], before["lake"])


def test_options_may_stand_before_or_after_the_command(shell: Shell, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    assert shell("--home", other, "--json", "status").json["home"] == other
    assert shell("status", "--home", other, "--json").json["home"] == other
    assert shell("status", "-n", "acme", "--json").json["namespace"] == "acme"


def test_with_json_only_one_object_is_on_standard_output(learned: Shell) -> None:
    done = learned("search", "no such thing as this", "--kind", "fact", "--json")
    assert done.json["hits"] == []
    assert "nothing found" in done.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("search",),
        ("nonsense",),
        ("status", "--nonsense"),
        ("search", "x", "--limit", "0"),
        ("search", "x", "--kind", "opinion"),
        ("search", "x", "--not", "nothing=1"),
        ("search", "x", "--any", "tool"),
        ("remember", ""),
        ("remember", "x", "--importance", "7"),
        ("explain", "no-such-id"),
        ("explain", "no-such-id", "--tool", "pay"),
        ("explain", "--query", "refund", "--any", "tool"),
        ("search", "refund", "--not", "colour=red"),
        ("forget", "no-such-id"),
        ("run", "reflect", "--ray", "--loop"),
        ("run", "reflect", "--reflector", "openai"),
        ("status", "-n", "Not A Name"),
        ("ingest", "no-such-file.json"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_to_do(shell: Shell, arguments: tuple[str, ...]) -> None:
    done = shell(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.strip()
    assert "Traceback" not in done.err


def test_a_home_that_can_not_be_written_exits_with_1(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = shell("status", "--home", str(tmp_path / "file"))
    assert (done.code, done.out) == (1, "")
    assert "HINDLAKE_HOME" in done.err


def test_a_broken_settings_file_is_named(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hindlake.toml").write_text("[modle]\nname = 'x'\n")
    done = shell("status")
    assert done.code == 2
    assert "modle" in done.err
    assert "hindlake.toml" in done.err


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with its path."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


#: Commands whose input and output another program prescribes.
PRESCRIBED = {("hook", "claude-code")}
EVERY = dict(commands(typer.main.get_command(app)))  # type: ignore[arg-type]


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_every_command_has_json_home_and_a_help_that_says_what_it_does(shell: Shell, path: tuple[str, ...]) -> None:
    done = shell(*path, "--help")
    assert done.code == 0
    assert ("--json" in done.out) == (path not in PRESCRIBED)
    assert "--home" in done.out
    assert len(EVERY[path].help or "") > 40


def test_the_script_runs_as_a_process_of_its_own(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hindlake.cli", "status", "--home", str(home), "--json"], capture_output=True, text=True
    )
    assert (done.returncode, json.loads(done.stdout)["home"]) == (0, str(home))
    wrong = subprocess.run([sys.executable, "-m", "hindlake.cli", "nonsense"], capture_output=True, text=True)
    assert wrong.returncode == 2


def test_the_airline_runs_give_a_hundred_traces_once(shell: Shell) -> None:
    file = DATA / "taubench" / "airline_trials_0_1.json.gz"
    if not file.exists():
        pytest.skip(f"the measuring data is not here: {file.name} (HINDLAKE_DATA names its folder)")
    assert shell("ingest", str(file), "--json").json["loaded"] == 100
    again = shell("ingest", str(file), "--json").json
    assert (again["loaded"], again["known"], again["rejected"]) == (0, 100, [])
    assert shell("status", "--json").json["lake"] == {"traces": 100, "events": 2328, "tool_errors": 33}


def test_an_eval_without_data_says_what_it_looks_for(shell: Shell, tmp_path: Path) -> None:
    done = shell("eval", "reflect", "--data", str(tmp_path))
    assert done.code == 2
    assert "whowhen" in done.err


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_eval_prints_an_object_for_each_set(shell: Shell) -> None:
    if not (DATA / "agentrx").is_dir():
        pytest.skip("the measuring data is not here (HINDLAKE_DATA names its folder)")
    value = shell("eval", "reflect", "--data", str(DATA), "--reflector", "rules", "--json").json
    assert value["reflector"] == "rules@2"
    for name in ("trail", "whowhen", "agentrx", "taubench", "realmem"):
        assert {"recall", "precision", "n"} <= value[name].keys()
        assert 0 <= value[name]["recall"] <= 1


@pytest.mark.parametrize("job", ["collect", "compact", "reflect"])
def test_the_counts_of_a_job_are_numbers(shell: Shell, job: str) -> None:
    value = shell("run", job, "--json").json
    assert isinstance(value["run_id"], str)
    assert all(isinstance(count, int) for count in value["counts"].values())


def test_the_gate_s_saving_is_printed_for_each_set_and_mix(shell: Shell, tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "Name a river."}, {"role": "assistant", "content": "The Wye."}]
    (tmp_path / "longmemeval").mkdir()
    sessions = tmp_path / "longmemeval" / "few_sessions.jsonl.gz"
    sessions.write_bytes(gzip.compress(json.dumps({"turns": turns}).encode()))
    value = shell("eval", "gate", "--data", str(tmp_path), "--json").json
    assert [(one["n"], one["saved"]) for one in value["sets"]] == [(1, 1.0)]
    assert value["mixes"] == {"assistant": 1.0}
    assert "saved on the mix" in shell("eval", "gate", "--data", str(tmp_path)).out
