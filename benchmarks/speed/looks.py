"""Fits that learn the bounds of columns first, beside fits within the unit scale, in one process.

    python benchmarks/speed/looks.py [--rows 1000000] [--columns 20] [--rounds 3]

A default logistic fit with intervals of an array of doubles, without and with ``scale="private"``, and
scikit-learn's without regard to privacy. Ratios are of processor times and of clocks, the smallest of all
rounds. Writes benchmarks/speed/results/looks.json.
"""

import argparse

import numpy as np
from measure import in_rounds, ratios, write
from sklearn.linear_model import LogisticRegression

import privfit as pf
from privfit._threads import thread_count

FIT, SCALED, OTHER = "fit", "fit with learned bounds", "scikit-learn"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(options.rows, options.columns))
    chance = 1.0 / (1.0 + np.exp(-x @ rng.normal(size=options.columns) / np.sqrt(options.columns)))
    y = (rng.random(options.rows) < chance).astype(int)
    fits = in_rounds(
        {
            FIT: lambda: pf.LogisticRegression(epsilon=1.0).fit(x, y),
            SCALED: lambda: pf.LogisticRegression(epsilon=1.0, scale="private").fit(x, y),
            OTHER: lambda: LogisticRegression(max_iter=1000).fit(x, y),
        },
        options.rounds,
    )
    pairs = [(SCALED, FIT), (SCALED, OTHER)]
    report = {
        "rows": options.rows,
        "columns": options.columns,
        "threads": thread_count(),
        "fits": fits,
        "ratios": ratios(fits, pairs),
        "clock_ratios": ratios(fits, pairs, by="clock_ms"),
    }
    write("looks", report)


if __name__ == "__main__":
    main()
