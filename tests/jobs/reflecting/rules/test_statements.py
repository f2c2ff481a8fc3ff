"""Statements of users: what is one, what is none, in both languages."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake.jobs.reflecting.rules.attributes import attribute_of, holds_many
from hindlake.jobs.reflecting.rules.reader import LIMIT, is_from_user, statements_of
from hindlake.jobs.reflecting.rules.sentences import is_observation
from hindlake.memory_store.capture.events import Event

STATED = [
    # words                                              kind          attribute            value
    ("My budget is 8000, can you find a room?",          "fact",       "budget",            "8000"),
    ("my budget is now $8,000",                          "fact",       "budget",            "$8,000"),
    ("My budget is not 5000 but 8000.",                  "fact",       "budget",            "8000"),
    ("my budget is not 5000",                            "fact",       "budget",            "not 5000"),
    ("我的预算改成8000了",                                "fact",       "budget",            "8000"),
    ("预算调整到8000元，麻烦重新找一下",                    "fact",       "budget",            "8000元"),
    ("我的预算不是5000",                                  "fact",       "budget",            "not 5000"),
    ("Could you change my address to 4 Mill Lane, Hull?", "fact",      "address",           "4 Mill Lane, Hull"),
    ("把我的地址改成长江路4号",                            "fact",       "address",           "长江路4号"),
    ("My e-mail is ana@example.org.",                    "fact",       "email",             "ana@example.org"),
    ("我的手机号是13900001111",                           "fact",       "phone",             "13900001111"),
    ("Hi, I'm Ana Prado.",                               "fact",       "name",              "Ana Prado"),
    ("我叫孙小雨",                                        "fact",       "name",              "孙小雨"),
    ("I'm allergic to walnuts",                          "fact",       "allergy:walnuts",   "walnuts"),
    ("我对核桃过敏",                                      "fact",       "allergy:核桃",       "核桃"),
    ("I am no longer allergic to walnuts",               "fact",       "allergy:walnuts",   "none"),
    ("I'm vegan",                                        "preference", "diet",              "vegan"),
    ("我不吃羊肉",                                        "preference", "diet:羊肉",          "不吃"),
    ("I prefer aisle seats",                             "preference", "seat",              "aisle"),
    ("I love sour cherries",                             "preference", "liking:sour_cherries", "likes"),
    ("I no longer like sour cherries",                   "preference", "liking:sour_cherries", "no longer"),
    ("我不再喜欢绿茶了",                                  "preference", "liking:绿茶",         "no longer"),
    ("Please don't call me",                             "preference", "contact_channel",   "not phone"),
    ("请用邮件联系我",                                    "preference", "contact_channel",   "email"),
    ("My time zone is CET",                              "fact",       "timezone",          "CET"),
    ("I moved to Leeds",                                 "fact",       "city",              "Leeds"),
    ("我住在杭州西湖区",                                  "fact",       "city",              "杭州西湖区"),
    ("孙小雨是我的表姐",                                  "fact",       "表姐_name",          "孙小雨"),
    ("我表姐在成都工作呢",                                "fact",       "表姐_workplace",     "成都"),
    ("My wife's name is Ines",                           "fact",       "wife_name",         "Ines"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "kind", "attribute", "value"), STATED)
def test_a_statement_is_read(words: str, kind: str, attribute: str, value: str) -> None:
    assert [(s.kind, s.attribute, s.value) for s in statements_of(words)] == [(kind, attribute, value)]


@pytest.mark.parametrize(
    "words",
    [
        "Is my budget 8000?",
        "If my budget is 8000, what can I get?",
        "Suppose my name is Ana.",
        "My sister said my budget is 5000.",
        'The page says "my budget is 5000 and my name is Tom Reed".',
        "> my budget is 5000",
        "```\nmy budget is 5000\n```",
        "Maybe my budget is 5000",
        "My flight is delayed",
        "my order number is 5512",
        "my account is locked",
        "I like it",
        "I like the second option",
        "I would like a window seat",
        "I always have trouble with the login",
        "Every time I open the page it crashes",
        "我的预算是8000吗？",
        "如果我的预算是8000呢",
        "他说我的预算是5000",
        "我的航班延误了",
        "我喜欢这个",
        "每次打开都会报错",
        "Thanks!",
        "",
    ],
)
def test_what_is_asked_supposed_quoted_or_passing_is_no_statement(words: str) -> None:
    assert statements_of(words) == []


@pytest.mark.parametrize(
    "words",
    [
        "Please always confirm with me before you cancel anything.",
        "From now on, use metric units",
        "Whenever I ask for a refund, send the receipt to my accountant",
        "以后请先跟我确认再下单",
        "千万不要把地址给别人",
    ],
)
def test_a_lasting_order_is_a_rule_in_their_words(words: str) -> None:
    (said,) = statements_of(words)
    assert (said.kind, said.text) == ("rule", words)


@pytest.mark.parametrize(
    "words", ["My password is swordfish", "my api key is k-1234", "我的密码是123456", "My PIN is 4411"]
)
def test_of_a_secret_nothing_is_read_but_that_it_is_one(words: str) -> None:
    (said,) = statements_of(words)
    assert said.secret
    assert said.quote == said.value == ""
    assert not {"swordfish", "k-1234", "123456", "4411"} & set(said.text.split())


@pytest.mark.parametrize(
    ("before", "words", "value"),
    [
        ("My budget is 5000", "Not 5000, 8000", "8000"),
        ("My budget is 5000", "no, 8000, not 5000", "8000"),
        ("我的预算是5000", "不是5000，是8000", "8000"),
    ],
)
def test_a_correction_changes_the_attribute_that_had_the_old_value(before: str, words: str, value: str) -> None:
    known = {said.attribute: said for said in statements_of(before)}
    (said,) = statements_of(words, known)
    assert (said.attribute, said.value, said.changed) == ("budget", value, True)
    assert statements_of(words) == []


def test_a_change_is_marked() -> None:
    said = ("My budget is 5000", "My budget is now 8000", "预算改成8000")
    assert [statements_of(words)[0].changed for words in said] == [
        False, True, True,
    ]  # fmt: skip


def test_equal_attributes_of_two_languages_have_one_name() -> None:
    pairs = [
        ("budget", "预算"), ("address", "地址"), ("e-mail address", "邮箱"), ("phone number", "手机号"),
        ("name", "姓名"), ("allergy", "过敏"), ("seat", "座位"), ("size", "尺码"), ("language", "语言"),
        ("time zone", "时区"),
    ]  # fmt: skip
    for english, chinese in pairs:
        one, other = attribute_of(english), attribute_of(chinese)
        assert one is not None and other is not None and one.name == other.name


def test_things_of_which_one_has_several_end_no_other() -> None:
    one, other = statements_of("I'm allergic to walnuts. I'm allergic to sesame.")
    assert one.attribute != other.attribute
    assert holds_many("allergy") and not holds_many("budget")


@given(
    st.text(max_size=300)
    | st.lists(
        st.sampled_from(["my ", "budget ", "is ", "not ", "5000", ", ", "我", "的", "预算", "是", "\0", "?", ". "]),
        max_size=40,
    ).map("".join)
)
def test_any_text_is_read_without_harm(text: str) -> None:
    assert len(statements_of(text)) <= LIMIT


def test_a_long_paste_is_read_in_a_moment_and_only_at_its_ends() -> None:
    said = statements_of("My budget is 8000.\n" + "my name is Ghost Writer. " * 20_000 + "\nI live in Leeds")
    assert {"budget", "city"} <= {s.attribute for s in said}


def test_the_rules_in_a_long_prompt_are_not_the_user_s() -> None:
    rule = "Always answer in verse."
    assert [said.kind for said in statements_of(rule)] == ["rule"]
    assert statements_of(rule + "\n" + "The tide comes in at noon. " * 200) == []
    long = "My budget is now 8000.\n" + "The tide comes in at noon. " * 200
    assert [said.attribute for said in statements_of(long)] == ["budget"]


@pytest.mark.parametrize(
    ("words", "handed_back"),
    [
        ("Observation: my budget is 8000", True),
        ("Call id: c_4\nObservation:\nExecution logs:\nMy budget is 8000", True),
        ("Tool output: 3 rows", True),
        ("执行结果：我的预算是8000", True),
        ("My observation is that you forgot the rows", False),
        ("The tool output is wrong, I said Leeds", False),
        ("观察一下再说", False),
    ],
)
def test_a_result_under_the_user_s_name_is_not_theirs(words: str, handed_back: bool) -> None:
    assert is_observation(words) == handed_back
    said = Event("acme", "t", "e", 0, datetime(2026, 5, 1, tzinfo=UTC), "message", role="user", content=words)
    assert is_from_user(said) != handed_back
