"""How far curvatures of rows are cut in the bread."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit

import privfit as pf
from privfit.data.declarations import NumericColumn
from privfit.data.exposure import Exposure, SeenExposures
from privfit.inference.curved_rows import largest_curvature
from privfit.losses import Huber, Logistic, Poisson
from privfit.problem.plan import PlannedRelease, Release
from privfit.problem.share_kernels import NORM_CLASSES, NORMS_A_DOUBLING
from privfit.solvers.base import Moments, Solution
from privfit.solvers.count_tail import share_beyond
from tests.solvers.simulated import problem_for

DECLARED, BOUND = 50.0, 8.0
MEAN, SD = -0.4, math.sqrt(0.5**2 * 0.5 + 0.3**2 * 0.8)
COUNTS = Poisson(math.log(BOUND), BOUND)


def look_at(counts, noise=0.0):
    """A look at counts with hardly any noise, or with what is asked for."""
    first = DECLARED * 2.0 ** (-(NORM_CLASSES - 1) / NORMS_A_DOUBLING)
    order = np.ceil(NORMS_A_DOUBLING * np.log2(np.maximum(counts / first, 0.5))).astype(int)
    shares = np.bincount(np.clip(order, 0, NORM_CLASSES - 1), minlength=NORM_CLASSES) / len(counts)
    planned = PlannedRelease("counts", NORM_CLASSES, 1.0, 1.0, max(noise, 1e-7))
    return Release(planned, np.zeros(3), shares + noise * np.random.default_rng(5).normal(size=NORM_CLASSES))


def solution_of(loss, **changes):
    """Rows whose predictor has mean `MEAN` and standard deviation `SD` at `AT`."""
    covariance, mean = np.diag([0.0, 0.5, 0.8]), np.array([1.0, 0.3, -0.2])
    problem = replace(problem_for(loss, np.ones((1000, 3))), response_bound=DECLARED)
    second = 0.7 * (covariance + np.outer(mean, mean))
    known = {"moments": lambda: Moments(second, np.zeros((3, 3)))} | changes
    return Solution(problem, np.zeros(3), (), (), "one-step", **known)


AT = np.array([MEAN - 0.5 * 0.3 - 0.3 * 0.2, 0.5, -0.3])
DRAWN = np.random.default_rng(1).poisson(np.exp(MEAN + SD * np.random.default_rng(2).normal(size=400_000)))


def asking(*looks, mu=1e-4):
    """An oracle with these releases, that is to ask for a Hessian at this cost."""
    planned = PlannedRelease("hessian", 6, 1.0, mu, 1.0 / mu)
    return SimpleNamespace(released=looks, plan=SimpleNamespace(inference_releases=(planned,)))


def lost(curved, most):
    return np.mean(np.maximum(curved - most, 0.0)) / np.mean(curved)


def test_labels_of_which_one_is_rare_are_cut_to_half_of_the_bound_at_least():
    solution = solution_of(Logistic())
    z = np.random.default_rng(3).normal(size=400_000)
    for shift in (-4.0, -2.0, -1.2, -0.8, 0.0):
        at = AT + np.array([shift, 0.0, 0.0])
        odds = MEAN + shift + SD * z
        curved = expit(odds) * expit(-odds)
        allowed = [k / 64.0 for k in range(8, 16) if lost(curved, k / 64.0) <= 0.02]
        found = largest_curvature(solution, at, asking())
        assert found == (min(allowed) if allowed else None)
    assert found is None
    assert largest_curvature(solution, AT - np.array([4.0, 0.0, 0.0]), asking()) == 0.125


def test_counts_are_cut_where_both_normal_rows_and_a_look_lose_little():
    solution, look = solution_of(COUNTS), look_at(DRAWN)
    mean = np.exp(MEAN + SD * np.random.default_rng(4).normal(size=400_000))
    parts = [k for k in range(2, 16) if lost(mean, k * BOUND / 16.0) <= 0.02]
    seen = [k for k in parts if share_beyond(look, DECLARED, k * BOUND / 16.0) <= 0.02]
    assert parts[0] < seen[0]
    nearer = largest_curvature(solution, AT, asking(look))
    assert nearer == pytest.approx(seen[0] * BOUND / 16.0)
    another = look_at(np.full(9, 40.0))
    assert largest_curvature(solution, AT, asking(another, look)) == nearer  # the last one tells
    far, farther = (np.where(np.arange(DRAWN.size) % 30 == 0, DRAWN + more, DRAWN) for more in (4, 9))
    assert largest_curvature(solution, AT, asking(look_at(far))) > nearer
    assert largest_curvature(solution, AT, asking(look_at(farther))) is None
    assert largest_curvature(solution, AT, asking()) == pytest.approx(
        0.5 * BOUND
    )  # without a look no less than half


@pytest.mark.parametrize("part", [0.2, 0.1, 0.02])
def test_less_is_cut_where_the_hessian_has_little_noise(part):
    """A share of a quarter of the squared noise, relative to the curvature of rows in a direction."""
    look, rng = look_at(DRAWN), np.random.default_rng(4)
    solution = solution_of(COUNTS)
    mean = np.exp(MEAN + SD * rng.normal(size=400_000))
    second = solution.moments().second
    noise = part * mean.mean() * np.trace(second) / 3.0 / math.sqrt(3.0)
    mu = solution.problem.sensitivity("hessian") / noise
    found = largest_curvature(solution, AT, asking(look, mu=mu))
    allowed = [
        k
        for k in range(2, 16)
        if max(lost(mean, k * BOUND / 16.0), share_beyond(look, DECLARED, k * BOUND / 16.0)) <= part**2 / 4.0
    ]
    assert found == (pytest.approx(allowed[0] * BOUND / 16.0) if allowed else None)
    assert found is None or found > largest_curvature(solution, AT, asking(look))


def test_counts_far_below_their_bound_are_cut_to_an_eighth_of_it():
    rare = np.random.default_rng(6).poisson(0.02, size=400_000)
    found = largest_curvature(solution_of(COUNTS), AT - np.array([4.0, 0.0, 0.0]), asking(look_at(rare)))
    assert found == pytest.approx(BOUND / 8.0)


def test_what_counts_exceed_a_bound_by_is_a_share_of_all():
    look = look_at(DRAWN)
    for bound in (1.5, 3.0):
        excess = np.maximum(DRAWN - bound, 0.0).sum() / DRAWN.sum()
        assert share_beyond(look, DECLARED, bound) == pytest.approx(excess, rel=0.25)
    assert share_beyond(look, DECLARED, 30.0) < 1e-4
    noisy = look_at(DRAWN, 2e-5)
    assert share_beyond(noisy, DECLARED, 3.0) == pytest.approx(share_beyond(look, DECLARED, 3.0), rel=0.1)
    assert share_beyond(look_at(np.full(100, 1e9)), DECLARED, 40.0) == pytest.approx(0.2)
    hidden = replace(look, value=np.zeros(NORM_CLASSES))
    assert share_beyond(hidden, DECLARED, 3.0) == 1.0


@pytest.mark.parametrize(
    ("loss", "at", "changes"),
    [
        (Logistic(), np.array([0.1, 0.0, 0.0]), {}),
        (Poisson(1.0, math.e), np.array([0.99, 0.0, 0.0]), {}),
        (Huber(0.8), AT, {}),
        (COUNTS, AT, {"moments": None}),
        (COUNTS, np.array([30.0, 0.1, 0.1]), {}),
    ],
    ids=["even odds", "means near the bound", "residuals", "no moments", "beyond bounds"],
)
def test_curvatures_near_their_bound_are_not_cut(loss, at, changes):
    assert largest_curvature(solution_of(loss, **changes), at, asking(look_at(np.zeros(9)))) is None


def test_rows_without_a_constant_are_not_cut():
    solution = solution_of(COUNTS)
    without = replace(solution, problem=replace(solution.problem, penalised=(True,) * 3))
    assert largest_curvature(without, AT, asking(look_at(DRAWN))) is None


def test_the_bread_of_a_fit_has_less_noise_where_curvatures_are_cut():
    """Means about 0.6 and counts of up to 8 or so: a Hessian with the bound's noise would hide them."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(10_000, 20)).clip(-4.0, 4.0)
    table = {f"x{k}": column for k, column in enumerate(x.T)}
    table["y"] = rng.poisson(np.exp(-0.5 + x @ np.full(20, 0.11)))
    schema = {name: {"type": "numeric", "lower": -4, "upper": 4} for name in table}
    schema["y"] = {"type": "numeric", "lower": 0, "upper": 20}
    result = pf.poisson("y ~ .", table, schema=schema, budget=pf.Budget.gdp(0.5), random_state=3)
    looked, asked = (one for one in result.releases if one.planned.kind == "hessian")
    planned = next(one for one in result.plan.inference_releases if one.kind == "hessian")
    steps = next(one for one in result.plan.solver_releases if one.kind == "hessian")
    assert asked.sd / planned.sd < 0.6 * looked.sd / steps.sd
    assert np.isfinite(result.bse).all()


def test_exposures_are_part_of_how_means_differ():
    """Of log-normal ones, whose mean is 1 where the constant is that of a typical exposure."""
    seen = SeenExposures(2.0, 9.0, 0.5, (2.0, 0.5))
    exposure = replace(Exposure("years", NumericColumn(0.0, 9.0)), seen=seen)
    solution = solution_of(COUNTS)
    exposed = replace(solution, problem=replace(solution.problem, exposure=exposure))
    z, known = np.random.default_rng(4).normal(size=(2, 400_000))
    mean = np.exp(MEAN + SD * z + math.sqrt(0.5) * known - 0.25)
    look = look_at(np.random.default_rng(6).poisson(mean))
    parts = [k for k in range(2, 16) if lost(np.minimum(mean, BOUND), k * BOUND / 16.0) <= 0.02]
    seen_parts = [k for k in parts if share_beyond(look, DECLARED, k * BOUND / 16.0) <= 0.02]
    found = largest_curvature(exposed, AT, asking(look))
    alone = largest_curvature(solution, AT, asking(look_at(DRAWN)))
    assert found == pytest.approx(seen_parts[0] * BOUND / 16.0) if seen_parts else found is None
    assert found is None or found > alone
