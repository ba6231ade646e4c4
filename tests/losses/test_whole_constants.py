"""Constants of losses that are whole numbers are taken as numbers."""

import dataclasses

import numpy as np
import pytest

import privfit as pf
from privfit import losses

LOSSES = [
    losses.Huber(1), losses.Squared(2), losses.ConcomitantHuber(2), losses.Poisson(2, 40),
    losses.Poisson(bound=2.0, count_bound=np.int64(40)), losses.SmoothedHuber(1, 1), losses.LogCosh(1),
    losses.PseudoHuber(2), losses.SelfConcordantHuber(1), losses.SmoothedHinge(1),
    losses.SmoothedQuantile(0.5, 1), losses.Huber(np.float32(1.5)),
]  # fmt: skip


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_constants_are_floats(loss):
    for one in dataclasses.fields(loss):
        value = getattr(loss, one.name)
        assert value is None or type(value) in (float, bool)
    assert type(loss.constants.slope) is float
    assert all(type(value) is float for value in loss.parameters)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("solver", ["newton", "gradient-descent"])
def test_a_fit_takes_them(loss, solver):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    y = rng.poisson(2.0, 400) if loss.target_kind == "count" else rng.normal(size=400)
    y = (y > 0).astype(int) if loss.target_kind == "binary" else y
    fitted = pf.MEstimator(loss=loss, solver=solver, random_state=0).fit(x, y)
    assert np.isfinite(fitted.coef_).all()
