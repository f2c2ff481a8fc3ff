"""The measurement counts what it says it counts, on data whose answer is plain."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from hindlake.jobs.evals.reflect import bm25, evaluate
from hindlake.jobs.reflecting.candidates import Candidate, Evidence, Reflection, TraceGroup
from hindlake.jobs.reflecting.rules_reflector import RulesReflector
from hindlake.memory_store.errors import UsageError
from hindlake.memory_store.settings import Settings


@pytest.fixture
def options(tmp_path: Path) -> Settings:
    return Settings.load(home=str(tmp_path / "home"))


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps(value).encode()))


def run(task: int, trial: int, reward: float, *turns: dict[str, object]) -> dict[str, object]:
    return {"task_id": task, "trial": trial, "reward": reward, "traj": list(turns), "info": {}}


def call(id: str, tool: str, arguments: dict[str, object], answer: str) -> list[dict[str, object]]:
    asked = {"id": id, "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": id, "name": tool, "content": answer},
    ]


BIKE = {"role": "user", "content": "I want to swap the saddle of the rented bike."}
TENT = {"role": "user", "content": "Please extend the rental of the tent by a week."}


@dataclass(frozen=True)
class Pointing:
    """A reflector that quotes the event at one place of each trace."""

    place: int
    name: str = "pointing@1"

    def reflect(self, group: TraceGroup) -> Reflection:
        return Reflection(
            tuple(
                Candidate(
                    "experience", "mind it", (Evidence(trace.trace_id, trace.events[self.place].event_id, ""),),
                    trace.started_at, trigger="asked by Priya Raman for ORD-5512",
                )
                for trace in group.fresh
            )
        )  # fmt: skip


def history(data: Path) -> None:
    turns = [{"role": "A", "name": "A", "content": f"line {n} of what was said"} for n in range(4)]
    base = {"question": "How many?", "ground_truth": "4", "is_correct": False, "question_ID": "q"}
    runs = [{**base, "history": turns, "mistake_step": "2", "mistake_agent": "A", "mistake_reason": "no"}]
    write(data / "whowhen" / "runs.json.gz", runs)


@pytest.mark.parametrize(("place", "recall", "near"), [(3, 1.0, 1.0), (2, 0.0, 1.0), (1, 0.0, 0.0)])
def test_a_lesson_is_right_at_the_step_or_one_beside_it(
    tmp_path: Path, options: Settings, place: int, recall: float, near: float
) -> None:
    history(tmp_path / "data")
    figures = evaluate(tmp_path / "data", Pointing(place), options)["whowhen"]
    assert (figures["recall"], figures["recall_1"], figures["precision"], figures["n"]) == (recall, near, recall, 1)
    assert figures["recall_agent"] == 1.0


def test_a_trigger_with_an_id_counts_as_wrong(tmp_path: Path, options: Settings) -> None:
    history(tmp_path / "data")
    assert evaluate(tmp_path / "data", Pointing(0), options)["whowhen"]["wrong_triggers"] == 1


def test_a_failed_run_is_found_by_the_other_trial_of_its_task(tmp_path: Path, options: Settings) -> None:
    def failed(task: int, wish: dict[str, object], tool: str) -> list[dict[str, object]]:
        turns = [
            wish,
            *call("c1", tool, {"id": 1}, "Error: not allowed"),
            *call("c2", tool, {"id": 1}, "Error: not allowed"),
        ]
        return [run(task, trial, 0.0, *turns, {"role": "assistant", "content": f"Sorry {trial}."}) for trial in (0, 1)]

    runs = [*failed(1, BIKE, "swap_part"), *failed(2, TENT, "extend_rental")]
    write(tmp_path / "data" / "taubench" / "runs.json.gz", runs)
    figures = evaluate(tmp_path / "data", RulesReflector(), options)["taubench"]
    assert (figures["recall"], figures["n"], figures["failed_runs_with_a_lesson"]) == (1.0, 4, 4)
    blind = evaluate(tmp_path / "data", RulesReflector(), options, rank=lambda texts, query: [])["taubench"]
    assert (blind["recall"], blind["proposed"]) == (0.0, 0)


def test_a_gold_memory_is_covered_by_the_statement_of_its_turn(tmp_path: Path, options: Settings) -> None:
    turns = [
        {"speaker": "User", "content": "My budget is 900 euros."},
        {"speaker": "Assistant", "content": "Noted. My budget is 7."},
    ]
    gold = [
        {"content": "The budget of the user is 900 euros", "source_turn": 0},
        {"content": "The sky is blue", "source_turn": 0},
    ]
    session = {"dialogue_turns": turns, "extracted_memory": gold}
    write(tmp_path / "data" / "realmem" / "one.json.gz", {"dialogues": [session]})
    figures = evaluate(tmp_path / "data", RulesReflector(), options)["realmem"]
    assert (figures["recall"], figures["precision"], figures["n"], figures["proposed"]) == (0.5, 1.0, 2, 1)


def test_a_folder_without_any_set_is_refused_with_what_is_wanted(tmp_path: Path, options: Settings) -> None:
    with pytest.raises(UsageError, match="trail, whowhen"):
        evaluate(tmp_path, RulesReflector(), options)


def test_the_ranking_prefers_rare_words() -> None:
    texts = ["extend a rental", "extend a lease of a tent", "swap a saddle"]
    assert bm25(texts, "extend the tent") == [1, 0]
    assert bm25([], "anything") == []
