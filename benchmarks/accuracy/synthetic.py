"""Simulated tables with known difficulty."""

import math
from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np

import privfit as pf
from privfit.data.design import Design
from privfit.data.encode import SchemaEncoder
from privfit.data.tables import Table
from privfit.data.unit_scale import UnitScaleEncoder

Simulated: TypeAlias = "tuple[Literal['binary', 'numeric'], Design, np.ndarray, np.ndarray]"

TEST_ROWS_EXTRA = 1.25
"""The benchmark holds out a fifth; simulations draw this many times the rows that they train on."""

_X_BOUND, _Y_BOUND = 5.0, 10.0
"""Public bounds of the simulated columns and responses of linear models."""


def _correlated(rng: np.random.Generator, n: int, p: int, rho: float) -> np.ndarray:
    """Return normal columns with correlation ``rho**abs(i - j)``."""
    distance = np.abs(np.subtract.outer(np.arange(p), np.arange(p)))
    return rng.normal(size=(n, p)) @ np.linalg.cholesky(rho**distance).T


def _coefficients(rng: np.random.Generator, p: int, length: float) -> np.ndarray:
    beta = rng.normal(size=p)
    return length * beta / np.linalg.norm(beta)


def logistic(n: int, p: int, *, rho: float, uneven: bool = False, seed: int) -> Simulated:
    """Logistic rows on a unit scale, without a schema."""
    rng = np.random.default_rng(seed)
    n = math.ceil(TEST_ROWS_EXTRA * n)
    z = _correlated(rng, n, p, rho)
    eta = z @ _coefficients(rng, p, 2.0 * (1.0 - rho / 2.0))
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
    x = z * np.geomspace(1.0, 0.1, p) if uneven else z
    encoder = UnitScaleEncoder(p, norm_bound=None, target_kind="binary")
    return ("binary", encoder.design, *encoder.encode_arrays(x, y))


def linear(n: int, p: int, *, rho: float, heavy: bool = False, seed: int) -> Simulated:
    """Linear rows with declared bounds on columns and response; ``heavy`` for t(3) errors and columns."""
    rng = np.random.default_rng(seed)
    n = math.ceil(TEST_ROWS_EXTRA * n)
    x = _correlated(rng, n, p, rho)
    if heavy:
        x /= np.sqrt(rng.chisquare(3.0, size=(n, 1)) / 3.0)
    noise = rng.standard_t(3.0, size=n) if heavy else rng.normal(size=n)
    y = 1.0 + x @ _coefficients(rng, p, 1.5) + noise
    names = [f"x{k}" for k in range(p)]
    column = {"type": "numeric", "lower": -_X_BOUND, "upper": _X_BOUND}
    target = {"type": "numeric", "lower": -_Y_BOUND, "upper": _Y_BOUND, "target": True}
    encoder = SchemaEncoder(pf.Schema({**dict.fromkeys(names, column), "y": target}))
    table = Table([*((name, x[:, k]) for k, name in enumerate(names)), ("y", y)])
    return ("numeric", encoder.design, *encoder.encode(table))


SIMULATIONS: dict[str, Callable[[], Simulated]] = {
    "logistic_isotropic": lambda: logistic(10_000, 10, rho=0.0, seed=1),
    "logistic_correlated": lambda: logistic(20_000, 20, rho=0.8, seed=2),
    "logistic_uneven": lambda: logistic(20_000, 20, rho=0.5, uneven=True, seed=3),
    "linear_isotropic": lambda: linear(10_000, 10, rho=0.0, seed=4),
    "linear_correlated": lambda: linear(20_000, 20, rho=0.8, seed=5),
    "linear_heavy": lambda: linear(20_000, 10, rho=0.0, heavy=True, seed=6),
}
"""Simulated tables."""
