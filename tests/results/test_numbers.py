import pytest
from hypothesis import given
from hypothesis import strategies as st

from privfit.privacy.composition import round_up
from privfit.results import numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1.000"),
        (-3.45678, "-3.457"),
        (9.99996, "10.00"),
        (12345.678, "12346"),
        (9999999.9, "1.000e+07"),
        (0.00012341, "0.0001234"),
        (1.2345e-5, "1.234e-05"),
        (5e-324, "4.941e-324"),
        (1e300, "1.000e+300"),
        (float("inf"), "inf"),
        (float("-inf"), "-inf"),
        (float("nan"), "nan"),
    ],
)
def test_significant(value, text):
    assert numbers.significant(value) == text


@given(st.floats(-1e307, 1e307))
def test_significant_is_close_and_narrow(value):
    text = numbers.significant(value)
    assert len(text) <= 11
    assert float(text) == pytest.approx(value, rel=5.1e-4, abs=1e-320)


@given(st.floats(0, 1e9))
def test_privacy_parameters_are_never_understated(value):
    text = round_up(value)
    assert float(text) >= value
    assert float(text) == pytest.approx(value, rel=1.1e-3, abs=1e-320)


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, "1"), (1e-6, "1e-06"), (0.23661, "0.2367"), (0.1, "0.1"), (0.98761, "0.9877")]
)
def test_round_up(value, text):
    assert round_up(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "<0.001"), (0.000999, "<0.001"), (0.001, "0.001"), (1.0, "1.000")]
)
def test_pvalue(value, text):
    assert numbers.pvalue(value) == text


@given(st.text(max_size=60), st.integers(1, 40))
def test_shortened_names_fit(text, width):
    short = numbers.shorten(text, width)
    assert numbers.display_width(short) <= width
    if numbers.display_width(text) <= width:
        assert short == text
    else:
        assert "…" in short


def test_shorten_keeps_both_ends():
    assert numbers.shorten("C(education)[T.Bachelors]", 11) == "C(edu…lors]"


def test_names_that_would_look_alike_are_numbered():
    names = ["aaaaaaaa1zzzzzzzz", "aaaaaaaa2zzzzzzzz", "other"]
    assert numbers.shorten_all(names, 11) == ["aaaa…zzz #1", "aaaa…zzz #2", "other"]


def test_wide_and_combining_characters():
    assert numbers.display_width("年齢") == 4
    assert numbers.display_width("e\u0301") == 1


@pytest.mark.parametrize(
    ("level", "percent", "lower", "upper"),
    [
        (0.95, "95", "[0.025", "0.975]"),
        (0.999, "99.9", "[0.0005", "0.9995]"),
        (0.999999, "99.9999", "[5e-07", "0.999999]"),
        (0.9999999, "99.99999", "[5e-08", "0.99999995]"),
        (1.0 - 2.0**-53, "99.99999999999999", "[5.55112e-17", "1-5.55112e-17]"),
    ],
)
def test_a_level_is_never_said_to_be_certainty(level, percent, lower, upper):
    assert numbers.confidence(level) == percent
    assert numbers.ends(level) == (lower, upper)


@given(st.floats(0.5, 1.0, exclude_max=True))
def test_every_level_below_1_is_shown_as_one(level):
    assert 50.0 <= float(numbers.confidence(level)) < 100.0
    assert numbers.ends(level)[1] != "1]"
