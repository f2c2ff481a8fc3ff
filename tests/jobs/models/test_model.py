"""The door to the model: each fault of an endpoint, what the door does about it, and what it costs."""

from __future__ import annotations

import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from hindlake.jobs.models.answers import Answer
from hindlake.jobs.models.budget import Budget
from hindlake.jobs.models.model import MOST_LOST, ModelDoor
from hindlake.jobs.models.reading import ReplyModel
from hindlake.jobs.models.replies import LakeReplies, MemoryReplies
from hindlake.jobs.models.scripted_model import Request, ScriptedModel, Turn, body, drip, hang, reset, say, status
from hindlake.memory_store.errors import BudgetExceeded, ModelError
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import ModelSettings, Settings


class Note(ReplyModel):
    """One item."""

    text: str = Field(min_length=1)
    weight: int = 1


class Notes(ReplyModel):
    """What the tests ask for."""

    title: str = ""
    notes: list[Note] = Field(default_factory=list)


GOOD = {"title": "t", "notes": [{"text": "one", "weight": 1}]}


def door_to(model: ScriptedModel, budget: Budget | None = None, replies: Any = None, **settings: Any) -> ModelDoor:
    chosen = ModelSettings(**{"base_url": model.url, "calls": "off", "timeout_seconds": 5, **settings})
    return ModelDoor(chosen, replies, budget, pause=0.001)


def ask(door: ModelDoor, text: str = "question") -> Answer[Notes]:
    return door.ask([{"role": "user", "content": text}], Notes, namespace="default", prompt_hash="p1")


def texts(answer: Answer[Notes]) -> list[str]:
    return [note.text for note in answer.value.notes] if answer.value else []


def test_a_good_answer_comes_with_its_tokens_and_cost() -> None:
    with ScriptedModel([say(GOOD, usage=(1000, 10))]) as model:
        door = door_to(model)
        answer = ask(door)
    assert (texts(answer), answer.error, answer.calls) == (["one"], "", 1)
    assert (answer.input_tokens, answer.output_tokens, answer.estimated) == (1000, 10, False)
    assert answer.cost == 156  # 1000 × 0.15 + 10 × 0.6
    assert (door.budget.tokens, door.budget.cost, door.budget.calls) == (1010, 156, 1)
    assert model.calls[0].mode == "json_schema"
    assert model.calls[0].body["temperature"] == 0


def test_the_schema_that_is_sent_is_flat_and_strict() -> None:
    with ScriptedModel([say(GOOD)]) as model:
        ask(door_to(model))
    shape = model.calls[0].body["response_format"]["json_schema"]
    assert shape["strict"] is True
    assert "$ref" not in str(shape)
    item = shape["schema"]["properties"]["notes"]["items"]
    assert (item["required"], item["additionalProperties"]) == (["text", "weight"], False)


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504, 529])
def test_an_endpoint_that_is_busy_is_asked_again(code: int) -> None:
    with ScriptedModel([status(code), status(code), say(GOOD)]) as model:
        answer = ask(door_to(model))
    assert (texts(answer), answer.calls, len(model.calls)) == (["one"], 3, 3)


def test_a_busy_endpoint_is_asked_no_more_often_than_the_settings_say() -> None:
    with ScriptedModel([status(503)]) as model:
        door = door_to(model, retries=2)
        answer = ask(door)
    assert (answer.value, len(model.calls), answer.calls) == (None, 3, 3)
    assert "HTTP 503" in answer.error
    assert (door.budget.calls, door.budget.failed_calls, door.budget.tokens) == (3, 3, 0)


def test_retry_after_in_seconds_is_honoured() -> None:
    with ScriptedModel([status(429, retry_after=0.3), say(GOOD)]) as model:
        ask(door_to(model))
    assert model.calls[1].at - model.calls[0].at >= 0.3


def test_retry_after_as_a_date_is_honoured() -> None:
    def script(request: Request) -> Turn:
        if len(model.requests) > 1:
            return say(GOOD)
        date = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2)
        until.append(date.timestamp())
        return status(503, retry_after=format_datetime(date, usegmt=True))

    until: list[float] = []
    with ScriptedModel(script) as model:
        ask(door_to(model))
        assert time.time() >= until[0]
    assert len(model.calls) == 2


