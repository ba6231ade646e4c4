"""Tables that are predicted: what is refused, and that a fit of the same rows is silent."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
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


def test_a_frame_without_names_is_read_as_the_array_that_it_was_fitted_as():
    cells = np.arange(6.0).reshape(3, 2)
    encoder = UnitScaleEncoder(2, norm_bound=3.0)
    for names in ([0, 1], [7, 9], [1, 0]):
        table = open_covariates(pd.DataFrame(cells, columns=names), encoder)
        np.testing.assert_array_equal(encoder.encode_predictors(table)[:, 1:], cells)
    with pytest.raises(SchemaError, match="data has 1 column; an array needs one for each of the 2 predict"):
        open_covariates(pd.DataFrame(cells[:, :1]), encoder)
    for names in (["x1", 0], ["b", "a"]):
        with pytest.raises(SchemaError, match="column 'x0' is not in the data"):
            open_covariates(pd.DataFrame(cells, columns=names), encoder)
    numbered = UnitScaleEncoder(["0", "1"], norm_bound=3.0)
    table = open_covariates(pd.DataFrame(cells, columns=[1, 0]), numbered)
    np.testing.assert_array_equal(numbered.encode_predictors(table)[:, 1:], cells[:, ::-1])


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow", ""])
def test_where_no_column_is_needed_rows_are_counted(tmp_path, suffix):
    schema = Schema({"y": {"type": "numeric", "lower": 0, "upper": 1}})
    encoder = FormulaEncoder("y ~ 1", schema)
    frame = pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": ["u", "v", None]})
    forms = [frame, dict(frame), pl.from_pandas(frame), pa.Table.from_pandas(frame), frame.to_numpy()]
    if suffix:
        path = tmp_path / f"rows{suffix}"
        write = {".csv": "to_csv", ".parquet": "to_parquet", ".arrow": "to_feather"}[suffix]
        getattr(frame, write)(path, **({"index": False} if suffix == ".csv" else {}))
        forms = [path]
    for data in forms:
        table = open_covariates(data, encoder)
        assert (table.names, table.n_rows, table.part(slice(1, None)).n_rows) == ((), 3, 2)
        np.testing.assert_array_equal(encoder.encode_predictors(table), np.ones((3, 1)))
        assert open_covariates(table, encoder).n_rows == 3
    with pytest.raises(SchemaError, match="data has no row"):
        open_covariates(frame[:0], encoder)
    with pytest.raises(SchemaError, match="data has no column"):
        open_covariates({}, encoder)
