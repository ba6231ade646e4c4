"""Derivatives of the rows of a formula: closed forms, one-sided at bounds, and comparisons held."""

import math

import numpy as np
import pytest

from privfit.data.declarations import NumericColumn
from privfit.data.schema import Schema
from privfit.data.tables import Table, open_table
from privfit.terms.encoder import FormulaEncoder
from privfit.terms.functions import CALLABLE
from tests.terms.formula_table import ROW_SCHEMA, SAME_AS_FORMULAIC, table

WIDE = Schema(
    {
        "y": {"type": "numeric", "lower": 0, "upper": 1},
        "x": {"type": "numeric", "lower": 0, "upper": 1e8},
        "a": {"type": "numeric", "lower": 0.01, "upper": 1e7},
        "s": {"type": "numeric", "lower": -3, "upper": 2},
        "sex": {"type": "categorical", "levels": ["F", "M"]},
    }
)
NEAR = {"x": [0.0, 0.5, 3.0, 1e4, 1e8], "a": [0.01, 0.5, 3.0, 1e4, 1e7], "s": [-3.0, -1.0, 0.25, 1.5, 2.0]}


def slopes(formula, name, cells=None):
    """Return the derivatives of the design's columns, by their names."""
    encoder = FormulaEncoder(f"y ~ {formula}", WIDE)
    found = encoder.derivatives(open_table(cells or {**NEAR, "sex": list("FMFMF")}), name)
    return dict(zip(encoder.design.names, found.T, strict=True))


X, A, S = (np.array(NEAR[name]) for name in "xas")


@pytest.mark.parametrize(
    ("formula", "name", "expected"),
    [
        ("np.log(a)", "a", 1 / A),
        ("np.log2(a)", "a", 1 / (A * math.log(2))),
        ("np.log10(a)", "a", 1 / (A * math.log(10))),
        ("np.log1p(x)", "x", 1 / (1 + X)),
        ("np.exp(s)", "s", np.exp(S)),
        ("np.expm1(s)", "s", np.exp(S)),
        ("np.sqrt(a)", "a", 0.5 / np.sqrt(A)),
        ("np.abs(s)", "s", np.sign(S)),
        ("np.sin(s)", "s", np.cos(S)),
        ("np.cos(s)", "s", -np.sin(S)),
        ("np.minimum(x, 3.5)", "x", (X < 3.5).astype(float)),
        ("np.maximum(x, 3.5)", "x", (X > 3.5).astype(float)),
        ("I(x + a)", "x", np.ones(5)),
        ("I(x - a)", "a", -np.ones(5)),
        ("I(x * a)", "a", X),
        ("I(x / a)", "x", 1 / A),
        ("I(x / a)", "a", -X / A**2),
        ("I(-s)", "s", -np.ones(5)),
        ("I(s ** 3)", "s", 3 * S**2),
        ("I(a ** -2)", "a", -2 / A**3),
        ("I(x ** 1.5)", "x", 1.5 * np.sqrt(X)),
        ("I(x * np.sqrt(x))", "x", 1.5 * np.sqrt(X)),
        ("I(np.sqrt(np.maximum(x - 2, 0)))", "x", 0.5 / np.sqrt(np.where(X > 2.0, X - 2.0, np.inf))),
        ("I(np.maximum(x - 2, 0) ** 0.5)", "x", 0.5 / np.sqrt(np.where(X > 2.0, X - 2.0, np.inf))),
        ("I(np.sqrt(x) * (x > 2))", "x", 0.5 / np.sqrt(np.where(X > 2.0, X, np.inf))),
        ("I(a ** s)", "a", S * A ** (S - 1)),
        ("I(a ** s)", "s", A**S * np.log(A)),
        ("I(2 ** s)", "s", 2**S * math.log(2)),
        ("np.log1p(np.sqrt(a) / (1 + x))", "a", 0.5 / np.sqrt(A) / (1 + X + np.sqrt(A))),
    ],
)
def test_closed_forms(formula, name, expected):
    """Of wide bounds, at the bounds too, to rounding: nothing is differenced."""
    constant, found = slopes(formula, name).values()
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=0)
    assert not constant.any()


def test_every_function_is_in_a_closed_form():
    (marks,) = (mark for mark in test_closed_forms.pytestmark if mark.name == "parametrize")
    written = " ".join(formula for formula, *_ in marks.args[1])
    assert all(f"np.{name}(" in written for name in CALLABLE)


