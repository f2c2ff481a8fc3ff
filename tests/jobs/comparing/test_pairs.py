from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import settings as quickly
from hypothesis import strategies as st

from hindlake.jobs.comparing.pairs import Pair, Verdict, type_pair, type_pairs
from hindlake.jobs.reflecting.rules.attributes import holds_many

EARLY, LATE = datetime(2026, 1, 10, tzinfo=UTC), datetime(2026, 1, 15, tzinfo=UTC)


def pair(first: str, second: str, *, same: float = 0.94, topic: float = 0.97, kind: str = "fact", **more: str) -> Pair:
    """Two memories of one subject, the second stated later, with vectors that say they are the same."""
    row = {"kind": kind, "subject": "u1", **more}
    return Pair({**row, "text": first, "valid_from": EARLY}, {**row, "text": second, "valid_from": LATE}, same, topic)


SAME = [
    ("Retry the payment API three times", "Retry the payment API 3 times."),
    ("The user wants replies by e-mail", "The user wants e-mail replies"),
    ("My budget is 8,000 EUR", "my budget is 8000 eur"),
    ("On a timeout, retry the request", "Retry the request on a timeout"),
    ("She purchased a large sofa", "She bought a big couch"),
    ("Meet on 2024-04-01 at 3pm", "Meet on April 1, 2024 at 15:00"),
    ("支付接口超时应该重试三次", "支付接口超时应重试3次"),
    ("预算是三千元", "预算是3000元"),
]
#: One changed value each: of one sort, or of who does what to whom.
NEVER_SAME = [
    ("The flight leaves at 10:30", "The flight leaves at 10:50"),
    ("The fee is $20", "The fee is €20"),
    ("The parcel weighs 5 kg", "The parcel weighs 5 lb"),
    ("Version 3.10 is required", "Version 3.11 is required"),
    ("Order ORD-12345 is late", "Order ORD-12346 is late"),
    ("Read config.yaml first", "Read config.toml first"),
    ("It failed with ECONNRESET", "It failed with ECONNREFUSED"),
    ("Room 101 is booked", "Room 102 is booked"),
    ("She met Sarah Connor in Berlin", "She met Sarah Connor in Munich"),
    ("Always run the migrations", "Never run the migrations"),
    ("The tool may be retried", "The tool is retried"),
    ("He used to live in Rome", "He lives in Rome"),
    ("The dog chased the cat", "The cat chased the dog"),
    ("The train goes from home to work", "The train goes from work to home"),
    ("Deploy before the backup", "Deploy after the backup"),
    ("Her sister is a nurse", "Her brother is a nurse"),
    ("Enable the cache", "Disable the cache"),
    ("If it rains we meet inside", "We meet inside"),
    ("会议在周一上午", "会议在周二上午"),
    ("他的电话是13800001111", "他的电话是13800001112"),
    ("预算是三千元", "预算是五千元"),
    ("他喜欢吃鱼", "他讨厌吃鱼"),
    ("我吃肉", "我不吃肉"),
    ("张三给李四打了电话", "李四给张三打了电话"),
    ("北京到上海的火车票", "上海到北京的火车票"),
    ("我妈妈是老师", "我爸爸是老师"),
    ("先备份再升级数据库，4月1日", "先备份再升级数据库，4月2日"),
    ("API 超时后重试", "API 超时后不要重试"),
]
SUPERSEDES = [
    ("budget 5000", "my budget is now 8000"),
    ("User's budget is 5000 euros", "User's budget is 8000 euros"),
    ("The user lives in Berlin", "The user moved to Hamburg"),
    ("The user likes coffee", "The user no longer likes coffee"),
    ("I eat meat", "I don't eat meat anymore"),
    ("My address is 12 Main Street", "My address is 40 Oak Avenue"),
    ("I have 20 titles on my to-watch list", "My to-watch list now has 25 titles"),
    ("I see Dr. Smith every two weeks", "I see Dr. Smith every week now"),
    ("预算5000", "我的预算改成8000了"),
    ("我喜欢咖啡", "我不再喜欢咖啡了"),
    ("我住在北京", "我搬到上海了"),
    ("我的邮箱是a@example.com", "我的邮箱是b@example.com"),
]
COMPLEMENTS = [
    ("likes e-mail", "no phone calls"),
    ("likes e-mail", "wants fast replies"),
    ("no phone calls", "wants fast replies"),
    ("喜欢用邮件联系", "不要打电话"),
    ("希望快速回复", "不要打电话"),
]
DISTINCT = [
    ("Ran a charity race on 5 May", "Ran a charity race on 20 July and came third"),
    ("My sister Anna is a nurse", "My sister Clara is a nurse"),
    ("My dog is called Rex", "My dog is called Max"),
    ("我表姐今年48岁", "我表妹今年38岁"),
    ("我的同事是律师", "我的同事是医生"),
]


