"""Coverage of a Poisson regression's intervals where counts are over exposures.

*Rows.* x normal within -4 and 4, events with mean ``e exp(c + 0.3 x)`` within an exposure e. Events, declared
up to 20, are analysed with ``exposure=`` the column of e, declared up to 1; or rates ``events / e``, declared
up to 50, with e as a weight. Exposures are beta(0.6, 0.5) and at least 0.02 (`mostly long`), and declared up
to 10, events up to 50 (`loosely declared`), or uniform between 0.02 and 1 (`even`). Or they are log-normal
with sigma = 1, at most 20, and declared so (`uneven`) or up to 2,000 (`uneven, loosely declared`), or 0.05 in
95 % of the rows and 5 in the others (`few long`); events then up to 50. Or e is a survey weight, uniform
between 0.2 and 1, that has nothing to do with counts (`weights`). delta = 1e-6 where it is not 0.

*What is measured.* Coverage of finite 95 % intervals of the intercept and of the slope, the share of
intervals that are not finite, and their median widths over those without privacy in ten tables.

    python experiments/exposures.py [--repetitions 200] [--workers 2]

Adds to experiments/results/exposures.csv; resumable: a cell that is there is left out.
"""

from pathlib import Path

import numpy as np
import pandas as pd

import privfit as pf
from generous_bounds import share_held
from rare_levels import compared
from resumable import filled_by_command

RESULTS = Path(__file__).parent / "results" / "exposures.csv"
FIELDS = [
    "exposures", "taken_as", "rate", "n", "epsilon", "delta", "repetitions",
    "intercept", "slope", "infinite", "intercept_width", "slope_width",
]  # fmt: skip
PLAIN_TABLES = 10
OF_EXPOSURES = (
    ("mostly long", 0.1, 50_000, 1.0, 1e-6),
    ("mostly long", 0.1, 50_000, 4.0, 1e-6),
    ("mostly long", 0.1, 50_000, 4.0, 0.0),
    ("mostly long", 0.1, 200_000, 1.0, 1e-6),
    ("even", 0.1, 50_000, 1.0, 1e-6),
    ("even", 0.1, 200_000, 1.0, 1e-6),
    ("even", 0.5, 50_000, 1.0, 1e-6),
)
LOOSE = (
    ("loosely declared", 0.1, 50_000, 1.0, 1e-6),
    ("loosely declared", 0.1, 50_000, 4.0, 1e-6),
    ("loosely declared", 0.1, 50_000, 4.0, 0.0),
)
UNEVEN = tuple(
    (exposures, 0.5, 20_000, epsilon, delta)
    for exposures in ("uneven", "uneven, loosely declared", "few long")
    for epsilon, delta in ((1.0, 1e-6), (4.0, 1e-6), (4.0, 0.0))
)
MOST = {"loosely declared": 10.0, "uneven": 20.0, "uneven, loosely declared": 2_000.0, "few long": 5.0}
"""What exposures are declared up to, where that is not 1."""
OF_WEIGHTS = (("weights", 0.5, 20_000, 1.0, 1e-6), ("weights", 0.5, 100_000, 1.0, 1e-6))
CELLS = (
    *((kind, "exposure", *rest) for kind, *rest in (*OF_EXPOSURES, *LOOSE, *UNEVEN)),
    *((kind, "weights", *rest) for kind, *rest in (*OF_EXPOSURES, *OF_WEIGHTS)),
)


def schema(exposures: str) -> dict[str, dict[str, object]]:
    """Return the declarations of a table."""
    events = 50.0 if exposures in MOST else 20.0
    uppers = {"years": MOST.get(exposures, 1.0), "rate": 50.0, "events": events}
    return {"x": {"type": "numeric", "lower": -4.0, "upper": 4.0}} | {
        name: {"type": "numeric", "lower": 0.0, "upper": upper} for name, upper in uppers.items()
    }


def drawn(exposures: str, rng: np.random.Generator, n: int) -> np.ndarray:
    """Return exposures, or weights, (n,)."""
    if exposures in ("mostly long", "loosely declared"):
        return np.maximum(rng.beta(0.6, 0.5, n), 0.02)
    if exposures == "few long":
        return np.where(rng.random(n) < 0.95, 0.05, 5.0)
    if exposures in MOST:
        return np.exp(rng.normal(size=n)).clip(0.02, 20.0)
    return rng.uniform(0.02 if exposures == "even" else 0.2, 1.0, n)


def simulated(exposures: str, rate: float, n: int, seed: int) -> pd.DataFrame:
    """Return a table."""
    rng = np.random.default_rng([seed, n])
    x, years = rng.normal(size=n).clip(-4.0, 4.0), drawn(exposures, rng, n)
    mean = rate * np.exp(0.3 * x)
    if exposures == "weights":
        return pd.DataFrame({"x": x, "years": years, "rate": rng.poisson(mean)})
    events = rng.poisson(years * mean)
    return pd.DataFrame({"x": x, "years": years, "events": events, "rate": events / years})


def cell(arguments: tuple[str, str, float, int, float, float, int]) -> dict[str, object]:
    """Return a row of the table."""
    exposures, taken_as, rate, n, epsilon, delta, repetitions = arguments
    formula = "events ~ x" if taken_as == "exposure" else "rate ~ x"
    known = {"schema": schema(exposures), taken_as: "years"}

    def intervals(seed: int, **options: object) -> np.ndarray:
        table = simulated(exposures, rate, n, seed)
        fit = pf.poisson(formula, table, **known, random_state=seed, **options)
        return fit.conf_int().to_numpy()

    found = [intervals(seed, budget=pf.Budget(epsilon, delta)) for seed in range(repetitions)]
    plain = [intervals(seed, solver="non-private") for seed in range(PLAIN_TABLES)]
    finite, held, width = compared(found, plain, np.array([np.log(rate), 0.3]))
    return dict(zip(FIELDS, arguments, strict=False)) | {
        "intercept": share_held(held[:, 0], finite[:, 0]),
        "slope": share_held(held[:, 1], finite[:, 1]),
        "infinite": f"{1.0 - finite.mean():.4f}",
        "intercept_width": f"{width[0]:.2f}",
        "slope_width": f"{width[1]:.2f}",
    }


if __name__ == "__main__":
    filled_by_command(__doc__, RESULTS, FIELDS, cell, iter(CELLS))
