"""PI-8: least squares by noisy gradient descent, clipping and sufficient statistics (section H.2).

Avella-Medina, Bradshaw and Loh 2023. beta = (1, -1, 0.5, -0.5), mu = 1, K = round(6 log n), step 1 / L.

*Bounded*: x = (1, z), z uniform on [-2, 2]**3 and pulled into the ball of radius sqrt(3), so norm(x) <= 2;
errors N(0, 0.75**2) truncated to their middle 95 %. All methods get the data as they are.
*Unbounded*: x ~ N(0, I_4), errors N(0, 0.75**2). Gradient methods get the data as they are; sufficient
statistics get x and y over a = max(max norm(x), max |y|), which is not private. "clamped" ones get the data
as they are, with the public bounds of the first scenario (rows beyond are weighted down, responses
clamped).

    python experiments/private_inference/pi08_linear.py

Adds to experiments/results/private_inference/pi08.csv and draws pi08.png next to it; resumable.
"""

import math
from functools import partial

import numpy as np
from scipy.stats import norm
from shared_comparators import UNWEIGHTED, Cell, error_row, fill, fit, options, plot_errors

from privfit import Budget
from privfit.losses import ConcomitantHuber, Squared
from privfit.solvers import (
    AdaSSP,
    ClippedGradientDescent,
    NoisyGradientDescent,
    NonPrivate,
    SufficientStatistics,
    WhitenedGradientDescent,
)

BETA = np.array([1.0, -1.0, 0.5, -0.5])
ROWS = (250, 500, 1_000, 2_000, 5_000, 10_000, 20_000)
C = 1.345
EDGE = float(norm.ppf(0.975)) * 0.75
RESPONSE_BOUND = 1.0 + math.sqrt(2.0) + math.sqrt(0.5) + EDGE
STEP = 1.0 / (4.0 + C**2)
"""1 / L of the robust objective with its scale, for both gradient methods."""
LEAST_SQUARES = Squared(1e9)
STYLES = {
    "robust noisy GD": ("C0", "-"),
    "auto (whitened)": ("C2", "-"),
    "clipped GD": ("C1", "-"),
    "SSP": ("C3", "-"),
    "SSP, as published": ("C3", ":"),
    "AdaSSP": ("C4", "-"),
    "SSP, clamped": ("C3", "--"),
    "AdaSSP, clamped": ("C4", "--"),
    "non-private": ("0.4", ":"),
}


def simulate(setting: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    if setting == "unbounded":
        x = rng.normal(size=(n, 4))
        return x, x @ BETA + 0.75 * rng.normal(size=n)
    z = rng.uniform(-2.0, 2.0, size=(n, 3))
    z *= np.minimum(1.0, math.sqrt(3.0) / np.linalg.norm(z, axis=1))[:, None]
    x = np.column_stack([np.ones(n), z])
    errors = 0.75 * norm.ppf(rng.uniform(0.025, 0.975, size=n))
    return x, x @ BETA + errors


def published(x: np.ndarray, y: np.ndarray, *, longest: float, response: float, seed: int) -> np.ndarray:
    """Return the estimate of the source's formula: plain inverse, noise with sd 1 on the upper triangle.

    That is too little noise on the diagonal for mu = 1 by a factor sqrt(2).
    """
    rng = np.random.default_rng(10**6 + seed)
    noise = rng.normal(size=(4, 4))
    noise = np.triu(noise) + np.triu(noise, 1).T
    half = 1.0 / math.sqrt(2.0)
    matrix = x.T @ x + longest**2 / half * noise
    return np.linalg.solve(matrix, x.T @ y + 2.0 * longest * response / half * rng.normal(size=4))


def statistics(
    method: str, x: np.ndarray, y: np.ndarray, *, bounds: tuple[float, float], seed: int
) -> np.ndarray:
    """Return an estimate from sufficient statistics for bounds on the norm of a row and on the response."""
    longest, response = bounds
    if method == "SSP, as published":
        return published(x, y, longest=longest, response=response, seed=seed)
    solver = SufficientStatistics(response) if method.startswith("SSP") else AdaSSP(response)
    room = longest * (1 + 1e-9)
    return fit(LEAST_SQUARES, solver, x, y, norm_bound=room, budget=Budget.gdp(1.0), seed=seed)


def one(setting: str, method: str, n: int, seed: int) -> np.ndarray:
    x, y = simulate(setting, n, seed)
    gradient = partial(fit, x=x, y=y, budget=Budget.gdp(1.0), seed=seed)
    match method:
        case "non-private":
            return fit(LEAST_SQUARES, NonPrivate(), x, y, norm_bound=UNWEIGHTED, budget=None, seed=seed)
        case "robust noisy GD":
            return gradient(ConcomitantHuber(C), NoisyGradientDescent(report="last"), norm_bound=2.0 + 1e-9)
        case "auto (whitened)":
            return gradient(ConcomitantHuber(C), WhitenedGradientDescent(), norm_bound=2.0 + 1e-9)
        case "clipped GD":
            solver = ClippedGradientDescent(2.0 * C, step_size=STEP)
            return gradient(LEAST_SQUARES, solver, norm_bound=UNWEIGHTED)
    if setting == "bounded" or method.endswith("clamped"):
        return statistics(method, x, y, bounds=(2.0, RESPONSE_BOUND), seed=seed)
    largest = max(np.linalg.norm(x, axis=1).max(), np.abs(y).max())
    return statistics(method, x / largest, y / largest, bounds=(1.0, 1.0), seed=seed)


def run(cell: Cell, repetitions: int) -> list[dict[str, object]]:
    fits = np.array([one(*cell, seed) for seed in range(repetitions)])
    return [error_row(cell, np.linalg.norm(fits - BETA, axis=1))]


def main() -> None:
    chosen = options(__doc__, repetitions=200, name="pi08")
    cells = [
        (setting, method, n)
        for setting in ("bounded", "unbounded")
        for n in ROWS
        for method in STYLES
        if setting == "unbounded" or not method.endswith("clamped")
    ]
    rows = fill(chosen.out, cells, partial(run, repetitions=chosen.repetitions), workers=chosen.workers)
    titles = {"bounded": "bounded rows and responses", "unbounded": "unbounded"}
    label = "mean distance to the true coefficients"
    plot_errors(rows, titles, STYLES, chosen.out.with_suffix(".png"), label=label)


if __name__ == "__main__":
    main()
