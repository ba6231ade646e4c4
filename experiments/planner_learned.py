"""Width of 95 % intervals where bounds are learned: what the planner foretells and what fits report.

The tables, models and repetitions are those of `planner_check.py`, but for the bounds: those of predictors
and numeric responses are open, that of counts from above, and ``scale="private"`` buys them with a tenth of
the squared budget. The planner gets the same draft and

* ``guesses``: the right standard deviations, mean response, coefficients and correlation. It takes columns to
  be normal; those of the second law are uniform, and learned bounds are as far out as tails are;
* ``reference``: a public table of 8,000 rows of the same law.

``.._over_simulated`` compares the median width of the finite intervals of the slopes (geometric mean over
them); ``finite`` is the share of finite intervals, where a fit that is refused, because noise hides where a
column lies, has none.

    python experiments/planner_learned.py --repetitions 24 [--workers 2]

Adds to experiments/results/planner_learned.csv; resumable.
"""

from itertools import product
from pathlib import Path

import numpy as np

import privfit as pf
from planner_check import (
    CORRELATION,
    EPSILONS,
    FIT,
    LAWS,
    MEAN,
    MODELS,
    median_of_finite,
    schema_of,
    slopes,
    table,
    tables_of,
    typical,
    widths_of,
)
from resumable import filled_by_command

BOUNDS = {"lower", "upper"}
RESULTS = Path(__file__).parent / "results" / "planner_learned.csv"
FIELDS = [
    "model", "law", "p", "n", "epsilon", "repetitions", "simulated", "finite", "guesses",
    "guesses_over_simulated", "guesses_finite", "reference", "reference_over_simulated", "reference_finite",
]  # fmt: skip


def draft_of(model: str, k: int) -> dict[str, dict]:
    """Return the columns without bounds, but for labels and the least count."""
    open_to = {"y": {"logit": set(), "poisson": {"upper"}}.get(model, BOUNDS)}
    return {
        name: {key: value for key, value in one.items() if key not in open_to.get(name, BOUNDS)}
        for name, one in schema_of(model, k).to_dict().items()
    }


def widths(model: str, formula: str, rows: dict[str, np.ndarray], **options: object) -> np.ndarray:
    """Return the widths of a fit's intervals of slopes; infinite ones where it is refused."""
    try:
        return widths_of(FIT[model](formula, rows, scale="private", **options))[1:]
    except pf.TooLittleData:
        return np.full(len(rows) - 1, np.inf)


def cell(arguments: tuple[str, str, int, int, float, int]) -> dict[str, object]:
    """Return a row of the table."""
    model, law, p, n, epsilon, usual = arguments
    k, repetitions = p - 1, tables_of(n, p, usual)
    names = [f"x{j}" for j in range(k)]
    formula, draft = "y ~ " + " + ".join(names), draft_of(model, k)
    found = np.array(
        [
            widths(
                model,
                formula,
                table(model, law, k, n, seed),
                schema=draft,
                epsilon=epsilon,
                random_state=seed,
            )
            for seed in range(repetitions)
        ]
    )
    right = pf.Assumptions(
        mean=MEAN[model],
        sd=dict.fromkeys(names, 1.0),
        coefficients=dict(zip(names, slopes(model, k).tolist(), strict=True)),
        residual_sd=1.0,
        correlation=CORRELATION,
    )
    simulated = median_of_finite(found)
    row: dict[str, object] = {
        "model": model, "law": law, "p": p, "n": n, "epsilon": epsilon, "repetitions": repetitions,
        "simulated": f"{typical(simulated):.4g}", "finite": f"{np.isfinite(found).mean():.3f}",
    }  # fmt: skip
    public = pf.Assumptions(reference=table(model, law, k, 8_000, 10**6))
    for label, assumptions in (("guesses", right), ("reference", public)):
        planned = pf.plan(
            formula, n=n, schema=draft, model=model, epsilon=epsilon, scale="private", assumptions=assumptions
        ).table()[1:]
        predicted = planned["width"].to_numpy()
        row[label] = f"{typical(predicted):.4g}"
        row[f"{label}_over_simulated"] = f"{typical(predicted / simulated):.3f}"
        row[f"{label}_finite"] = f"{planned['finite'].mean():.3f}"
    return row


if __name__ == "__main__":
    grid = product(MODELS, LAWS, (2, 5, 10), (2_000, 10_000, 50_000), EPSILONS)
    filled_by_command(__doc__, RESULTS, FIELDS, cell, grid)
