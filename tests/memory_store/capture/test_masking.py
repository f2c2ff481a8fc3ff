"""Screening: what is secret is masked wherever it stands, and nothing else is touched."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake.memory_store.capture.events import Event
from hindlake.memory_store.capture.masking import Mask
from hindlake.memory_store.capture.masking_rules import PERSONAL, SECRETS
from hindlake.memory_store.ids import IdSource

# Put together from parts, so that no scanner takes this file for a leak.
LONG = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2w3X4y5Z6"
SAMPLES = {
    "AKIA" + "IOSFODNN7EXAMPLE": "aws_key",
    "ghp_" + LONG[:36]: "github_token",
    "github_pat_" + LONG[:40]: "github_token",
    "glpat-" + LONG[:20]: "gitlab_token",
    "xoxb-" + "123456789012-abcdefABCDEF": "slack_token",
    "sk-proj-" + LONG: "api_key",
    "sk-ant-api03-" + LONG: "api_key",
    "AIza" + LONG[:35]: "google_key",
    "ya29." + LONG: "google_token",
    "GOCSPX-" + LONG[:28]: "google_token",
    "sk_live_" + LONG[:24]: "stripe_key",
    "whsec_" + LONG[:32]: "stripe_key",
    "hf_" + LONG[:34]: "huggingface_token",
    "npm_" + LONG[:36]: "npm_token",
    "pypi-" + LONG + LONG: "pypi_token",
    "SG." + LONG[:22] + "." + LONG[:43]: "sendgrid_key",
    "123456789:AA" + LONG[:33]: "telegram_token",
    "dop_v1_" + "0a" * 32: "digitalocean_token",
    "dapi" + "0a" * 16: "databricks_token",
    "shpat_" + "0a" * 16: "shopify_token",
    "hvs." + LONG[:24]: "vault_token",
    "gsk_" + LONG: "api_key",
    "abc8Q~" + LONG[:34]: "azure_secret",
    "AGE-SECRET-KEY-1" + "A" * 58: "age_key",
    "eyJ" + LONG[:20] + ".eyJ" + LONG[:20] + "." + LONG: "jwt",
}
IN_PLACE = {
    "postgres://app:" + "s3cr3t" + "@db:5432/x": "postgres://app:[masked:connection_string]@db:5432/x",
    "redis://:" + "pa@ss" + "@cache:6379": "redis://:[masked:connection_string]@cache:6379",
    "https://hooks.slack.com/services/"
    + "T000/B000/"
    + LONG: "https://hooks.slack.com/services/[masked:slack_webhook]",
    "Authorization: Bearer " + LONG: "Authorization: Bearer [masked:authorization]",
    "password=" + "hunter2": "password=[masked:password]",
    "DB_PASSWORD='" + "let me in" + "'": "DB_PASSWORD='[masked:password]'",
    "Pwd: " + "hunter2": "Pwd: [masked:password]",
    "pwd=" + "hunter2": "pwd=[masked:password]",
    "pwd := '" + "hunter2" + "'": "pwd := '[masked:password]'",
    "myaccesskey=" + LONG[:20]: "myaccesskey=[masked:secret]",
    "api_key: " + LONG[:20]: "api_key: [masked:secret]",
    "clientSecret = " + LONG[:20]: "clientSecret = [masked:secret]",
    "AWS_SECRET_ACCESS_KEY=" + "wJalrXUtnFEMI/K7MDENG/bPx": "AWS_SECRET_ACCESS_KEY=[masked:secret]",
    "AccountKey=" + LONG + "==;X=1": "AccountKey=[masked:azure_key];X=1",
    "curl -u bob:" + "s3cr3t" + " host": "curl -u bob:[masked:password] host",
    "tool --token " + "abc123def": "tool --token [masked:password]",
    "密码：" + "abc123": "密码：[masked:password]",
}
PEOPLE = {
    "write to jane.doe@example.com now": "write to [masked:email] now",
    "call +49 30 1234567 today": "call [masked:phone] today",
    "手机13812345678。": "手机[masked:phone]。",
    "(415) 555-2671": "[masked:phone]",
    "ssn 078-05-1120": "ssn [masked:national_id]",
    "身份证 11010519491231002X": "身份证 [masked:national_id]",
    "card 4111 1111 1111 1111 exp": "card [masked:card] exp",
    "IBAN DE89 3704 0044 0532 0130 00": "IBAN [masked:iban]",
}
INNOCENT = [
    "The token of the reply is in the password manager; no secret here.",
    "max_tokens=4096 and next_page_token=abc123def456",
    "password: required",
    'api_key="${API_KEY}"',
    "api_key = 'YOUR_API_KEY', password = request.form['password']",
    "https://example.com:8080/path?x=1@home",
    "task-1234567890123456789012 is a risk-free disk-based one",
    "order 2026-03-04T10:00:00Z, uuid 6fa459ea-ee8a-3ca4-894e-db77e160355e",
    "Basic understanding of troubleshooting",
    '{"token": "Berlin", "tokens": ["the", "cat"], "secret": "the butler did it"}',
]
AT = datetime(2026, 3, 1, tzinfo=UTC)
mask = Mask()
pieces = st.one_of(
    st.sampled_from([*SAMPLES, *IN_PLACE, *PEOPLE, *INNOCENT, "[masked:api_key]", "-----BEGIN PRIVATE KEY-----"]),
    st.text(max_size=12),
    st.sampled_from(["password=", '"', "\\", "token: ", "{", "}", " ", "\n", "://", "@", "'", ":"]),
)
texts = st.lists(pieces, max_size=6).map("".join)
values = st.recursive(
    texts | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["password", "token", "note", "db_secret", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(("secret", "name"), SAMPLES.items())
def test_a_secret_is_masked_in_prose_in_json_and_in_json_inside_json(secret: str, name: str) -> None:
    assert mask.text(f"use {secret}, please") == (f"use [masked:{name}], please", 1)
    inner = json.dumps({"note": f"it is {secret}"})
    assert json.loads(mask.json(inner)[0]) == {"note": f"it is [masked:{name}]"}
    outer = mask.json(json.dumps({"body": inner}))[0]
    assert json.loads(json.loads(outer)["body"]) == {"note": f"it is [masked:{name}]"}


@pytest.mark.parametrize(("text", "masked"), IN_PLACE.items())
def test_only_the_secret_part_is_masked(text: str, masked: str) -> None:
    assert mask.text(text) == (masked, 1)


def test_a_private_key_is_masked_whole_in_any_line_ending() -> None:
    body = "\n".join(["-----BEGIN RSA PRIVATE KEY-----", LONG, LONG, "-----END RSA PRIVATE KEY-----"])
    assert mask.text(f"key:\n{body}") == ("key:\n[masked:private_key]", 1)
    assert mask.text(json.dumps(body)) == ('"[masked:private_key]"', 1)
    assert mask.text(body[:70])[0] == "[masked:private_key]"


@pytest.mark.parametrize("text", INNOCENT)
def test_prose_and_names_are_left_alone(text: str) -> None:
    assert mask.text(text) == (text, 0)
    assert mask.json(text) == (text, 0)


def test_a_secret_is_known_by_its_key_in_json() -> None:
    """Even one that looks like a word."""
    masked, count = mask.json('{"user": "bob", "db_password": "letmein", "auth": {"apiKey": "k-12345", "pwd": ""}}')
    assert count == 2
    assert json.loads(masked) == {
        "user": "bob",
        "db_password": "[masked:secret]",
        "auth": {"apiKey": "[masked:secret]", "pwd": ""},
    }


@pytest.mark.parametrize(("text", "masked"), PEOPLE.items())
def test_personal_data_is_masked_when_asked(text: str, masked: str) -> None:
    assert mask.text(text) == (text, 0)
    assert Mask(personal=True).text(text) == (masked, 1)


def test_a_number_in_json_that_is_masked_becomes_text() -> None:
    masked, count = Mask(personal=True).json('{"phone": 13812345678, "n": 5}')
    assert (json.loads(masked), count) == ({"phone": "[masked:phone]", "n": 5}, 1)


def test_screening_can_be_switched_off() -> None:
    off = Mask(secrets=False)
    assert off.text("password=" + "hunter2") == ("password=" + "hunter2", 0)
    assert not off.suspects(b"password=")


def test_own_functions_are_run_after_the_rules() -> None:
    own = Mask(screens=[lambda text: text.replace("Project X", "[masked:project]")])
    assert own.text("Project X and Project X, password=" + "hunter2") == (
        "[masked:project] and [masked:project], password=[masked:password]",
        3,
    )


def event(**fields: str) -> Event:
    return Event("default", "t", "e", 0, AT, "tool_call", **fields)  # type: ignore[arg-type]


def test_an_event_is_masked_in_every_field_that_says_something_and_counted() -> None:
    secret = "AKIA" + "IOSFODNN7EXAMPLE"
    seen = event(content=secret, result=secret, error_message=secret, arguments=json.dumps({"k": secret}), subject="u")
    assert mask.suspects(msgspec.msgpack.encode(seen))
    assert mask.event(seen) == 4
    assert seen.masked == 4
    assert secret not in repr(seen)


def test_names_of_things_are_left_alone() -> None:
    """Two subjects must not become one."""
    seen = event(subject="user:jane@example.com", tool="t@example.com")
    assert Mask(personal=True).event(seen) == 0
    assert seen.subject == "user:jane@example.com"


@given(texts)
def test_masking_twice_is_masking_once(text: str) -> None:
    for which in (mask, Mask(personal=True)):
        once, _ = which.text(text)
        assert which.text(once) == (once, 0)


@given(values.filter(lambda value: isinstance(value, (dict, list))))
def test_json_stays_json_and_keeps_its_shape(value: object) -> None:
    """Text may change, keys and structure may not."""

    def shape(item: object) -> object:
        if isinstance(item, dict):
            return {key: shape(inner) for key, inner in item.items()}
        if isinstance(item, list):
            return [shape(inner) for inner in item]
        return "leaf"

    text = json.dumps(value, ensure_ascii=False)
    for which in (mask, Mask(personal=True)):
        masked, _ = which.json(text)
        assert shape(json.loads(masked)) == shape(value)
        assert which.json(masked) == (masked, 0)


@given(texts)
def test_the_quick_look_misses_nothing_that_the_rules_would_find(text: str) -> None:
    """Oracle: every rule run on everything."""
    if any(rule.pattern.search(text) for rule in SECRETS):
        assert mask.suspects(text.encode("utf-8", "surrogatepass"))


def test_every_rule_has_a_sample_here() -> None:
    named = {rule.name for rule in SECRETS + PERSONAL}
    shown = {*SAMPLES.values(), "private_key"}
    for text in (*IN_PLACE.values(), *PEOPLE.values()):
        shown |= {part.split("]")[0] for part in text.split("[masked:")[1:]}
    assert named - {"azure_key"} <= shown


def test_ids_do_not_raise_suspicion_by_chance() -> None:
    """Else an unlucky process would pay for every event of its life."""
    ids = IdSource()
    for _ in range(300):
        ids.renew()
        assert not mask.suspects(msgspec.msgpack.encode(Event("default", ids.new(), ids.new(), 0, AT, "tool_call")))
    letters = set("0123456789abcdefghjkmnpqrstvwxyz")
    short = {t for rule in SECRETS for t in rule.triggers if set(t) <= letters and len(t) < 4}
    assert short == set()


def test_a_mask_is_the_same_after_pickling() -> None:
    """Workers of a job get one."""
    assert pickle.loads(pickle.dumps(mask)).text("password=" + "hunter2") == ("password=[masked:password]", 1)
