"""Settings: read once, frozen, arguments before environment before file, and every mistake named with its place."""

from __future__ import annotations

import inspect
import itertools
import pickle
import re
import tomllib
from pathlib import Path

import pytest
from pydantic import BaseModel, SecretStr, ValidationError

from hindlake.memory_store import settings as settings_module
from hindlake.memory_store.errors import SettingsError
from hindlake.memory_store.settings import S3Settings, Settings, check_namespace


def test_defaults_are_those_that_were_asked_for() -> None:
    settings = Settings.load()
    assert settings.namespace == "default"
    assert (settings.recorder.working_turns, settings.recorder.working_hours) == (20, 24)
    assert (settings.gate.detour_rate, settings.gate.complex_rate, settings.gate.complex_calls) == (0.30, 1.0, 3)
    assert settings.search.rrf_k == 60
    assert settings.home == str(Path("~/.hindlake").expanduser())


def test_arguments_win_over_the_environment_and_the_environment_over_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("hindlake.toml").write_text(
        'home = "from-file"\nnamespace = "from-file"\nembedder = "wordllama"\n[search]\nrrf_k = 10\ncandidates = 11\n'
    )
    monkeypatch.setenv("HINDLAKE_HOME", "from-env")
    monkeypatch.setenv("HINDLAKE_NAMESPACE", "from-env")
    monkeypatch.setenv("HINDLAKE_SEARCH_RRF_K", "20")
    settings = Settings.load(home="from-argument", namespace=None)
    assert settings.home == str(Path("from-argument").absolute())
    assert settings.namespace == "from-env"
    assert settings.embedder == "wordllama"
    assert (settings.search.rrf_k, settings.search.candidates) == (20, 11)


def _leaves(model: type[BaseModel], place: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for name, field in model.model_fields.items():
        inner = field.annotation
        if inspect.isclass(inner) and issubclass(inner, BaseModel):
            found += _leaves(inner, (*place, name))
        else:
            found.append((*place, name))
    return found


#: Settings that are bounded, most of them by 0 and 1, and another value for each.
_BOUNDED = {
    "complex_rate": 0.5, "detour_rate": 0.5, "downrank": 0.25, "idle_factor": 0.25, "quarantine_margin": 0.25,
    "usefulness_weight": 0.25, "named_share": 0.25, "vector_weight": 0.25, "batch_price": 0.25, "floor": 0.25,
    "lone_floor": 0.25, "refine": 7,
}  # fmt: skip


@pytest.mark.parametrize("place", _leaves(Settings), ids=".".join)
def test_every_setting_can_be_given_in_the_environment(place: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    variable = "_".join(("HINDLAKE", *place)).upper()
    monkeypatch.delenv(variable, raising=False)
    default = Settings.load()
    for name in place:
        default = getattr(default, name)
    if isinstance(default, SecretStr):
        monkeypatch.setenv(variable, "from-env")
        expected: object = SecretStr("from-env")
    elif isinstance(default, bool):
        monkeypatch.setenv(variable, str(not default))
        expected = not default
    elif isinstance(default, int | float):
        bounded = 30 if place == ("rerank", "candidates") else _BOUNDED.get(place[-1])
        expected = type(default)(default + 1000) if bounded is None else bounded
        monkeypatch.setenv(variable, str(expected))
    elif isinstance(default, str):
        other = {
            "durable": "remote",
            "calls": "off",
            "fusion": "rrf",
            "reflector": "rules",
            "home": "/from-env",
            "mode": "batch",
            "verify": "new",
            "url": "http://from-env/",
            "body": "texts",
            "format": "json",
            "level": "debug",
            "otel": "on",
        }
        expected = other.get(place[-1], "from-env")
        monkeypatch.setenv(variable, str(expected))
    else:
        text, expected = ('["tool_error"]', ("tool_error",)) if isinstance(default, tuple) else ("{}", {})
        monkeypatch.setenv(variable, text)
    value: object = Settings.load()
    for name in place:
        value = getattr(value, name)
    assert value == expected


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"homes": "x"}, "homes"),
        ({"gate": {"detour_rate": 2}}, "gate.detour_rate"),
        ({"search": {"fusion": "magic"}}, "search.fusion"),
        ({"namespace": "Acme Inc"}, "namespace"),
        ({"home": "gs://bucket"}, "folder or s3://"),
    ],
)
def test_a_wrong_argument_is_named_with_the_places_looked_at(given: dict[str, object], named: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(named)) as caught:
        Settings.load(**given)
    assert "HINDLAKE_*" in str(caught.value) and "hindlake.toml" in str(caught.value)


