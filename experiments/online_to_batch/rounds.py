"""How the excess loss of one private pass changes with the number of rounds that rows are divided into.

*Tables.* 20,000 rows, 2 to 14 normal columns, every other table with correlations of 0.64; a logit whose
linear predictor has a standard deviation of 0.45 or 1.5 and whose constant is normal, of standard deviation
0.5. delta = 1e-6.

*What is measured.* Mean log loss of the rows above that of the fit without privacy: geometric mean over the
tables.

    python experiments/online_to_batch/rounds.py --repetitions 12 [--workers 2]

Adds to experiments/results/one_pass_rounds.csv; resumable. A repetition is a table.
"""

import sys
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.metrics import log_loss

import privfit as pf
from privfit import learners

sys.path.append(str(Path(__file__).parents[1]))

from resumable import filled_by_command

RESULTS = Path(__file__).parents[1] / "results" / "one_pass_rounds.csv"
FIELDS = ["learner", "rounds", "epsilon", "repetitions", "excess"]
ROWS = 20_000
LEARNERS = {
    "subgradient": learners.OnlineSubgradientDescent(),
    "AdaGrad-norm": learners.AdaGradNorm(),
    "FTRL": learners.FollowTheRegularizedLeader(),
    "optimistic": learners.OptimisticFTRL(),
}


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return columns (ROWS, p) and labels of a table."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(2, 15))
    x = rng.normal(size=(ROWS, p))
    if seed % 2:
        x = 0.6 * x + 0.8 * rng.normal(size=(ROWS, 1))
    slopes = rng.normal(size=p)
    predictor = x @ slopes * (rng.choice([0.45, 1.5]) / np.std(x @ slopes)) + 0.5 * rng.normal()
    return x, (rng.random(ROWS) < 1.0 / (1.0 + np.exp(-predictor))).astype(int)


def cell(arguments: tuple[str, int, float, int]) -> dict[str, object]:
    """Return a row of the table."""
    name, rounds, epsilon, repetitions = arguments
    found = []
    for seed in range(repetitions):
        x, y = drawn(seed)
        exact = pf.LogisticRegression(solver="non-private", inference=False).fit(x, y)
        one_pass = pf.solvers.OnlineToBatch(LEARNERS[name], batch_size=ROWS // rounds)
        fit = pf.LogisticRegression(
            epsilon=epsilon, delta=1e-6, inference=False, solver=one_pass, random_state=seed
        ).fit(x, y)
        private, plain = (log_loss(y, one.predict_proba(x)) for one in (fit, exact))
        found.append(private - plain)
    return {
        "learner": name, "rounds": rounds, "epsilon": epsilon, "repetitions": repetitions,
        "excess": f"{np.exp(np.mean(np.log(found))):.3g}",
    }  # fmt: skip


if __name__ == "__main__":
    grid = product(LEARNERS, (50, 200, 1_000, 4_000, ROWS), (0.5, 4.0, 50.0))
    filled_by_command(__doc__, RESULTS, FIELDS, cell, grid)