def test_a_wait_that_was_asked_for_holds_for_every_thread() -> None:
    def script(request: Request) -> Turn:
        if request.prompt == "first":
            return say(GOOD) if sum(r.prompt == "first" for r in model.requests) > 1 else status(429, retry_after=0.4)
        return say(GOOD)

    with ScriptedModel(script) as model:
        door = door_to(model)
        thread = threading.Thread(target=ask, args=(door, "first"))
        thread.start()
        while not model.requests or door._not_before == 0:
            time.sleep(0.005)
        ask(door, "second")
        thread.join()
    first = model.calls[0].at
    assert all(request.at - first >= 0.4 for request in model.calls[1:])


def test_an_endpoint_that_asks_to_wait_too_long_is_not_waited_for() -> None:
    with ScriptedModel([status(429, "come back tomorrow", retry_after=86_400)]) as model:
        answer = ask(door_to(model))
    assert (answer.value, len(model.calls)) == (None, 1)
    assert "come back tomorrow" in answer.error


def test_a_call_that_hangs_is_given_up_and_counted_in_full() -> None:
    with ScriptedModel([hang(), say(GOOD, usage=(50, 5))]) as model:
        door = door_to(model, timeout_seconds=0.2, max_output_tokens=100)
        answer = ask(door)
    assert (texts(answer), answer.calls, answer.estimated) == (["one"], 2, True)
    assert answer.output_tokens == 105
    assert answer.input_tokens > 50
    assert (door.budget.tokens, door.budget.failed_calls) == (answer.input_tokens + answer.output_tokens, 1)


def test_signs_of_life_without_an_answer_do_not_hold_the_run_up() -> None:
    with ScriptedModel([drip()]) as model:
        answer = ask(door_to(model, timeout_seconds=0.2, retries=1))
    assert (answer.value, len(model.calls)) == (None, 2)
    assert "no whole reply in 0.2 seconds" in answer.error


@pytest.mark.parametrize("turn", [reset(), reset('{"choices": [{"mess')])
def test_a_connection_that_breaks_is_tried_again(turn: Turn) -> None:
    with ScriptedModel([turn, say(GOOD)]) as model:
        answer = ask(door_to(model))
    assert (texts(answer), answer.calls, answer.estimated) == (["one"], 2, True)


@pytest.mark.parametrize(
    "turn", [body("<html>Sign in</html>"), body('{"choices": []}'), body("[]"), body('{"error": {"message": "oops"}}')]
)
def test_a_200_without_a_message_is_tried_again(turn: Turn) -> None:
    with ScriptedModel([turn, say(GOOD)]) as model:
        answer = ask(door_to(model))
    assert (texts(answer), answer.calls) == (["one"], 2)


@pytest.mark.parametrize(
    ("code", "message"),
    [(401, "bad key"), (402, "pay first"), (404, "no such model"), (429, "insufficient_quota")],
)
def test_an_endpoint_that_refuses_key_model_or_account_stops_the_run_at_once(code: int, message: str) -> None:
    with ScriptedModel([status(code, message)]) as model, pytest.raises(ModelError, match="HINDLAKE_MODEL"):
        ask(door_to(model))
    assert len(model.calls) == 1


def test_an_endpoint_that_is_not_there_stops_the_run() -> None:
    with ScriptedModel() as model:
        pass
    door = door_to(model)
    with pytest.raises(ModelError, match="can't be reached"):
        ask(door)
    assert (door.budget.failed_calls, door.budget.tokens) == (4, 0)


def test_one_question_without_a_reply_is_a_row_and_several_in_a_row_stop_the_run() -> None:
    with ScriptedModel([status(500)]) as model:
        door = door_to(model, retries=0)
        for number in range(MOST_LOST - 1):
            assert "HTTP 500" in ask(door, f"question {number}").error
        with pytest.raises(ModelError, match="5 questions in a row"):
            ask(door, "the last")


@pytest.mark.parametrize("refusal", [status(400, "response_format is not supported"), status(500, "json_schema?")])
def test_an_endpoint_without_json_schema_is_asked_in_json_mode_from_then_on(refusal: Turn) -> None:
    with ScriptedModel([say(GOOD)], modes=("json_object",), refuse_with=refusal) as model:
        door = door_to(model)
        answers = [ask(door, "one"), ask(door, "two")]
    assert [texts(answer) for answer in answers] == [["one"], ["one"]]
    assert [request.mode for request in model.calls] == ["json_schema", "json_object", "json_object"]
    assert "JSON schema" in model.calls[1].prompt


def test_an_endpoint_without_any_structure_is_asked_in_plain_text() -> None:
    with ScriptedModel([say(f"Sure!\n```json\n{GOOD}\n```\nBye".replace("'", '"'))], modes=()) as model:
        door = door_to(model)
        answers = [ask(door, "one"), ask(door, "two")]
    assert [texts(answer) for answer in answers] == [["one"], ["one"]]
    assert [request.mode for request in model.calls] == ["json_schema", "json_object", "text", "text"]


