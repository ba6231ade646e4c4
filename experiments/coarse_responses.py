"""Intervals of a quantile's slopes where the response lies on a grid, coarse beside its spread.

*Rows.* x normal, a level g that half of the rows have, and a response that depends on neither: counts with
means of 1, 3 and 10, a scale of five (shares 0.1, 0.2, 0.3, 0.25, 0.15), normal numbers rounded to half a
standard deviation, and, for comparison, normal, exponential and t3 numbers that are not rounded. The schema
declares 0 to 40 for counts, -10 to 10 for numbers (t3: -20 to 20). delta = 1e-6.

*What is measured.* The share of intervals of the two slopes, which are 0, that are finite, and that are
finite and wrong; coverage of the finite ones.

    python experiments/coarse_responses.py [--repetitions 100] [--workers 2]

Adds to experiments/results/coarse_responses.csv; resumable: a cell that is there is left out.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import privfit as pf
from resumable import filled_by_command

RESULTS = Path(__file__).parent / "results" / "coarse_responses.csv"
FIELDS = ["response", "tau", "n", "epsilon", "repetitions", "finite", "wrong", "coverage"]
Draw = Callable[[np.random.Generator, int], np.ndarray]
RESPONSES: dict[str, tuple[Draw, float, float]] = {
    "counts, mean 1": (lambda rng, n: rng.poisson(1.0, n), 0.0, 40.0),
    "counts, mean 3": (lambda rng, n: rng.poisson(3.0, n), 0.0, 40.0),
    "counts, mean 10": (lambda rng, n: rng.poisson(10.0, n), 0.0, 40.0),
    "scale of five": (lambda rng, n: rng.choice(5, n, p=[0.1, 0.2, 0.3, 0.25, 0.15]), 0.0, 4.0),
    "rounded normal": (lambda rng, n: np.round(2.0 * rng.normal(size=n)) / 2.0, -10.0, 10.0),
    "normal": (lambda rng, n: rng.normal(size=n), -10.0, 10.0),
    "exponential": (lambda rng, n: rng.exponential(size=n), -10.0, 10.0),
    "t3": (lambda rng, n: rng.standard_t(3, n), -20.0, 20.0),
}
"""How they are drawn, and declared bounds."""


def grid() -> Iterator[tuple[str, float, int, float]]:
    """Yield the cells."""
    for response in RESPONSES:
        for tau in (0.25, 0.5):
            for n in (2_000, 10_000, 50_000):
                yield from ((response, tau, n, epsilon) for epsilon in (1.0, 4.0))


def cell(arguments: tuple[str, float, int, float, int]) -> dict[str, object]:
    """Return a row of the table."""
    response, tau, n, epsilon, repetitions = arguments
    draw, low, high = RESPONSES[response]
    schema = {
        "y": {"type": "numeric", "lower": low, "upper": high},
        "x": {"type": "numeric", "lower": -3.0, "upper": 3.0},
        "g": {"type": "categorical", "levels": ["a", "b"]},
    }
    ends = []
    for seed in range(repetitions):
        rng = np.random.default_rng([seed, n])
        table = {"y": draw(rng, n), "x": rng.normal(size=n), "g": rng.choice(["a", "b"], n)}
        fit = pf.quantile(
            "y ~ x + g", table, schema=schema, epsilon=epsilon, delta=1e-6, quantile=tau, random_state=seed
        )
        ends.append(fit.conf_int().to_numpy()[1:])
    low, high = np.moveaxis(np.array(ends), 2, 0)
    finite = np.isfinite(high - low)
    wrong = finite & ((low > 0.0) | (high < 0.0))
    return dict(zip(FIELDS, arguments, strict=False)) | {
        "finite": f"{finite.mean():.3f}",
        "wrong": f"{wrong.mean():.3f}",
        "coverage": f"{1.0 - wrong.sum() / finite.sum():.3f}" if finite.any() else "",
    }


if __name__ == "__main__":
    filled_by_command(__doc__, RESULTS, FIELDS, cell, grid())