@pytest.mark.parametrize(("first", "second"), SAME)
def test_what_differs_in_wording_only_is_the_same(first: str, second: str) -> None:
    verdict = type_pair(pair(first, second))
    assert verdict.type == "same", verdict
    assert verdict.stands == 0


def test_what_a_fuller_text_quotes_in_whole_sentences_is_kept_by_it() -> None:
    short, full = "我的猫叫咪咪。", "我的猫叫咪咪。它今年3岁，喜欢晒太阳。"
    assert type_pair(pair(short, full, same=0.0, topic=0.0)).stands == 1
    assert not type_pair(pair(full, short, same=0.0, topic=0.0)).joins, "what was left out may no longer hold"
    assert type_pair(pair("Ann runs.", "On Mondays Ann rests. Ann runs. She swims too.")).type == "refines"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("The office is open", "The office is open, unless it snows"),
        ("Tom is coming", "Nobody knows if Tom is coming. Ask him."),
        ("Is the shop open?", "Is the shop open? It is."),
        ("The price is 3", "The price is 3.5 today"),
        ("他喜欢猫", "他喜欢猫粮的味道"),
    ],
)
def test_a_sentence_that_goes_on_is_not_the_one_it_begins_with(first: str, second: str) -> None:
    assert not type_pair(pair(first, second, same=0.0)).joins


QUESTIONS = [
    ("请问怎么修改会员名？", "会员名如何更改", "same"),
    ("植物生长需要多少阳光啊", "植物生长需要多少阳光", "same"),
    ("这款相机拍夜景好用不？", "这款相机拍夜景好用吗？", "same"),
    ("帆布鞋和运动鞋哪个耐穿", "运动鞋与帆布鞋哪个更耐穿？", "same"),
    ("谁有好看的科幻小说推荐一下", "求好看的科幻小说，谢谢大家", "same"),
    ("苏州园林周末几点开门", "请问苏州的古典园林周末几点开门？", "refines"),
]
OTHER_QUESTIONS = [
    ("画蛇添足的足是什么意思", "画蛇添足是什么意思"),
    ("合同到期了吗", "合同为什么到期了"),
    ("去南京怎么坐车最方便", "去无锡怎么坐车最方便"),
    ("这家店可以刷卡", "这家店可不可以刷卡"),
]


@pytest.mark.parametrize(("first", "second", "meant"), QUESTIONS)
def test_a_question_in_other_words_is_one(first: str, second: str, meant: str) -> None:
    assert type_pair(pair(first, second, same=0.98)).type == meant
    assert type_pair(pair(second, first, same=0.98)).type == meant
    assert not type_pair(pair(first, second, same=0.3)).joins


@pytest.mark.parametrize(("first", "second"), OTHER_QUESTIONS)
def test_a_question_for_something_else_is_another_one(first: str, second: str) -> None:
    assert not type_pair(pair(first, second, same=0.98)).joins
    assert not type_pair(pair(second, first, same=0.98)).joins


def test_where_a_statement_looks_for_something_it_is_not_recommended() -> None:
    assert not type_pair(pair("他找了一家餐厅", "他推荐了一家餐厅", same=0.999)).joins


@pytest.mark.parametrize(("first", "second"), NEVER_SAME)
def test_what_differs_in_a_value_is_never_joined(first: str, second: str) -> None:
    verdict = type_pair(pair(first, second, same=0.999999, topic=0.999999))
    assert not verdict.joins, verdict
    assert verdict.reason


