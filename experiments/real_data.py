"""Coverage of the non-private coefficients on real tables.

For each table, formula and epsilon the fit is repeated with fresh noise on the same rows. Two rates are
reported: how often the 95 % interval holds the coefficient of the ordinary non-private fit (it allows for
sampling error too, so it should be near or above 95 %), and how often the part of the interval that stands
for privacy noise alone holds it (it should be near 95 % where the model fits; rows with a Mallows weight
below 1 move the target a little where it does not).

    python experiments/real_data.py --data FOLDER     # FOLDER holds adult_data.csv.gz and the others

Adds to experiments/results/real_data.csv; resumable.
"""

import argparse
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
from scipy import stats

import privfit as pf
from privfit.data.tables import Table, open_table
from resumable import ResultsTable

HERE = Path(__file__).parent
ADULT = [
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation",
    "relationship", "race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country",
    "income",
]  # fmt: skip
TABLES = {
    "adult": ("adult_data.csv.gz", {"header": False, "columns": ADULT}, pf.logit),
    "bank": ("bank_full.csv.gz", {"sep": ";"}, pf.logit),
    "california": ("california_housing.csv.gz", {}, pf.huber),
    "bike": ("bike_hour.csv.gz", {}, pf.huber),
    "california (median)": ("california_housing.csv.gz", {}, pf.quantile),
    "bike (median)": ("bike_hour.csv.gz", {}, pf.quantile),
}
FORMULAS = {
    "adult": ("income ~ age + education_num + hours_per_week + sex + marital_status", "income ~ ."),
    "bank": ("y ~ age + housing + loan + contact + balance", "y ~ ."),
    "california": ("median_house_value ~ median_income + housing_median_age", "median_house_value ~ ."),
    "bike": ("cnt ~ temp + hum + windspeed + workingday", "cnt ~ ."),
    "california (median)": ("median_house_value ~ median_income + housing_median_age",),
    "bike (median)": ("cnt ~ temp + hum + windspeed + workingday",),
}
EPSILONS = (0.5, 1.0, 4.0)
DELTA = 1e-6
FIELDS = [
    "table", "formula", "epsilon", "rows", "coefficients", "repetitions",
    "interval_holds", "noise_part_holds", "infinite", "median_noise_share", "median_se_over_non_private",
]  # fmt: skip


@cache
def table_of(name: str, folder: Path) -> Table:
    """Return a table, which is read once."""
    path, layout, _ = TABLES[name]
    return open_table(folder / path, **layout)


def rates(name: str, formula: str, epsilon: float, *, table: Table, repetitions: int) -> dict[str, object]:
    fit = TABLES[name][2]
    schema = HERE / "schemas" / f"{name.split(' ', maxsplit=1)[0]}.toml"
    exact = fit(formula, table, schema=schema, solver="non-private")
    holds, noise_holds, shares, errors = [], [], [], []
    for seed in range(repetitions):
        private = fit(formula, table, schema=schema, epsilon=epsilon, delta=DELTA, random_state=seed)
        interval = private.conf_int()
        holds.append((interval["lower"] <= exact.params) & (exact.params <= interval["upper"]))
        noise_se = np.sqrt(np.diag(private.cov_noise))
        noise_holds.append(np.abs(private.params - exact.params) <= stats.norm.ppf(0.975) * noise_se)
        shares.append(private.noise_share)
        errors.append(private.bse / exact.bse)
    finite = np.isfinite(np.array(errors))

    def over_finite(summary: Callable[[np.ndarray], float], values: list[object], digits: int) -> object:
        """Summarise what has a finite standard error; empty where nothing has."""
        return round(float(summary(np.array(values)[finite])), digits) if finite.any() else ""

    return {
        "table": name,
        "formula": formula,
        "epsilon": epsilon,
        "rows": exact.nobs,
        "coefficients": len(exact.params),
        "repetitions": repetitions,
        "interval_holds": over_finite(np.mean, holds, 3),
        "noise_part_holds": over_finite(np.mean, noise_holds, 3),
        "infinite": round(float(1 - finite.mean()), 3),
        "median_noise_share": over_finite(np.median, shares, 3),
        "median_se_over_non_private": over_finite(np.median, errors, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the public tables")
    parser.add_argument("--repetitions", type=int, default=25)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "real_data.csv")
    options = parser.parse_args()
    results = ResultsTable(options.out, FIELDS, 3)
    for name in TABLES:
        for formula, epsilon in product(FORMULAS[name], EPSILONS):
            if results.lacks(name, formula, epsilon):
                table = table_of(name, options.data)
                results.add(rates(name, formula, epsilon, table=table, repetitions=options.repetitions))


if __name__ == "__main__":
    main()
