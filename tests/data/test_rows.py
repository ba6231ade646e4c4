"""Rows are encoded block by block, on several threads, and are the same as if they were encoded at once."""

import warnings

import numpy as np
import pandas as pd
import pytest
from raw_cells import raw_cells

from privfit.data import rows
from privfit.data.encode import SchemaEncoder
from privfit.data.schema import Schema
from privfit.data.tables import open_table
from privfit.errors import SchemaError
from privfit.terms.encoder import FormulaEncoder

N = 101
SCHEMA = Schema(
    {
        "y": {"type": "numeric", "lower": -1, "upper": 1},
        "age": {"type": "numeric", "lower": 1, "upper": 90, "transform": "log"},
        "size": {"type": "numeric", "lower": -2, "upper": 2, "missing": 0.5},
        "ward": {"type": "categorical", "levels": ["a", "b", "c"], "other": "b"},
        "sex": {"type": "categorical", "levels": ["f", "m"]},
    }
)


def table():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "y": rng.normal(size=N),
            "age": rng.uniform(-5, 100, size=N),
            "size": np.where(rng.random(N) < 0.2, np.nan, rng.normal(size=N)),
            "ward": pd.Categorical(rng.choice(["a", "b", "c", "z"], size=N)),
            "sex": pd.Series(rng.choice(["f", "m", None], size=N)),
        }
    )
    return open_table(frame)


ENCODERS = {
    "schema": lambda: SchemaEncoder(SCHEMA, target="y"),
    "formula": lambda: FormulaEncoder("y ~ age * C(ward) + size + C(sex)", SCHEMA),
}


@pytest.mark.parametrize("kind", ENCODERS)
@pytest.mark.parametrize("threads", ["1", "3"])
def test_blocks_are_the_rows_encoded_at_once(monkeypatch, kind, threads):
    monkeypatch.setenv("NUMBA_NUM_THREADS", threads)
    encoder, cells = ENCODERS[kind](), table()
    at_once, response = encoder.encode_coded(cells), encoder.encode_target(cells)
    monkeypatch.setattr(rows, "BLOCK_ROWS", 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        by_block, same = encoder.encode_coded(cells), encoder.encode_target(cells)
        dense = encoder.encode_predictors(cells)
    np.testing.assert_array_equal(response, same)
    np.testing.assert_array_equal(at_once.numbers, by_block.numbers)
    np.testing.assert_array_equal(at_once.codes, by_block.codes)
    np.testing.assert_array_equal(at_once.dense(), dense)
    assert np.isnan(dense).any()
    assert np.isfinite(dense).any()


@pytest.mark.parametrize("kind", ENCODERS)
def test_a_column_of_the_wrong_type_is_refused_by_name_in_every_block_and_without_rows(monkeypatch, kind):
    monkeypatch.setenv("NUMBA_NUM_THREADS", "3")
    monkeypatch.setattr(rows, "BLOCK_ROWS", 8)
    dates = pd.date_range("2020-01-01", periods=N)
    wrong = open_table(pd.DataFrame({name: raw_cells(table(), name) for name in SCHEMA} | {"age": dates}))
    for cells in (wrong, wrong.part(slice(0, 0))):
        with pytest.raises(SchemaError, match="column 'age'"):
            ENCODERS[kind]().encode_predictors(cells)
