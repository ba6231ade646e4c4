import numpy as np
import pytest

from privfit.losses import (
    ConcomitantHuber,
    Custom,
    Hinge,
    Huber,
    LogCosh,
    Logistic,
    Poisson,
    PseudoHuber,
    Quantile,
    SelfConcordantHuber,
    Sigmoid,
    SmoothedHinge,
    SmoothedHuber,
    SmoothedQuantile,
    Squared,
)
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem


def wide_value(y, eta):
    return 3.0 * np.abs(eta - y)


def steep_slope(y, eta):
    """Larger than its declared bound, and not a number for some rows."""
    return 3.0 * np.arctan(eta - y) + 0.0 * np.log(2.0 - eta)


def steep_curvature(y, eta):
    return 3.0 / (1.0 + (eta - y) ** 2)


LOSSES = [
    Logistic(),
    Squared(0.8),
    Huber(0.5),
    ConcomitantHuber(),
    Hinge(),
    SmoothedHinge(0.7),
    Sigmoid(),
    Quantile(0.3),
    SmoothedQuantile(0.3, 0.4),
    Poisson(1.2, 4.0),
    SmoothedHuber(0.5, 0.4),
    LogCosh(0.5),
    PseudoHuber(0.5),
    SelfConcordantHuber(0.5),
    Custom(wide_value, steep_slope, steep_curvature, slope_bound=1.1, curvature_bound=0.9, name="compiled"),
    Custom(
        wide_value,
        steep_slope,
        steep_curvature,
        slope_bound=1.1,
        curvature_bound=0.9,
        name="arrays",
        vectorized=True,
    ),
]
HESSIANS = [loss for loss in LOSSES if loss.constants.smooth and loss.convex]
"""Those with a Hessian."""


OF_EVERY_KIND = [LOSSES[0], LOSSES[1], ConcomitantHuber(), Poisson(1.2, 4.0), LOSSES[-1]]
"""Losses of every kind of response, of a parameter with a scale, and of functions that are not compiled."""


def serves(loss, kind):
    """Return whether a kind of query is asked of a loss.

    Moments and norms of rows are sums that no loss enters, marginals and shares by the residual such that
    only its range of responses enters: a few losses ask for them.
    """
    only = {
        "hessian": lambda: loss in HESSIANS,
        "counts": lambda: loss.target_kind == "count",
        "residuals": lambda: loss.of_residual and (loss in OF_EVERY_KIND or not loss.symmetric),
        "labels": lambda: loss.target_kind == "binary" and loss in OF_EVERY_KIND,
        "marginals": lambda: loss in OF_EVERY_KIND,
        "second_moment": lambda: loss in OF_EVERY_KIND,
        "norms": lambda: loss in OF_EVERY_KIND,
    }
    return kind not in only or only[kind]()


def asked(*kinds):
    """Return every loss with every one of these kinds of query that can be asked of it."""
    return [
        pytest.param(loss, kind, id=f"{loss.name}-{kind}")
        for loss in LOSSES
        for kind in kinds
        if serves(loss, kind)
    ]


def make_problem(loss, *, p=3, n_rows=7, norm_bound=1.5, relation=Relation.REPLACE, l2=0.0, **changes):
    start = (0.0,) * (p * loss.n_outputs) + ((0.6,) if loss.has_scale else ())
    names = tuple(f"x{k}" for k in range(p))
    return Problem(
        loss, names, norm_bound, n_rows, relation, l2, start, (False,) + (True,) * (p - 1), **changes
    )


@pytest.fixture
def rng():
    return np.random.default_rng(20240501)
