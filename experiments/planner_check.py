"""Width of 95 % intervals: what the planner foretells against what fits of simulated tables report.

A table has p columns with standard deviation 1 and bounds -3, 3 (but the constant, which p counts too). Their
law is the one that the planner assumes (normal, clamped to the bounds), or another one with the same mean and
standard deviation (uniform). Logistic: 30 % positive labels. Least squares and Huber: normal errors with
standard deviation 1, bounds -8, 8. Poisson: mean 3, bound 20. The planner is given

* ``guesses``: the right mean response, coefficients, standard deviations and correlation, no more;
* ``defaults``: the schema alone.

``predicted / simulated`` is that of the median width of the finite intervals of the slopes (geometric mean
over them); ``finite`` the share of finite intervals. Up to 2,000 rows widths differ much from fit to fit, the
more so the fewer the columns, so ``repetitions`` is 480 / p there, 24 for 10,000 rows and 8 for 50,000.

Medians, because of heavy tails: with p = 2, 2,000 rows and epsilon = 1 (logistic) one fit in a hundred has an
interval more than 6 times as wide as the median, and such fits decide the mean, of hundreds of tables too.

    python experiments/planner_check.py
    python experiments/planner_check.py --census

Adds to experiments/results/planner_check.csv, the second command to planner_check_census.csv; resumable. The
second command compares on a simulated census with many rare levels, where the planner is also given a public
table of 8,000 rows from the same law.
"""

import argparse
import itertools
from pathlib import Path

import numpy as np
from scipy.special import expit, ndtr

import privfit as pf
from privfit.data.synthetic import census, census_schema
from resumable import ResultsTable

RESULTS = Path(__file__).parent / "results" / "planner_check.csv"
CENSUS = Path(__file__).parent / "results" / "planner_check_census.csv"
MODELS = ("logit", "ols", "huber", "poisson")
ROWS = (500, 2_000, 10_000, 50_000)
FEW_ROWS, MANY_ROWS = 2_000, 50_000
EPSILONS = (0.5, 1.0, 4.0)
COLUMNS = (2, 5, 10)
LAWS = ("normal", "uniform")
CORRELATION = 0.3
FIELDS = [
    "model", "law", "p", "n", "epsilon", "repetitions", "simulated", "finite", "guesses",
    "guesses_over_simulated", "guesses_finite", "defaults", "defaults_over_simulated", "defaults_finite",
]  # fmt: skip
CENSUS_FIELDS = [
    "model", "n", "epsilon", "repetitions", "coefficient", "simulated", "finite", "reference_over_simulated",
    "reference_finite", "defaults_over_simulated", "defaults_finite",
]  # fmt: skip
FIT = {"logit": pf.logit, "ols": pf.ols, "huber": pf.huber, "poisson": pf.poisson}
MEAN = {"logit": 0.3, "ols": 0.0, "huber": 0.0, "poisson": 3.0}
SIGNAL = {"logit": 1.0, "ols": 0.7, "huber": 0.7, "poisson": 0.4}


def slopes(model: str, k: int) -> np.ndarray:
    """Return k slopes of falling size that give the predictor about the stated standard deviation."""
    raw = np.array([(-1.0) ** j / (1.0 + j) for j in range(k)])
    return SIGNAL[model] * raw / np.linalg.norm(raw)


def schema_of(model: str, k: int) -> pf.Schema:
    columns: dict[str, dict] = {f"x{j}": {"type": "numeric", "lower": -3, "upper": 3} for j in range(k)}
    if model == "logit":
        columns["y"] = {"type": "numeric", "lower": 0, "upper": 1}
    elif model == "poisson":
        columns["y"] = {"type": "numeric", "lower": 0, "upper": 20}
    else:
        columns["y"] = {"type": "numeric", "lower": -8, "upper": 8}
    return pf.Schema({**columns, "y": {**columns["y"], "target": True}})


def table(model: str, law: str, k: int, n: int, seed: int) -> dict[str, np.ndarray]:
    """Return a simulated table."""
    rng = np.random.default_rng([7, seed])
    shared, own = rng.normal(size=(n, 1)), rng.normal(size=(n, k))
    normal = np.sqrt(CORRELATION) * shared + np.sqrt(1 - CORRELATION) * own
    x = np.clip(normal, -3, 3) if law == "normal" else np.sqrt(12.0) * (ndtr(normal) - 0.5)
    eta = x @ slopes(model, k)
    if model == "logit":
        y = (rng.random(n) < expit(eta + offset(model, law, k))).astype(float)
    elif model == "poisson":
        y = np.minimum(rng.poisson(np.exp(eta + offset(model, law, k))), 20).astype(float)
    else:
        y = eta + rng.normal(size=n)
    return {**{f"x{j}": x[:, j] for j in range(k)}, "y": y}


def offset(model: str, law: str, k: int, known: dict = {}) -> float:  # noqa: B006 -- a cache
    """Return the intercept that gives the stated mean response."""
    if (model, law, k) not in known:
        known[model, law, k] = 0.0
        x = table("ols", law, k, 200_000, 10**6)
        eta = np.column_stack([x[f"x{j}"] for j in range(k)]) @ slopes(model, k)
        inverse, low, high = (expit if model == "logit" else np.exp), -9.0, 9.0
        for _ in range(50):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if inverse(eta + middle).mean() < MEAN[model] else (low, middle)
        known[model, law, k] = low
    return known[model, law, k]


