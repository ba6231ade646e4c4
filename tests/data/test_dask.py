"""Rows on a cluster: the same fits, a task a partition and pass, errors and names of tasks without a cell."""

import itertools
import logging
import os
import pickle
import re
import signal
import threading
import time
import traceback
import warnings
from collections import Counter
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from wards import BOUND, ENCODER, SCHEMA, frame

import privfit as pf
from privfit.data import partitions
from privfit.data import source as source_module
from privfit.data.blocks import TravellingKernel
from privfit.data.coded import MANY_ROWS
from privfit.data.reduction import CHUNK_ROWS, summation_error
from privfit.data.source import ArraySource
from privfit.data.tables import open_table
from privfit.data.unit_scale import UnitScaleEncoder
from privfit.errors import (
    InvalidArgument,
    LabelError,
    SchemaError,
    UnexpectedError,
)
from privfit.losses import Logistic
from privfit.problem.kernels import gradient_kernel, second_moment_kernel
from privfit.problem.steep import SteepRows

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

CANARY = "CANARY31415"


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@contextmanager
def on_workers(count):
    """Go on with the client of a cluster of workers with a thread each, in this process."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=count, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
        dask.config.set(scheduler=None),
    ):
        yield client


@pytest.fixture(params=["alone", "together"])
def groups(request, monkeypatch):
    """Every partition alone, or those of two workers and one that no worker is known to hold."""
    if request.param == "together":
        from privfit.data import dask_tables

        def scattered(held, most):
            numbers = range(len(held))
            return [some for some in (tuple(numbers[2::2]), (0,), tuple(numbers[1::2])) if some]

        monkeypatch.setattr(dask_tables, "together", scattered)


def source_of(data, encoder=ENCODER, bound=BOUND):
    from privfit.data.dask_tables import DaskTable

    return DaskTable(data).rows(encoder, norm_bound=bound).source(norm_bound=bound)


def name_of(key):
    return "-".join(map(str, key)) if isinstance(key, tuple) else key


def in_memory(data, bound=BOUND):
    table = open_table(data)
    return ArraySource(ENCODER.encode_coded(table), ENCODER.encode_target(table), norm_bound=bound)


def gradient(p, seed=3):
    from privfit.losses import Logistic

    return TravellingKernel(gradient_kernel, Logistic(), np.random.default_rng(seed).normal(size=p), 1.0)


@pytest.mark.usefixtures("groups")
def test_sums_and_rows_are_those_of_the_table():
    data = frame()
    one, other = source_of(dd.from_pandas(data, npartitions=6)), in_memory(data)
    p = len(ENCODER.design.columns)
    assert (one.n_rows, one.n_units, one.unit, one.norm_bound) == (len(data), len(data), None, BOUND)
    diagonal = np.diag(np.arange(1.0, p + 1.0))
    turned = [
        [s.reweighted(basis, norm_bound=1.1, amplification=30.0) for s in (one, other)]
        for basis in (diagonal, 0.3 * diagonal, diagonal[::-1])
    ]
    assert {source.norm_bound for pair in turned for source in pair} == {1.1}
    for left, right in ((one, other), *turned):
        for kernel, size in ((gradient(p), p), (TravellingKernel(second_moment_kernel, None), p * p)):
            np.testing.assert_allclose(
                left.sum(kernel, size), right.sum(kernel, size), rtol=1e-12, atol=1e-10
            )
        places = np.random.default_rng(1).integers(len(data), size=500)
        expected = [
            np.concatenate([getattr(b, name) for b in right.blocks()]) for name in ("x", "y", "weight")
        ]
        for name, rows in zip(("x", "y", "weight"), expected, strict=True):
            np.testing.assert_array_equal(np.concatenate([getattr(b, name) for b in left.blocks()]), rows)
            np.testing.assert_array_equal(getattr(left.take(places), name), rows[places])


@pytest.mark.usefixtures("groups")
def test_slopes_are_held_on_the_workers_as_in_memory():
    data, p = frame(), len(ENCODER.design.columns)
    at = np.random.default_rng(4).normal(size=p)
    slopes = SteepRows(0.6, at, 0.2).bounds(Logistic(), 0.5)
    limits = {"norm_bound": 1.1, "amplification": 30.0, "slopes": slopes}
    one, other = (
        source.reweighted(np.diag(np.arange(1.0, p + 1.0)), **limits)
        for source in (source_of(dd.from_pandas(data, npartitions=6)), in_memory(data))
    )
    np.testing.assert_allclose(one.sum(gradient(p), p), other.sum(gradient(p), p), rtol=1e-12, atol=1e-10)
    places = np.random.default_rng(1).integers(len(data), size=500)
    expected = np.concatenate([block.caps for block in other.blocks()])
    assert len(np.unique(expected)) > 100
    np.testing.assert_array_equal(one.take(places).caps, expected[places])


def test_partitions_without_rows_count_nothing():
    data = frame(5000)
    gaps = dd.from_pandas(data, npartitions=7)
    gaps = gaps.map_partitions(lambda part: part[part.index >= 2000])
    p = len(ENCODER.design.columns)
    one, other = source_of(gaps), in_memory(data.iloc[2000:])
    np.testing.assert_allclose(one.sum(gradient(p), p), other.sum(gradient(p), p), rtol=1e-12, atol=1e-10)
    wanted = np.array([1999, 0, 700])
    np.testing.assert_array_equal(one.take(wanted).x, other.take(wanted).x)
    np.testing.assert_array_equal(
        *(np.concatenate([some.x for some in each.blocks()]) for each in (one, other))
    )
    none = source_of(gaps[gaps.age > 1e9])
    assert list(none.blocks()) == []
    assert len(one._kept.tasks) == len(none._kept.tasks) == 7  # so they do not tell which have none
    assert none.n_rows == 0
    np.testing.assert_array_equal(none.sum(gradient(p), p), np.zeros(p))


@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize("brought", [0, 10**9], ids=["kept there", "brought here"])
@pytest.mark.parametrize("chance", [0.0, 0.4, 1.0])
def test_a_sample_is_that_of_the_table(chance, brought, monkeypatch, in_order):
    from privfit.data import dask_source

    monkeypatch.setattr(source_module, "_STRETCH", 1000)
    monkeypatch.setattr(dask_source, "_ROWS", 1300)  # twice as many as are expected of a partition
    monkeypatch.setattr(dask_source, "_BROUGHT", brought)
    data, p, rng = frame(), len(ENCODER.design.columns), np.random.default_rng(2)
    coins = rng.random(len(data)) < chance
    coins[:5000] = chance == 1.0  # none of the first two partitions' rows, and some of the third's
    whole = source_of(dd.from_pandas(data, npartitions=6)), in_memory(data)
    basis = np.diag(np.arange(1.0, p + 1.0))
    for rows in whole:
        rows.reweighted(basis, norm_bound=1.1, amplification=30.0)
    samples = [rows.sampled(in_order(coins), 0.3) for rows in whole]
    assert isinstance(samples[0], ArraySource) == bool(brought)
    turned = [
        [sample.reweighted(one, norm_bound=1.1, amplification=30.0) for sample in samples]
        for one in (basis, 0.3 * basis, basis[::-1])
    ]
    for left, right in (samples, *turned):
        assert left.n_rows == left.n_units == right.n_rows == coins.sum()
        for kernel, size in ((gradient(p), p), (TravellingKernel(second_moment_kernel, None), p * p)):
            np.testing.assert_allclose(
                left.sum(kernel, size), right.sum(kernel, size), rtol=1e-12, atol=1e-10
            )
        places = rng.integers(coins.sum(), size=50) if coins.any() else np.empty(0, dtype=np.int64)
        for name in ("x", "y", "weight"):
            expected = getattr(right.take(np.arange(right.n_rows)), name)
            if coins.any():
                np.testing.assert_array_equal(getattr(left.take(places), name), expected[places])
            found = [getattr(block, name) for block in left.blocks()]
            np.testing.assert_array_equal(np.concatenate([expected[:0], *found]), expected)


def made_again(data):
    """Return rows as sources of before and after they were lost, where they come in another order again."""
    rows = dd.from_pandas(data, npartitions=3).map_partitions(lambda part: part.sample(frac=1.0))
    before, after = source_of(rows), source_of(rows)
    assert any((one.y != other.y).any() for one, other in zip(before.blocks(), after.blocks(), strict=True))
    return before, after


@pytest.mark.parametrize("sampled", [False, True])
def test_norms_that_outlive_their_rows_bound_no_others(sampled, monkeypatch, in_order):
    """As where a worker is lost and another one holds the norms: rows may come back in another order."""
    from privfit.data import dask_source

    monkeypatch.setattr(dask_source, "_BROUGHT", 0)
    basis = np.diag(np.linspace(1.0, 9.0, len(ENCODER.design.columns)))
    before, after = made_again(frame(1000))
    before.reweighted(basis, norm_bound=1.5, amplification=30.0)
    after._last = before._last
    if sampled:
        after = after.sampled(in_order(np.arange(1000) % 3 > 0), 0.7)
    turned = after.reweighted(2.0 * basis, norm_bound=3.0, amplification=30.0)
    for block in turned.blocks():
        assert (np.sqrt(block.weight) * np.linalg.norm(block.x @ (2.0 * basis), axis=1) <= 3.0).all()


def test_a_partition_that_comes_back_with_other_rows_is_refused():
    from privfit.data.dask_tables import DaskTable

    counted, again = (
        DaskTable(dd.from_pandas(frame(n), npartitions=3)).rows(ENCODER, norm_bound=BOUND) for n in (900, 901)
    )
    again._lengths, width = counted._lengths, len(ENCODER.design.columns)
    with pytest.raises(SchemaError, match="other rows when a part of it was computed again"):
        again.source(norm_bound=BOUND).sum(gradient(width), width)


def test_short_partitions_of_a_sample_are_put_together_and_known_norms_not_measured_again(
    monkeypatch, in_order
):
    from privfit.data import dask_source

    monkeypatch.setattr(dask_source, "_BROUGHT", 0)
    data, basis = frame(), np.diag(np.arange(1.0, 8.0))
    coins = np.random.default_rng(6).random(len(data)) < 0.3
    whole = source_of(dd.from_pandas(data, npartitions=6))
    whole.reweighted(basis, norm_bound=1.1, amplification=30.0)
    sample = whole.sampled(in_order(coins), 0.3)
    assert (len(whole._kept.tasks), len(sample._kept.tasks)) == (6, 1)

    def measured(*args):
        raise AssertionError("norms are known")

    monkeypatch.setattr(partitions, "measured", measured)
    turned = sample.reweighted(2.0 * basis, norm_bound=1.1, amplification=30.0)
    expected = in_memory(data[coins]).reweighted(2.0 * basis, norm_bound=1.1, amplification=30.0)
    assert turned.norm_bound == expected.norm_bound == 1.1
    np.testing.assert_array_equal(
        turned.take(np.arange(coins.sum())).weight, np.concatenate([b.weight for b in expected.blocks()])
    )


def test_whether_a_sample_is_brought_here_does_not_depend_on_coins(monkeypatch, in_order):
    from privfit.data import dask_source

    monkeypatch.setattr(dask_source, "_BROUGHT", 7 * 300)
    whole = source_of(dd.from_pandas(frame(1000), npartitions=3))
    for part, brought in ((0.3, True), (0.301, False)):
        for coins in (np.zeros(1000), np.ones(1000)):
            sample = whole.sampled(in_order(coins.astype(np.bool_)), part)
            assert isinstance(sample, ArraySource) == brought
            assert sample.n_rows == coins.sum()


FITS = [
    lambda data, **more: pf.logit("ill ~ age * C(ward) + sex", data, **more),
    lambda data, **more: pf.logit("ill ~ age + sex", data, solver="newton", **more),
    lambda data, **more: pf.ols("gain ~ age * ward", data, **more),
    lambda data, **more: pf.huber("gain ~ age + C(sex)", data, **more),
    lambda data, **more: pf.quantile("gain ~ age", data, **more),
    lambda data, **more: pf.svm("ill ~ age + ward", data, **more),
    lambda data, **more: pf.poisson("gain ~ age", data, **more),
]


@pytest.mark.parametrize(
    "fitted", FITS, ids=["logit", "newton", "ols", "huber", "quantile", "svm", "poisson"]
)
def test_formulas_give_the_same_to_rounding(fitted):
    data, options = frame(), {"schema": SCHEMA, "epsilon": 5.0, "delta": 1e-6, "random_state": 1}
    whole, spread = (fitted(rows, **options) for rows in (data, dd.from_pandas(data, npartitions=5)))
    np.testing.assert_allclose(spread.estimate, whole.estimate, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(spread.cov_sampling, whole.cov_sampling, rtol=1e-8)
    assert spread.private is False
    assert spread.plan == whole.plan


def test_a_sample_that_leads_is_that_of_the_table():
    data = frame(50_000)
    options = {"schema": SCHEMA, "epsilon": 5.0, "delta": 1e-6, "random_state": 1}
    whole, spread = (
        pf.logit("ill ~ age + sex", rows, **options) for rows in (data, dd.from_pandas(data, npartitions=7))
    )
    assert {round(release.part, 3) for release in whole.releases} == {0.4, 1.0}
    np.testing.assert_allclose(spread.estimate, whole.estimate, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("formula", ["ill ~ age + sex", "ill ~ age + ward"])
def test_many_rows_are_kept_in_single_precision_there_too(formula):
    data = frame(MANY_ROWS)
    data.loc[data.index[:3], "age"] = [np.nan, np.inf, 1e39]
    options = {"schema": SCHEMA, "epsilon": 5.0, "delta": 1e-6, "random_state": 1}
    whole, spread = (
        pf.logit(formula, rows, **options) for rows in (data, dd.from_pandas(data, npartitions=7))
    )
    np.testing.assert_allclose(spread.estimate, whole.estimate, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(spread.cov_sampling, whole.cov_sampling, rtol=1e-8)


def test_rows_kept_in_another_type_are_bounded_as_they_are_kept():
    from privfit.data.dask_tables import DaskTable

    rows = DaskTable(dd.from_pandas(frame(), npartitions=3)).rows(ENCODER, norm_bound=0.7)
    for block in rows.source(norm_bound=0.7, storage="float32").blocks():
        x = np.nan_to_num(block.x)
        np.testing.assert_array_equal(x, x.astype(np.float32))
        assert (np.sqrt(block.weight) * np.linalg.norm(x, axis=1) <= 0.7 * (1.0 + 1e-12)).all()


SOLVERS = {
    "non-private": pf.solvers.NonPrivate(),
    "gradient": pf.solvers.NoisyGradientDescent(n_steps=5),
    "clipped": pf.solvers.ClippedGradientDescent(n_steps=5),
    "output": pf.solvers.OutputPerturbation(),
    "objective": pf.solvers.ObjectivePerturbation(),
    "sampled": pf.solvers.NoisySGD(n_steps=5),
    "online": pf.solvers.OnlineToBatch(),
    "exponential": pf.solvers.ExponentialMechanism(candidates=[[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
    "draw": pf.solvers.RegularisedExponentialMechanism(),
}


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
def test_every_solver_finds_its_rows(solver):
    rng, n = np.random.default_rng(0), 3000
    x = rng.normal(size=(n, 2)) / 2
    y = (rng.random(n) < 1 / (1 + np.exp(-x[:, 0]))).astype(int)
    options = {"solver": solver, "inference": False, "random_state": 5, "l2": 0.01}
    whole = pf.LogisticRegression(**options).fit(x, y)
    spread = pf.LogisticRegression(**options).fit(
        da.from_array(x, chunks=(700, 1)), da.from_array(y, chunks=900)
    )
    np.testing.assert_allclose(spread.coef_, whole.coef_, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    "loss", [pf.losses.Logistic(), pf.losses.Schweppe(pf.losses.PseudoHuber(1.0))], ids=repr
)
def test_a_bound_that_goes_by_the_number_of_rows_is_that_of_arrays(loss):
    """The number is known after the rows are encoded; rows with a missing cell count nowhere."""
    rng, n = np.random.default_rng(0), 3000
    x = 2.0 * rng.normal(size=(n, 2))
    y = (rng.random(n) < 1 / (1 + np.exp(-x[:, 0]))).astype(float)
    x[::7, 0] = np.nan
    options = {"loss": loss, "solver": "newton", "budget": pf.Budget.gdp(1.0), "random_state": 5}
    whole = pf.MEstimator(**options).fit(x, y)
    spread = pf.MEstimator(**options).fit(da.from_array(x, chunks=(700, 2)), da.from_array(y, chunks=700))
    np.testing.assert_allclose(spread.coef_, whole.coef_, rtol=1e-8)
    assert spread.result_.plan == whole.result_.plan


def test_estimators_take_frames_and_arrays():
    rng, n = np.random.default_rng(0), 4000
    x = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    y = pd.Series(x.a + rng.normal(size=n))
    options = {"random_state": 2}
    whole = pf.LinearRegression(**options).fit(x, y)
    spread = pf.LinearRegression(**options).fit(
        dd.from_pandas(x, npartitions=3), dd.from_pandas(y, npartitions=3)
    )
    np.testing.assert_allclose(spread.coef_, whole.coef_, rtol=1e-10)
    assert list(spread.feature_names_in_) == ["a", "b", "c"]
    np.testing.assert_allclose(spread.predict(x), whole.predict(x), rtol=1e-9, atol=1e-10)
    arrays = pf.LinearRegression(**options).fit(
        da.from_array(x.to_numpy(), chunks=1500), da.from_array(y.to_numpy())
    )
    np.testing.assert_allclose(arrays.coef_, whole.coef_, rtol=1e-10)
    assert not hasattr(arrays, "feature_names_in_")
    data = frame()
    fits = [
        pf.LogisticRegression(schema=SCHEMA, random_state=3).fit(rows)
        for rows in (data, dd.from_pandas(data, npartitions=3))
    ]
    # a sum may be rounded to the next multiple of the grid that its noise is on
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, rtol=1e-10, atol=1e-9)


def test_partitions_are_predicted_where_they_lie():
    table = frame().dropna()
    collection = dd.from_pandas(table, npartitions=3)
    model = pf.LogisticRegression(schema=SCHEMA, random_state=1).fit(collection, "ill")
    found = collection.map_partitions(model.predict, meta=("ill", object)).compute()
    np.testing.assert_array_equal(found, model.predict(table))
    for method in (model.predict, model.predict_proba, model.decision_function):
        with pytest.raises(SchemaError, match="map_partitions"):
            method(collection)


@pytest.mark.parametrize("labels", [(0, 1), (-1, 1), (False, True)])
def test_standard_labels_are_found_in_all_partitions(labels):
    x = np.random.default_rng(0).normal(size=(2000, 1))
    y = np.where(np.arange(2000) < 1990, labels[1], labels[0]).astype(type(labels[0]))
    whole = pf.LogisticRegression(random_state=0).fit(x, y)
    spread = pf.LogisticRegression(random_state=0).fit(
        da.from_array(x, chunks=500), da.from_array(y, chunks=500)
    )
    np.testing.assert_array_equal(spread.classes_, whole.classes_)
    np.testing.assert_allclose(spread.coef_, whole.coef_, rtol=1e-10)


@pytest.mark.parametrize("kind", [object, "category", "Int64"])
def test_standard_labels_are_found_whatever_type_has_them(kind):
    x = dd.from_pandas(pd.DataFrame({"a": np.random.default_rng(0).normal(size=2000)}), npartitions=3)
    y = pd.Series(np.arange(2000) % 2)
    whole, spread = (
        pf.LogisticRegression(random_state=0).fit(x, dd.from_pandas(one, npartitions=3))
        for one in (y, y.astype(kind))
    )
    np.testing.assert_array_equal(spread.classes_, whole.classes_)
    np.testing.assert_array_equal(spread.coef_, whole.coef_)


def test_a_frame_with_numbers_for_names_is_read_as_an_array():
    table, y = pd.DataFrame(np.random.default_rng(0).normal(size=(2000, 2))), pd.Series(np.arange(2000) % 2)
    whole = pf.LogisticRegression(random_state=0).fit(table, y)
    spread = pf.LogisticRegression(random_state=0).fit(
        dd.from_pandas(table, npartitions=3), dd.from_pandas(y, npartitions=3)
    )
    assert list(spread.result_.params.index) == list(whole.result_.params.index) == ["Intercept", "x0", "x1"]
    assert not hasattr(spread, "feature_names_in_")
    np.testing.assert_allclose(spread.coef_, whole.coef_, rtol=1e-10)
    np.testing.assert_allclose(spread.predict_proba(table), whole.predict_proba(table), rtol=1e-10)
    pair = pf.Schema({name: {"type": "numeric", "lower": -3, "upper": 3} for name in ("0", "1")})
    whole, spread = (
        pf.LinearRegression(schema=pair, random_state=0).fit(one, "1")
        for one in (table, dd.from_pandas(table, npartitions=3))
    )
    np.testing.assert_allclose(spread.coef_, whole.coef_, rtol=1e-10)


def test_a_folder_of_parquet(tmp_path):
    data = frame()
    for k, rows in enumerate(np.array_split(np.arange(len(data)), 4)):
        data.iloc[rows].to_parquet(tmp_path / f"{k}.parquet")
    options = {"schema": SCHEMA, "random_state": 1}
    spread = pf.logit("ill ~ age + C(ward)", dd.read_parquet(tmp_path), **options)
    whole = pf.logit("ill ~ age + C(ward)", data, **options)
    np.testing.assert_allclose(spread.estimate, whole.estimate, rtol=1e-10, atol=1e-10)


def questions(monkeypatch):
    """Return a list that gets a count of the kinds of tasks of each question to Dask."""
    from privfit.data import dask_tasks

    asked, plain = [], dask_tasks.persist

    def persist(*tasks, **more):
        names = {name_of(key) for one in tasks for key in one.dask}
        asked.append(Counter(name.split("-")[1] for name in names if "privfit" in name))
        return plain(*tasks, **more)

    monkeypatch.setattr(dask_tasks, "persist", persist)
    return asked


def counting(calls, name, plain):
    """Return what counts how often it is called."""

    def counted(*args, **more):
        calls[name] += 1
        return plain(*args, **more)

    return counted


@pytest.mark.parametrize("shared", [0, 2], ids=["sent with each task", "sent once"])
def test_a_pass_is_a_task_a_partition_and_a_tree(monkeypatch, shared):
    from privfit.data import dask_tasks

    if shared:
        monkeypatch.setattr(dask_tasks, "_SENT", 6)
    source = source_of(dd.from_pandas(frame(2000), npartitions=10))
    source.sum(gradient(7), 7)  # from here on rows are kept
    asked = questions(monkeypatch)
    source.sum(gradient(7), 7)
    (kinds,) = asked
    assert kinds["sum"] == kinds["bound"] == 10
    assert kinds["add"] == 2  # of eight and two, which are added up here
    assert kinds["shared"] == shared
    assert kinds.total() == 22 + shared


def test_what_is_kept_is_told_with_the_first_question_that_needs_it(monkeypatch):
    source, basis = source_of(dd.from_pandas(frame(2000), npartitions=3)), np.diag(np.arange(1.0, 8.0))
    source.sum(gradient(7), 7)
    asked = questions(monkeypatch)
    turned = source.reweighted(basis, norm_bound=1.1, amplification=30.0)
    again = source.reweighted(2.0 * basis, norm_bound=1.1, amplification=30.0)
    assert not asked
    found = [one.sum(gradient(7), 7) for one in (turned, turned, again, source)]
    assert [dict(kinds) for kinds in asked] == [
        {"bound": 3, "norms": 3, "weights": 3, "sum": 3},
        {"weights": 3, "sum": 3},
        {"bound": 3, "norms": 3, "weights": 3, "sum": 3},
        {"bound": 3, "sum": 3},
    ]
    np.testing.assert_array_equal(found[0], found[1])


def test_what_is_kept_is_made_once(monkeypatch):
    calls = Counter()
    for name in ("encode", "bounded", "measured", "weighted"):
        monkeypatch.setattr(partitions, name, counting(calls, name, getattr(partitions, name)))
    source, basis = source_of(dd.from_pandas(frame(2000), npartitions=3)), np.diag(np.arange(1.0, 8.0))
    bounds = {"norm_bound": 1.1, "amplification": 30.0}
    for factor in (1.0, 2.0, 3.0):
        turned = source.reweighted(factor * basis, **bounds)
        for one in (turned, source, turned):
            one.sum(gradient(7), 7)
            one.take(np.arange(5))
    assert calls == {"encode": 3, "bounded": 3, "measured": 3, "weighted": 9}


@pytest.mark.filterwarnings("default")
def test_on_a_cluster_what_was_asked_is_let_go_with_the_next_question():
    with on_workers(1) as client:
        source = source_of(dd.from_pandas(frame(), npartitions=3))
        for _ in range(4):
            source.sum(gradient(7), 7)
        for _ in range(200):  # the client lets go in a thread of its own
            held = Counter(name_of(key).split("-")[1] for key in client.futures)
            if held == {"bound": 1, "sum": 1}:
                break
            time.sleep(0.05)
    assert held == {"bound": 1, "sum": 1}


@pytest.mark.parametrize(
    ("holders", "most", "expected"),
    [
        ([("", 1)] * 3, 8, [(0,), (1,), (2,)]),
        ([("a", 1), ("b", 1), ("a", 1), ("", 1), ("a", 1), ("b", 1)], 8, [(0, 2, 4), (1, 5), (3,)]),
        ([("a", 1)] * 5, 2, [(0, 1), (2, 3), (4,)]),
        ([("a", 2)] * 5, 8, [(0, 1, 2), (3, 4)]),
        ([("a", 8)] * 2, 8, [(0,), (1,)]),
        ([], 8, []),
    ],
    ids=["no cluster", "two workers", "many", "two threads", "more threads", "none"],
)
def test_what_one_thread_of_a_worker_can_sum_is_put_together(holders, most, expected):
    from privfit.data.dask_tasks import together

    assert together(holders, most) == expected


@pytest.mark.filterwarnings("default")
def test_on_a_cluster_a_pass_is_a_task_a_thread():
    from distributed import futures_of

    data, p = frame(), len(ENCODER.design.columns)
    with on_workers(2) as client:
        source = source_of(dd.from_pandas(data, npartitions=7))
        workers = {worker for holders in client.who_has().values() for worker in holders}
        assert len(source._kept.tasks) == len(source._groups) == len(workers)
        assert sorted(itertools.chain(*source._groups)) == list(range(7))
        turned = source.reweighted(np.eye(p), norm_bound=1.1, amplification=30.0)
        assert len(turned._kept.tasks) == len(workers)
        found = [one.sum(gradient(p), p) for one in (source, turned)]
        rows = source.take(np.arange(len(data)))
        for _ in range(12):  # tasks go to their rows, not rows to tasks
            turned.sum(gradient(p), p)
        holders = client.who_has(futures_of(turned._kept.tasks))
        assert {len(some) for some in holders.values()} == {1}
    here = in_memory(data)
    np.testing.assert_array_equal(rows.y, here.take(np.arange(len(data))).y)
    turned = here.reweighted(np.eye(p), norm_bound=1.1, amplification=30.0)
    for one, other in zip(found, (here, turned), strict=True):
        np.testing.assert_allclose(one, other.sum(gradient(p), p), rtol=1e-12, atol=1e-10)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("kept", ["frame", "response apart", "array"])
def test_what_workers_keep_is_encoded_by_a_task_a_thread(kept):
    """Seven partitions on two workers, one of them without rows: the same sums as in memory."""
    from distributed import wait

    from privfit.data.dask_tables import DaskTable

    data, names = frame(), list(ENCODER.needed)
    empty = dd.from_pandas(data.iloc[:0], npartitions=1)
    rows = dd.concat([dd.from_pandas(data, npartitions=6), empty])
    encoder, here = ENCODER, in_memory(data)
    if kept == "array":
        encoder = UnitScaleEncoder(3, norm_bound=None, target_kind="binary")
        rng = np.random.default_rng(8)
        x, y = rng.normal(size=(700, 3)), rng.integers(2, size=700)
        here = ArraySource(*encoder.encode_arrays(x, y), norm_bound=BOUND)
    with on_workers(2) as client:
        if kept == "array":
            pieces = dask.persist(da.from_array(x, chunks=(100, 3)), da.from_array(y, chunks=100))
        elif kept == "response apart":
            pieces = dask.persist(rows[names[:-1]], rows[names[-1]])
        else:
            pieces = (rows.persist(),)
        wait(pieces)
        held = {worker for some in client.who_has().values() for worker in some}
        stored = DaskTable(*pieces).rows(encoder, norm_bound=BOUND)
        source = stored.source(norm_bound=BOUND)
        assert len(stored._kept.tasks) == len(source._kept.tasks) == len(held) == 2
        assert sorted(itertools.chain(*stored._groups)) == list(range(7))
        p = len(encoder.design.columns)
        found, rows_there = source.sum(gradient(p), p), source.take(np.arange(source.n_rows))
    assert source.n_rows == here.n_rows
    np.testing.assert_array_equal(rows_there.y, here.take(np.arange(here.n_rows)).y)
    np.testing.assert_allclose(found, here.sum(gradient(p), p), rtol=1e-12, atol=1e-10)


@pytest.mark.filterwarnings("default")
def test_what_is_made_of_what_workers_keep_is_encoded_by_a_task_each():
    """It may be larger by any factor, and which of seven partitions three are made of is not known."""
    from privfit.data.dask_tables import DaskTable

    with on_workers(1):
        kept = dd.from_pandas(frame(), npartitions=7).persist()
        made = DaskTable(kept.map_partitions(lambda rows: rows.iloc[:])).rows(ENCODER, norm_bound=BOUND)
        assert made._groups == [(k,) for k in range(7)]
        rows = kept.repartition(npartitions=3)
        stored = DaskTable(rows).rows(ENCODER, norm_bound=BOUND)
        assert stored._groups == [(0,), (1,), (2,)]
        source = stored.source(norm_bound=BOUND)
        assert source._groups == [(0, 1, 2)]
        p = len(ENCODER.design.columns)
        found = source.sum(gradient(p), p)
    np.testing.assert_allclose(found, in_memory(frame()).sum(gradient(p), p), rtol=1e-12, atol=1e-10)


@pytest.mark.filterwarnings("default")
def test_who_keeps_what_is_not_told_by_other_names():
    """Names of futures that a user made have no numbers, or one of them is missing."""
    from distributed import wait

    from privfit.data.dask_tasks import holders_of_pieces

    with on_workers(1) as client:
        kept = da.zeros((6, 2), chunks=(2, 2)).map_blocks(lambda some: some + 1.0).persist()
        future = client.submit(np.ones, (2, 2))
        made = da.from_delayed(future, (2, 2), dtype=float)
        wait([kept, future])
        assert all(worker for worker, _ in holders_of_pieces(kept, 3))
        for other in (da.concatenate([kept, made]), made, kept[:4]):
            assert holders_of_pieces(other, other.numblocks[0]) == (("", 1),) * other.numblocks[0]


@pytest.mark.parametrize("n", [1, 2, 5, 100, CHUNK_ROWS, 10**6, 10**10])
@pytest.mark.parametrize("terms", [160, CHUNK_ROWS])
def test_the_bound_on_rounding_covers_any_cut_into_partitions(n, terms):
    """As many partitions as rows, with one that holds almost all: more additions than any cut needs."""
    chunks = -(-n // CHUNK_ROWS)
    within = min(n, terms) + int(np.ceil(np.log2(chunks))) + 1
    across = int(np.ceil(np.log2(n))) + 2  # those that a task sums together, and what these tasks return
    assert (within + across) * 2.0**-53 * (1 + 1e-6) <= summation_error(2 * n, terms)


def test_names_of_tasks_do_not_depend_on_rows(monkeypatch):
    from privfit.data import dask_tasks

    monkeypatch.setattr(dask_tasks.uuid, "uuid4", lambda: type("Drawn", (), {"hex": "0" * 32}))
    seen = []
    for seed in (0, 1):
        source = source_of(dd.from_pandas(frame(900, seed), npartitions=3))
        seen.append([name_of(one.key) for one in source._kept.tasks])
    ours = [[key for key in keys if "privfit" in key] for keys in seen]
    assert ours[0] == ours[1]
    assert ours[0]


def test_names_of_tasks_of_a_sample_depend_neither_on_rows_nor_on_coins(monkeypatch, in_order):
    from privfit.data import dask_source, dask_tasks

    monkeypatch.setattr(dask_source, "_ROWS", 190)
    monkeypatch.setattr(dask_source, "_BROUGHT", 0)
    seen = []
    for seed in (0, 1):
        drawn = itertools.count()
        monkeypatch.setattr(
            dask_tasks.uuid, "uuid4", lambda drawn=drawn: type("Drawn", (), {"hex": f"{next(drawn):032x}"})
        )
        coins = np.random.default_rng(seed).random(900) < 0.3
        sample = source_of(dd.from_pandas(frame(900, seed), npartitions=3)).sampled(in_order(coins), 0.3)
        turned = sample.reweighted(np.eye(7), norm_bound=1.1, amplification=30.0)
        seen.append(
            [
                name_of(key)
                for one in (*sample._kept.tasks, *turned._kept.tasks)
                for key in (one.key, *one.dask)
            ]
        )
    assert seen[0] == seen[1]
    made = {"encode", "bound", "shared", "sample", "join", "norms", "weights"}
    assert {key.split("-")[1] for key in seen[0]} == made


BAD = {
    "label": (lambda data: data.assign(ill=data.ill.where(data.index != 77, CANARY)), LabelError, "'ill'"),
    "absent": (lambda data: data.drop(columns="age"), SchemaError, "'age' is not in the data"),
    "type": (lambda data: data.assign(age=pd.to_datetime(data.age, unit="D")), SchemaError, "'age'"),
}


@pytest.mark.parametrize("what", BAD)
def test_errors_on_workers_arrive_in_one_line_and_cost_nothing(what, tmp_path, caplog, capfd):
    spoil, kind, said = BAD[what]
    ledger = pf.Ledger(tmp_path / "ledger.db")
    ledger.grant("wards", pf.Budget(5.0, 1e-5))
    with caplog.at_level(logging.DEBUG), pytest.raises(kind, match=said) as caught:
        pf.logit(
            "ill ~ age + ward",
            dd.from_pandas(spoil(frame(500)), npartitions=3),
            schema=SCHEMA,
            ledger=ledger,
            dataset="wards",
        )
    assert "\n" not in str(caught.value)
    printed = "".join([caplog.text, *capfd.readouterr(), str(caught.value)])
    assert CANARY not in printed
    assert ledger.export()["reservations"] == []


@pytest.mark.parametrize("apart", [True, False])
def test_what_dask_looks_up_to_sort_rows_quotes_nothing(apart):
    """It asks for quantiles as soon as it is asked for the partitions."""
    data = pd.DataFrame({"a": ["0.1"] * 499 + [CANARY], "y": [0, 1] * 250})
    rows = dd.from_pandas(data, npartitions=4)
    rows = rows.assign(a=rows["a"].astype(float)).sort_values("a")
    level = {"type": "categorical", "levels": [0, 1]}
    schema = {"a": {"type": "numeric", "lower": 0, "upper": 1}, "y": level}

    def fit():
        if apart:
            return pf.LogisticRegression().fit(rows[["a"]], rows["y"])
        return pf.logit("y ~ a", rows, schema=schema)

    with pytest.raises(UnexpectedError, match="Dask failed with ValueError") as caught:
        fit()
    assert CANARY not in "".join(traceback.format_exception(caught.value))


def test_a_response_apart_has_the_partitions_of_its_files(tmp_path):
    """Dask puts short files together where few columns are read: differently for one column and for three."""
    rng = np.random.default_rng(6)
    data = pd.DataFrame(rng.normal(size=(700, 4)), columns=list("abcy"))
    for k in range(7):
        data[k * 100 : k * 100 + 100].to_parquet(tmp_path / f"{k}.parquet")
    rows = dd.read_parquet(tmp_path)
    assert len(rows["y"].to_delayed()) < len(rows[["a", "b", "c"]].to_delayed())  # what this is about
    columns = {name: {"type": "numeric", "lower": -3, "upper": 3} for name in "ay"}
    schema = columns | {"y": columns["y"] | {"target": True}}
    for x, given in ((list("abc"), None), (list("abc"), schema), (["a"], schema)):
        model = pf.LinearRegression(schema=given, random_state=1)
        here = model.fit(data[x], data["y"]).result_.estimate
        for filled in (rows[x], rows[x].fillna(0)):
            there = model.fit(filled, rows["y"]).result_.estimate
            np.testing.assert_allclose(there, here, rtol=1e-8)


def test_errors_of_dask_itself_are_withheld():
    def broken(part):
        raise ValueError(CANARY)

    data = dd.from_pandas(frame(500), npartitions=2)
    with pytest.raises(UnexpectedError, match="Dask failed with ValueError") as caught:
        pf.logit("ill ~ age", data.map_partitions(broken, meta=data), schema=SCHEMA)
    assert CANARY not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.filterwarnings("default")
def test_neighbours_are_neither_warned_of_nor_logged_on_a_cluster(caplog, monkeypatch, in_order):
    """Dask warns of what is long to send: rows in memory with a long cell, or the numbers of many rows."""
    from distributed import Client, LocalCluster

    from privfit.data import dask_source

    monkeypatch.setattr(dask_source, "_BROUGHT", 0)
    short = frame(5000).iloc[:4000]
    neighbours = [short, short.assign(ward=short.ward.where(short.index != 7, "w" * 200_000)), frame(5000)]
    said = []
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster),
        dask.config.set({"scheduler": None, "distributed.admin.large-graph-warning-threshold": "1B"}),
    ):
        for data in neighbours:
            caplog.clear()
            with warnings.catch_warnings(record=True) as warned, caplog.at_level(logging.INFO):
                warnings.simplefilter("always")
                table = dd.from_pandas(data, npartitions=2)
                pf.logit("ill ~ age + ward", table, schema=SCHEMA, relation="add_remove", n_rows=4500)
                source_of(table).sampled(in_order(np.ones(len(data), dtype=bool)), 1.0)
            logged = [one.getMessage() for one in caplog.records if one.name.startswith("distributed")]
            of_time = re.compile("unresponsive|garbage collection")  # which is not protected
            said.append([str(one.message) for one in warned])
            said[-1] += [one for one in logged if not of_time.search(one)]
    assert said == [[]] * 3


def test_warnings_are_withheld_until_the_last_thread_is_done(recwarn):
    """Whichever thread begins or ends first: each could put back the filters that it found."""
    from privfit._silent import silence

    inside, left = threading.Event(), threading.Event()

    def other():
        with silence:
            inside.set()
            left.wait()
            warnings.warn("of the other thread", stacklevel=1)

    warnings.simplefilter("always")
    thread = threading.Thread(target=other)
    with silence:
        thread.start()
        inside.wait()
    left.set()
    thread.join()
    assert not recwarn.list
    warnings.warn("again", stacklevel=1)
    assert [str(one.message) for one in recwarn.list] == ["again"]


@pytest.mark.filterwarnings("default")
def test_fits_in_tasks_of_workers_do_not_wait_for_each_other():
    """A worker has one thread, and no other is there for the tasks that a fit in a task waits for."""
    data = frame(500)

    def fitted():
        rows = dd.from_pandas(data, npartitions=2)
        return pf.logit("ill ~ age", rows, schema=SCHEMA, random_state=1).estimate

    here = fitted()
    with on_workers(1) as client:
        tasks = [client.submit(fitted, pure=False) for _ in range(2)]
        for there in client.gather(tasks):
            np.testing.assert_allclose(there, here, rtol=1e-10, atol=1e-10)


def test_what_a_kernel_raises_on_a_worker_quotes_nothing():
    def failing(block, out):
        raise ValueError(CANARY)

    source = source_of(dd.from_pandas(frame(500), npartitions=2))
    with pytest.raises(UnexpectedError, match="unexpected ValueError") as caught:
        source.sum(failing, 1)
    assert CANARY not in str(caught.value)


def test_arguments_that_do_not_go_together():
    x, y = da.zeros((300, 2), chunks=100), da.zeros(300, chunks=100)
    data = dd.from_pandas(frame(300), npartitions=2)
    unknown = da.from_delayed(dask.delayed(np.zeros)((300, 2)), (np.nan, np.nan), dtype=float)
    for fails, kind, said in [
        (lambda: pf.LinearRegression().fit(x, np.zeros(300)), InvalidArgument, "y must be a Dask"),
        (lambda: pf.LinearRegression().fit(np.zeros((300, 2)), y), InvalidArgument, "X is not"),
        (lambda: pf.LogisticRegression().fit(data.compute()[["age"]], data.age), InvalidArgument, "X is not"),
        (
            lambda: pf.ols("gain ~ age", dd.from_pandas(pd.DataFrame({"a": [1.0], 2: 1.0})), schema=SCHEMA),
            SchemaError,
            "that is not text",
        ),
        (lambda: pf.LinearRegression().fit(x, da.zeros(200, chunks=100)), SchemaError, "partitions"),
        (
            lambda: pf.LinearRegression().fit(x, da.zeros(299, chunks=(100, 100, 99))),
            SchemaError,
            "as long as",
        ),
        (lambda: pf.LinearRegression().fit(data, "gain"), InvalidArgument, "only with a schema"),
        (lambda: pf.LinearRegression().fit(y, y), SchemaError, "two-dimensional"),
        (lambda: pf.LinearRegression().fit(unknown, y), SchemaError, "known number of columns"),
        (
            lambda: pf.LogisticRegression().fit(x, da.full(300, 7.0, chunks=100)),
            LabelError,
            "labels other than",
        ),
        (
            lambda: pf.LogisticRegression().fit(x, da.full(300, "a", chunks=100)),
            LabelError,
            "labels other than",
        ),
        (lambda: pf.LinearRegression().fit(x, y.astype(str)), SchemaError, "holds text"),
        (lambda: pf.ols("gain ~ age", data.age, schema=SCHEMA), InvalidArgument, "Dask Series"),
        (lambda: pf.ols("gain ~ age", x, schema=SCHEMA), SchemaError, "is not in the data"),
    ]:
        with pytest.raises(kind, match=said):
            fails()


def test_rows_on_a_cluster_show_nothing():
    from privfit.data.dask_tables import DaskTable

    table = DaskTable(dd.from_pandas(frame(300), npartitions=2))
    rows = table.rows(ENCODER, norm_bound=BOUND)
    source = rows.source(norm_bound=BOUND)
    assert [repr(one) for one in (table, rows, source)] == [
        f"{name}(<private rows>)" for name in ("DaskTable", "DaskRows", "DaskSource")
    ]
    for one in (rows, source):
        with pytest.raises(TypeError, match="private"):
            pickle.dumps(one)
    partition = partitions.Partition(in_memory(frame(300)).bounded, BOUND)
    assert not re.search(r"\d\.\d", repr(partition))
    assert 300 * 16 < partition.__sizeof__() < 300 * 100


def test_kernels_travel_by_the_call_that_makes_them():
    p = len(ENCODER.design.columns)
    kernel, rows = gradient(p), in_memory(frame(500))
    again = pickle.loads(pickle.dumps(kernel))  # noqa: S301 -- our own
    np.testing.assert_array_equal(rows.sum(again, p), rows.sum(kernel, p))
    assert "[" not in repr(kernel)


@pytest.mark.filterwarnings("default")
def test_a_worker_that_is_killed_costs_no_second_spend_and_no_second_noise(
    tmp_path, monkeypatch, caplog, capfd
):
    from distributed import Client, LocalCluster

    from privfit.data.dask_source import DaskSource

    data = dd.from_pandas(frame(), npartitions=4)
    here = pf.logit("ill ~ age + C(ward)", data, schema=SCHEMA, random_state=4)
    ledger = pf.Ledger(tmp_path / "ledger.db")
    ledger.grant("wards", pf.Budget(5.0, 1e-5))
    passes, plain = [], DaskSource.sum
    with (
        caplog.at_level(logging.INFO),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
        dask.config.set(scheduler=None),
    ):

        def killing(self, kernel, size):
            passes.append(size)
            if len(passes) == 3:
                os.kill(cluster.workers[0].pid, signal.SIGKILL)
            return plain(self, kernel, size)

        monkeypatch.setattr(DaskSource, "sum", killing)
        there = pf.logit(
            "ill ~ age + C(ward)", data, schema=SCHEMA, random_state=4, ledger=ledger, dataset="wards"
        )
        assert len(passes) > 3
        logs = str([cluster.get_logs()])
    np.testing.assert_allclose(there.estimate, here.estimate, rtol=1e-10, atol=1e-10)
    assert len(there.releases) == len(here.releases) == len(there.plan.releases)
    (spend,) = ledger.export()["reservations"]
    assert spend["committed_at"] is not None
    printed = "".join([caplog.text, *capfd.readouterr(), logs])
    printed = re.sub(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d([.,]\d+)?", "", printed)  # times of day
    assert not re.search(r"\b\d\d\.\d{6}", printed)  # no age