@pytest.mark.parametrize(("first", "second"), SUPERSEDES)
def test_a_later_statement_supersedes_what_it_changes(first: str, second: str) -> None:
    verdict = type_pair(pair(first, second, same=0.3, topic=0.95))
    assert (verdict.type, verdict.stands) == ("supersedes", 1), verdict


@pytest.mark.parametrize(("first", "second"), SUPERSEDES)
def test_the_time_of_the_statement_decides_not_the_order_given(first: str, second: str) -> None:
    given_pair = pair(first, second, same=0.3, topic=0.95)
    verdict = type_pair(Pair(given_pair.second, given_pair.first, given_pair.same, given_pair.topic))
    assert (verdict.type, verdict.stands) == ("supersedes", 0), verdict


@pytest.mark.parametrize(("first", "second"), SUPERSEDES)
def test_two_statements_of_one_moment_that_exclude_each_other_conflict(first: str, second: str) -> None:
    made = pair(first, second, same=0.3, topic=0.95)
    verdict = type_pair(Pair(made.first, {**made.second, "valid_from": EARLY}, made.same, made.topic))
    assert (verdict.type, verdict.stands) == ("conflicts", None), verdict


@pytest.mark.parametrize(("first", "second"), COMPLEMENTS)
def test_wishes_about_getting_in_touch_complement_each_other(first: str, second: str) -> None:
    assert type_pair(pair(first, second, same=0.0, topic=0.2, kind="preference")).type == "complements"


@pytest.mark.parametrize(("first", "second"), DISTINCT)
def test_two_things_of_one_kind_are_distinct(first: str, second: str) -> None:
    verdict = type_pair(pair(first, second))
    assert verdict.type == "distinct", verdict


def test_a_value_on_one_side_only_refines() -> None:
    verdict = type_pair(pair("Retry the payment API", "Retry the payment API three times", same=0.97))
    assert (verdict.type, verdict.stands) == ("refines", 1)
    swapped = type_pair(pair("Retry the payment API three times", "Retry the payment API", same=0.97))
    assert (swapped.type, swapped.stands) == ("refines", 0)


def test_the_same_in_two_languages_is_joined_and_the_fuller_one_stands() -> None:
    verdict = type_pair(pair("payment API times out, retry", "支付API超时应重试三次", same=0.93, kind="experience"))
    assert (verdict.type, verdict.stands) == ("refines", 1)
    assert not type_pair(pair("payment API times out, retry", "支付SDK超时应重试", same=0.99)).joins


def test_without_a_calibration_only_the_same_words_are_the_same() -> None:
    assert type_pair(pair("Retry 3 times!", "retry 3 times", same=0, topic=0)).type == "same"
    assert type_pair(pair("Retry three times", "Retry 3 times", same=0, topic=0)).type == "distinct"


def test_facts_of_different_subjects_never_meet() -> None:
    made = pair("I live in Berlin", "I live in Berlin")
    verdict = type_pair(Pair(made.first, {**made.second, "subject": "u2"}, 0.999, 0.999))
    assert verdict.type == "distinct"
    assert "subjects" in verdict.reason


def test_lessons_of_other_tools_never_meet() -> None:
    made = pair("Retry after a timeout", "Retry after a timeout", kind="experience", tool="weather")
    verdict = type_pair(Pair(made.first, {**made.second, "tool": "exchange_rate"}, 0.999, 0.999))
    assert (verdict.type, "tool differs" in verdict.reason) == ("distinct", True)


def test_kinds_of_another_family_never_meet() -> None:
    made = pair("Never call before noon", "Never call before noon")
    assert type_pair(Pair(made.first, {**made.second, "kind": "rule"}, 0.999, 0.999)).type == "distinct"


def test_columns_tell_what_a_text_does_not() -> None:
    row = {"kind": "fact", "subject": "u", "attribute": "budget"}
    first = {**row, "text": "around five grand", "value": "5000", "valid_from": EARLY}
    second = {**row, "text": "eight would be fine", "value": "8000", "valid_from": LATE}
    assert type_pair(Pair(first, second)).type == "supersedes"


