"""One private pass as a solver: plans, refusals, accuracy, streams through estimators."""

import dataclasses
import math
import tracemalloc

import numpy as np
import pandas as pd
import pytest

import privfit as pf
from privfit.data.source import ArraySource
from privfit.errors import Incompatible, InvalidArgument
from privfit.learners import (
    AdaGradNorm,
    FollowTheRegularizedLeader,
    OnlineMirrorDescent,
    OnlineSubgradientDescent,
    OptimisticFTRL,
    ParameterFree,
    StronglyConvexOSD,
)
from privfit.losses import ConcomitantHuber, Huber, Logistic, Squared
from privfit.planning import make_plan
from privfit.privacy.allowance import Allowance
from privfit.privacy.composition import compose
from privfit.privacy.mechanisms import NoNoise, make_source
from privfit.privacy.relation import Relation
from privfit.problem.oracle import Oracle
from privfit.solvers import NonPrivate, OnlineToBatch, resolve

from .simulated import inferred, plan_once, problem_for, rows

LEARNERS = [
    AdaGradNorm(),
    OnlineSubgradientDescent(),
    FollowTheRegularizedLeader(),
    OptimisticFTRL(),
    OnlineMirrorDescent(),
    StronglyConvexOSD(strength=0.1),
    ParameterFree(largest=0.4),
]


def solve(problem, solver, x, y, allowance, *, noise=None):
    plan = plan_once(problem, solver, allowance, inference=False)
    noise = noise or (make_source(3) if math.isfinite(allowance.amount) else NoNoise())
    oracle = Oracle(problem, plan, ArraySource(x, y, norm_bound=problem.norm_bound), noise)
    return solver.run(problem, oracle).theta


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_without_noise_the_pass_comes_close_to_the_minimiser(learner, rng):
    x, y = rows(Logistic(), 8000, rng)
    problem = problem_for(Logistic(), x, norm_bound=2.0)
    reference = inferred(problem, NonPrivate(), x, y, mu=math.inf).theta
    theta = solve(problem, OnlineToBatch(learner, radius=2.0, batch_size=2), x, y, Allowance.unlimited())
    assert np.linalg.norm(theta - reference) < 0.35 < 0.5 * np.linalg.norm(reference)


@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("noise_norm", [1.0, 2.0, math.inf])
def test_noise_of_every_shape_runs_and_keeps_the_plan(pure, noise_norm, rng):
    x, y = rows(Squared(1.0), 400, rng)
    problem = problem_for(Squared(1.0), x)
    solver = OnlineToBatch(noise_norm=noise_norm, row_bound=1.0, batch_size=8)
    theta = solve(problem, solver, x, y, Allowance(5.0, pure=pure), noise=make_source(None))
    assert np.linalg.norm(theta) <= 4.0 * (1 + 1e-12)


@pytest.mark.parametrize("loss", [Logistic(), Squared(1.0), Huber(0.8)], ids=lambda loss: loss.name)
@pytest.mark.parametrize("budget", [pf.Budget(1.0), pf.Budget(1.0, 1e-6), pf.Budget.gdp(0.3)], ids=repr)
def test_plans_cost_the_budget(loss, budget, rng):
    problem = problem_for(loss, rows(loss, 500, rng)[0])
    for inference in (False, True):
        plan = make_plan(problem, OnlineToBatch(), Allowance.of(budget), inference=inference)
        assert plan.private
        assert compose(plan.events).within(budget)
        assert [release.kind for release in plan.solver_releases] == ["stream"]
        assert plan.releases[-1].kind == ("meat" if inference else "stream")


