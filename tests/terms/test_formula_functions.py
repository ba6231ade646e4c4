"""Interval arithmetic encloses every value, and is sharp where a column is named once."""

import math

import numpy as np
import pytest

from privfit.data.schema import Schema
from privfit.errors import FormulaError
from privfit.terms import functions
from privfit.terms.encoder import FormulaEncoder
from privfit.terms.factors import NumericFactor, python_factor
from privfit.terms.functions import CALLABLE, integer_power
from privfit.terms.ranges import product_range

KNOWN = [
    *CALLABLE.values(),
    *(value for value in vars(functions).values() if isinstance(value, functions.Function)),
    *(integer_power(exponent) for exponent in (-3, -2, -1, 0, 1, 2, 3, 4)),
]
MATTER = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    0.5,
    -0.5,
    30.0,
    -30.0,
    5e-324,
    -5e-324,
    *(k * math.pi / 2 for k in (-2, -1, 1, 2)),
]
SCHEMA = Schema(
    {
        "y": {"type": "numeric", "lower": 0, "upper": 1},
        "a": {"type": "numeric", "lower": -2, "upper": 3},
        "b": {"type": "numeric", "lower": 1, "upper": 4},
        "zero": {"type": "numeric", "lower": 0, "upper": 10},
        "sex": {"type": "categorical", "levels": ["F", "M"]},
    }
)


def boxes(rng, count=3000):
    """Return ends of intervals, shape (count,), at numbers that matter and others, and points inside."""
    low, high = np.sort(np.where(rng.random((2, count)) < 0.5, *_numbers(rng, count)), axis=0)
    share = np.concatenate([np.tile([0.0, 1.0], (count, 1)), rng.random((count, 5))], axis=1)
    inside = low[:, None] + share * (high - low)[:, None]
    return low, high, np.clip(inside, low[:, None], high[:, None])


def _numbers(rng, count):
    signs, powers = rng.choice([-1.0, 1.0], (2, count)), 10.0 ** rng.uniform(-320, 1, (2, count))
    usual = np.where(rng.random((2, count)) < 0.8, rng.uniform(-30, 30, (2, count)), signs * powers)
    return usual, rng.choice(MATTER, (2, count))


@pytest.mark.parametrize("function", KNOWN, ids=lambda function: f"{function.name}/{function.arity}")
def test_an_enclosure_holds_every_value(function):
    rng = np.random.default_rng(17)
    found = [boxes(rng) for _ in range(function.arity)]
    with np.errstate(all="ignore"):
        low, high = function.enclose(*((low, high) for low, high, _ in found))
        if function.arity == 1:
            values = function.values(found[0][2])
        else:
            values = function.values(*np.broadcast_arrays(found[0][2][:, :, None], found[1][2][:, None, :]))
    values = values.reshape(len(values), -1)
    usable = np.isfinite(low) & np.isfinite(high)
    assert usable.sum() >= 300
    low, high, values = low[usable, None], high[usable, None], values[usable]
    slack = 1e-12 * (1 + np.abs(values))
    assert np.isfinite(values).all()
    assert (values >= low - slack).all()
    assert (values <= high + slack).all()


def range_of(*texts):
    expressions = []
    for text in texts:
        factor = python_factor(text, SCHEMA)
        assert isinstance(factor, NumericFactor)
        expressions.append(factor.expression)
    return product_range(expressions, SCHEMA, label="product")


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["a"], (-2, 3)),
        (["-a"], (-3, 2)),
        (["a", "b"], (-8, 12)),
        (["a ** 2"], (0, 9)),
        (["a ** 3"], (-8, 27)),
        (["b ** -2"], (1 / 16, 1)),
        (["b ** 0.5"], (1, 2)),
        (["np.log(b)"], (0, math.log(4))),
        (["abs(a)"], (0, 3)),
        (["1 / b - a"], (0.25 - 3, 3)),
        (["np.sin(a)"], (math.sin(-math.pi / 2), 1)),
        (["cos(b)"], (-1, math.cos(1))),
        (["np.maximum(a, 1)"], (1, 3)),
        (["a > 0"], (0, 1)),
        (["sex == 'M'"], (0, 1)),
        (["sex == 'M'", "a"], (-2, 3)),
        (["(a > 1) * b"], (0, 4)),
    ],
)
def test_ranges_are_sharp(texts, expected):
    assert range_of(*texts) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "expected", "slack"),
    [
        ("a - a ** 2 / 4", (-3.0, 1.0), 0.01),  # corners alone would give (-3, 0.75)
        ("a * (1 - a)", (-6.0, 0.25), 0.01),
        ("a * b - b * a + b", (1.0, 4.0), 1.0),  # looser, but it holds the range
        ("b / (1 + b)", (0.5, 0.8), 0.001),
    ],
)
def test_a_column_that_is_named_twice_is_enclosed_closely(text, expected, slack):
    low, high = range_of(text)
    assert expected[0] - slack <= low <= expected[0]
    assert expected[1] <= high <= expected[1] + slack


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("log(zero)", "log1p"),
        ("np.log(a)", "log1p"),
        ("np.log1p(a)", "above -1"),
        ("np.sqrt(a)", "at or above 0"),
        ("1 / a", "divisor"),
        ("b / zero", "divisor"),
        ("zero ** -1", "whole exponent"),
        ("a ** 0.5", "base above 0"),
        ("a ** b", "base above 0"),
        ("zero ** a", "base above 0"),
        ("exp(exp(exp(b)))", "overflow"),
        ("b ** 9999", "whole exponent"),
        ("9 ** 9 ** 9 ** 9 + a", "whole exponent"),
        ("0 * log(zero)", "log1p"),
        ("log(b - b)", "log1p"),
    ],
)
def test_terms_that_are_not_finite_on_the_bounds_are_refused(text, remedy):
    with pytest.raises(FormulaError, match="not finite on all of the declared bounds") as caught:
        FormulaEncoder(f"y ~ I({text})", SCHEMA)
    assert remedy in str(caught.value)


@pytest.mark.parametrize(
    "text", ["a > 5", "0 * a", "2 + 3", "a + 1e30", "b ** 0", "1e-320 * a", "(a > 9) * b"]
)
def test_terms_that_do_not_vary_on_the_bounds_are_refused(text):
    with pytest.raises(FormulaError, match="does not vary"):
        FormulaEncoder(f"y ~ I({text})", SCHEMA)


def test_the_edges_of_a_domain_that_a_clamp_keeps_away_are_fine():
    encoder = FormulaEncoder("y ~ np.log(np.maximum(zero, 1)) + np.sqrt(zero) + I(1 / (1 + zero))", SCHEMA)
    assert encoder.design.columns[1].half_width == pytest.approx(math.log(10) / 2)
