"""`hindlake eval recall` on sets made up here, in the files' formats: what it reads, asks and counts."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hindlake.cli import app
from hindlake.cli.evaluating import histories, scores

runner = CliRunner()


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(v) + "\n" for v in value) if ".jsonl" in path.name else json.dumps(value)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(text)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with a little of each set."""
    folder = tmp_path / "data"

    def said(id: str, speaker: str, text: str, **more: str) -> dict[str, str]:
        return {"dia_id": id, "speaker": speaker, "text": text, **more}

    write(folder / "locomo" / "two.json.gz", [{
        "sample_id": "c1",
        "conversation": {
            "speaker_a": "Ida", "speaker_b": "Ove",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [said("D1:1", "Ida", "I planted three plum trees"), said("D1:2", "Ove", "In your yard?")],
            "session_2_date_time": "9:00 am on 2 June, 2023",
            "session_2": [said("D2:1", "Ove", "My kayak leaks", blip_caption="a red boat"),
                          said("D2:2", "Ida", "Patch it with tar")],
        },
        "qa": [
            {"question": "What did Ida plant?", "evidence": ["D1:1"], "category": 4},
            {"question": "What is wrong with the kayak?", "evidence": ["D2:1; D2:2"], "category": 1},
            {"question": "Whose parrot sings?", "evidence": ["D1:1"], "category": 5},
        ],
    }])  # fmt: skip
    turns = {"a": "I bought a harp in Cork", "b": "My shoes are size 44", "c": "We ate noodles"}
    write(folder / "longmemeval" / "some_sessions.jsonl.gz",
          [{"key": k, "turns": [{"role": "user", "content": text}, {"role": "assistant", "content": "I see."}]}
           for k, text in turns.items()])  # fmt: skip
    ask = {"haystack_session_ids": ["s1", "s2", "s3"], "haystack_session_keys": ["a", "b", "c"],
           "haystack_dates": ["2023/05/20 (Sat) 02:21"] * 3, "question_date": "2023/06/01 (Thu) 10:00",
           "question_type": "single"}  # fmt: skip
    write(folder / "longmemeval" / "some_questions.jsonl.gz", [
        {**ask, "question_id": "q1", "question": "Where did I buy the harp?", "answer_session_ids": ["s1"]},
        {**ask, "question_id": "q2_abs", "question": "What is my cat called?", "answer_session_ids": []},
    ])  # fmt: skip
    write(folder / "memdaily" / "one.json.gz", [{
        "tid": 0,
        "message_list": [{"mid": 0, "message": "我的表妹住在大连", "time": "2024年04月01日 周一 08:30"},
                         {"mid": 1, "message": "明天要交水电费", "time": "2024年04月01日 周一 08:31"}],
        "question_list": [{"question": "表妹住哪里？", "target_step_id": [0], "time": "2024年04月02日 周二 08:30"}],
    }])  # fmt: skip
    belief = {"user_id": "u", "aliases": [], "scope": ["domain:x"], "confidence": 0.9, "pinned": False,
              "superseded_by": None, "resolved_at": None, "type": "preference"}  # fmt: skip
    folder = folder / "precisionmembench"
    folder.mkdir()
    (folder / "beliefs.seed.json").write_text(json.dumps([
        {**belief, "_id": "old", "canonical_name": "tea_old", "content": "Drinks black tea", "superseded_by": "new"},
        {**belief, "_id": "new", "canonical_name": "tea", "content": "Drinks oolong tea"},
        {**belief, "_id": "pin", "canonical_name": "units", "content": "Metric units only", "pinned": True},
    ]))  # fmt: skip
    (folder / "retrieval.cases.json").write_text(json.dumps([
        {"caseId": "a", "scope": ["domain:x"], "query": "which tea?", "userId": "u",
         "expect": {"relevantBeliefs": {"shouldOnlyInclude": ["new"]}, "pinnedFacts": {"mustInclude": ["pin"]}}},
        {"caseId": "b", "scope": ["domain:x"], "query": "which tea?", "userId": "stranger",
         "expect": {"relevantBeliefs": {"shouldOnlyInclude": ["new"]}}},
    ]))  # fmt: skip
    return tmp_path / "data"


def test_every_set_is_measured_with_the_stated_keys(data: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    result = runner.invoke(app, ["eval", "recall", "--data", str(data), "--cache", str(cache), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {
        "locomo": {"r1": 0.75, "r5": 1.0, "r10": 1.0, "n": 2},
        "locomo_session": {"r1": 1.0, "r5": 1.0, "r10": 1.0, "n": 2},
        "longmemeval": {"hit1": 1.0, "r5": 1.0, "ndcg10": 1.0, "n": 1},
        "memdaily": {"r1": 1.0, "r3": 1.0, "r5": 1.0, "empty": 0, "n": 1},
        "precision": {"passed": 1, "n": 2},
    }
    assert "failed b" in result.stderr and "p50_ms" in result.stderr
    assert list(cache.rglob("*.npz"))


def test_a_leg_can_be_left_out_and_a_set_that_is_missing_is(data: Path) -> None:
    (data / "memdaily" / "one.json.gz").unlink()
    arguments = ["--sets", "locomo,memdaily", "--without", "text", "--without", "near", "--set", "search.fusion=rrf"]
    result = runner.invoke(app, ["eval", "recall", "--data", str(data), *arguments, "--json"])
    assert result.exit_code == 0, result.output
    assert list(json.loads(result.stdout)) == ["locomo"]


def test_an_ablation_has_a_row_for_each_stage_and_fusion(data: Path) -> None:
    result = runner.invoke(
        app, ["eval", "recall", "--data", str(data), "--sets", "locomo,precision", "--ablation", "--json"]
    )
    assert result.exit_code == 0, result.output
    [(name, rows)] = json.loads(result.stdout).items()
    assert name == "locomo" and {"as shipped", "reciprocal rank fusion", "vector alone"} <= rows.keys()
    assert all(list(figures) == ["r1", "r5", "r10", "n"] for figures in rows.values())
    assert rows["as shipped"]["r5"] == 1.0


@pytest.mark.parametrize(
    "wrong", [["--sets", "nosuch"], ["--without", "nosuch"], ["--set", "search"], ["--set", "nosuch.name=1"]]
)
def test_what_can_not_be_meant_is_said(data: Path, wrong: list[str]) -> None:
    result = runner.invoke(app, ["eval", "recall", "--data", str(data), *wrong])
    assert result.exit_code != 0


def test_times_of_the_sets_are_read(data: Path) -> None:
    [talk] = histories.locomo(data)
    assert [session.at.isoformat()[:16] for session in talk.sessions] == ["2023-05-08T13:56", "2023-06-02T09:00"]
    [haystack] = histories.longmemeval(data)
    assert haystack.questions[0].at.isoformat()[:16] == "2023-06-01T10:00"
    [day] = histories.memdaily(data)
    assert day.sessions[0].at.isoformat()[:16] == "2024-04-01T08:30"
    assert talk.sessions[1].turns[0].text == "My kayak leaks [shares image: a red boat]"


def test_scores_are_those_of_the_books() -> None:
    assert scores.all_found(["a", "b"], {"a", "b"}, 1) == 0.0 == scores.hit([], {"a"})
    assert scores.ndcg(["x", "a", "b"], {"a", "b"}, 10) == pytest.approx((0.6309 + 0.5) / 1.6309, abs=1e-4)
