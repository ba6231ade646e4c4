"""How often the exponential mechanism asks for its objective to draw one point of a ball exactly.

    python benchmarks/speed/exponential.py [--rows 2000 20000] [--fits 3]

Logistic fits of independent normal columns on a unit scale and a constant, epsilon = 1, default radius.
An evaluation is the objective and its gradient at one point, a pass over the rows asks for several at a
time; both are means over the fits. Those before the first box is drawn locate the mode. Writes
benchmarks/speed/results/exponential.json.
"""

import argparse
import math
from unittest import mock

import numpy as np
from measure import write

import privfit as pf
from privfit.procedures import exponential_draw

COLUMNS = (2, 3, 4, 5, 6)
scaled_objective, draw_from_ball = exponential_draw.scaled_objective, exponential_draw.draw_from_ball


def asked(n: int, p: int, seed: int) -> tuple[int, int, int]:
    """Return evaluations, those that locate the mode, and passes of one fit with p coefficients."""
    rng = np.random.default_rng([seed, n, p])
    x = rng.normal(size=(n, p - 1))
    y = rng.random(n) < 1.0 / (1.0 + np.exp(-0.5 - x.sum(axis=1) / math.sqrt(p - 1.0)))
    points: list[int] = []
    of_mode: list[int] = []

    def counted(*args, **kwargs):
        exponent = scaled_objective(*args, **kwargs)

        def count(at):
            points.append(len(at))
            return exponent(at)

        return count

    def drawn(*args):
        of_mode.append(sum(points))
        return draw_from_ball(*args)

    model = pf.LogisticRegression(
        epsilon=1.0, delta=0.0, solver=pf.solvers.ExponentialMechanism(), inference=False, random_state=seed
    )
    with (
        mock.patch.object(exponential_draw, "scaled_objective", counted),
        mock.patch.object(exponential_draw, "draw_from_ball", drawn),
    ):
        model.fit(x, y.astype(int))
    return sum(points), of_mode[0], len(points)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[2_000, 20_000])
    parser.add_argument("--fits", type=int, default=3)
    options = parser.parse_args()
    cells = []
    for n in options.rows:
        for p in COLUMNS:
            found = np.mean([asked(n, p, seed) for seed in range(options.fits)], axis=0).round().astype(int)
            names = ("evaluations", "of_mode", "passes")
            cells.append({"rows": n, "columns": p, **dict(zip(names, found.tolist(), strict=True))})
            print(cells[-1])
    write("exponential", {"fits": options.fits, "cells": cells})


if __name__ == "__main__":
    main()
