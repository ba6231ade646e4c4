"""The default where a sample of the rows leads the way, beside the same method with all rows in every step.

Rows are normal, independent or correlated (0.7), or have two indicators among the columns, of one row in
50 and in 500. Both see the same tables. Coefficients are compared with those of the fit without privacy, in
units of its standard errors: `noise` is the mean squared distance, `stated` the mean of the stated variances
less 1, `se` the mean ratio of standard errors and `se_sd` its standard deviation for a coefficient,
`outside` the part of the 95 % intervals that leave the other fit out, which noise alone should rarely do, all
for finite intervals; `infinite` is the share of others. `rare_` is the same for the rarer indicator.

    python experiments/sampled_course.py [--repetitions 20]

Adds to experiments/results/sampled_course.csv; resumable.
"""

import argparse
import time
from itertools import product
from pathlib import Path

import numpy as np
from scipy.special import expit

from privfit import Budget, HuberRegressor, LogisticRegression
from privfit.solvers import WhitenedGradientDescent
from resumable import ResultsTable

RESULTS = Path(__file__).parent / "results" / "sampled_course.csv"
ESTIMATORS = {"logistic": LogisticRegression, "huber": HuberRegressor}
CELLS = [
    ("logistic", "independent", 200_000, 1.0, 5),
    ("logistic", "correlated", 200_000, 0.5, 20),
    ("logistic", "indicators", 100_000, 1.0, 10),
    ("logistic", "indicators", 200_000, 1.0, 20),
    ("logistic", "independent", 1_000_000, 0.25, 50),
    ("huber", "correlated", 100_000, 1.0, 5),
    ("huber", "indicators", 100_000, 1.0, 10),
    ("huber", "indicators", 200_000, 1.0, 20),
]
"""Model, design, rows, mu, columns."""
FIELDS = [
    "model", "design", "n", "mu", "p", "course", "repetitions", "sample", "noise", "stated", "se", "se_sd",
    "outside", "infinite", "rare_noise", "rare_stated", "rare_outside", "rare_infinite", "processor_s",
]  # fmt: skip


def simulated(model: str, design: str, n: int, p: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([p, seed])
    x = rng.normal(size=(n, p))
    if design == "correlated":
        x = x @ np.linalg.cholesky(0.3 * np.eye(p) + 0.7).T
    if design == "indicators":
        x[:, -2:] = rng.random((n, 2)) < (0.02, 0.002)
    eta = x @ (np.random.default_rng(p).normal(size=p) / np.sqrt(p)) - 0.5
    y = rng.random(n) < expit(eta) if model == "logistic" else eta + rng.standard_t(4, size=n)
    return x, y.astype(int if model == "logistic" else float)


def compared(away: np.ndarray, errors: np.ndarray, prefix: str = "") -> dict[str, float]:
    """Return figures of coefficients, in units of the other fit's standard errors, shape (fits, columns)."""
    finite = np.isfinite(errors)
    far = np.abs(away[finite]) > 1.96 * errors[finite]
    return {
        f"{prefix}noise": np.mean(away[finite] ** 2),
        f"{prefix}stated": np.mean(errors[finite] ** 2 - 1.0),
        f"{prefix}outside": far.mean(),
        f"{prefix}infinite": 1.0 - finite.mean(),
    }


def cell(
    model: str, design: str, n: int, mu: float, p: int, *, course: str, repetitions: int
) -> dict[str, object]:
    """Return a row of the table."""
    steps = int(np.clip(round(2.0 * np.log(n * mu / (p + 1))), 6, 30))
    options = {} if course == "a sample leads" else {"solver": WhitenedGradientDescent(n_steps=steps)}
    away, errors, seconds, sample = [], [], [], 1.0
    for seed in range(repetitions):
        x, y = simulated(model, design, n, p, seed)
        plain = ESTIMATORS[model](solver="non-private").fit(x, y).result_
        before = time.process_time()
        fit = ESTIMATORS[model](budget=Budget.gdp(mu), random_state=seed, **options).fit(x, y).result_
        seconds.append(time.process_time() - before)
        away.append((np.asarray(fit.params) - np.asarray(plain.params)) / np.asarray(plain.bse))
        errors.append(np.asarray(fit.bse) / np.asarray(plain.bse))
        sample = min(sample, *(release.part for release in fit.releases))
    moved, ratios = np.array(away), np.array(errors)
    ratios_of_finite = np.where(np.isfinite(ratios), ratios, np.nan)
    figures = compared(moved, ratios)
    if design == "indicators":
        figures |= compared(moved[:, -1:], ratios[:, -1:], "rare_")
    figures |= {
        "sample": sample,
        "se": np.nanmean(ratios_of_finite),
        "se_sd": np.nanmean(np.nanstd(ratios_of_finite, axis=0)),
        "processor_s": min(seconds),
    }
    return {
        "model": model, "design": design, "n": n, "mu": mu, "p": p, "course": course,
        "repetitions": repetitions, **{name: round(float(value), 4) for name, value in figures.items()},
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    table = ResultsTable(options.out, FIELDS, 6)
    for (model, design, n, mu, p), course in product(CELLS, ("a sample leads", "all rows")):
        if table.lacks(model, design, n, mu, p, course):
            few = options.repetitions if n * p < 10**7 else max(options.repetitions // 4, 1)
            table.add(cell(model, design, n, mu, p, course=course, repetitions=few))


if __name__ == "__main__":
    main()