@pytest.mark.parametrize("op", ["<", "<=", ">", ">=", "==", "!="])
def test_comparisons_are_held(op):
    """On the edge as elsewhere; what they multiply moves."""
    at = {"x": [2.0, 3.0, 4.0], "a": [1.0, 1.0, 1.0]}
    found = slopes(f"x + I(x {op} 3) + I((x {op} 3) * x) + x:I(x {op} 3) + np.sqrt(x {op} 3)", "x", at)
    truth = eval(f"np.array([2.0, 3.0, 4.0]) {op} 3.0")  # noqa: S307 -- our own
    for name, slope in found.items():
        moved = truth if name in (f"I((x {op} 3) * x)", f"x:I(x {op} 3)", f"(x {op} 3) * x") else 0.0
        expected = 1.0 if name == "x" else moved
        np.testing.assert_array_equal(slope, np.zeros(3) + expected, err_msg=name)


def test_a_kink_counts_from_both_sides_and_at_a_bound_from_within():
    at = {"x": [0.0, 40.0, 41.0, 1e8], "s": [-3.0, 0.0, 0.0, 2.0], "a": [1.0] * 4}
    np.testing.assert_array_equal(slopes("np.abs(s)", "s", at)["np.abs(s)"], [-1, 0, 0, 1])
    hinge = slopes("np.maximum(x - 40, 0) + np.maximum(0, x) + np.minimum(x, 1e8)", "x", at)
    np.testing.assert_array_equal(hinge["np.maximum(x - 40, 0)"], [0, 0.5, 1, 1])
    np.testing.assert_array_equal(hinge["np.maximum(0, x)"], [1, 1, 1, 1])
    np.testing.assert_array_equal(hinge["np.minimum(x, 100000000.0)"], [1, 1, 1, 1])
    np.testing.assert_array_equal(slopes("np.abs(x)", "x", at)["np.abs(x)"], [1, 1, 1, 1])
    outside = {"x": [-5.0, 1e9], "s": [-9.0, 9.0]}
    for name, formula in (("x", "np.log1p(x)"), ("s", "I(s ** 2)")):
        inside = {name: [WIDE[name].lower, WIDE[name].upper]}
        for one, other in zip(
            slopes(formula, name, outside).values(), slopes(formula, name, inside).values(), strict=True
        ):
            np.testing.assert_array_equal(one, other)


def test_a_root_is_infinitely_steep_at_0_unless_it_is_held_there():
    at = {"x": [0.0, 4.0]}
    assert slopes("np.sqrt(x)", "x", at)["np.sqrt(x)"].tolist() == [math.inf, 0.25]
    assert slopes("I((x > 0) * np.sqrt(x))", "x", at)["I((x > 0) * np.sqrt(x))"].tolist() == [0.0, 0.25]


def test_products_with_factors_move_where_the_level_is():
    found = slopes("C(sex) * x + x:a", "x")
    male = np.array([0.0, 1.0, 0.0, 1.0, 0.0])
    expected = {"Intercept": 0 * A, "C(sex)[T.M]": 0 * A, "x": 1 + 0 * A, "C(sex)[T.M]:x": male, "x:a": A}
    assert found.keys() == expected.keys()
    for name, slope in expected.items():
        np.testing.assert_array_equal(found[name], slope, err_msg=name)


@pytest.mark.parametrize("formula", SAME_AS_FORMULAIC)
def test_as_differences_of_the_design(formula):
    """However terms are centred, by columns of their own or declared transforms, inside the bounds."""
    encoder = FormulaEncoder(formula, ROW_SCHEMA)
    rows = open_table(table(200, seed=5))
    for name, column in encoder.variables:
        if not isinstance(column, NumericColumn):
            continue
        half = 1e-5 * (column.upper - column.lower)
        values = np.clip(rows.values(name), column.lower + 2 * half, column.upper - 2 * half)

        def design(at, name=name):
            changed = Table([(one, at if one == name else rows.values(one)) for one in rows.names])
            return encoder.design.raw_rows(encoder.encode_predictors(changed)), changed

        (after, _), (before, _), (_, there) = design(values + half), design(values - half), design(values)
        jumps = np.abs(after - before) > 0.5
        found = encoder.derivatives(there, name)
        scale = 1 + np.abs(found)
        apart = np.abs((after - before) / (2 * half) - found) / scale
        assert (apart[~jumps] < 1e-5).all(), (name, apart.max())
        assert jumps.mean() < 0.05
