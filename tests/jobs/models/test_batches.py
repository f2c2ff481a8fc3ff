"""The Batch API as a mode: what goes wrong at the provider or on the way, and what is paid for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hindlake.jobs.models.batch_desk import BatchDesk
from hindlake.jobs.models.questions import Question, question_of
from hindlake.jobs.models.scripted_batches import ScriptedBatches
from hindlake.jobs.models.scripted_model import Request, Turn, say, status
from hindlake.jobs.reflecting.candidates import Reflection, TraceGroup
from hindlake.jobs.reflecting.model_reflector import ModelReflector
from hindlake.jobs.reflecting.reply import ReflectReply
from hindlake.memory_store.capture.events import Event, Trace
from hindlake.memory_store.clock import ManualClock
from hindlake.memory_store.errors import ModelError
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.records.batches import batches_out, last_done, questions_out
from hindlake.memory_store.settings import ModelSettings, Settings

NOW = datetime(2026, 3, 1, tzinfo=UTC)
FACT = {"kind": "fact", "text": "The user's budget is 8000.", "event": "e0", "quote": "My budget is 8000"}
GOOD = say({"facts": [FACT]}, usage=(1000, 100))


def trace(number: int, *more: str) -> TraceGroup:
    id = f"t{number}"
    texts = (f"My budget is 8000. Task {number}.", *more)
    events = [
        Event("default", id, f"{id}-{seq}", seq, NOW + timedelta(seconds=seq), "message", role="user", content=text)
        for seq, text in enumerate(texts)
    ]
    return TraceGroup(id, (Trace("default", id, tuple(events)),))


def question(settings: Settings, text: str) -> Question:
    return question_of(
        settings.model, [{"role": "user", "content": text}], ReflectReply,
        limit=100, plain=False, namespace="default", prompt_hash="",
    )  # fmt: skip


class Cycle:
    """Runs over the same groups, as the job makes them: collect, reflect on what is answered, send the rest."""

    def __init__(self, settings: Settings, model: ScriptedBatches, traces: int = 3, **chosen: Any) -> None:
        endpoint = {"base_url": model.url, "calls": "off", "timeout_seconds": 5, "mode": "batch", "retries": 1}
        self.settings = settings.model_copy(update={"model": ModelSettings(**{**endpoint, **chosen})})
        self.clock = ManualClock(NOW)
        self.groups = [trace(number) for number in range(traces)]
        self.lake = Lake.open(settings)
        self.runs = 0

    def run(self) -> tuple[BatchDesk, list[Reflection]]:
        """One run."""
        reflector = ModelReflector(self.settings, pause=0.001)
        self.runs += 1
        desk = reflector.desk(self.lake, "default", f"run{self.runs}", self.clock)
        desk.collect()
        kept = reflector.kept_only(desk.out, desk.failed)
        said = [kept.reflect(group) for group in self.groups]
        for reflection in said:
            desk.submit(reflection.waiting)
        desk.flush()
        return desk, said

    def until_done(self, model: ScriptedBatches, runs: int = 10) -> list[Reflection]:
        """Run until nothing waits, the provider answering all in between."""
        for _ in range(runs):
            _, said = self.run()
            if not any(one.waiting or one.out for one in said):
                return said
            model.finish()
        raise AssertionError(f"still waiting after {runs} runs")


@pytest.fixture
def model() -> Iterator[ScriptedBatches]:
    with ScriptedBatches([GOOD]) as server:
        yield server


def facts(said: list[Reflection]) -> int:
    return sum(len(reflection.candidates) for reflection in said)


def test_questions_go_up_in_one_file_and_their_answers_are_found_by_the_run_that_collects_them(
    settings: Settings, model: ScriptedBatches
) -> None:
    cycle = Cycle(settings, model)
    desk, said = cycle.run()
    assert (desk.counts["asked"], facts(said), len(model.batches), model.calls) == (3, 0, 1, [])
    assert questions_out(cycle.lake, "default") == 3
    desk, said = cycle.run()
    assert (+desk.counts, [reflection.out for reflection in said]) == ({}, [1, 1, 1])
    model.finish()
    desk, said = cycle.run()
    assert (desk.counts["collected"], facts(said), len(model.batches)) == (3, 3, 1)
    assert (desk.usage.calls, desk.usage.input_tokens, desk.usage.output_tokens) == (3, 3000, 300)
    assert questions_out(cycle.lake, "default") == 0
    assert all(name.endswith("-copy") for name in model.files), "nothing is left lying at the provider"


def test_a_call_in_a_batch_costs_half_or_what_the_settings_say(settings: Settings, model: ScriptedBatches) -> None:
    full = 3 * (1000 * 150_000 + 100 * 600_000) // 1_000_000
    for place, (part, cost) in enumerate([(0.5, full // 2), (1.0, full), (0.0, 0)]):
        cycle = Cycle(settings, model, name=f"m{place}", batch_price=part)
        cycle.run()
        model.finish()
        desk, _ = cycle.run()
        assert (desk.usage.cost, desk.counts["collected"]) == (cost, 3)
        assert desk.forecast.cost >= cost


def test_a_batch_and_single_calls_share_their_replies(settings: Settings, model: ScriptedBatches) -> None:
    cycle = Cycle(settings, model)
    cycle.until_done(model)
    direct = ModelReflector(cycle.settings.model_copy(
        update={"model": cycle.settings.model.model_copy(update={"mode": "direct"})}
    ))  # fmt: skip
    assert facts([direct.reflect(group) for group in cycle.groups]) == 3
    assert direct.usage.calls == 0


def test_files_are_split_by_requests_and_by_bytes(settings: Settings, model: ScriptedBatches) -> None:
    cycle = Cycle(settings, model, traces=5, batch_requests=2)
    desk, _ = cycle.run()
    sizes = [len(out.batch.questions) for out in batches_out(cycle.lake, "default")]
    assert (sizes, desk.counts["asked"], len(set(model.asked))) == ([2, 2, 1], 5, 5)
    cycle = Cycle(settings, model, name="other", batch_mb=1)
    desk = ModelReflector(cycle.settings).desk(cycle.lake, "default", "r", cycle.clock)
    desk.submit(question(cycle.settings, f"{number}" + "字" * 130_000) for number in range(6))
    desk.flush()
    sizes = [len(content) for name, content in model.files.items() if name.endswith("-copy")][3:]
    assert len(sizes) == 3
    assert max(sizes) <= 1_000_000


def test_answers_in_any_order_twice_and_of_no_ones_asking_are_sorted_out(
    settings: Settings, model: ScriptedBatches
) -> None:
    def spoil(lines: list[str]) -> list[str]:
        stranger = {**json.loads(lines[0]), "custom_id": "never-asked"}
        worse = {**json.loads(lines[1]), "response": {"status_code": 500, "body": None}}
        twin = json.loads(lines[2])
        twin["response"]["body"]["choices"][0]["message"]["content"] = "another answer"
        return [json.dumps(worse), *lines[::-1], "", "{no json", "[]", json.dumps(stranger), json.dumps(twin)]

    cycle = Cycle(settings, model)
    cycle.run()
    model.finish(spoil=spoil)
    desk, said = cycle.run()
    assert (facts(said), desk.usage.calls, len(model.batches)) == (3, 3, 1)
    done = last_done(cycle.lake, "default")
    assert done is not None
    assert (done.answered, done.failed, done.unanswered, done.strange) == (3, 0, 0, 4)


def test_questions_that_failed_are_asked_again_and_the_others_are_kept(settings: Settings) -> None:
    seen: list[str] = []

    def script(request: Request) -> Turn:
        seen.append(request.prompt)
        return status(500, "overloaded") if "Task 1." in request.prompt and len(seen) <= 3 else GOOD

    with ScriptedBatches(script) as model:
        cycle = Cycle(settings, model)
        cycle.run()
        model.finish()
        desk, said = cycle.run()
        assert (facts(said), desk.counts["asked"], desk.usage.failed_calls) == (2, 1, 1)
        model.finish()
        assert facts(cycle.run()[1]) == 3
        assert len(seen) == 4


def test_a_question_that_never_gets_a_reply_becomes_a_row_after_so_many_batches(settings: Settings) -> None:
    with ScriptedBatches(lambda request: status(500, "overloaded") if "Task 1." in request.prompt else GOOD) as model:
        cycle = Cycle(settings, model, retries=2)
        said = cycle.until_done(model)
        assert len(model.asked) == 3 + 2
        (failed,) = [reflection for reflection in said if reflection.error]
        assert "overloaded (asked in 3 batches)" in failed.error
        _, said = cycle.run()
        assert [len(reflection.waiting) for reflection in said] == [0, 1, 0], "the next run asks it again"


def test_a_question_that_is_refused_is_a_row_at_once(settings: Settings) -> None:
    with ScriptedBatches(
        lambda request: status(400, "no such thing") if "Task 1." in request.prompt else GOOD
    ) as model:
        said = Cycle(settings, model).until_done(model)
        assert len(model.asked) == 3
        assert ["no such thing" in reflection.error for reflection in said] == [False, True, False]


def test_of_an_expired_or_cancelled_batch_what_is_done_is_kept_and_the_rest_asked_again(settings: Settings) -> None:
    for ending in ("expired", "cancelled"):
        with ScriptedBatches([GOOD]) as model:
            cycle = Cycle(settings, model, name=ending)
            cycle.run()
            model.finish(status=ending, only=1)
            desk, said = cycle.run()
            assert (facts(said), desk.counts["collected"], desk.counts["asked"]) == (1, 1, 2)
            model.finish()
            desk, said = cycle.run()
            assert (facts(said), desk.usage.calls, len(model.asked)) == (3, 2, 5)


def test_an_output_file_that_is_lost_counts_as_forecast_and_is_paid_for_again(
    settings: Settings, model: ScriptedBatches
) -> None:
    cycle = Cycle(settings, model)
    cycle.run()
    model.finish(lose_output=True)
    desk, said = cycle.run()
    assert (facts(said), desk.usage.repeated_calls, desk.counts["asked"]) == (0, 3, 3)
    assert desk.usage.output_tokens == 3 * cycle.settings.model.max_output_tokens
    model.finish()
    assert facts(cycle.run()[1]) == 3


def test_a_batch_that_the_provider_has_forgotten_is_asked_again(settings: Settings, model: ScriptedBatches) -> None:
    cycle = Cycle(settings, model)
    cycle.run()
    model.batches[0].id = "another"
    desk, _ = cycle.run()
    assert (desk.usage.repeated_calls, desk.counts["asked"]) == (3, 3)
    model.finish()
    assert facts(cycle.run()[1]) == 3


def test_a_batch_that_is_refused_as_a_whole_says_why_and_costs_nothing(
    settings: Settings, model: ScriptedBatches
) -> None:
    cycle = Cycle(settings, model)
    cycle.run()
    model.finish(status="failed", errors=[("model_not_found", "there is no such model")])
    desk, _ = cycle.run()
    assert desk.failure == "the batch was refused: model_not_found there is no such model"
    assert (desk.usage.calls, desk.counts["asked"]) == (0, 0)
    assert facts(cycle.until_done(model)) == 3


def test_a_batch_for_which_the_queue_has_no_room_is_sent_in_halves(settings: Settings, model: ScriptedBatches) -> None:
    cycle = Cycle(settings, model, traces=4)
    cycle.run()
    model.finish(status="failed", errors=[("token_limit_exceeded", "enqueued token limit reached")])
    desk, _ = cycle.run()
    assert desk.failure == ""
    assert [len(out.batch.questions) for out in batches_out(cycle.lake, "default")] == [2, 2]
    model.finish()
    assert facts(cycle.run()[1]) == 4
    done = last_done(cycle.lake, "default")
    assert done is not None
    assert done.most >= 4, "and grows again when they are through"


def test_parameters_and_structure_that_a_model_does_not_take_are_left_out_of_the_next_batch(
    settings: Settings,
) -> None:
    def script(request: Request) -> Turn:
        if "temperature" in request.body:
            return status(400, "temperature is not supported")
        return status(400, "max_tokens: use max_completion_tokens") if "max_tokens" in request.body else GOOD

    with ScriptedBatches(script, modes=("json_object",)) as model:
        cycle = Cycle(settings, model)
        assert facts(cycle.until_done(model)) == 3
        before = len(model.batches)
        cycle.groups = [trace(number) for number in range(10, 12)]
        assert facts(cycle.until_done(model)) == 2
        assert len(model.batches) == before + 1, "the next run begins with what was learned"


def test_a_prompt_that_is_too_long_is_told_in_shorter_parts_by_the_next_batch(settings: Settings) -> None:
    def script(request: Request) -> Turn:
        too_long = len(request.body["messages"][1]["content"]) > 8_000
        return status(400, "maximum context length exceeded") if too_long else GOOD

    with ScriptedBatches(script) as model:
        cycle = Cycle(settings, model, traces=1)
        cycle.groups = [trace(0, *["word " * 400] * 19)]
        (said,) = cycle.until_done(model)
        assert (said.error, facts([said])) == ("", 1)
        asked = len(model.asked)
        assert (facts(cycle.run()[1]), len(model.asked)) == (1, asked), "what was too long is never asked again"


def test_the_parts_of_a_long_trace_go_one_a_batch(settings: Settings) -> None:
    prompts: list[str] = []

    def script(request: Request) -> Turn:
        prompts.append(request.body["messages"][1]["content"])
        return say({"summary": f"Part {len(prompts)} was read.", "facts": [FACT]})

    with ScriptedBatches(script) as model:
        cycle = Cycle(settings, model, max_input_tokens=8_000)
        cycle.groups = [trace(0, *[f"note {n} " + "word " * 300 for n in range(40)])]
        reflector = ModelReflector(cycle.settings).kept_only()
        forecast = reflector.forecast(cycle.groups[0])
        cycle.until_done(model, runs=20)
        assert 3 < len(prompts) == len(model.batches) == forecast.calls
        assert all(f"Part {n} was read." in prompts[n] for n in range(1, len(prompts)))


def test_a_reply_that_was_cut_off_or_holds_no_json_is_asked_for_again_in_the_next_batch(settings: Settings) -> None:
    def script(request: Request) -> Turn:
        if "Task 0." in request.prompt and request.body["max_tokens"] == 2000:
            return say('{"facts": [', finish="length")
        if "Task 1." in request.prompt and request.mode != "text":
            return say("I'd rather tell you.")
        return GOOD

    with ScriptedBatches(script) as model:
        cycle = Cycle(settings, model)
        assert facts(cycle.until_done(model)) == 3
        assert [len(batch.metadata) for batch in model.batches] == [1, 1]
        assert len(model.asked) == 5


def test_a_refusal_and_a_filter_are_kept_and_not_asked_again(settings: Settings) -> None:
    with ScriptedBatches([say("", refusal="I can't do that")]) as model:
        cycle = Cycle(settings, model)
        said = cycle.until_done(model)
        assert all("refused" in reflection.error for reflection in said)
        cycle.run()
        assert len(model.asked) == 3


def test_the_ceiling_holds_across_submits(settings: Settings, model: ScriptedBatches) -> None:
    one = ModelReflector(Cycle(settings, model).settings).kept_only().forecast(trace(0)).tokens
    cycle = Cycle(settings, model, traces=6, budget_tokens=2 * one + one // 2)
    asked = []
    for _ in range(3):
        desk, _ = cycle.run()
        asked.append(desk.counts["asked"])
        assert desk.stopped
    assert asked == [2, 0, 0], "what is out counts until it is collected"
    model.finish()
    desk, said = cycle.run()
    assert (facts(said), desk.counts["asked"]) == (2, 2)
    assert facts(cycle.until_done(model)) == 6


def test_a_model_that_counts_more_tokens_raises_the_forecast_of_the_next_batch(settings: Settings) -> None:
    with ScriptedBatches([say({"facts": [FACT]}, usage=(50_000, 10))]) as model:
        cycle = Cycle(settings, model)
        cycle.until_done(model)
        cycle.groups = [trace(9)]
        cycle.run()
        (out,) = batches_out(cycle.lake, "default")
        assert out.batch.tokens > 40_000


@pytest.mark.parametrize("where", ["POST files", "POST batches"])
def test_an_endpoint_without_a_batch_api_says_so_and_nothing_is_held_back(
    settings: Settings, model: ScriptedBatches, where: str
) -> None:
    model.refuse[where] = 404
    cycle = Cycle(settings, model)
    with pytest.raises(ModelError, match="HINDLAKE_MODEL_MODE=direct"):
        cycle.run()
    assert questions_out(cycle.lake, "default") == 0
    model.refuse.clear()
    assert facts(cycle.until_done(model)) == 3


@pytest.mark.parametrize("code", [500, 0])
def test_a_batch_whose_creation_is_not_confirmed_is_found_at_the_provider(
    settings: Settings, model: ScriptedBatches, code: int
) -> None:
    model.lose["POST batches"] = code
    cycle = Cycle(settings, model)
    cycle.run()
    model.finish()
    assert (facts(cycle.run()[1]), len(model.batches)) == (3, 1)


def test_a_run_that_died_after_the_provider_took_its_batch_is_continued_and_nothing_is_asked_twice(
    settings: Settings, model: ScriptedBatches
) -> None:
    cycle = Cycle(settings, model)
    cycle.run()
    cycle.lake.delete([name for name in cycle.lake.names("ns=default/batches") if name.endswith(".sent.json")])
    desk, said = cycle.run()
    assert (desk.counts["asked"], [reflection.out for reflection in said]) == (0, [1, 1, 1])
    model.finish()
    assert (facts(cycle.run()[1]), len(model.batches)) == (3, 1)


def test_a_run_that_died_before_the_provider_took_its_batch_holds_nothing_up_for_long(
    settings: Settings, model: ScriptedBatches
) -> None:
    model.refuse = {"POST batches": 0, "GET batches": 0}
    cycle = Cycle(settings, model)
    with pytest.raises(ModelError, match="nothing is sent twice"):
        cycle.run()
    model.refuse.clear()
    desk, said = cycle.run()
    assert (desk.counts["asked"], [reflection.out for reflection in said]) == (0, [1, 1, 1]), "it may be on its way"
    cycle.clock.advance(minutes=11)
    assert facts(cycle.until_done(model)) == 3
    assert len(model.asked) == 3


def test_a_run_that_died_while_it_collected_is_continued(settings: Settings, model: ScriptedBatches) -> None:
    cycle = Cycle(settings, model)
    cycle.run()
    model.finish()
    files = dict(model.files)
    cycle.run()
    cycle.lake.delete([name for name in cycle.lake.names("ns=default/batches") if name.endswith(".done.json")])
    cycle.lake.delete(cycle.lake.names("ns=default/replies")[:1])
    model.files.update(files)
    desk, said = cycle.run()
    assert (facts(said), desk.counts["collected"], len(model.batches)) == (3, 3, 1)


def test_a_provider_that_can_not_be_asked_for_now_fails_the_run_and_the_batch_waits(
    settings: Settings, model: ScriptedBatches
) -> None:
    cycle = Cycle(settings, model)
    cycle.run()
    model.finish()
    model.refuse["GET files"] = 503
    with pytest.raises(ModelError, match="run again"):
        cycle.run()
    model.refuse.clear()
    assert (facts(cycle.run()[1]), len(model.batches)) == (3, 1)


def test_a_batch_at_another_endpoint_is_left_alone(settings: Settings, model: ScriptedBatches) -> None:
    cycle = Cycle(settings, model)
    cycle.run()
    with ScriptedBatches([GOOD]) as other:
        assert facts(Cycle(settings, other).until_done(other)) == 3
    assert [out.batch.base_url for out in batches_out(cycle.lake, "default")] == [model.url]


def test_two_runs_that_collect_at_once_count_it_once(settings: Settings, model: ScriptedBatches) -> None:
    cycle = Cycle(settings, model)
    cycle.run()
    model.finish()
    desks = [
        ModelReflector(cycle.settings, pause=0.001).desk(cycle.lake, "default", f"r{n}", cycle.clock) for n in range(2)
    ]
    out = batches_out(cycle.lake, "default")
    desks[0].collect()
    for one in out:
        assert one.sent is not None
        desks[1]._take(one.batch, None)
    assert [desk.usage.calls for desk in desks] == [3, 0]
