"""Coverage and width of 95 % intervals of counts that vary more than their means tell.

*Rows.* y ~ x + z, both standard normal within -5 and 5, with a schema.

*Truth.* Counts with log mean 0.5 + b x + 0.3 z, b 0.5 ("mild") or 1 ("steep"), of a Poisson law or mixed:
means times a gamma variable of mean 1 and variance `mixing` (0 for none). They are declared to be at most
200, and larger ones are 200. Intervals are held to the coefficients of a fit without privacy to a million
such rows.

`slope` and `others` are the coverage of finite intervals of b and of the two others, `infinite` the share of
infinite ones, `width` the median width of finite ones of b over that without privacy. Budgets are
(epsilon, 0), or (epsilon, 1 / n^2) where `delta` says so.

    python experiments/heavy_counts.py --repetitions 60

Adds to experiments/results/heavy_counts.csv; resumable.
"""

from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

import privfit as pf
from generous_bounds import share_held
from resumable import filled_by_command

RESULTS = Path(__file__).parent / "results" / "heavy_counts.csv"
SLOPES = {"mild": 0.5, "steep": 1.0}
MIXINGS = (0.0, 0.5, 1.0)
SIZES = (6_000, 20_000, 100_000)
BUDGETS = ((1.0, False), (1.0, True), (4.0, True))
FIELDS = [
    "design", "mixing", "n", "epsilon", "delta", "repetitions",
    "slope", "others", "infinite", "width",
]  # fmt: skip
NUMBER = {"type": "numeric", "lower": -5, "upper": 5}
SCHEMA = {"x": NUMBER, "z": NUMBER, "y": {"type": "numeric", "lower": 0, "upper": 200}}


def simulated(design: str, mixing: float, n: int, seed: int) -> dict[str, np.ndarray]:
    """Return a table."""
    rng = np.random.default_rng([seed, n, round(10 * mixing), round(10 * SLOPES[design])])
    x, z = rng.normal(size=(2, n)).clip(-5.0, 5.0)
    mean = np.exp(0.5 + SLOPES[design] * x + 0.3 * z)
    if mixing > 0.0:
        mean *= rng.gamma(1.0 / mixing, mixing, size=n)
    return {"x": x, "z": z, "y": np.minimum(rng.poisson(mean), 200)}


@cache
def target(design: str, mixing: float) -> np.ndarray:
    """Return the coefficients (3,) that many such rows have."""
    table = simulated(design, mixing, 1_000_000, 0)
    return pf.poisson("y ~ x + z", table, schema=SCHEMA, solver="non-private").params.to_numpy()


@cache
def exact_width(design: str, mixing: float, n: int, seed: int) -> float:
    """Return the width of the interval of b without privacy, the same for all budgets."""
    table = simulated(design, mixing, n, seed)
    fit = pf.poisson("y ~ x + z", table, schema=SCHEMA, solver="non-private")
    return float(np.diff(fit.conf_int().to_numpy()[1])[0])


def cell(arguments: tuple[str, float, int, float, bool, int]) -> dict[str, object]:
    """Return a row of the results."""
    design, mixing, n, epsilon, with_delta, repetitions = arguments
    budget, found, exact = pf.Budget(epsilon, 1.0 / n**2 if with_delta else 0.0), [], []
    for seed in range(1, repetitions + 1):
        table = simulated(design, mixing, n, seed)
        noise = 1_000 * SIZES.index(n) + 100_000 * round(epsilon) + seed
        fit = pf.poisson("y ~ x + z", table, schema=SCHEMA, budget=budget, random_state=noise)
        found.append(fit.conf_int().to_numpy())
        exact.append(exact_width(design, mixing, n, seed))
    low, high = np.moveaxis(np.array(found), 2, 0)
    beta, finite = target(design, mixing), np.isfinite(high - low)
    held, width = (low <= beta) & (beta <= high), (high - low)[:, 1] / np.array(exact)
    some = width[finite[:, 1]]
    return dict(zip(FIELDS, arguments, strict=False)) | {
        "slope": share_held(held[:, 1], finite[:, 1]),
        "others": share_held(held[:, [0, 2]], finite[:, [0, 2]]),
        "infinite": f"{1.0 - finite.mean():.4f}",
        "width": f"{np.median(some):.2f}" if some.size else "",
    }


def main() -> None:
    places = product(SLOPES, MIXINGS, SIZES, BUDGETS)
    filled_by_command(__doc__, RESULTS, FIELDS, cell, ((*place, *budget) for *place, budget in places))


if __name__ == "__main__":
    main()
