"""Tables that are predicted: what is refused, and that a fit of the same rows is silent."""

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from privfit.data.covariates import open_covariates
from privfit.data.encode import SchemaEncoder
from privfit.data.schema import Schema
from privfit.data.tables import open_table
from privfit.data.unit_scale import UnitScaleEncoder
from privfit.errors import SchemaError
from privfit.terms.encoder import FormulaEncoder

CANARY = "CANARY31415"
ENTRIES = {
    "age": {"type": "numeric", "lower": 0, "upper": 100},
    "job": {"type": "categorical", "levels": ["clerk", "nurse"]},
    "code": {"type": "categorical", "levels": [1, 2]},
    "y": {"type": "numeric", "lower": 0, "upper": 1, "target": True},
}
GOOD = {"age": [20.0, 300.0], "job": ["clerk", " nurse "], "code": ["1", "2.0"]}


def encoders(**changes):
    schema = Schema({name: entry | changes.get(name, {}) for name, entry in ENTRIES.items()})
    return [SchemaEncoder(schema), FormulaEncoder("y ~ job * age + C(code)", schema)]


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pa.table])
def test_tables_that_say_all_are_opened(make):
    for encoder in encoders():
        assert np.isfinite(encoder.encode_predictors(open_covariates(make(GOOD), encoder))).all()


@pytest.mark.parametrize(
    ("name", "cell", "rule"),
    [
        ("job", CANARY, "'job' holds a value that is no level"),
        ("job", None, "'job' holds a missing cell"),
        ("job", "  ", "'job' holds a missing cell"),
        ("code", "7", "'code' holds a value that is no level"),
        ("age", None, "'age' holds a cell that is missing or no number"),
        ("age", CANARY, "'age' holds a cell that is missing or no number"),
    ],
)
def test_cells_without_a_prediction_are_refused_where_a_fit_is_silent(name, cell, rule, said):
    data = GOOD | {name: np.array([cell, GOOD[name][1]], dtype=object)}
    for encoder in encoders():
        with pytest.raises(SchemaError, match=rule) as caught:
            open_covariates(data, encoder)
        assert CANARY not in said(caught.value)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert encoder.encode_predictors(open_table(data)).shape[0] == 2


@pytest.mark.parametrize(
    ("name", "cell", "declared", "as_if"),
    [
        ("job", CANARY, {"other": "nurse"}, "nurse"),
        ("job", None, {"missing": "nurse"}, "nurse"),
        ("age", None, {"missing": 30}, 30.0),
        ("age", CANARY, {"missing": 30}, 30.0),
    ],
)
def test_what_the_schema_declares_for_such_cells_is_predicted(name, cell, declared, as_if):
    for encoder in encoders(**{name: declared}):
        found = [
            encoder.encode_predictors(
                open_covariates(GOOD | {name: np.array([one, GOOD[name][1]], dtype=object)}, encoder)
            )
            for one in (cell, as_if)
        ]
        np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("cell", [np.nan, np.inf])
def test_without_a_schema_cells_must_be_finite(cell):
    encoder = UnitScaleEncoder(2, norm_bound=3.0)
    assert open_covariates(np.ones((1, 2)), encoder).names == ("x0", "x1")
    with pytest.raises(SchemaError, match="'x1' holds a cell that is no finite number"):
        open_covariates(np.array([[1.0, cell]]), encoder)