def median_of_finite(widths: np.ndarray) -> np.ndarray:
    """Return the median of the finite entries of each column; NaN where there is none."""
    return np.array([np.median(w[np.isfinite(w)]) if np.isfinite(w).any() else np.nan for w in widths.T])


def typical(values: np.ndarray) -> float:
    """Return the geometric mean, NaN if an entry is not finite."""
    return float(np.exp(np.mean(np.log(values)))) if np.isfinite(values).all() else float("nan")


def widths_of(result: pf.FitResult) -> np.ndarray:
    interval = result.conf_int()
    return (interval["upper"] - interval["lower"]).to_numpy()


def tables_of(n: int, p: int, usual: int) -> int:
    """Return how many tables are simulated, ``usual`` between `FEW_ROWS` and `MANY_ROWS`."""
    if n <= FEW_ROWS:
        return 20 * usual // p
    return usual // 3 if n >= MANY_ROWS else usual


def cell(model: str, law: str, p: int, n: int, epsilon: float, repetitions: int) -> dict[str, object]:  # noqa: PLR0917
    """Return a row of the table."""
    k = p - 1
    schema, names = schema_of(model, k), [f"x{j}" for j in range(k)]
    formula = "y ~ " + " + ".join(names)
    fits = [
        widths_of(
            FIT[model](
                formula, table(model, law, k, n, seed), schema=schema, epsilon=epsilon, random_state=seed
            )
        )[1:]
        for seed in range(repetitions)
    ]
    widths = np.array(fits)
    simulated = median_of_finite(widths)
    right = pf.Assumptions(
        mean=MEAN[model],
        coefficients=dict(zip(names, slopes(model, k).tolist(), strict=True)),
        residual_sd=1.0,
        correlation=CORRELATION,
    )
    row: dict[str, object] = {
        "model": model, "law": law, "p": p, "n": n, "epsilon": epsilon, "repetitions": repetitions,
        "simulated": f"{typical(simulated):.4g}", "finite": f"{np.isfinite(widths).mean():.3f}",
    }  # fmt: skip
    for label, assumptions in (("guesses", right), ("defaults", pf.Assumptions())):
        planned = pf.plan(formula, n=n, schema=schema, model=model, epsilon=epsilon, assumptions=assumptions)
        predicted = planned.width.to_numpy()[1:]
        row[label] = f"{typical(predicted):.4g}"
        row[f"{label}_over_simulated"] = f"{typical(predicted / simulated):.3f}"
        row[f"{label}_finite"] = f"{planned.table()['finite'].to_numpy()[1:].mean():.3f}"
    return row


def census_cell(model: str, n: int, epsilon: float, repetitions: int) -> list[dict[str, object]]:
    """Return a row for each coefficient of the census model."""
    target = "income_over_50k" if model == "logit" else "hourly_wage"
    schema = census_schema(target)
    formula = f"{target} ~ age + hours_per_week + sex + education + marital_status"
    fits = [
        FIT[model](formula, census(n, 100 + seed), schema=schema, epsilon=epsilon, random_state=seed)
        for seed in range(repetitions)
    ]
    widths = np.array([widths_of(fit) for fit in fits])
    simulated = median_of_finite(widths)
    options = {"n": n, "schema": schema, "model": model, "epsilon": epsilon}
    reference = pf.plan(formula, **options, assumptions=pf.Assumptions(reference=census(8_000, 1))).table()
    defaults = pf.plan(formula, **options).table()
    return [
        {
            "model": model, "n": n, "epsilon": epsilon, "repetitions": repetitions, "coefficient": name,
            "simulated": f"{simulated[j]:.4g}", "finite": f"{np.isfinite(widths[:, j]).mean():.3f}",
            "reference_over_simulated": f"{reference['width'].iloc[j] / simulated[j]:.3f}",
            "reference_finite": f"{reference['finite'].iloc[j]:.3f}",
            "defaults_over_simulated": f"{defaults['width'].iloc[j] / simulated[j]:.3f}",
            "defaults_finite": f"{defaults['finite'].iloc[j]:.3f}",
        }
        for j, name in enumerate(fits[0].names)
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=24)
    parser.add_argument("--census", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.census:
        table = ResultsTable(options.out or CENSUS, CENSUS_FIELDS, 3)
        for one in itertools.product(("logit", "huber"), (10_000, 50_000), (1.0, 4.0)):
            if table.lacks(*one):
                table.add(*census_cell(*one, options.repetitions))
        return
    table = ResultsTable(options.out or RESULTS, FIELDS, 5)
    for n, p, model, law, epsilon in itertools.product(ROWS, COLUMNS, MODELS, LAWS, EPSILONS):
        if table.lacks(model, law, p, n, epsilon):
            table.add(cell(model, law, p, n, epsilon, tables_of(n, p, options.repetitions)))


if __name__ == "__main__":
    main()
