"""From how far out in the predictors rows count for less, as results of the default say."""

import math

import numpy as np
import pytest

import privfit as pf
from privfit.results import FitResult
from privfit.solvers import WhitenedGradientDescent

N = 4_000
SCHEMA = {
    "y": {"type": "numeric", "lower": 0, "upper": 1},
    "x": {"type": "numeric", "lower": -30, "upper": 30},
    "z": {"type": "numeric", "lower": -1, "upper": 1},
}


@pytest.fixture(scope="module")
def table():
    """One column has a long tail."""
    rng = np.random.default_rng(5)
    x, z = np.clip(rng.standard_t(3, N), -30, 30), rng.uniform(-1, 1, N)
    return {"y": (rng.random(N) < 1.0 / (1.0 + np.exp(-z))).astype(float), "x": x, "z": z}


def fitted(table, **options):
    return pf.logit("y ~ x + z", table, schema=SCHEMA, **({"delta": 1e-6, "random_state": 1} | options))


def told(result):
    return " ".join(result.summary().as_text().split())


def test_little_budget_weights_rows_down_and_the_summary_says_from_where_on(table):
    result = fitted(table, epsilon=1.0)
    full = result.form.full
    assert 1.0 < full < 10.0
    assert f"Rows more than {full:.2g} times as far out in the predictors as usual ones count" in told(result)
    assert FitResult.from_json(result.to_json()).form.full == full


@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 1e4},
        {"epsilon": 1.0, "inference": False},
        {"epsilon": 1.0, "solver": "newton"},
        {"solver": "non-private", "random_state": None},
    ],
    ids=["large budget", "prediction", "by name", "exact"],
)
def test_where_none_is_or_nothing_is_known_nothing_is_said(table, options):
    result = fitted(table, **options)
    assert result.form.full is None
    assert "times as far out" not in told(result)


def test_it_is_the_spread_that_was_given(table):
    """Whitened rows of three columns have a mean square of 3, and less where noise hides one in part."""
    wide, narrow = (
        fitted(table, epsilon=1.0, solver=WhitenedGradientDescent(spread=spread)).form.full
        for spread in (1e6, 2.0)
    )
    assert wide is None
    assert math.sqrt(2.0) * 0.95 < narrow < math.sqrt(2.0 * 1.5)


def test_rows_that_are_as_far_out_are_those_that_count_for_less(table):
    """Of a whitened table without noise, the share of rows beyond is that of norms beyond in raw terms."""
    x = np.column_stack([np.ones(N), table["x"], table["z"]])
    norms = np.linalg.norm(x @ np.linalg.cholesky(np.linalg.inv(x.T @ x / N)), axis=1) / math.sqrt(3.0)
    full = fitted(table, epsilon=1.0).form.full
    assert 0.0 < np.mean(norms > full) < 0.5
