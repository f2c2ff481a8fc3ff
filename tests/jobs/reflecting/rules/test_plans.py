"""What users settle: decisions, goals, appointments, figures, progress, forms; and what is none."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake.jobs.reflecting.rules.plans import LIMIT, settled_in, settled_of
from hindlake.memory_store.capture.events import Event, Trace, trace_of

START = datetime(2026, 5, 1, 9, tzinfo=UTC)

SETTLED = [
    # words                                                               tag
    ("Okay, let's go with the red enamel for the Harwich boat.",          "decision"),
    ("We've decided on two rehearsals in the Ferrara hall.",              "decision"),
    ("我们最后决定用Postgres做任务队列",                                     "decision"),
    ("那就定周四下午去看展览馆的场地",                                       "decision"),
    ("Our main goal is to open the bakery by June 1.",                    "goal"),
    ("我们的目标是年底前服务300家门店",                                       "goal"),
    ("The kick-off with Marlowe is confirmed for Tuesday.",               "appointment"),
    ("供应商的验收会改到下周三上午",                                         "appointment"),
    ("My rent for the studio is 900 euros a month.",                      "figure"),
    ("I usually sleep badly, but I've run 30 km a week since spring.",    ""),
    ("I run about 30 km a week along the canal.",                         "figure"),
    ("我每个月房租要付4200元左右",                                           "figure"),
    ("I'll practise the Bach suite every Monday evening.",                "intention"),
    ("接下来我们打算每周三晚上排练两小时",                                     "intention"),
    ("I've submitted the grant proposal to the Nordby fund.",             "progress"),
    ("我已经提交了第2版的课程大纲",                                          "progress"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "tag"), SETTLED)
def test_what_a_user_settles_is_found_by_its_kind(words: str, tag: str) -> None:
    assert [said.tag for said in settled_in(words)] == ([tag] if tag else [])


@pytest.mark.parametrize(
    "words",
    [
        "Let's do that.",
        "Let's go with it on Friday then, why not.",
        "Should we go with the red enamel for the Harwich boat?",
        "If we've decided on Ferrara, tell me the price by Monday.",
        "Tom said we've decided on two rehearsals in Ferrara.",
        "Maybe we will rehearse every Monday in Ferrara.",
        "I'll do the backup of the laptop tonight at 9.",
        "I'll need the figures of the second quarter by Monday.",
        "I'll go with flight KX2291 on Monday morning.",
        "My flight to Bergen is on May 20 at noon.",
        "No, that's wrong, our goal is 300 shops by May.",
        "We've decided on it.",
        "就这样吧",
        "我们要不要周四去看展览馆的场地？",
        "如果我们决定周四去，告诉我价格",
        "我今晚会把第2版发给你",
        "",
    ],
)
def test_what_settles_nothing_is_passed_over(words: str) -> None:
    assert settled_in(words) == []


def test_the_lines_of_a_form_are_kept_as_label_and_value() -> None:
    words = "Here it is:\n- **Weekly hours**: twelve, mostly mornings\n- **Instrument:** viola da gamba\n"
    assert [(said.text, said.quote) for said in settled_in(words)] == [
        ("Weekly hours: twelve, mostly mornings", "- **Weekly hours**: twelve, mostly mornings"),
        ("Instrument: viola da gamba", "- **Instrument:** viola da gamba"),
    ]
    assert [said.text for said in settled_in("- 每周课时：十二小时\n- 乐器：古大提琴")] == [
        "每周课时: 十二小时",
        "乐器: 古大提琴",
    ]


def test_a_common_attribute_in_a_form_has_its_name() -> None:
    (said, _) = settled_in("- **Budget**: 900 euros\n- **Instrument**: viola da gamba")
    assert (said.attribute, said.value) == ("budget", "900 euros")


@pytest.mark.parametrize(
    "words",
    [
        "- Colour: dark red enamel",  # one line makes no form
        "- **Error**: connection refused by host\n- **Status**: failed twice",
        "- **Order**: the second one of May\n- **Expected output**: a list of names",
        "- **错误**：连接被拒绝了\n- **单号**：第二个包裹",
        "\n".join(f"- **Part {n}**: the matter of part {n} of the contract" for n in range(40)),
        "word " * 800 + "\n- **Weekly hours**: twelve mornings\n- **Instrument**: viola da gamba",
        "```\n- **Weekly hours**: twelve mornings\n- **Instrument**: viola\n```",
    ],
)
def test_a_report_a_document_or_code_is_no_form(words: str) -> None:
    assert settled_in(words) == []


def test_a_secret_in_a_form_is_marked_and_not_quoted() -> None:
    said = settled_in("- **Password**: hunter2hunter\n- **Instrument**: viola da gamba")[0]
    assert said.secret and "hunter2" not in said.text + said.quote


@given(st.text(max_size=400))
def test_any_text_is_read_and_what_is_found_is_in_it(text: str) -> None:
    found = settled_in(text)
    assert len(found) <= LIMIT
    assert all(said.secret or said.quote in text for said in found)


def _trace(*events: dict[str, object]) -> Trace:
    return trace_of(
        [Event("acme", "t", f"t-{n}", n, START + timedelta(seconds=n), **e) for n, e in enumerate(events)]  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(("tool", "kept"), [("search_venues", 1), ("book_venue", 0)])
def test_what_the_agent_carries_out_by_a_call_is_not_kept(tool: str, kept: int) -> None:
    some = _trace(
        {"type": "message", "role": "user", "content": "Let's go with the Ferrara hall on May 4."},
        {"type": "tool_call", "tool": tool, "arguments": json.dumps({"hall": "Ferrara"}), "result": "{}"},
    )
    assert len(settled_of(some, some.events[:1])) == kept
