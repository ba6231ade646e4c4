"""How close private multinomial fits come to the exact one in train log loss, without inference.

Designs: x = (1, z), z ~ N(0, I_10), K classes; log odds against class 0 have normal coefficients with sd
STRENGTH / sqrt(10), and intercepts with sd 1/2. delta = n^-1.1, no schema: rows on a
unit scale. Noise is seeded, as for any simulation. Methods: ``auto`` (empirical-Bayes descent), ``whitened``
gradient descent, and ``one-vs-rest``: K binary fits by ``auto`` with (epsilon / K, delta / K) each, their
chances scaled to sum to 1.

    python experiments/multinomial_accuracy.py --repetitions 10

Adds to experiments/results/multinomial_accuracy.csv; resumable.
"""

import argparse
import csv
import time
from pathlib import Path

import numpy as np

from privfit import Budget, LogisticRegression
from privfit.data.synthetic import multinomial_model

RESULTS = Path(__file__).parent / "results" / "multinomial_accuracy.csv"
FIELDS = ["classes", "n", "p", "epsilon", "method", "repetitions", "excess_log_loss", "standard_error"]
ROWS, COLUMNS, STRENGTH = 20_000, 10, 1.5
EPSILONS = (0.1, 0.5, 1.0, 8.0)
METHODS = ("auto", "whitened", "one-vs-rest")


def simulated(classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a table with coefficients of its own."""
    rng = np.random.default_rng(seed)
    beta = STRENGTH / np.sqrt(COLUMNS) * rng.normal(size=(classes - 1, COLUMNS))
    return multinomial_model(ROWS, beta, intercept=0.5 * rng.normal(size=classes - 1), seed=seed)


def log_loss(chances: np.ndarray, y: np.ndarray) -> float:
    """Return the mean log loss of chances (n, K)."""
    return float(-np.mean(np.log(np.maximum(chances[np.arange(len(y)), y.astype(int)], 1e-12))))


def chances_of(
    method: str, classes: int, epsilon: float, *, x: np.ndarray, y: np.ndarray, seed: int
) -> np.ndarray:
    """Return the chances of the classes (n, K) that a private fit gives the rows."""
    delta = len(y) ** -1.1
    if method != "one-vs-rest":
        labels, budget = list(range(classes)), Budget(epsilon, delta)
        model = LogisticRegression(
            budget=budget, solver=method, inference=False, classes=labels, random_state=seed
        )
        return model.fit(x, y).predict_proba(x)
    columns = []
    for k in range(classes):
        budget = Budget(epsilon / classes, delta / classes)
        model = LogisticRegression(
            budget=budget, inference=False, classes=[0, 1], random_state=classes * seed + k
        )
        columns.append(model.fit(x, (y == k).astype(int)).predict_proba(x)[:, 1])
    chances = np.column_stack(columns)
    return chances / chances.sum(axis=1, keepdims=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    finished, started = set(), time.monotonic()
    if options.out.exists():
        with options.out.open() as file:
            finished = {(int(r["classes"]), float(r["epsilon"]), r["method"]) for r in csv.DictReader(file)}
    with options.out.open("a", newline="") as file:
        table = csv.DictWriter(file, FIELDS)
        if not finished:
            table.writeheader()
        for classes in (3, 5):
            tables = [simulated(classes, seed) for seed in range(options.repetitions)]
            exact = [
                log_loss(
                    LogisticRegression(solver="non-private", classes=list(range(classes)))
                    .fit(x, y)
                    .predict_proba(x),
                    y,
                )
                for x, y in tables
            ]
            for epsilon in EPSILONS:
                for method in METHODS:
                    if (classes, epsilon, method) in finished:
                        continue
                    excess = [
                        log_loss(chances_of(method, classes, epsilon, x=x, y=y, seed=10**6 + seed), y)
                        - exact[seed]
                        for seed, (x, y) in enumerate(tables)
                    ]
                    row = {
                        "classes": classes,
                        "n": ROWS,
                        "p": COLUMNS,
                        "epsilon": epsilon,
                        "method": method,
                        "repetitions": len(excess),
                        "excess_log_loss": f"{np.mean(excess):.3g}",
                        "standard_error": f"{np.std(excess, ddof=1) / np.sqrt(len(excess)):.2g}",
                    }
                    table.writerow(row)
                    file.flush()
                    print(f"{time.monotonic() - started:.0f} s {row}", flush=True)


if __name__ == "__main__":
    main()
