"""Columns that by their type are true or false: levels that need no schema."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import privfit as pf
from privfit.data.number_types import places_of_truths
from privfit.data.tables import Table
from privfit.data.unit_scale import UnitScaleEncoder
from privfit.errors import InvalidArgument

RNG = np.random.default_rng(3)
N = 8_000
FLAG, RARE = RNG.random(N) < 0.4, RNG.random(N) < 0.004
X = pd.DataFrame({"a": RNG.normal(size=N), "flag": FLAG, "b": RNG.normal(size=N), "rare": RARE})
Y = (RNG.random(N) < 1.0 / (1.0 + np.exp(-X.a + X.b - 0.5 * FLAG))).astype(int)

SOME = np.array([True, False, True])
OF_TRUTHS = {
    "pandas": pd.DataFrame({"n": [0, 1, 0], "t": SOME}),
    "pandas, nullable": pd.DataFrame({"n": [0, 1, 0], "t": pd.array([True, None, False], dtype="boolean")}),
    "pandas, of Arrow": pd.DataFrame({"n": [0, 1, 0], "t": pd.array(SOME, dtype="bool[pyarrow]")}),
    "pandas, sparse": pd.DataFrame({"n": [0, 1, 0], "t": pd.arrays.SparseArray(SOME)}),
    "pandas, names that repeat": pd.DataFrame([[0, True], [1, False]], columns=["n", "n"]),
    "polars": pl.DataFrame({"n": [0, 1, 0], "t": SOME}),
    "Arrow": pa.table({"n": [0, 1, 0], "t": SOME}),
    "batch of Arrow": pa.record_batch({"n": [0, 1, 0], "t": SOME}),
}
OF_OTHERS = {
    "whole numbers": pd.DataFrame({"n": [0, 1, 0]}),
    "objects": pd.DataFrame({"t": pd.Series([True, False], dtype=object)}),
    "sparse numbers": pd.DataFrame({"n": pd.arrays.SparseArray([0.0, 1.0])}),
    "array": np.eye(2),
    "lists": [[True, False], [False, True]],
}


@pytest.mark.parametrize("kind", OF_TRUTHS)
def test_types_tell_which_columns_are_true_or_false(kind):
    assert places_of_truths(OF_TRUTHS[kind]) == (1,)


@pytest.mark.parametrize("kind", OF_OTHERS)
def test_cells_do_not(kind):
    assert places_of_truths(OF_OTHERS[kind]) == ()


def test_an_array_of_truths_is_one_as_a_whole():
    assert places_of_truths(np.eye(3, dtype=bool)) == (0, 1, 2)


def test_rows_are_those_of_numbers():
    table = Table([*((name, X[name].to_numpy()) for name in X), ("y", Y)])
    known = UnitScaleEncoder(list(X), norm_bound=None, target_kind="binary", truths=("flag", "rare"))
    plain = UnitScaleEncoder(list(X), norm_bound=None, target_kind="binary")
    np.testing.assert_array_equal(known.encode_predictors(table), plain.encode_predictors(table))
    assert known.design.factors == ((2,), (4,))
    assert known.design.numbers == ((1,), (3,))
    assert plain.design.factors == ()
    assert known.identity != plain.identity


def widths(x, seed):
    result = pf.LogisticRegression(epsilon=1.0, delta=1e-6, random_state=seed).fit(x, Y).result_
    return np.ptp(result.conf_int(), axis=1)


def test_a_rare_one_hides_no_number():
    """As numbers it may be anything that few rows have, far off in its unit: others are given up, too."""
    numbers, truths = ([widths(x, seed) for seed in range(5)] for x in (X.astype(float), X))
    assert np.isfinite(np.array(truths)[:, :4]).all()
    assert not np.isfinite(np.array(numbers)[:, :4]).all(axis=1).any()


def test_partitions_are_read_alike():
    options = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
    here = pf.LogisticRegression(**options).fit(X, Y)
    frame, y = dd.from_pandas(X, npartitions=2), dd.from_pandas(pd.Series(Y), npartitions=2)
    there = pf.LogisticRegression(**options).fit(frame, y)
    np.testing.assert_allclose(there.result_.params, here.result_.params, rtol=1e-9)
    np.testing.assert_allclose(there.result_.bse, here.result_.bse, rtol=1e-9)


def test_nothing_is_learned_of_them():
    far = X.assign(a=100.0 * X.a, b=50.0 * X.b)
    model = pf.LogisticRegression(epsilon=4.0, delta=1e-6, scale="private", random_state=0).fit(far, Y)
    assert [each.name for each in model.result_.form.learned] == ["a", "b"]
    assert np.isfinite(model.result_.bse[:4]).all()
    np.testing.assert_array_equal(model.predict_proba(far), model.predict_proba(far.astype(float)))


def test_bounds_of_nothing_cannot_be_bought():
    with pytest.raises(InvalidArgument, match="no column of numbers"):
        pf.LogisticRegression(scale="private").fit(X[["flag", "rare"]], Y)


def test_where_bounds_of_a_rare_one_are_hidden_the_type_is_what_helps():
    model = pf.LogisticRegression(scale="private", delta=1e-6, random_state=0)
    with pytest.raises(pf.TooLittleData, match=r"'rare' lie.*needs no bounds if its type is bool"):
        model.fit(X[["a", "rare"]].astype(float), Y)


def test_all_dummies_of_a_factor_have_no_interval_and_the_summary_says_why():
    """They add up to the constant; numbers beside them are told apart."""
    every = X[["a", "flag"]].assign(other=~X.flag)
    result = pf.LogisticRegression(epsilon=4.0, delta=1e-6, random_state=0).fit(every, Y).result_
    assert np.isfinite(result.bse).tolist() == [False, True, False, False]
    assert "a column that others add up to" in " ".join(str(result.summary()).split())


def test_results_that_are_kept_know_them():
    result = pf.LogisticRegression(epsilon=1.0, delta=1e-6, random_state=0).fit(X, Y).result_
    again = pf.FitResult.from_json(result.to_json())
    np.testing.assert_array_equal(again.predict(X.head(20)), result.predict(X.head(20)))
