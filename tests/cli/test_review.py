"""`hindlake review`, as someone at a terminal, or with a file, uses it."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.records.reviews import read_reviews
from hindlake.memory_store.settings import Settings
from review_home import keep, lesson, log_trace
from shell import Done, Shell

MONTH = ("--month", "2026-02")


@pytest.fixture
def drawn(home: Path) -> Lake:
    """Three lessons of February."""
    lake = Lake.open(Settings.load(home=str(home)))
    log_trace(lake, "t1")
    keep(lake, lesson("near"), lesson("far"), lesson("wide"))
    return lake


@pytest.fixture
def typed(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command with lines typed into it; what is typed ends with Ctrl-C if the last line says so."""

    def run(lines: list[str], *arguments: str) -> Done:
        monkeypatch.setattr(sys, "stdin", _Typed(lines))
        return shell("review", *arguments)

    return run


class _Typed(io.StringIO):
    def __init__(self, lines: list[str]) -> None:
        super().__init__("".join(f"{line}\n" for line in lines if line != "^C"))
        self._breaks = lines[-1:] == ["^C"]

    def readline(self, size: int | None = -1, /) -> str:
        line = super().readline()
        if not line and self._breaks:
            raise KeyboardInterrupt
        return line


def verdicts(lake: Lake) -> list[tuple[str, str, str]]:
    rows = read_reviews(lake, "default")
    return [(row["verdict"], row["reason"], row["better"]) for row in rows if row["verdict"] != "drawn"]


def test_each_memory_is_shown_beside_its_evidence_and_judged(typed: Any, drawn: Lake) -> None:
    done = typed(["r as it should be", "w", "it is too broad", "When …, …", "?", "", "u"], *MONTH)
    assert done.code == 0, done.err
    for shown in ("3 memories drawn", "pass warehouse to find_stock", "“warehouse is required”", "ended in failure"):
        assert shown in done.out
    assert "user: I'm Dora Quint" in done.out
    assert verdicts(drawn) == [
        ("right", "as it should be", ""), ("wrong", "it is too broad", "When …, …"), ("unsure", "", ""),
    ]  # fmt: skip
    assert "50% right" in done.out
    assert "0 to be judged" in typed([], *MONTH).out


def test_what_was_answered_before_ctrl_c_is_kept_and_the_next_one_goes_on(typed: Any, drawn: Lake) -> None:
    done = typed(["r", "^C"], *MONTH)
    assert done.code == 1
    assert "run it again to go on" in done.err
    assert [verdict for verdict, _, _ in verdicts(drawn)] == ["right"]
    assert "3 memories drawn, 2 to be judged" in typed(["s", "w why not", "", "q"], *MONTH).out
    assert [verdict for verdict, _, _ in verdicts(drawn)] == ["right", "wrong"]
    assert "1 to be judged" in typed(["q"], *MONTH).out


def test_one_can_go_back_and_say_something_else(typed: Any, drawn: Lake) -> None:
    typed(["r", "b", "u", "q"], *MONTH)
    assert [verdict for verdict, _, _ in verdicts(drawn)] == ["right", "unsure"]
    assert len({row["memory_id"] for row in read_reviews(drawn, "default") if row["verdict"] != "drawn"}) == 1


def test_a_sample_goes_out_as_a_file_and_comes_back_filled_in(shell: Shell, drawn: Lake, tmp_path: Path) -> None:
    path = tmp_path / "sample.jsonl"
    assert shell("review", *MONTH, "--export", str(path), "--json").json["exported"] == 3
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert {row["id"] for row in rows} == {"near", "far", "wide"}
    assert rows[0]["evidence"][0]["outcome"] == "failure"
    for row, verdict in zip(rows, ("right", "wrong", ""), strict=True):
        row["verdict"] = verdict
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"id": "stranger", "verdict": "right"}]))
    value = shell("review", *MONTH, "--verdicts", str(path), "--json").json
    assert (value["kept"], value["known"], [item["id"] for item in value["refused"]]) == (2, 0, ["stranger"])
    assert value["sample"] == {
        "name": "2026-02", "drawn": 3, "judged": 2,
        **{name: value["sample"][name] for name in ("all", "kind", "reflector", "prompt")},
    }  # fmt: skip
    assert value["all"]["share"] == 0.5
    assert set(value["prompt"]) == {"reflect.v1"}
    assert value["reflector"]["openai:scripted"]["right"] == 1
    again = shell("review", *MONTH, "--verdicts", str(path), "--json").json
    assert (again["kept"], again["known"], again["all"]) == (0, 2, value["all"])
    shell("review", *MONTH, "--export", str(path), "--json")
    assert sorted(json.loads(line)["verdict"] for line in path.read_text().splitlines()) == ["", "right", "wrong"]


def test_a_file_of_which_no_line_can_be_used_fails_and_says_why(shell: Shell, drawn: Lake, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"id": "near", "verdict": "maybe"}\n')
    done = shell("review", *MONTH, "--verdicts", str(path))
    assert done.code == 1
    assert "line 1: there is no verdict 'maybe'" in done.out
    missing = shell("review", "--verdicts", str(tmp_path / "none.jsonl"))
    assert (missing.code, missing.out) == (2, "")
    path.write_bytes(b"\xff\xfe\x00")
    assert shell("review", "--verdicts", str(path)).code == 2


def test_what_is_judged_wrong_is_forgotten_when_asked(typed: Any, shell: Shell, drawn: Lake) -> None:
    typed(["w it is wrong", "", "q"], *MONTH)
    value = shell("review", *MONTH, "--apply", "--json").json
    (id,) = value["forgotten"]
    explained = shell("explain", id, "--json").json
    assert explained["state"] == "deleted"
    assert explained["decisions"][-1]["reason"] == "judged wrong in a review: it is wrong"
    assert id not in {hit["id"] for hit in shell("search", "", "-k", "10", "--json").json["hits"]}
    assert shell("review", *MONTH, "--apply", "--json").json["forgotten"] == []


def test_the_report_asks_nothing(shell: Shell, typed: Any, drawn: Lake) -> None:
    done = typed(["r", "r", "r"], *MONTH, "--report")
    assert (done.code, verdicts(drawn)) == (0, [])
    assert "3 drawn, 0 judged" in done.out
    assert shell("review", "--since", "2026-02-01", "--until", "2026-03-01", "--json").json["sample"]["drawn"] == 3


def test_last_month_is_taken_unless_told_and_this_one_where_it_has_nothing(shell: Shell, home: Path) -> None:
    from hindlake.memory_store.clock import SystemClock

    now = SystemClock().now()
    keep(Lake.open(Settings.load(home=str(home))), lesson("now", at=now))
    sample = shell("review", "--json").json["sample"]
    assert (sample["name"], sample["drawn"]) == (f"{now:%Y-%m}", 1)
    empty = shell("review", "-n", "nobody")
    assert (empty.code, "nothing was reflected then" in empty.err) == (0, True)


def test_options_that_exclude_each_other_are_named(shell: Shell) -> None:
    assert shell("review", *MONTH, "--since", "2026-02-01").code == 2
    assert "2026-11" in shell("review", "--month", "soon").err
