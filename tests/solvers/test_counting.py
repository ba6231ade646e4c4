"""Rows that count for less: by weights far below their bound, or because most miss a cell."""

import math

import numpy as np
import pandas as pd
import pytest

import privfit as pf
from privfit.problem.plan import PlannedRelease, Release
from privfit.problem.share_kernels import NORM_CLASSES
from privfit.solvers.histogram import counting_part, largest_seen

NUMBER = {"type": "numeric", "lower": -5.0, "upper": 5.0}
FITS = 6


def looked_at(shares, sd):
    planned = PlannedRelease("norms", NORM_CLASSES, 1.0, 1.0, sd)
    return Release(planned, np.zeros(1), np.asarray(shares))


def test_all_rows_are_thought_to_count_unless_shares_clearly_say_less():
    shares, sd = np.zeros(100), 0.01
    shares[0] = 1.0 - 3.9 * sd * math.sqrt(shares.size)
    assert counting_part(shares, sd) == 1.0
    shares[0] -= 0.2 * sd * math.sqrt(shares.size)
    assert counting_part(shares, sd) == pytest.approx(1.0 - 4.1 * 0.1)
    shares[0] = -0.3
    assert counting_part(shares, sd) == pytest.approx(0.1)
    assert counting_part(np.zeros(100), 0.0) == 1.0
    assert counting_part(np.full(100, 0.002), 0.0) == pytest.approx(0.2)
    assert counting_part(np.full(4, -2.0), 1.0) == 1.0  # the noise in the sum alone is 2


def test_what_noise_hides_is_a_share_of_the_rows_that_count():
    shares = np.zeros(NORM_CLASSES)
    shares[:4] = 0.4, 0.3, 0.2, 0.1
    whole, part = largest_seen(looked_at(shares, 1e-3)), largest_seen(looked_at(0.1 * shares, 1e-4))
    assert part.number == whole.number
    assert part.hidden == pytest.approx(whole.hidden, rel=0.02)


def table(rng, rows, response):
    x, g = rng.normal(size=rows).clip(-5.0, 5.0), rng.random(rows) < 0.3
    eta = 0.4 * x + 0.5 * g
    y = rng.poisson(np.exp(eta)) if response == "poisson" else (rng.random(rows) < 1.0 / (1.0 + np.exp(-eta)))
    return pd.DataFrame({"x": x, "g": np.where(g, "b", "a"), "y": y.astype(int), "w": 1.0})


def errors_of(model, rows, bound, missing=0.0):
    """Return standard errors (fits, 3) by seeded noise."""
    response = {"logit": {"type": "categorical", "levels": [0, 1]}}.get(
        model, {"type": "numeric", "lower": 0.0, "upper": 100.0}
    )
    schema = {
        "x": NUMBER,
        "g": {"type": "categorical", "levels": ["a", "b"]},
        "w": {"type": "numeric", "lower": 0.0, "upper": bound},
        "y": response,
    }
    found = []
    for seed in range(FITS):
        rng = np.random.default_rng([seed, rows])
        data = table(rng, rows, model)
        data.loc[rng.random(rows) < missing, "x"] = np.nan
        weights = {} if missing else {"weights": "w"}
        fit = getattr(pf, model)(
            "y ~ x + g", data, schema=schema, budget=pf.Budget.gdp(2.0), random_state=seed, **weights
        )
        found.append(fit.bse)
    return np.array(found)


@pytest.mark.parametrize("model", ["logit", "poisson"])
def test_twenty_thousand_rows_that_count_for_a_tenth_say_as_much_as_two_thousand(model):
    """Their noise is the same. Columns that were as long beside the constant as if all rows counted made it
    half as large again for a logit, and half of the intervals of counts infinite."""
    few = errors_of(model, 2_000, 1.0)
    for many in (errors_of(model, 20_000, 10.0), errors_of(model, 20_000, 1.0, missing=0.9)):
        assert np.all(np.isfinite(many))
        assert np.all(np.median(many, axis=0) < 1.15 * np.median(few, axis=0))
