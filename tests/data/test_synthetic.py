"""Simulated data follow the stated models."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from privfit.data.encode import SchemaEncoder
from privfit.data.synthetic import (
    census,
    census_coefficients,
    census_schema,
    linear_model,
    logistic_model,
    multinomial_model,
)
from privfit.data.tables import open_table
from privfit.errors import InvalidArgument


def test_census_is_reproducible_and_realistic():
    first, second = census(2000, seed=3), census(2000, seed=3)
    assert pd.DataFrame(first).equals(pd.DataFrame(second))
    assert not pd.DataFrame(first).equals(pd.DataFrame(census(2000, seed=4)))
    frame = pd.DataFrame(census(20000, seed=1, clean=True))
    assert frame.shape == (20000, 10)
    assert 0.15 < (frame["income_over_50k"] == "yes").mean() < 0.35
    assert 12 < frame["hourly_wage"].median() < 30
    assert frame["age"].between(17, 90).all()
    assert (frame["capital_gain"] == 0).mean() > 0.85
    assert 0.02 < (frame["occupation"] == "?").mean() < 0.06


@pytest.mark.statistical
@pytest.mark.parametrize(("target", "kind"), [("income_over_50k", "binary"), ("hourly_wage", "numeric")])
def test_non_private_fits_recover_the_coefficients(target, kind):
    """Each of 22 estimates is within 4.5 standard errors: a false alarm in about 1 of 6,000 seeds."""
    encoder = SchemaEncoder(census_schema(target), target_kind=kind)
    truth = census_coefficients(target)
    assert tuple(truth) == encoder.design.names
    x, y = encoder.encode(open_table(census(60_000, seed=11, clean=True)))
    fit = sm.Logit(y, x).fit(disp=0) if kind == "binary" else sm.OLS(y, x).fit()
    matrix, shift = encoder.design.reporting_map()
    se = np.sqrt(np.diag(matrix @ fit.cov_params() @ matrix.T))
    error = (matrix @ fit.params + shift - np.array(list(truth.values()))) / se
    assert np.abs(error).max() < 4.5


@pytest.mark.statistical
@pytest.mark.parametrize("design", ["normal", "uniform", "arcsine", "student", "binary"])
@pytest.mark.parametrize("noise", ["normal", "laplace", "student"])
def test_linear_model(design, noise):
    beta = [1.0, -2.0, 0.5]
    x, y = linear_model(
        20_000, beta, intercept=3.0, noise_sd=2.0, noise=noise, design=design, correlation=0.4, seed=8
    )
    assert x.shape == (20_000, 3)
    fit = sm.OLS(y, sm.add_constant(x)).fit()
    assert (np.abs((fit.params - [3.0, *beta]) / fit.bse) < 4.5).all()
    assert np.sqrt(fit.scale) == pytest.approx(2.0, rel=0.03 if noise != "student" else 0.25)
    if design != "student":
        expected = {"normal": 1.0, "uniform": 1 / 3, "arcsine": 0.5, "binary": 1.0}[design]
        np.testing.assert_allclose(x.var(axis=0), expected, rtol=0.05)
        assert np.corrcoef(x.T)[0, 1] > 0.2
    if design in ("uniform", "arcsine", "binary"):
        assert np.abs(x).max() <= 1


@pytest.mark.statistical
def test_multinomial_model():
    """False alarms: 6 times the 4e-8 of a normal beyond 5.5."""
    beta, intercept = [[2.0, -1.0], [0.5, 0.5]], [0.5, -0.3]
    x, y = multinomial_model(40_000, beta, intercept=intercept, design="uniform", seed=2)
    assert set(np.unique(y)) == {0.0, 1.0, 2.0}
    fit = sm.MNLogit(y, sm.add_constant(x)).fit(disp=0)
    truth = np.column_stack([intercept, beta]).T
    assert (np.abs((fit.params - truth) / fit.bse) < 5.5).all()


@pytest.mark.statistical
def test_logistic_model():
    x, y = logistic_model(40_000, [2.0, -1.0], intercept=0.5, design="arcsine", seed=2)
    assert set(np.unique(y)) == {0.0, 1.0}
    fit = sm.Logit(y, sm.add_constant(x)).fit(disp=0)
    assert (np.abs((fit.params - [0.5, 2.0, -1.0]) / fit.bse) < 4.5).all()


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"design": "cauchy"}, "design"),
        ({"noise": "cauchy"}, "noise"),
        ({"correlation": 1.0}, "correlation"),
        ({"noise_sd": 0.0}, "noise_sd"),
        ({"n": 0}, "n"),
    ],
)
def test_bad_arguments(options, name):
    with pytest.raises(InvalidArgument, match=f"^{name} must"):
        linear_model(**({"n": 10, "beta": [1.0], "seed": 0} | options))
    with pytest.raises(InvalidArgument, match="target must"):
        census_coefficients("age")  # pyright: ignore