def test_the_excess_risk_falls_with_rows_and_tight_noise_beats_that_of_the_source():
    """Linear regression in 3 columns: mean excess risk over 6 tables, a log-log slope of -1/2 at least."""
    risks = {}
    for noise in ("tight", "source"):
        for n in (400, 4000):
            found = []
            for seed in range(6):
                rng = np.random.default_rng(seed)
                x = rng.uniform(-1, 1, size=(n, 3))
                y = x @ [0.4, -0.3, 0.2] + 0.1 * rng.normal(size=n)
                solver = OnlineToBatch(radius=1.0, noise=noise)
                problem = problem_for(Squared(2.0), x, norm_bound=math.sqrt(3.0))
                theta = solve(problem, solver, x, y, Allowance.gaussian(2.0), noise=make_source(seed))
                found.append(np.sum((theta - [0.4, -0.3, 0.2]) ** 2) / 6)
            risks[noise, n] = np.mean(found)
    assert math.log(risks["tight", 4000] / risks["tight", 400]) / math.log(10) < -0.5
    assert risks["tight", 4000] < risks["source", 4000]


def test_a_sorted_table_has_to_be_shuffled(rng):
    x, y = rows(Logistic(), 1000, rng)
    solver, order = OnlineToBatch(AdaGradNorm(), radius=2.0, batch_size=4), np.argsort(y, kind="stable")
    wrong, right = (
        np.linalg.norm(
            solve(problem_for(Logistic(), x), solver, x[by], y[by], Allowance.unlimited()) - [0.5, -1.0, 0.7]
        )
        for by in (order, order[rng.permutation(y.size)])
    )
    assert right < 0.5 * wrong


def test_a_warm_start_is_used():
    rng = np.random.default_rng(0)
    x, y = rows(Logistic(), 600, rng)
    problem = problem_for(Logistic(), x)
    truth = inferred(problem, NonPrivate(), x, y, mu=math.inf).theta
    cold, warm = (
        solve(problem, OnlineToBatch(ParameterFree(stake=0.05), start=start), x, y, Allowance.gaussian(0.5))
        for start in (None, truth)
    )
    assert np.linalg.norm(warm - truth) < 0.3 * np.linalg.norm(cold - truth)


def test_refusals_name_what_is_missing(rng):
    x, _ = rows(Logistic(), 100, rng)
    problem = problem_for(Logistic(), x)
    allowance = Allowance.gaussian(1.0)
    with pytest.raises(Incompatible, match="residual scale"):
        OnlineToBatch().plan(problem_for(ConcomitantHuber(), x), allowance)
    with pytest.raises(Incompatible, match="replace"):
        OnlineToBatch().plan(dataclasses.replace(problem, relation=Relation.ADD_REMOVE), allowance)
    with pytest.raises(Incompatible, match="strength="):
        OnlineToBatch(StronglyConvexOSD()).plan(dataclasses.replace(problem, l2=0.1), allowance)
    OnlineToBatch(StronglyConvexOSD()).plan(
        dataclasses.replace(problem, l2=0.1, penalised=(True,) * 3), allowance
    )
    with pytest.raises(Incompatible, match="noise_norm"):
        OnlineToBatch(noise_norm=3.0).plan(problem, Allowance(1.0, pure=True))
    OnlineToBatch(noise_norm=3.0).plan(problem, allowance)
    with pytest.raises(InvalidArgument, match="start must hold 3"):
        OnlineToBatch(start=(1.0,)).plan(problem, allowance)


@pytest.mark.parametrize(
    "changes",
    [
        {"learner": "adagrad"}, {"power": 0.5}, {"radius": 0.0}, {"batch_size": 0}, {"noise": "loud"},
        {"noise_norm": 0.5}, {"row_bound": -1.0}, {"start": "abc"}, {"start": 3.0}, {"start": [None]},
        {"start": [math.nan]}, {"start": [[1.0, 2.0]]}, {"start": np.array(["1", "2"], dtype=object)},
    ],
    ids=repr,
)  # fmt: skip
def test_arguments_are_checked(changes):
    with pytest.raises(InvalidArgument):
        OnlineToBatch(**changes)


