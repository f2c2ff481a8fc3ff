"""`hindlake prompts …`: from verdicts to a version that is looked at before it is used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hindlake.jobs.models.prompt_files import load_prompt, newest, packaged_prompts
from hindlake.jobs.models.scripted_model import Request, ScriptedModel, Turn, say
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from shell import Shell
from story_home import log_story

BASE = newest(packaged_prompts())
TOLD = "When pay is refused with card_expired, ask for another payment method before calling pay again."


def answers(request: Request) -> Turn:
    """One lesson; another one once the prompt has examples of reviewers."""
    learned = "# What reviewers said" in request.prompt
    text = "When pay says card_expired, offer the other cards that list_cards knows." if learned else TOLD
    item = {
        "event": "e2", "quote": "the card on file has expired", "quality": 4, "useful": True, "lasting": True,
        "trigger": "pay is refused with card_expired", "action": "call list_cards before pay", "text": text,
    }  # fmt: skip
    return say({"summary": "The card was refused.", "facts": [], "experiences": [item]}, usage=(1_000, 100))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_whole_loop_from_a_review_to_a_version_in_use(
    shell: Shell, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "prompts"
    monkeypatch.setenv("HINDLAKE_MODEL_PROMPTS", str(folder))
    log_story(Settings.load(home=str(home)))
    with ScriptedModel(answers) as model:
        monkeypatch.setenv("HINDLAKE_MODEL_BASE_URL", model.url)
        monkeypatch.setenv("HINDLAKE_MODEL_NAME", "scripted")
        assert shell("run", "reflect").code == 0
        path = tmp_path / "sample.jsonl"
        shell("review", "--export", str(path))
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        assert {row["text"] for row in rows} == {TOLD}
        said = {"verdict": "wrong", "reason": "it names no tool"}
        path.write_text("".join(json.dumps({"id": row["id"], **said}) + "\n" for row in rows))
        shell("review", "--verdicts", str(path))

        assert shell("prompts", "next", "--dry-run", "--json").json["text"].count("it names no tool") == 1
        assert not folder.exists()
        made = shell("prompts", "next", "--json").json
        name = made["name"]
        assert (made["base"], made["path"]) == (BASE, str(folder / f"{name}.md"))
        assert shell("prompts", "show", name, "--json").json["text"] == (folder / f"{name}.md").read_text()
        listed = {row["name"]: row for row in shell("prompts", "list", "--json").json["prompts"]}
        assert (listed[BASE]["in_use"], listed[BASE]["judged"]["wrong"]) == (True, len(rows))
        assert (listed[name]["from"], listed[name]["reviewed_examples"], listed[name]["in_use"]) == ("folder", 1, False)
        assert "has these examples already" in shell("prompts", "next").err

        before = len(model.calls)
        told = shell("prompts", "diff", BASE, name, "--forecast")
        assert f"+++ {name}" in told.out and "calls to be made" in told.out
        assert len(model.calls) == before
        first = shell("prompts", "diff", BASE, name, "--json").json
        assert first["forecast"]["traces"] == first["comparison"]["compared"] > 0
        assert first["forecast"]["calls"] == len(model.calls) - before  # the first version was answered in the run
        assert TOLD in {item["before"] for item in first["comparison"]["changed"] + first["comparison"]["lost"]}
        again = shell("prompts", "diff", BASE, name)
        assert again.code == 0
        assert "0 calls to be made" in again.err
        assert "paid now: 0 tokens" in again.out
        assert "HINDLAKE" not in shell("prompts", "diff", BASE, name, "--text").err

        lake = Lake.open(Settings.load(home=str(home)))
        lake.delete(lake.names("ns=default/gate"))
        monkeypatch.setenv("HINDLAKE_MODEL_PROMPT", name)
        assert shell("run", "reflect").code == 0
        (hit, *_) = shell("search", "list_cards", "--kind", "experience", "--json").json["hits"]
        assert shell("explain", hit["id"], "--json").json["reflector"] == f"openai:scripted@{name}"


def test_nothing_is_written_without_a_folder_and_an_unknown_version_is_named(shell: Shell) -> None:
    assert "hindlake review" in shell("prompts", "next").err
    unknown = shell("prompts", "show", "reflect.v999")
    assert (unknown.code, BASE in unknown.err) == (2, True)
    assert shell("prompts", "show", BASE).out.strip() == load_prompt(BASE).text.strip()
    same = shell("prompts", "diff", BASE, BASE)
    assert "the texts are the same" in same.out
    assert "no trace to try them on" in same.err
