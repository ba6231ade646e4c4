"""What privacy costs in time: default fits with intervals against the same fits without privacy.

    python benchmarks/speed/own.py [--rounds 5]

Both are privfit's, with standard errors, from the same arrays; `solver="non-private"` is Newton's method on
exact answers. Ratios are of processor times, the smallest of all rounds. Writes
benchmarks/speed/results/own.json.
"""

import argparse
from functools import partial

import numpy as np
from measure import in_rounds, ratios, write

import privfit as pf
from privfit._threads import thread_count

TABLES = ((1_000, 3), (10_000, 5), (100_000, 20), (1_000_000, 20))
COUNT_BOUND = 20


def columns(n: int, k: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return columns (n, k) and a response for each model."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, k))
    score = x @ np.full(k, 1.0 / np.sqrt(k))
    return x, {
        "logistic": (rng.random(n) < 1.0 / (1.0 + np.exp(-score))).astype(int),
        "least squares": score + rng.normal(size=n),
        "Huber": score + rng.normal(size=n),
        "Poisson": rng.poisson(np.exp(0.4 * score)),
    }


def fitted(model: str, x: np.ndarray, y: np.ndarray, solver: str) -> object:
    common = {"epsilon": 1.0, "delta": 1e-6, "solver": solver}
    if model == "logistic":
        return pf.LogisticRegression(**common).fit(x, y)
    if model == "Poisson":
        return pf.PoissonRegressor(**common, count_bound=COUNT_BOUND).fit(x, y)
    return {"least squares": pf.LinearRegression, "Huber": pf.HuberRegressor}[model](**common).fit(x, y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    found = []
    for n, k in TABLES:
        x, responses = columns(n, k)
        for model, y in responses.items():
            actions = {
                name: partial(fitted, model, x, y, solver)
                for name, solver in (("private", "auto"), ("non-private", "non-private"))
            }
            measured = in_rounds(actions, options.rounds)
            ratio = ratios(measured, [("private", "non-private")])
            found.append({"model": model, "rows": n, "columns": k, **measured, "ratio": ratio.popitem()[1]})
    write("own", {"threads": thread_count(), "fits": found})


if __name__ == "__main__":
    main()