def test_a_500_that_does_not_say_why_makes_the_door_ask_for_less_but_one_doubt_is_no_proof() -> None:
    with ScriptedModel([status(500, "oops"), say(GOOD), say(GOOD)]) as model:
        door = door_to(model)
        ask(door, "one")
        ask(door, "two")
    assert [request.mode for request in model.calls] == ["json_schema", "json_object", "json_schema"]


def test_a_server_that_always_fails_over_a_schema_is_known_after_two_questions() -> None:
    with ScriptedModel([say(GOOD)], modes=("json_object",), refuse_with=status(500, "oops")) as model:
        door = door_to(model)
        for number in range(3):
            assert texts(ask(door, str(number))) == ["one"]
    modes = [request.mode for request in model.calls]
    assert modes == ["json_schema", "json_object", "json_schema", "json_object", "json_object"]


def test_parameters_that_a_model_does_not_take_are_left_out() -> None:
    refusals = [
        status(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        status(400, "Unsupported value: 'temperature' does not support 0"),
    ]
    with ScriptedModel([*refusals, say(GOOD)]) as model:
        door = door_to(model)
        assert texts(ask(door, "one")) == ["one"]
        assert texts(ask(door, "two")) == ["one"]
    assert [("temperature" in call.body, "max_tokens" in call.body) for call in model.calls] == [
        (True, True), (True, False), (False, False), (False, False),
    ]  # fmt: skip
    assert model.calls[-1].body["max_completion_tokens"] == 2000


def test_threads_that_meet_an_unsupported_parameter_at_once_all_get_their_answer() -> None:
    def script(request: Request) -> Turn:
        if "max_tokens" not in request.body:
            return say(GOOD)
        both.wait(5)
        return status(400, "use 'max_completion_tokens' instead")

    both = threading.Barrier(2)
    with ScriptedModel(script) as model, ThreadPoolExecutor(2) as pool:
        door = door_to(model)
        answers = list(pool.map(lambda text: ask(door, text), ["one", "two"]))
    assert [texts(answer) for answer in answers] == [["one"], ["one"]]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"base_url": "http://127.0.0.1:99999/v1"}, "HINDLAKE_MODEL_BASE_URL"),
        ({"base_url": "127.0.0.1/v1", "calls": "on", "retries": 0}, "HINDLAKE_MODEL_BASE_URL"),
        ({"api_key": "cl\u00e9"}, "HINDLAKE_MODEL_API_KEY"),
    ],
)
def test_a_setting_that_can_not_be_meant_is_named(wrong: dict[str, Any], named: str) -> None:
    with ScriptedModel() as model, pytest.raises(ModelError, match=named):
        ask(door_to(model, **wrong))


def test_a_line_end_behind_the_key_does_no_harm() -> None:
    with ScriptedModel([say(GOOD)]) as model:
        assert texts(ask(door_to(model, api_key="key\n"))) == ["one"]


def test_a_prompt_that_is_too_long_is_a_row_that_says_so() -> None:
    with ScriptedModel([status(400, "This model's maximum context length is 4096 tokens")]) as model:
        answer = ask(door_to(model))
    assert (answer.value, answer.too_long, len(model.calls)) == (None, True, 1)


def test_a_reply_that_was_cut_off_is_asked_for_once_more_with_twice_the_room() -> None:
    with ScriptedModel([say('{"title": "t", "notes": [{"te', finish="length"), say(GOOD)]) as model:
        answer = ask(door_to(model, max_output_tokens=100))
    assert (texts(answer), answer.error) == (["one"], "")
    assert [call.body["max_tokens"] for call in model.calls] == [100, 200]


def test_a_reply_that_is_cut_off_again_is_paid_for_twice_and_what_is_whole_is_kept() -> None:
    cut = say('{"title": "t", "notes": [{"text": "one"}, {"text": "tw', finish="length", usage=(10, 100))
    with ScriptedModel([cut]) as model:
        answer = ask(door_to(model))
    assert len(model.calls) == 2
    assert texts(answer) == ["one"]
    assert answer.lost[0].piece == '{"text": "tw'
    assert "cut off at 100 tokens" in answer.error


def test_a_refusal_is_a_row_and_is_not_asked_again() -> None:
    with ScriptedModel([say("", refusal="I can't help with that")]) as model:
        answer = ask(door_to(model))
    assert (answer.value, len(model.calls)) == (None, 1)
    assert answer.error == "the model refused: I can't help with that"


