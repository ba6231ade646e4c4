"""The default with inference: what rows that are weighted down do to it where the model is wrong."""

import numpy as np
import pytest
from scipy.special import expit

from privfit import Budget, LogisticRegression


@pytest.mark.statistical
@pytest.mark.parametrize(("mu", "largest"), [(0.25, 0.5), (1.0, 0.2)])
def test_with_few_columns_a_wrong_logit_is_fitted_nearly_as_without_weights(mu, largest):
    """Labels wrong in one of ten cases: the mean distance from the plain fit, in standard errors.

    Its own standard error over 50 tables is at most 0.1. A third of the squared length of rows that the
    default allows puts it at 0.7 for the smaller budget.
    """
    away, errors = [], []
    for seed in range(50):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(10_000, 1))
        y = rng.random(10_000) < expit(0.5 + x[:, 0])
        y = (y ^ (rng.random(10_000) < 0.1)).astype(int)
        exact = LogisticRegression(solver="non-private").fit(x, y).result_
        fit = LogisticRegression(budget=Budget.gdp(mu), random_state=seed).fit(x, y).result_
        away.append(np.asarray(fit.params) - np.asarray(exact.params))
        errors.append(fit.bse)
    assert np.all(np.abs(np.mean(away, axis=0)) < largest * np.mean(errors, axis=0))
