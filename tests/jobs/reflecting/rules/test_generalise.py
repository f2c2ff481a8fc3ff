"""A lesson names no instance: what is only this order's or this person's is found, in both languages."""

from __future__ import annotations

import pytest

from hindlake.jobs.reflecting.rules.generalise import generalise, instance_in


@pytest.mark.parametrize(
    ("text", "instance"),
    [
        ("订单号84213，怎么回事？", "84213"),
        ("单号84213已取消", "84213"),
        ("20417号订单", "20417"),
        ("refund order 84213", "84213"),
        ("call refund for ORD-5521", "ORD-5521"),
        ("在5月27日之前", "5月27日"),
        ("预算8000元以内", "8000元"),
    ],
)
def test_an_instance_is_found(text: str, instance: str) -> None:
    assert instance_in(text) == instance
    assert instance not in generalise(text)


@pytest.mark.parametrize("text", ["try 3 times", "27寸的显示器", "前三天", "call list_payment_methods before pay"])
def test_what_is_no_instance_stays(text: str) -> None:
    assert instance_in(text) == ""
    assert generalise(text) == text