@pytest.mark.parametrize(("n", "batch"), [(1, 1), (1000, 1), (1001, 2), (250_000, 250)])
def test_by_default_there_are_a_thousand_rounds_or_one_for_each_row(n, batch):
    problem = problem_for(Logistic(), np.ones((n, 1)))
    one = OnlineToBatch().procedure(problem, Allowance.gaussian(1.0))
    assert one.batch == batch
    assert one.rounds(problem) <= 1000


def test_it_is_known_by_name():
    assert resolve("online-to-batch", inference=True) == OnlineToBatch()
    assert OnlineToBatch().name == "one pass, online subgradient descent"


def batches(n, size, seed=0, *, binary=True):
    rng = np.random.default_rng(seed)
    for _ in range(n // size):
        x = rng.normal(size=(size, 2))
        eta = x @ [1.0, -0.5] + 0.3
        y = (rng.random(size) < 1 / (1 + np.exp(-eta))).astype(int) if binary else eta
        yield x, y


@pytest.mark.parametrize("estimator", [pf.LogisticRegression, pf.LinearRegression])
def test_a_stream_is_fitted_as_the_table_would_be(estimator):
    binary = estimator is pf.LogisticRegression
    parts = list(batches(3000, 500, binary=binary))
    solver = OnlineToBatch(batch_size=3)
    arguments = {"solver": solver, "inference": False, "random_state": 1, "epsilon": 3.0}
    table = estimator(**arguments).fit(
        np.vstack([x for x, _ in parts]), np.concatenate([y for _, y in parts])
    )
    stream = estimator(**arguments).fit(pf.RowStream(iter(parts), n_rows=3000, columns=2))
    np.testing.assert_allclose(stream.coef_, table.coef_, atol=1e-9)
    assert stream.result_.plan == table.result_.plan
    assert stream.predict(parts[0][0]).shape == (500,)


def test_a_stream_of_a_file_with_a_schema(tmp_path):
    from privfit.data.synthetic import census, census_schema

    table = census(2000, seed=1)
    file = tmp_path / "census.csv"
    pd.DataFrame(table).to_csv(file, index=False)
    fit = pf.LogisticRegression
    arguments = {"schema": census_schema(), "inference": False, "random_state": 1, "epsilon": 3.0}
    solver = OnlineToBatch(batch_size=4)
    whole = fit(solver=solver, **arguments).fit(table)
    streamed = fit(solver=solver, **arguments).fit(pf.RowStream(file, n_rows=2000))
    np.testing.assert_allclose(streamed.coef_, whole.coef_, atol=1e-9)


def test_streams_need_one_pass_and_no_inference():
    stream = pf.RowStream(batches(100, 50), n_rows=100, columns=2)
    with pytest.raises(Incompatible, match="OnlineToBatch"):
        pf.LogisticRegression().fit(stream)
    with pytest.raises(Incompatible, match="inference=False"):
        pf.LogisticRegression(solver=OnlineToBatch()).fit(stream)
    with pytest.raises(InvalidArgument, match="y must be left out"):
        pf.LogisticRegression(solver=OnlineToBatch(), inference=False).fit(stream, np.zeros(100))


def test_memory_of_a_streamed_fit_does_not_grow_with_the_rows():
    peaks = []
    fit = pf.LogisticRegression(solver=OnlineToBatch(batch_size=1000), inference=False, random_state=0)
    fit.fit(pf.RowStream(batches(5_000, 1000), n_rows=5_000, columns=2))
    for n in (10_000, 100_000):
        stream = pf.RowStream(batches(n, 1000), n_rows=n, columns=2)
        tracemalloc.start()
        fit.fit(stream)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0] + 50_000


def test_inference_reports_a_newton_step_from_the_point():
    rng = np.random.default_rng(2)
    x, y = rows(Logistic(), 6000, rng)
    fit = pf.LogisticRegression(3.0, solver=OnlineToBatch(batch_size=6), random_state=0).fit(x[:, 1:], y)
    interval = fit.result_.conf_int(level=0.9999)
    assert (interval["lower"] < [0.5, -1.0, 0.7]).all()
    assert (interval["upper"] > [0.5, -1.0, 0.7]).all()
