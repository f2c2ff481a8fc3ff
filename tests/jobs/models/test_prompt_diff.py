"""What another version of a prompt changes, on a fixed sample, within a budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hindlake.jobs.models.prompt_diff import Change, Comparison, PromptDiff, sample_groups, text_diff
from hindlake.jobs.models.prompt_files import load_prompt, newest, packaged_prompts
from hindlake.jobs.models.scripted_model import Request, ScriptedModel, Turn, say
from hindlake.memory_store.errors import ModelError, UsageError
from hindlake.memory_store.files.lake import Lake, namespace_path
from hindlake.memory_store.history.log import log_paths
from hindlake.memory_store.schema import table_of
from hindlake.memory_store.settings import ModelSettings, Settings
from review_home import MADE, log_trace

FIRST, SECOND = newest(packaged_prompts()), "reflect.v77"


@pytest.fixture
def traces(lake: Lake, tmp_path: Path) -> Lake:
    """Six traces that the gate let through and one that it did not; another version of the prompt."""
    for number in range(7):
        log_trace(lake, f"t{number}", task_id="t0" if number in (0, 1) else "", outcome="failure")
    rows: list[dict[str, object]] = [
        {"namespace": "default", "trace_id": f"t{number}", "at": MADE, "reflected": number < 6, "events": 5}
        for number in range(7)
    ]
    lake.put_table(namespace_path("default", "gate", "g.parquet"), table_of(rows, "gate"))
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / f"{SECOND}.md").write_text(load_prompt(FIRST).text + "\n# More\n\nBe brief.\n")
    return lake


def settings_of(home: Path, url: str, **chosen: Any) -> Settings:
    folder = str(home.parent / "prompts")
    model = {"base_url": url, "calls": "off", "prompts": folder, "timeout_seconds": 5, "concurrency": 1, **chosen}
    return Settings.load(home=str(home), model=ModelSettings(**model))


def item(text: str) -> dict[str, Any]:
    return {
        "event": "e2", "quote": "warehouse is required", "quality": 4, "trigger": "stock is looked up",
        "action": "pass warehouse to find_stock", "text": text, "useful": True, "lasting": True,
    }  # fmt: skip


SAME = "When stock is looked up, pass warehouse to find_stock."
BEFORE = "When find_stock fails with BAD_WAREHOUSE, try another warehouse of the shop."
AFTER = "When find_stock fails with BAD_WAREHOUSE, try the warehouse nearest to the shop."
GONE = "Ask list_regions for regions before a lookup."
NEW = "Tell the person which depots were tried."


def answers(request: Request) -> Turn:
    texts = (SAME, AFTER, NEW) if "Be brief." in request.prompt else (SAME, BEFORE, GONE)
    return say({"summary": "s", "experiences": [item(text) for text in texts]}, usage=(1_000, 100))


def compare(traces: Lake, settings: Settings, size: int = 20) -> tuple[PromptDiff, Comparison]:
    both = PromptDiff(settings, FIRST, SECOND, sample_groups(traces, "default", size), pause=0.001)
    return both, both.compare()


def test_memories_are_gained_lost_and_changed_and_the_figures_add_up(traces: Lake, home: Path) -> None:
    with ScriptedModel(answers) as model:
        _, found = compare(traces, settings_of(home, model.url))
    assert (found.traces, found.compared, found.failed, found.unpaid) == (6, 6, 0, 0)
    assert found.same == 6
    assert {(c.before, c.after) for c in found.changed} == {(BEFORE, AFTER)}
    assert {c.before for c in found.lost} == {GONE}
    assert {c.after for c in found.gained} == {NEW}
    assert found.first.memories == found.same + len(found.changed) + len(found.lost)
    assert found.second.memories == found.same + len(found.changed) + len(found.gained)
    assert (found.first.input_tokens, found.first.output_tokens) == (6_000, 600)
    assert found.paid_tokens == 13_200
    assert found.paid_cost == found.first.cost + found.second.cost == 12 * 210
    assert found.changed[0] == Change(found.changed[0].trace_id, "experience", BEFORE, AFTER)


def test_comparing_again_costs_nothing_and_decides_nothing(traces: Lake, home: Path) -> None:
    with ScriptedModel(answers) as model:
        settings = settings_of(home, model.url)
        both, first = compare(traces, settings)
        asked = len(model.calls)
        again = PromptDiff(settings, FIRST, SECOND, sample_groups(traces, "default", 20), pause=0.001)
        assert again.forecast().calls == 0
        second = again.compare()
        assert len(model.calls) == asked == 12
    assert (second.paid_tokens, second.paid_cost, second.calls) == (0, 0, 0)
    assert (second.first, second.second, second.changed) == (first.first, first.second, first.changed)
    assert log_paths(traces, "default") == []
    assert both.budget.cost > 0


def test_the_forecast_calls_no_one_and_is_not_passed(traces: Lake, home: Path) -> None:
    with ScriptedModel(lambda request: say({"summary": "s"})) as model:
        both = PromptDiff(settings_of(home, model.url), FIRST, SECOND, sample_groups(traces, "default", 20))
        asked = both.forecast()
        assert model.calls == []
        found = both.compare()
    assert asked.calls == found.calls == 12
    assert 0 < found.paid_tokens <= asked.tokens
    assert 0 < found.paid_cost <= asked.cost


def test_it_stops_at_the_budget_and_goes_on_from_there(traces: Lake, home: Path) -> None:
    with ScriptedModel(answers) as model:
        small = settings_of(home, model.url, budget_tokens=9_000)
        both, found = compare(traces, small)
        rest = PromptDiff(small, FIRST, SECOND, sample_groups(traces, "default", 20)).forecast()
        assert both.budget.exceeded_by(rest)
        assert found.paid_tokens <= 9_000
        assert found.unpaid > 0
        assert found.compared + found.unpaid == found.traces == 6
        _, whole = compare(traces, settings_of(home, model.url))
        assert (whole.compared, whole.calls + found.calls, rest.calls) == (6, 12, whole.calls)


def test_a_trace_of_which_nothing_comes_is_counted_and_changes_nothing(traces: Lake, home: Path) -> None:
    with ScriptedModel(lambda r: say("", refusal="no") if "Be brief." in r.prompt else answers(r)) as model:
        _, found = compare(traces, settings_of(home, model.url), size=2)
    assert (found.traces, found.failed, found.compared) == (2, 2, 0)
    assert (found.lost, found.first.memories) == ([], 0)


def test_without_an_endpoint_what_is_kept_still_answers(traces: Lake, home: Path) -> None:
    with ScriptedModel(answers) as model:
        _, first = compare(traces, settings_of(home, model.url))
    _, again = compare(traces, settings_of(home, ""))
    assert again.changed == first.changed
    with pytest.raises(ModelError, match="HINDLAKE_MODEL_BASE_URL"):
        compare(traces, settings_of(home, "", max_output_tokens=999))


def test_the_sample_depends_on_ids_only_and_brings_the_other_runs_of_a_task(traces: Lake) -> None:
    groups = sample_groups(traces, "default", 20)
    ids = [group.fresh[0].trace_id for group in groups]
    assert sorted(ids) == [f"t{number}" for number in range(6)]
    assert ids != sorted(ids)
    assert [group.fresh[0].trace_id for group in sample_groups(traces, "default", 3)] == ids[:3]
    by_id = {group.fresh[0].trace_id: [trace.trace_id for trace in group.known] for group in groups}
    assert (by_id["t0"], by_id["t1"], by_id["t2"]) == (["t1"], ["t0"], [])
    assert sample_groups(traces, "empty", 20) == []


def test_texts_are_compared_line_by_line_and_only_prompts_that_reflect_are_tried(
    home: Path, traces: Lake, tmp_path: Path
) -> None:
    lines = text_diff(load_prompt(FIRST), load_prompt(SECOND, str(tmp_path / "prompts")))
    assert lines[:2] == [f"--- {FIRST}", f"+++ {SECOND}"]
    assert "+Be brief." in lines
    assert text_diff(load_prompt(FIRST), load_prompt(FIRST)) == []
    with pytest.raises(UsageError, match="reflect"):
        PromptDiff(settings_of(home, ""), FIRST, "other.v1", [])