def test_a_content_filter_is_a_row() -> None:
    with ScriptedModel([say("", finish="content_filter")]) as model:
        assert "content filter" in ask(door_to(model)).error
    with ScriptedModel([status(400, "flagged by our content management policy")]) as model:
        assert "refused the question" in ask(door_to(model)).error
        assert len(model.calls) == 1


def test_a_reply_without_json_is_asked_for_once_more_as_text() -> None:
    with ScriptedModel([say("I would rather chat."), say(GOOD)]) as model:
        answer = ask(door_to(model))
    assert (texts(answer), [call.mode for call in model.calls]) == (["one"], ["json_schema", "text"])
    with ScriptedModel([say("I would rather chat.")]) as model:
        answer = ask(door_to(model))
    assert (answer.value, len(model.calls)) == (None, 2)
    assert "I would rather chat." in answer.error


@pytest.mark.parametrize(
    ("reply", "kept", "lost"),
    [
        ('{"notes": [{"text": "one"}, {"text": "\\uZZ12"}, {"text": "three"}]}', ["one", "\\uZZ12", "three"], 0),
        ('{"notes": [{"text": "one"}, {"weight": 3}, {"text": "three"}]}', ["one", "three"], 1),
        ('{"notes": [{"text": "one", "weight": "heavy"}, {"text": ["no"]}]}', ["one"], 1),
        ('{"notes": [{"text": "one"}, 7, null]}', ["one"], 2),
        ('{"notes": {"text": "alone"}}', ["alone"], 0),
        ('[{"notes": [{"text": "one"}]}]', ["one"], 0),
        ('{"result": {"notes": [{"text": "one"}]}}', ["one"], 0),
        ('<think>{"notes": []}</think>{"notes": [{"text": "one"},]}', ["one"], 0),
        ("{'notes': [{'text': 'one', 'weight': None}]}", ["one"], 0),
        ('{"notes": [{"text": "he said "no" twice"}]}', ['he said "no" twice'], 0),
    ],
)
def test_what_can_be_read_of_a_bad_reply_is_kept(reply: str, kept: list[str], lost: int) -> None:
    with ScriptedModel([say(reply)]) as model:
        answer = ask(door_to(model))
    assert (texts(answer), len(answer.lost), len(model.calls)) == (kept, lost, 1)


def test_tokens_that_are_not_told_are_estimated_and_that_is_said() -> None:
    with ScriptedModel([say(GOOD, counted=False)]) as model:
        door = door_to(model)
        answer = ask(door)
    assert answer.estimated
    assert min(answer.input_tokens, answer.output_tokens) > 0
    assert (door.budget.estimated_calls, door.budget.tokens) == (1, answer.input_tokens + answer.output_tokens)


def test_the_same_question_is_paid_for_once(tmp_path: Path) -> None:
    settings = Settings.load(home=str(tmp_path / "home"))
    with ScriptedModel([say(GOOD)]) as model:
        first = ask(door_to(model, replies=LakeReplies(settings)))
        again = ask(door_to(model, replies=LakeReplies(settings)))
    assert len(model.calls) == 1
    assert (again.value, again.raw, again.replies) == (first.value, first.raw, first.replies)
    assert (again.calls, again.cost, again.input_tokens, again.output_tokens) == (0, 0, 0, 0)
    assert (first.replies[0].cost, first.replies[0].content) == (first.cost, first.raw)


def test_an_answer_that_took_two_replies_is_whole_again_without_a_call(tmp_path: Path) -> None:
    settings = Settings.load(home=str(tmp_path / "home"))
    with ScriptedModel([say('{"title": "t', finish="length"), say(GOOD)]) as model:
        first = ask(door_to(model, replies=LakeReplies(settings)))
        again = ask(door_to(model, replies=LakeReplies(settings)))
    assert len(model.calls) == 2
    assert (again.value, len(again.replies), again.calls) == (first.value, 2, 0)


@pytest.mark.parametrize("change", [{"name": "other"}, {"max_output_tokens": 77}], ids=["model", "limit"])
def test_another_model_or_parameter_is_another_question(change: dict[str, Any]) -> None:
    replies = MemoryReplies()
    with ScriptedModel([say(GOOD)]) as model:
        ask(door_to(model, replies=replies))
        ask(door_to(model, replies=replies, **change))
        door_to(model, replies=replies).ask(
            [{"role": "user", "content": "question"}], Notes, namespace="default", prompt_hash="p2"
        )
        door_to(model, replies=replies).ask(
            [{"role": "user", "content": "question"}], Notes, namespace="elsewhere", prompt_hash="p1"
        )
    assert len(model.calls) == 4


