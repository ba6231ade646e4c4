"""A public table of 5 numeric and 8 categorical columns, 91 encoded ones, made from a seed."""

import numpy as np
import pandas as pd

import privfit as pf

LEVELS = (4, 6, 8, 10, 12, 14, 18, 21)
"""Levels of the categorical columns."""

NUMBERS = tuple(f"number{k}" for k in range(5))
FACTORS = tuple(f"factor{k}" for k in range(len(LEVELS)))

SCHEMA = pf.Schema(
    {
        **{name: {"type": "numeric", "lower": -3, "upper": 3} for name in NUMBERS},
        **{
            name: {"type": "categorical", "levels": [f"level {k}" for k in range(levels)]}
            for name, levels in zip(FACTORS, LEVELS, strict=True)
        },
        "y": {"type": "categorical", "levels": ["no", "yes"], "target": True},
    }
)


def rows(n_rows: int, seed: int) -> pd.DataFrame:
    """Return rows whose levels are as unequal as those of real tables."""
    rng = np.random.default_rng(seed)
    columns: dict[str, object] = {name: rng.normal(size=n_rows) for name in NUMBERS}
    score = 0.5 * columns["number0"] - 0.3 * columns["number1"]
    for name, levels in zip(FACTORS, LEVELS, strict=True):
        shares = 1.0 / np.arange(1.0, levels + 1.0)
        codes = rng.choice(levels, n_rows, p=shares / shares.sum())
        columns[name] = pd.Categorical.from_codes(codes, [f"level {k}" for k in range(levels)])
        score = score + 0.3 * np.cos(codes)
    yes = rng.random(n_rows) < 1.0 / (1.0 + np.exp(-score))
    columns["y"] = pd.Categorical.from_codes(yes.astype(int), ["no", "yes"])
    return pd.DataFrame(columns)
