"""Width of 95 % intervals of counts over exposures: what the planner foretells and what fits report.

Tables and cells are those of `exposures.py` that are analysed with ``exposure=``. The planner gets the same
schema, the right mean count, slope and standard deviation of x, and

* ``alike``: nothing of the exposures, which it then takes to be in the middle of their bounds;
* ``guesses``: their mean and standard deviation in a table of 200,000 rows, as if they were log-normal;
* ``reference``: in place of all guesses a public table of 8,000 rows of the same law.

Written is the width that the planner foretells over the median of what fits report, for intercept and slope.

    python experiments/planner_exposures.py --repetitions 40 [--workers 2]

Adds to experiments/results/planner_exposures.csv; resumable.
"""

from pathlib import Path

import numpy as np

import privfit as pf
from exposures import LOOSE, OF_EXPOSURES, UNEVEN, drawn, schema, simulated
from resumable import filled_by_command

RESULTS = Path(__file__).parent / "results" / "planner_exposures.csv"
FIELDS = ["exposures", "rate", "n", "epsilon", "delta", "repetitions"] + [
    f"{told}_{name}" for told in ("alike", "guesses", "reference") for name in ("intercept", "slope")
]
COLUMNS = ["x", "years", "events"]
SLOPE, SD = 0.3, 1.0


def told(exposures: str, rate: float) -> dict[str, pf.Assumptions]:
    """Return what the planner is told."""
    years = drawn(exposures, np.random.default_rng(0), 200_000)
    mean, most = float(years.mean()), 0.5 * schema(exposures)["years"]["upper"]
    usual = {"mean": rate * mean * np.exp(0.5 * SLOPE**2), "coefficients": {"x": SLOPE}}
    return {
        "alike": pf.Assumptions(**usual, sd={"x": SD}),
        "guesses": pf.Assumptions(
            **usual, sd={"x": SD, "years": min(float(years.std()), most)}, center={"years": mean}
        ),
        "reference": pf.Assumptions(reference=simulated(exposures, rate, 8_000, 10**6)[COLUMNS]),
    }


def cell(arguments: tuple[str, float, int, float, float, int]) -> dict[str, object]:
    """Return a row of the table."""
    exposures, rate, n, epsilon, delta, repetitions = arguments
    declared = {name: one for name, one in schema(exposures).items() if name in COLUMNS}
    options = {"schema": declared, "exposure": "years", "epsilon": epsilon, "delta": delta}
    ends = np.array(
        [
            pf.poisson("events ~ x", simulated(exposures, rate, n, seed), random_state=seed, **options)
            .conf_int()
            .to_numpy()
            for seed in range(repetitions)
        ]
    )
    simulated_widths = np.median(ends[..., 1] - ends[..., 0], axis=0)
    row: dict[str, object] = dict(zip(FIELDS, arguments, strict=False))
    for label, assumptions in told(exposures, rate).items():
        planned = pf.plan("events ~ x", n=n, model="poisson", assumptions=assumptions, **options)
        ratios = planned.width.to_numpy() / simulated_widths
        row |= {f"{label}_intercept": f"{ratios[0]:.2f}", f"{label}_slope": f"{ratios[1]:.2f}"}
    return row


if __name__ == "__main__":
    filled_by_command(__doc__, RESULTS, FIELDS, cell, (*OF_EXPOSURES, *LOOSE, *UNEVEN))
