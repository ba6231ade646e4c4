"""People with several rows: coverage and width of intervals that protect a row, or a whole person.

The RAND Health Insurance Experiment has a row for each person and year: 20,190 rows of 5,912 people. The
table stands for the population: every repetition draws as many people from it, with replacement and with all
their rows, and fits them with fresh noise. The rates say how often the 95 % interval holds the coefficient of
the non-private fit to the whole table, and how wide it is relative to the cluster-robust one of statsmodels.
delta = 1e-6, and 0 for people.

    python experiments/private_unit.py --data FOLDER     # FOLDER holds rand_hie_full.csv.gz

Adds to experiments/results/private_unit.csv; resumable. 100 repetitions take about 10 minutes.
"""

import argparse
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf

import privfit as pf
from resumable import ResultsTable

HERE = Path(__file__).parent
SCHEMA = pf.Schema.from_toml(HERE / "schemas" / "rand_hie.toml")
ROWS = pf.Schema(dict(SCHEMA.items()))
TERMS = "logc + xage + female + disea"
MODELS = {"logit": (pf.logit, "visited"), "ols": (pf.ols, "mdvis")}
UNITS = ((False, 1, 1e-6), *product((True,), (1, 5), (1e-6, 0.0)))
EPSILONS = (1.0, 4.0)
FIELDS = [
    "model", "unit", "rows_per_unit", "epsilon", "delta", "units", "repetitions", "coverage", "infinite",
    "median_width_ratio", "median_noise_share", "largest_difference",
]  # fmt: skip


def read(folder: Path) -> pd.DataFrame:
    """Return the columns of the schema; a person either visited a doctor in a year or not."""
    table = pd.read_csv(folder / "rand_hie_full.csv.gz")
    table["visited"] = np.where(table["mdvis"] > 0, "yes", "no")
    return table[["zper", *ROWS]]


def resampled(table: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return as many people as the table has, drawn with replacement, each a new one."""
    rng = np.random.default_rng(seed)
    rows = list(table.groupby("zper").indices.values())
    drawn = rng.integers(len(rows), size=len(rows))
    person = np.repeat(np.arange(len(rows)), [rows[k].size for k in drawn])
    return table.iloc[np.concatenate([rows[k] for k in drawn])].assign(zper=person)


def reference(
    model: str, table: pd.DataFrame, *, unit: bool, rows_per_unit: int
) -> tuple[pd.Series, pd.Series]:
    """Return coefficients and cluster-robust standard errors by statsmodels; rows alike without a unit."""
    size = table.groupby("zper")["zper"].transform("size") if unit else 1
    weights = np.asarray(1.0 / np.maximum(size, rows_per_unit) * np.ones(len(table)))
    clusters = {"cov_type": "cluster", "cov_kwds": {"groups": table["zper"], "use_correction": False}}
    if model == "ols":
        fitted = smf.wls(f"np.log1p(mdvis) ~ {TERMS}", table, weights=weights).fit(**clusters)
        return fitted.params, fitted.bse
    data = table.assign(visited=(table["visited"] == "yes").astype(float))
    with warnings.catch_warnings():  # weights are no counts here; the covariance is the sandwich all the same
        warnings.simplefilter("ignore")
        binomial = smf.glm(f"visited ~ {TERMS}", data, family=sm.families.Binomial(), freq_weights=weights)
        fitted = binomial.fit(tol=1e-12, **clusters)
    return fitted.params, fitted.bse


def study(
    model: str, table: pd.DataFrame, *, unit: bool, rows_per_unit: int, budget: pf.Budget, repetitions: int
) -> dict[str, object]:
    """Return a row of the results."""
    fit, response = MODELS[model]
    options = {"schema": SCHEMA, "rows_per_unit": rows_per_unit} if unit else {"schema": ROWS}
    formula = f"{response} ~ {TERMS}"
    exact = fit(formula, table, solver="non-private", **options)
    params, bse = reference(model, table, unit=unit, rows_per_unit=rows_per_unit)
    held, widths, shares = [], [], []
    for seed in range(repetitions):
        private = fit(formula, resampled(table, seed), budget=budget, random_state=seed, **options)
        interval = private.conf_int()
        held.append((interval["lower"] <= exact.params) & (exact.params <= interval["upper"]))
        widths.append((interval["upper"] - interval["lower"]) / (2 * 1.959964 * bse))
        shares.append(private.noise_share)
    finite = np.isfinite(widths)
    return {
        "model": model,
        "unit": "zper" if unit else "row",
        "rows_per_unit": rows_per_unit,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "units": exact.nobs,
        "repetitions": repetitions,
        "coverage": round(float(np.mean(held)), 4),
        "infinite": round(float(1 - finite.mean()), 4),
        "median_width_ratio": round(float(np.median(widths)), 3),
        "median_noise_share": round(float(np.median(shares)), 3),
        "largest_difference": f"{np.max(np.abs(exact.params - params) / bse):.1e}",
    }


def main() -> None:
    """Run the study and write its results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "private_unit.csv")
    arguments = parser.parse_args()
    rows, table = read(arguments.data), ResultsTable(arguments.out, FIELDS, 5)
    for model, (unit, rows_per_unit, delta), epsilon in product(MODELS, UNITS, EPSILONS):
        if table.lacks(model, "zper" if unit else "row", rows_per_unit, epsilon, delta):
            table.add(
                study(
                    model, rows, unit=unit, rows_per_unit=rows_per_unit, budget=pf.Budget(epsilon, delta),
                    repetitions=arguments.repetitions,
                )
            )  # fmt: skip


if __name__ == "__main__":
    main()
