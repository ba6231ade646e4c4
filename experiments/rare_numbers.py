"""Coverage of 95 % intervals of counts beside a number that few rows have, and of ordinary ones.

*Rows.* y ~ x + r, x standard normal within -5 and 5, with a schema. r is uniform between 1 and 2 in a share
of the rows and 0 in the others ("rare", bounds 0 and 2), or normal as x is ("normal").

*Truth.* Poisson counts with log mean -0.3 + 0.3 x + b r, declared to be at most 200. b is log(ratio) / 1.5 of
a rare number, so that means are as many times larger where it is 1.5; of a normal one it is 0.5.

`slope` and `others` are the coverage of finite intervals of the coefficient of r and of the two others,
`infinite` and `others_infinite` the shares of infinite ones, `wrong` that of finite intervals of r that do
not hold. Budgets are (epsilon, 0), or (epsilon, 1 / n^2) where `delta` says so.

    python experiments/rare_numbers.py --repetitions 60

Adds to experiments/results/rare_numbers.csv; resumable.
"""

import math
from itertools import product
from pathlib import Path

import numpy as np

import privfit as pf
from generous_bounds import share_held
from resumable import filled_by_command

RESULTS = Path(__file__).parent / "results" / "rare_numbers.csv"
SIZES = (6_000, 20_000, 100_000)
BUDGETS = ((1.0, False), (4.0, False), (1.0, True))
NUMBERS = (("rare", 0.03, 10), ("rare", 0.05, 20), ("normal", 1.0, 1))
FIELDS = [
    "number", "share", "ratio", "n", "epsilon", "delta", "repetitions",
    "slope", "infinite", "wrong", "others", "others_infinite",
]  # fmt: skip


def truth(number: str, ratio: float) -> np.ndarray:
    """Return the coefficients (3,) that counts are drawn with."""
    return np.array([-0.3, 0.3, math.log(ratio) / 1.5 if number == "rare" else 0.5])


def simulated(number: str, share: float, ratio: float, n: int, seed: int) -> dict[str, np.ndarray]:
    """Return a table."""
    rng = np.random.default_rng([seed, n, round(100 * share), round(ratio)])
    x, beta = rng.normal(size=n).clip(-5.0, 5.0), truth(number, ratio)
    few = np.where(rng.random(n) < share, rng.uniform(1.0, 2.0, n), 0.0)
    r = few if number == "rare" else rng.normal(size=n).clip(-5.0, 5.0)
    return {"x": x, "r": r, "y": np.minimum(rng.poisson(np.exp(beta[0] + beta[1] * x + beta[2] * r)), 200)}


def cell(arguments: tuple[str, float, float, int, float, bool, int]) -> dict[str, object]:
    """Return a row of the results."""
    number, share, ratio, n, epsilon, with_delta, repetitions = arguments
    ends = (0, 2) if number == "rare" else (-5, 5)
    schema = {
        "x": {"type": "numeric", "lower": -5, "upper": 5},
        "r": {"type": "numeric", "lower": ends[0], "upper": ends[1]},
        "y": {"type": "numeric", "lower": 0, "upper": 200},
    }
    budget, found = pf.Budget(epsilon, 1.0 / n**2 if with_delta else 0.0), []
    for seed in range(repetitions):
        table = simulated(number, share, ratio, n, seed)
        noise = 1_000 * SIZES.index(n) + 100_000 * round(epsilon) + seed
        fit = pf.poisson("y ~ x + r", table, schema=schema, budget=budget, random_state=noise)
        found.append(fit.conf_int().to_numpy())
    low, high = np.moveaxis(np.array(found), 2, 0)
    beta, finite = truth(number, ratio), np.isfinite(high - low)
    held = (low <= beta) & (beta <= high)
    return dict(zip(FIELDS, arguments, strict=False)) | {
        "slope": share_held(held[:, 2], finite[:, 2]),
        "infinite": f"{1.0 - finite[:, 2].mean():.4f}",
        "wrong": f"{np.mean(finite[:, 2] & ~held[:, 2]):.4f}",
        "others": share_held(held[:, :2], finite[:, :2]),
        "others_infinite": f"{1.0 - finite[:, :2].mean():.4f}",
    }


def main() -> None:
    places = product(NUMBERS, SIZES, BUDGETS)
    grid = ((*number, n, *budget) for number, n, budget in places)
    filled_by_command(__doc__, RESULTS, FIELDS, cell, grid)


if __name__ == "__main__":
    main()
