"""What a later statement changes, in free words, and what it leaves alone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hindlake.jobs.comparing.frames import recounted
from hindlake.jobs.comparing.pairs import Pair, type_pair
from hindlake.jobs.comparing.updates import slot_of

EARLY, LATE = datetime(2026, 1, 10, tzinfo=UTC), datetime(2026, 1, 15, tzinfo=UTC)


def pair(first: str, second: str) -> Pair:
    """Two statements of one subject, the second made later, whose vectors say little."""
    row = {"kind": "fact", "subject": "u1"}
    return Pair({**row, "text": first, "valid_from": EARLY}, {**row, "text": second, "valid_from": LATE}, 0.3, 0.5)


UPDATES = [
    ("My address is 12 Elm Street.", "I moved, my address is now 7 Oak Avenue."),
    ("我的地址是朝阳路1号。", "我搬家了，现在地址是建国路2号。"),
    ("I live in Lyon.", "I moved to Porto in May, and I love it."),
    ("I work as a nurse.", "I've just been promoted to shift manager."),
    ("I work at Fern Labs.", "I've just joined Moss Group."),
    ("我在青石公司工作", "我跳槽到白云公司了"),
    ("我是会计", "我最近升职为经理了"),
    ("My choir is at 6pm", "My choir was moved from 6pm to 7pm"),
    ("我的瑜伽课是周二。", "我的瑜伽课改到周四了。"),
    ("I have 3 kayaks.", "I now have 4 kayaks."),
    ("I swim three times a week", "I now swim four times a week"),
    (
        "I've had Biscuit for about 2 months now.",
        "I've had my parrot, Biscuit, for about 5 months now, and I teach her.",
    ),
    ("I've already finished two of Moira's puzzles.", "By the way, I've finished 5 of Moira's puzzles so far!"),
    ("There are 12 names on my guest list right now.", "My guest list is long, currently 19 names, and I keep adding."),
    ("I just hit Harbour Bronze status.", "Guess what: I just reached Harbour Silver status."),
    ("Used Grunt for builds. Replaced by Vole.", "Vole builds the site in watch mode."),
    ("旧的打包工具已被快轮取代。", "用快轮打包网站。"),
]
APART = [
    ("My sister lives in Lyon", "My brother lives in Porto now"),
    ("I work as a porter.", "My wife works as a doctor now."),
    ("I have 3 kayaks.", "I have 4 canoes now."),
    ("I bought 3 apples", "I have bought 5 pears now"),
    ("I ate 3 rolls yesterday", "I ate 5 rolls today"),
    ("I have read 3 books on gardening", "I have planted 5 trees in the garden"),
    ("I've had Biscuit for 2 months now", "I've had Crumb for 5 months now"),
    ("The meeting is in room 101", "The meeting is in room 102 now"),
    ("我同事36岁。", "我同事的身高是163厘米。"),
    ("我上司42岁了。", "我上司的联系电话是13800001111。"),
    ("我表哥今年41岁了。", "我表妹现在35岁了。"),
    ("我的同事生日是10月3号。", "我手下有个同事，他生日是6月8号。"),
    ("My aunt is 61 years old", "My aunt is 164 cm tall now"),
    ("I have a cat", "I have a dog now"),
    ("我有3只猫。", "我现在有4只狗。"),
    ("I've finished two of Moira's puzzles.", "Could you find 5 of Moira's puzzles for me?"),
    ("I use Grunt for builds.", "Vole builds the site in watch mode."),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second"), UPDATES)
def test_a_statement_in_free_words_supersedes_what_it_changes(first: str, second: str) -> None:
    verdict = type_pair(pair(first, second))
    assert (verdict.type, verdict.stands) == ("supersedes", 1), verdict


@pytest.mark.parametrize(("first", "second"), APART)
def test_what_is_said_of_something_else_changes_nothing(first: str, second: str) -> None:
    assert type_pair(pair(first, second)).type in ("distinct", "complements")


def test_the_value_is_read_from_the_clause_that_gives_it() -> None:
    found = slot_of("Good news! I moved house, so my address is now 7 Oak Avenue.")
    assert found is not None
    assert (found.attribute, found.value) == ("address", "7 Oak Avenue")
    assert slot_of("My budget is 5000 and my age is 30") is None or slot_of("nothing of the kind") is None


def test_two_counts_pair_with_the_ones_they_recount() -> None:
    found = recounted(
        "I paid 40 euros. I have 3 kayaks in the shed.", "It took 90 minutes, and I now have 5 kayaks in the shed."
    )
    assert found is not None
    assert [str(value) for value in found] == ["3", "5"]