def test_an_attribute_of_many_values_loses_none() -> None:
    row = {"kind": "fact", "subject": "u", "attribute": "hobby"}
    first = {**row, "text": "plays chess", "value": "chess", "valid_from": EARLY}
    second = {**row, "text": "plays tennis", "value": "tennis", "valid_from": LATE}
    assert type_pair(Pair(first, second, 0.2, 0.5), holds_many=holds_many).type == "distinct"


def test_a_plan_supersedes_nothing() -> None:
    verdict = type_pair(pair("The user lives in Berlin", "The user is thinking of moving to Hamburg", same=0.2))
    assert verdict.type in ("distinct", "complements")


class Scripted:
    """A judge that says one thing of every pair, and remembers what it was asked."""

    def __init__(self, verdict: Verdict | None) -> None:
        self.verdict = verdict
        self.asked: list[Pair] = []

    def judge(self, pairs: Sequence[Pair]) -> list[Verdict | None]:
        self.asked += pairs
        return [self.verdict] * len(pairs)


def test_a_judge_is_asked_about_what_no_guard_decided() -> None:
    sure = pair("Retry 3 times", "Retry three times")
    apart = pair("I like the sea", "My car is old", topic=0.1)
    open_pair = pair("The deploy needs a tag", "A tag has to be set for deploys", topic=0.95, same=0.5)
    judge = Scripted(Verdict("same", "judged", 0))
    verdicts = type_pairs([sure, apart, open_pair], judge)
    assert judge.asked == [open_pair]
    assert [verdict.type for verdict in verdicts] == ["same", "distinct", "same"]


def test_a_judge_can_not_override_a_guard() -> None:
    made = pair("Order ORD-1 is late", "Order ORD-2 is late", topic=0.99)
    [verdict] = type_pairs([made], Scripted(Verdict("same", "judged", 0)))
    assert verdict.type == "distinct"
    assert "ord-1" in verdict.reason


def test_what_a_judge_can_not_tell_is_left_to_the_rule() -> None:
    made = pair("The deploy needs a tag", "A tag has to be set for deploys", topic=0.95, same=0.5)
    assert type_pairs([made], Scripted(None)) == type_pairs([made])


def test_a_judged_update_stands_by_its_time() -> None:
    made = pair("The deploy needs a tag", "A tag has to be set for deploys", topic=0.95, same=0.5)
    turned = Pair(made.second, made.first, made.same, made.topic)
    assert type_pairs([made], Scripted(Verdict("supersedes", "judged")))[0].stands == 1
    assert type_pairs([turned], Scripted(Verdict("supersedes", "judged")))[0].stands == 0


WORDS = st.sampled_from(
    str.split(
        "the user pays 20 euros 3pm Berlin Anna never always retry "
        "404 报销 三千元 北京 不 超时 ORD-77 config.yaml 2024-04-01 8,000 5kg"
    )
)
TEXTS = st.lists(WORDS, min_size=1, max_size=10).map(" ".join)
QUICK = quickly(max_examples=25)
MIRROR = {0: 1, 1: 0, None: None}


@QUICK
@given(TEXTS, TEXTS, st.floats(0, 1), st.floats(0, 1))
@example("the", "报销", 1.0, 0.0)
def test_the_type_does_not_depend_on_the_order_given(first: str, second: str, same: float, topic: float) -> None:
    made = pair(first, second, same=same, topic=topic)
    one, two = type_pair(made), type_pair(Pair(made.second, made.first, same, topic))
    assert one.type == two.type
    assert one.stands == MIRROR[two.stands]


@QUICK
@given(TEXTS.filter(lambda text: re.search(r"\d", text)), st.data())
def test_a_changed_digit_is_never_joined(text: str, data: st.DataObject) -> None:
    place = data.draw(st.sampled_from([match.start() for match in re.finditer(r"\d", text)]))
    other = data.draw(st.sampled_from([digit for digit in "123456789" if digit != text[place]]))
    changed = text[:place] + other + text[place + 1 :]
    assert not type_pair(pair(text, changed, same=0.999999, topic=1.0)).joins


@QUICK
@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_gets_a_verdict_with_a_reason(first: str, second: str) -> None:
    assert type_pair(pair(first, second)).reason