def test_a_question_that_failed_is_asked_again_by_the_next_run(tmp_path: Path) -> None:
    settings = Settings.load(home=str(tmp_path / "home"))
    with ScriptedModel([status(503), say(GOOD)]) as model:
        assert ask(door_to(model, replies=LakeReplies(settings), retries=0)).error
        door = door_to(model, replies=LakeReplies(settings), retries=0)
        assert texts(ask(door)) == ["one"]
    assert door.budget.repeated_calls == 0
    assert [path for path in Lake.open(settings).names("ns=default/replies") if path.endswith(".open")] == []


def test_a_run_stops_before_the_call_that_could_pass_its_ceiling() -> None:
    with ScriptedModel([say(GOOD, usage=(100, 100))]) as model:
        door = door_to(model, budget_tokens=1_000, max_output_tokens=400)
        with pytest.raises(BudgetExceeded, match="HINDLAKE_MODEL_BUDGET_TOKENS"):
            for number in range(100):
                ask(door, str(number))
    assert len(model.calls) >= 2
    assert 1_000 - 400 - 200 < door.budget.tokens <= 1_000


def test_money_has_a_ceiling_too() -> None:
    with ScriptedModel([say(GOOD, usage=(100, 100))]) as model:
        door = door_to(model, budget_cost=500, budget_tokens=0, max_output_tokens=400)
        with pytest.raises(BudgetExceeded, match="micro-dollars"):
            for number in range(100):
                ask(door, str(number))
    assert len(model.calls) >= 2
    assert door.budget.cost <= 500


def test_failed_calls_count_towards_the_ceiling() -> None:
    with ScriptedModel([hang()]) as model:
        door = door_to(model, budget_tokens=1_000, max_output_tokens=400, timeout_seconds=0.05, retries=9)
        with pytest.raises(BudgetExceeded):
            ask(door)
    assert len(model.calls) < 4
    assert door.budget.failed_calls == len(model.calls)


def test_requests_in_flight_are_bounded_and_threads_share_the_ceiling() -> None:
    with ScriptedModel([say(GOOD, usage=(100, 100), seconds=0.1)]) as model:
        door = door_to(model, concurrency=3, budget_tokens=6_000, max_output_tokens=400)

        def work(number: int) -> bool:
            try:
                ask(door, str(number))
            except BudgetExceeded:
                return False
            return True

        with ThreadPoolExecutor(12) as pool:
            done = sum(pool.map(work, range(60)))
    assert model.most_in_flight == 3
    assert done == len(model.calls) == door.budget.calls
    assert 6_000 - 400 - 200 < door.budget.tokens <= 6_000


def test_forecasts_follow_a_model_that_counts_more_tokens_than_estimated() -> None:
    budget = Budget(tokens=10_000)
    hold = budget.reserve(100, 100)
    budget.settle(hold, 300, 50)
    assert budget.reserve(100, 100).input_tokens == 300


def test_model_calls_that_are_off_reach_only_this_machine() -> None:
    door = ModelDoor(ModelSettings(base_url="https://api.example.com/v1", calls="off"))
    with pytest.raises(ModelError, match="HINDLAKE_MODEL_CALLS"):
        ask(door)
    for url in ("http://127.0.0.1.example.com/v1", "http://localhost.example.com/v1", "http://10.0.0.1/v1"):
        with pytest.raises(ModelError, match="HINDLAKE_MODEL_CALLS"):
            ask(ModelDoor(ModelSettings(base_url=url, calls="off")))
    with pytest.raises(ModelError, match="HINDLAKE_MODEL_BASE_URL"):
        ask(ModelDoor(ModelSettings()))


def test_a_door_survives_pickling_and_works_elsewhere(tmp_path: Path) -> None:
    settings = Settings.load(home=str(tmp_path / "home"))
    with ScriptedModel([say(GOOD)]) as model:
        door = door_to(model, replies=LakeReplies(settings))
        ask(door, "before")
        copy = pickle.loads(pickle.dumps(door))
        assert texts(ask(copy, "before")) == ["one"]
        assert texts(ask(copy, "after")) == ["one"]
    assert len(model.calls) == 2
    assert copy.budget.calls == 2


def test_a_redirect_to_another_host_is_not_followed_when_calls_are_off() -> None:
    with ScriptedModel([Turn("status", "moved", code=307, headers={"Location": "http://example.invalid/v1"})]) as model:
        answer = ask(door_to(model, retries=0))
    assert answer.value is None
    assert "307" in answer.error
