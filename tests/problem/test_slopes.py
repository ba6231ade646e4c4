"""Slopes, curvatures and reaches that are inlined are those of the losses."""

import numpy as np
import pytest
from numba import njit

from privfit.losses import ConcomitantHuber, Huber, LogCosh, Logistic
from privfit.losses.base import evaluate
from privfit.losses.pointers import address
from privfit.problem.slopes import (
    CURVATURE_CODES,
    SLOPE_CODES,
    fill_curvatures,
    fill_reaches,
    fill_slopes,
)


@njit
def filled(codes, places, y, eta, facts):
    """Return slopes, curvatures and reaches by code and address; ``facts`` are (s, c, k)."""
    s, c, k = facts
    slopes, curvatures, reaches = eta.copy(), np.empty(y.size), np.empty(y.size)
    fill_slopes(codes[0], places[0], y, slopes, s, c, k)
    fill_curvatures(codes[1], places[1], y, eta, curvatures, s, c, k)
    fill_reaches(codes[0], places[2], y, eta, reaches, s, c, k)
    return slopes, curvatures, reaches


@pytest.mark.parametrize(
    "loss", [Logistic(), Huber(0.5), ConcomitantHuber(), LogCosh(0.5)], ids=lambda loss: loss.name
)
def test_they_are_those_of_the_losses_whether_they_have_a_code_or_not(loss):
    rng = np.random.default_rng(0)
    y, eta, s = (rng.random(9) < 0.5).astype(float), rng.normal(size=9), 0.7
    functions = loss.functions
    used = functions.slope, functions.curvature, functions.reach
    codes = SLOPE_CODES.get(functions.slope, 0), CURVATURE_CODES.get(functions.curvature, 0)
    found = filled(codes, tuple(map(address, used)), y, eta, (s, *loss.parameters))
    for values, function in zip(found, used, strict=True):
        np.testing.assert_allclose(values, evaluate(function, y, eta, s=s, loss=loss), rtol=1e-14)
