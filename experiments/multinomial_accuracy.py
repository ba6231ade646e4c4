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
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

from privfit import Budget, LogisticRegression
from privfit.data.synthetic import multinomial_model
from resumable import ResultsTable

RESULTS = Path(__file__).parent / "results" / "multinomial_accuracy.csv"
FIELDS = ["classes", "n", "p", "epsilon", "method", "repetitions", "excess_log_loss", "standard_error"]
ROWS, COLUMNS, STRENGTH = 20_000, 10, 1.5
CLASSES = (3, 5)
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


@cache
def tables(classes: int, repetitions: int) -> list[tuple[np.ndarray, np.ndarray, float]]:
    """Return simulated tables and the log loss of their exact fits."""
    found = []
    for seed in range(repetitions):
        x, y = simulated(classes, seed)
        exact = LogisticRegression(solver="non-private", classes=list(range(classes))).fit(x, y)
        found.append((x, y, log_loss(exact.predict_proba(x), y)))
    return found


def cell(classes: int, epsilon: float, method: str, repetitions: int) -> dict[str, object]:
    """Return a row of the table."""
    excess = [
        log_loss(chances_of(method, classes, epsilon, x=x, y=y, seed=10**6 + seed), y) - exact
        for seed, (x, y, exact) in enumerate(tables(classes, repetitions))
    ]
    return {
        "classes": classes,
        "n": ROWS,
        "p": COLUMNS,
        "epsilon": epsilon,
        "method": method,
        "repetitions": repetitions,
        "excess_log_loss": f"{np.mean(excess):.3g}",
        "standard_error": f"{np.std(excess, ddof=1) / np.sqrt(repetitions):.2g}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    table = ResultsTable(options.out, FIELDS, 5)
    for classes, epsilon, method in product(CLASSES, EPSILONS, METHODS):
        if table.lacks(classes, ROWS, COLUMNS, epsilon, method):
            table.add(cell(classes, epsilon, method, options.repetitions))


if __name__ == "__main__":
    main()
