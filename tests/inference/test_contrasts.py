"""Standard errors of combinations, adjustments for many tests, and effects with their derivatives."""

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from privfit.errors import InvalidArgument
from privfit.inference import effects
from privfit.inference.contrasts import adjusted_pvalues, combination_errors


@pytest.mark.parametrize("method", ["bonferroni", "holm", "fdr_bh"])
def test_adjusted_pvalues_are_those_of_statsmodels(method):
    rng = np.random.default_rng(3)
    for count in (1, 2, 7, 40):
        p = rng.random(count) ** 3
        np.testing.assert_allclose(
            adjusted_pvalues(p, method), multipletests(p, method=method)[1], rtol=1e-12
        )


def test_an_unknown_adjustment_is_named():
    with pytest.raises(InvalidArgument, match="adjust must be one of bonferroni, holm, fdr_bh"):
        adjusted_pvalues([0.1], "sidak")


def test_an_infinite_variance_elsewhere_does_no_harm():
    covariance = np.array([[4.0, 0.0, 1.0], [0.0, np.inf, 0.0], [1.0, 0.0, 9.0]])
    weights = np.array([[1.0, 0.0, 1.0], [1.0, 1e-9, 0.0], [0.0, 0.0, 2.0]])
    se, dof = combination_errors(weights, covariance, np.array([8.0, 5.0, np.inf]))
    np.testing.assert_allclose(se, [np.sqrt(15.0), np.inf, 6.0])
    np.testing.assert_allclose(dof, [8.0, 5.0, np.inf])


def test_a_negative_variance_is_unknown():
    se, _ = combination_errors(np.eye(2), np.diag([-1.0, 4.0]), np.inf)
    np.testing.assert_array_equal(se, [np.nan, 2.0])


@pytest.mark.parametrize(("link", "outputs"), [("identity", 1), ("log", 1), ("logit", 1), ("logit", 3)])
@pytest.mark.parametrize("which", ["mean", "slope"])
def test_derivatives_in_the_coefficients(link, outputs, which):
    rng = np.random.default_rng(outputs)
    x, dx, b = rng.normal(size=(5, 4)), rng.normal(size=(5, 4)), 0.5 * rng.normal(size=4 * outputs)

    def value(at):
        found = effects.mean(x, at, link) if which == "mean" else effects.slope(x, dx, at, link)
        return found[0]

    step = 1e-6 * np.eye(b.size)
    found = effects.mean(x, b, link)[1] if which == "mean" else effects.slope(x, dx, b, link)[1]
    differenced = np.stack([(value(b + h) - value(b - h)) / 2e-6 for h in step], axis=-1)
    np.testing.assert_allclose(found, differenced, atol=1e-8)


@pytest.mark.parametrize(("link", "outputs"), [("identity", 1), ("log", 1), ("logit", 1), ("logit", 3)])
def test_a_slope_is_the_derivative_of_the_mean(link, outputs):
    rng = np.random.default_rng(9)
    x, dx, b = rng.normal(size=(6, 3)), rng.normal(size=(6, 3)), rng.normal(size=3 * outputs)
    h = 1e-6
    differenced = (effects.mean(x + h * dx, b, link)[0] - effects.mean(x - h * dx, b, link)[0]) / (2 * h)
    np.testing.assert_allclose(effects.slope(x, dx, b, link)[0], differenced, atol=1e-8)
    if link == "logit":
        np.testing.assert_allclose(effects.mean(x, b, link)[0].sum(axis=1), 1.0)


@pytest.mark.parametrize("link", ["identity", "log", "logit"])
def test_lines_are_undone(link):
    values = np.array([[0.2], [0.7]])
    line, slope = effects.to_line(values, link)
    np.testing.assert_allclose(effects.from_line(line, link), values)
    h = 1e-7
    np.testing.assert_allclose(slope, (effects.to_line(values + h, link)[0] - line) / h, rtol=1e-5)
