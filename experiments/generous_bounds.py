"""Coverage of quantile regressions whose declared bounds are far wider than the residuals are spread.

*Rows.* x = (1, z) with four columns z, normal and cut to their declared bounds of -3 and 3; the linear
predictor is 0.5 + sum (+-) 0.5 z, the errors are standard normal, standard lognormal ("skew"), lognormal
with a sigma of 1.5 ("very skew"), exponential or t with three degrees of freedom ("heavy"). The response is
declared to be within `range` / 2 of 0, and is cut to that; the `tau` quantile of an error is added to the
true intercept.

*What is measured.* `intercept` and `slopes` are the coverage of finite 95 % intervals, `infinite` the
share of others, `off` the mean distance of the intercept's estimate from the truth in its standard errors,
`width` the mean half-width of the smoothing.

    python experiments/generous_bounds.py --repetitions 60

Adds to experiments/results/generous_bounds.csv; resumable: a cell that is there is left out.
"""

import argparse
import re
from itertools import product
from pathlib import Path

import numpy as np
from scipy import stats

import privfit as pf
from resumable import ResultsTable

RESULTS = Path(__file__).parent / "results" / "generous_bounds.csv"
SLOPES = np.array([0.5, -0.5, 0.5, -0.5])
ERRORS = {
    "normal": stats.norm(),
    "skew": stats.lognorm(1.0),
    "very skew": stats.lognorm(1.5),
    "exponential": stats.expon(),
    "heavy": stats.t(3),
}
NAMES = [f"z{k}" for k in range(len(SLOPES))]
FIELDS = [
    "errors", "tau", "n", "mu", "range",
    "repetitions", "intercept", "slopes", "infinite", "off", "width",
]  # fmt: skip


def simulated(errors: str, n: int, half: float, seed: int) -> dict[str, np.ndarray]:
    """Return a table."""
    rng = np.random.default_rng(seed)
    z = np.clip(rng.normal(size=(n, len(SLOPES))), -3.0, 3.0)
    y = 0.5 + z @ SLOPES + ERRORS[errors].ppf(rng.random(n))
    return {"y": np.clip(y, -half, half), **dict(zip(NAMES, z.T, strict=True))}


def cell(arguments: tuple[str, float, int, float, float, int]) -> dict[str, object]:
    """Return a row of the table."""
    errors, tau, n, mu, spread, repetitions = arguments
    half, wanted = 0.5 * spread, np.concatenate([[0.5 + ERRORS[errors].ppf(tau)], SLOPES])
    bounds = {"y": half, **dict.fromkeys(NAMES, 3.0)}
    schema = pf.Schema({k: {"type": "numeric", "lower": -b, "upper": b} for k, b in bounds.items()})
    hits, finite, off, widths = [], [], [], []
    for seed in range(repetitions):
        fit = pf.quantile(
            f"y ~ {' + '.join(NAMES)}", simulated(errors, n, half, seed),
            schema=schema, quantile=tau, budget=pf.Budget.gdp(mu), random_state=seed,
        )  # fmt: skip
        low, high = fit.conf_int().to_numpy().T
        hits.append((low <= wanted) & (wanted <= high))
        finite.append(np.isfinite(high - low))
        off.append((fit.params.iloc[0] - wanted[0]) / fit.bse.iloc[0])
        widths.append(chosen(fit, np.nan))
    held, usable = np.array(hits), np.array(finite)
    return dict(zip(FIELDS, arguments, strict=False)) | {
        "intercept": share_held(held[:, 0], usable[:, 0]),
        "slopes": share_held(held[:, 1:], usable[:, 1:]),
        "infinite": f"{1.0 - usable.mean():.4f}",
        "off": f"{np.mean(np.array(off)[usable[:, 0]]):.2f}" if usable[:, 0].any() else "",
        "width": f"{np.mean(widths):.3g}",
    }


def chosen(fit: pf.FitResult, otherwise: float) -> float:
    """Return the number that the title of a fit says, after its sign of plus or minus."""
    found = re.search(r"±([\d.e-]+)", fit.model)
    return float(found[1]) if found else otherwise


def share_held(held: np.ndarray, usable: np.ndarray) -> str:
    """Return the coverage of usable intervals, nothing where there are none."""
    return f"{held[usable].mean():.4f}" if usable.any() else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--errors", nargs="+", default=list(ERRORS))
    parser.add_argument("--quantiles", nargs="+", type=float, default=[0.1, 0.25, 0.5, 0.9])
    parser.add_argument("--rows", nargs="+", type=int, default=[1_000, 10_000, 100_000])
    parser.add_argument("--budgets", nargs="+", type=float, default=[1.0])
    parser.add_argument("--ranges", nargs="+", type=float, default=[30.0, 100.0, 1000.0])
    parser.add_argument("--repetitions", type=int, default=60)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    table = ResultsTable(options.out, FIELDS, 5)
    grid = product(options.errors, options.quantiles, options.rows, options.budgets, options.ranges)
    table.fill(cell, grid, options.repetitions, workers=options.workers)


if __name__ == "__main__":
    main()
