"""A table of patients that does not fit its schema everywhere, for stores of encoded rows."""

import numpy as np
import pandas as pd

import privfit as pf
from privfit.data.encode import SchemaEncoder
from privfit.data.reduction import CHUNK_ROWS

LEVELS = ["a", "b", "c", "d"]
SCHEMA = pf.Schema(
    {
        "age": {"type": "numeric", "lower": 17, "upper": 90},
        "gain": {"type": "numeric", "lower": 0, "upper": 1000},
        "ward": {"type": "categorical", "levels": LEVELS, "other": "a"},
        "sex": {"type": "categorical", "levels": ["f", "m"]},
        "ill": {"type": "categorical", "levels": ["no", "yes"], "target": True},
    }
)
ENCODER = SchemaEncoder(SCHEMA, target_kind="binary")
BOUND = ENCODER.design.norm_bound


def frame(n=3 * CHUNK_ROWS + 100, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.uniform(15, 95, n),
            "gain": rng.uniform(0, 1000, n),
            "ward": rng.choice([*LEVELS, "new"], n),
            "sex": np.where(rng.random(n) < 0.03, None, rng.choice(["f", "m"], n)),
            "ill": rng.choice(["no", "yes"], n),
        }
    )