def test_every_wrong_value_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HINDLAKE_MODEL_RETRIES", "many")
    with pytest.raises(SettingsError, match=r"(?s)search\.rrf_k.*model\.retries|model\.retries.*search\.rrf_k"):
        Settings.load(search={"rrf_k": 0})


@pytest.mark.parametrize("text", ["home = ", "hoem = 'x'", "[search]\nrrf_kk = 1", "search = 3", "\x00"])
def test_a_broken_file_is_named(text: str) -> None:
    Path("hindlake.toml").write_text(text)
    with pytest.raises(SettingsError, match=re.escape(str(Path("hindlake.toml").absolute()))):
        Settings.load()


def test_settings_are_frozen() -> None:
    settings = Settings.load()
    with pytest.raises(ValidationError):
        settings.home = "elsewhere"
    with pytest.raises(ValidationError):
        settings.search.rrf_k = 1


def test_settings_reach_a_worker_whole_and_hide_their_secrets() -> None:
    settings = Settings.load(s3=S3Settings(secret_access_key=SecretStr("hunter2")), model={"api_key": "hunter2"})
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert "hunter2" not in repr(settings) + str(settings) + settings.model_dump_json()


def test_a_wrong_value_is_not_told_when_it_may_be_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HINDLAKE_S3_SECRET_ACCES_KEY", "hunter2")  # a typo in the name
    with pytest.raises(SettingsError) as caught:
        Settings.load()
    assert "hunter2" not in str(caught.value)


def test_a_home_in_a_bucket_keeps_its_spool_on_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    settings = Settings.load(home="s3://bucket/prefix/")
    assert settings.is_remote and settings.home == "s3://bucket/prefix"
    assert settings.spool_folder == tmp_path / "hindlake" / "bucket_prefix" / "spool"
    assert Settings.load(home="s3://bucket/other").spool_folder != settings.spool_folder
    assert Settings.load(home="s3://bucket/x", spool="sp").spool_folder == Path("sp").absolute()
    assert Settings.load(home="here").spool_folder == Path("here/spool").absolute()


def test_loading_reads_nothing_at_import() -> None:
    """The object is built by `load` alone: the module holds no settings of its own."""
    assert not [name for name, value in vars(settings_module).items() if isinstance(value, Settings)]


@pytest.mark.parametrize("name", ["a", "acme-eu", "0.9_x", "a" * 128])
def test_a_namespace_of_the_small_alphabet_is_taken(name: str) -> None:
    assert check_namespace(name) == name


@pytest.mark.parametrize("name", ["", ".a", "-a", "A", "a/b", "a\n", "a b", "é", "a" * 129, None, 3])
def test_any_other_namespace_is_refused(name: object) -> None:
    with pytest.raises(SettingsError, match=r"can't be used"):
        check_namespace(name)  # type: ignore[arg-type]


def test_every_setting_is_explained_where_it_stands() -> None:
    """Each field is opened by a `#:` sentence, from which the docs are made."""
    source = inspect.getsource(settings_module).splitlines()
    bare = [
        line.strip()
        for before, line in itertools.pairwise(source)
        if re.match(r"    [a-z_]+: [^=]+ = (?!SettingsConfigDict|ConfigDict)", line)
        and "Settings()" not in line
        and not before.strip().startswith("#:")
    ]
    assert bare == []


def test_the_file_is_plain_toml() -> None:
    text = '[s3]\nendpoint = "http://127.0.0.1:8333"\n[gate.overrides."acme/refunds"]\ndetour_rate = 1.0\n'
    Path("hindlake.toml").write_text(text)
    settings = Settings.load()
    assert settings.s3.endpoint == tomllib.loads(text)["s3"]["endpoint"]
    assert settings.gate.for_task("acme", "refunds").detour_rate == 1.0
    assert settings.gate.for_task("acme", "other").detour_rate == 0.30
