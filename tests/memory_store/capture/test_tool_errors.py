"""Whether a tool's result reports an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake.memory_store.capture.tool_errors import error_slug, tool_error

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["error", "errors", "status", "code", "message", "ok", "detail", "x"]), inner)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("result", "code"),
    [
        ("Error: the basket is empty", "the_basket_is_empty"),
        ("Error: seat 12C on train IC883 is taken", "seat_on_train_is_taken"),
        ("Error: HTTP 429: slow down", "429"),
        ("Error: ENOENT: no such file, open '/tmp/x'", "ENOENT"),
        ("error[E0308]: mismatched types", "E0308"),
        ("[ERROR] the disk is full", "the_disk_is_full"),
        ("HTTP 500", "500"),
        ("HTTP/1.1 404 Not Found", "404"),
        ("503 Service Unavailable", "503"),
        ("Request failed with status code 502", "502"),
        ("read ECONNRESET", "ECONNRESET"),
        ("connect ECONNREFUSED 127.0.0.1:5432", "ECONNREFUSED"),
        ("[Errno 13] Permission denied: '/etc/x'", "EACCES"),
        ("bash: line 1: frobnicate: command not found", "command_not_found"),
        ("cat: notes.txt: No such file or directory", "ENOENT"),
        ("ValueError: not a date", "ValueError"),
        ("requests.exceptions.ReadTimeout: pool timed out", "ReadTimeout"),
        ("Traceback (most recent call last):\n  File 'a.py', line 1\nKeyError: 'id'", "KeyError"),
        ("step 1 done\nTraceback (most recent call last):\n  File 'a.py'\npkg.errors.BadInput: no\n", "BadInput"),
        ("Exit code 2\nmake: stop", "exit_2"),
        ("<tool_use_error>The file was not read</tool_use_error>", "the_file_was_not_read"),
        ("The request timed out after 30 s", "timeout"),
        ("Failed to open the door", "failed_to_open_the_door"),
        ("错误：库存不足", "库存不足"),
        ("请求失败：订单 8812 不存在", "订单_不存在"),
        ("支付接口超时", "支付接口超时"),
        ({"error": "stock is too low"}, "stock_is_too_low"),
        ({"error": "invalid_grant", "error_description": "the token is old"}, "invalid_grant"),
        ({"error": {"code": "rate_limited", "message": "slow down"}}, "rate_limited"),
        ({"error": {"code": None, "type": "quota", "message": "used up"}}, "quota"),
        ({"error": True, "message": "no such city"}, "no_such_city"),
        ({"success": False, "message": "it is closed"}, "it_is_closed"),
        ({"ok": False}, "error"),
        ({"status": "error"}, "error"),
        ({"status": "failed", "reason": "no stock"}, "no_stock"),
        ({"status": 500, "body": ""}, "500"),
        ({"code": 404, "message": "nope"}, "404"),
        ({"exit_code": 127, "stderr": "sh: x"}, "exit_127"),
        ({"is_error": True, "content": "it broke"}, "it_broke"),
        ({"isError": True, "content": [{"type": "text", "text": "File is gone"}]}, "file_is_gone"),
        ({"errors": [{"message": "Unknown field"}]}, "unknown_field"),
        ({"detail": "Not Found"}, "not_found"),
        ({"result": "Error: no such room"}, "no_such_room"),
        ('{"status": "error", "message": "no such user 9"}', "no_such_user"),
        ([{"type": "text", "text": "Error: no such page"}], "no_such_page"),
        (TimeoutError("late"), "TimeoutError"),
    ],
)
def test_a_result_that_reports_an_error_has_its_code(result: object, code: str) -> None:
    found = tool_error(result)
    assert found is not None
    assert found.code == code


@pytest.mark.parametrize(
    "result",
    [
        "",
        None,
        7,
        "0 errors, 0 warnings",
        "No errors were found",
        "The error was fixed in version 3",
        "Error handling in Python: a guide\nUse try and except.",
        "Timeout settings for the proxy",
        "错误处理的最佳实践",
        "status: 200",
        "Process finished with exit code 0",
        "404 parcels were sent",
        "def test():\n    raise ValueError('no')",
        {"error": None, "rows": 3},
        {"error": "", "rows": 3},
        {"error": 0.02, "mean": 3.1},
        {"errors": [], "data": {"a": 1}},
        {"errors": ["line 3 is too long"], "file": "a.py"},
        {"order": "A1", "status": "failed"},
        {"code": 0, "message": "ok"},
        {"code": 450, "name": "postcode"},
        {"success": True, "message": "no error"},
        {"exit_code": 0},
        [{"id": 1}, {"error": "x"}],
    ],
)
def test_a_result_that_only_mentions_an_error_is_none(result: object) -> None:
    assert tool_error(result) is None


@given(JSON)
def test_any_result_is_judged_without_a_crash_and_an_error_always_has_a_code(result: object) -> None:
    found = tool_error(result)
    assert found is None or (found.code and len(found.code) <= 64)


@given(st.text())
def test_a_slug_is_never_empty_and_has_no_space(message: str) -> None:
    slug = error_slug(message)
    assert slug and len(slug) <= 64 and not any(letter.isspace() for letter in slug)


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_equal_failures_of_different_things_have_one_code(a: int, b: int) -> None:
    assert tool_error(f"Error: parcel P{a} is lost") == tool_error(f"Error: parcel P{a} is lost")
    one, two = tool_error(f"Error: parcel P{a} is lost"), tool_error(f"Error: parcel P{b} is lost")
    assert one and two and one.code == two.code == "parcel_is_lost"
