"""What parts of the budget bread and meat get after whitening, and what that does to the bound on rows."""

import dataclasses
import math

import numpy as np
import pytest

from privfit.data.declarations import NumericColumn
from privfit.data.shares import ShareRule
from privfit.losses import ConcomitantHuber, Huber, Logistic, Multinomial, Poisson, SmoothedQuantile, Squared
from privfit.losses.typical import typical, usual_residual
from privfit.planning import make_plan
from privfit.privacy.allowance import Allowance
from privfit.privacy.budget import Budget
from privfit.solvers import NoisyNewton, WhitenedGradientDescent
from privfit.solvers.base import USUAL_SHARES, noise_norm
from privfit.solvers.matrix_shares import BREADS, MEATS, matrix_shares
from privfit.solvers.row_bound import signal_of_bread, squared_bound

from .simulated import problem_for

LOSSES = [
    Logistic(), Squared(3.0), Huber(1.345), ConcomitantHuber(), Poisson(3.0, 20.0), Multinomial(4),
    SmoothedQuantile(0.5, 0.4),
]  # fmt: skip


def shares(loss, *, n=10_000, p=5, mu=1.0):
    solver = WhitenedGradientDescent()
    return solver.matrix_shares(problem_for(loss, np.ones((n, p))), Allowance.gaussian(mu))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_matrices_get_less_of_more_budget(loss):
    """Within limits, and the smallest parts of both where noise hardly matters."""
    assert [*BREADS, *MEATS] == [0.08, 0.18, 0.02, 0.25]
    found = [shares(loss, mu=mu) for mu in (1e-3, 0.03, 0.3, 3.0, 1e3)]
    breads = [one.bread for one in found]
    assert breads == sorted(breads, reverse=True)
    assert breads[0] == BREADS[1]
    assert (breads[-1], found[-1].meat) == (BREADS[0], MEATS[0])
    assert all(MEATS[0] <= one.meat <= MEATS[1] for one in found)


@pytest.mark.parametrize(
    ("loss", "usual"), [(Logistic(), 0.1875), (Squared(3.0), 1.0), (Huber(1.345), 0.82)], ids=str
)
def test_a_bread_of_any_part_but_the_largest_shows_usual_eigenvalues(loss, usual):
    """The spectral norm of its noise is at most 0.3 of the curvature where no row is weighted down."""
    problem = problem_for(loss, np.ones((10_000, 20)))
    shown = []
    for mu in np.geomspace(0.05, 2.0, 12):
        plan = make_plan(problem, WhitenedGradientDescent(), Allowance.gaussian(mu), inference=True)
        bread = plan.inference_releases[0]
        if bread.mu**2 < 0.179 * mu**2:
            shown.append(noise_norm(bread.sd, 20) / usual)
    assert len(shown) > 3
    assert max(shown) < 0.305


def test_a_small_bound_on_counts_takes_nothing_from_the_bread():
    """It is declared of rare counts, whose curvature is as small beside it as that of others."""
    losses = [Poisson(math.log(bound + 0.25), bound) for bound in (1.0, 2.0, 50.0)]
    breads = [shares(loss, mu=0.4).bread for loss in losses]
    assert BREADS[0] < breads[0] < BREADS[1]
    assert breads == pytest.approx([breads[0]] * 3)


def test_rows_that_may_be_long_ask_for_a_larger_bread():
    """Those with declared bounds, and more so those of levels, of which one may be rare; not the constant."""
    problem, solver = problem_for(Logistic(), np.ones((1600, 5))), WhitenedGradientDescent()
    constant, levels = (True, *[False] * 4), (True, *[False] * 3, True)
    free, numbers, both = (
        solver.matrix_shares(
            dataclasses.replace(problem, bounded=bounded, indicators=indicators), Allowance.gaussian(1.0)
        ).bread
        for bounded, indicators in ((False, constant), (True, constant), (True, levels))
    )
    assert BREADS[0] <= free < numbers < both <= BREADS[1]


def test_the_meat_matters_least_beside_much_noise():
    """Few rows, large slopes and a large budget give it most; with little, noise of gradients is larger."""
    assert shares(Poisson(3.0, 20.0), n=1000, mu=2.0).meat > 0.15
    assert shares(Logistic(), n=1000, p=10, mu=1.0).meat > shares(Logistic(), n=1000, p=10, mu=0.01).meat
    assert shares(Logistic(), n=1000, p=10, mu=1.0).meat > shares(Logistic(), n=10**6, p=10, mu=1.0).meat


def test_other_budgets_and_solvers_have_the_usual_parts():
    problem = problem_for(Logistic(), np.ones((10_000, 3)))
    solver = WhitenedGradientDescent()
    pure = Allowance.of(Budget(1.0, 0.0))
    assert solver.matrix_shares(problem, pure) == USUAL_SHARES
    assert solver.matrix_shares(problem, Allowance.unlimited()) == USUAL_SHARES
    assert NoisyNewton().matrix_shares(problem, Allowance.gaussian(1.0)) == USUAL_SHARES


def test_a_small_bread_lets_fewer_long_rows_count_in_full():
    """So the noise that they bring into the bread stays within the same part of its eigenvalues."""
    problem = problem_for(Logistic(), np.ones((10_000, 4)))
    mu = 1.0
    plans = [
        make_plan(problem, WhitenedGradientDescent(), Allowance.gaussian(mu), inference=given)
        for given in (True, False)
    ]
    signals = [signal_of_bread(plan, 0.9, 1.0) for plan in plans]
    bread = plans[0].inference_releases[0].mu
    assert signals == [pytest.approx(bread / math.sqrt(0.18 / 0.82)), 0.9]
    bounds = [
        squared_bound(problem, 4.0, 0.0, signal=0.9, bread=one, slack=(1.0, 1.0, 1.0))
        for one in (signals[0], 0.9)
    ]
    assert bounds[0] / bounds[1] == pytest.approx(signals[0] / 0.9)


@pytest.mark.parametrize("p", [2, 40])
@pytest.mark.parametrize("response_bound", [None, 2.0])
@pytest.mark.parametrize(
    ("loss", "curvature"),
    [
        (Logistic(), lambda usual, residual: 0.1875),
        (Squared(3.0), lambda usual, residual: usual),
        (Huber(1.345), lambda usual, residual: usual),
        (ConcomitantHuber(), lambda usual, residual: usual * residual),
        (Multinomial(4), lambda usual, residual: usual),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_bread_by_hand(loss, curvature, p, response_bound):
    """The noise's spectral norm is that part of a usual curvature; rows are as long as their bound."""
    problem = dataclasses.replace(problem_for(loss, np.ones((10_000, p))), response_bound=response_bound)
    residual = 1.0 if response_bound is None else 0.5
    assert usual_residual(response_bound) == residual
    usual = curvature(typical(loss, residual=residual)[0], residual)
    wanted = min(0.05 * math.sqrt(2.0 * problem.size), 0.3)
    noise = math.sqrt(2.0 * problem.size) * problem.sensitivity("hessian") / usual
    for part in (0.09, 0.16):
        mu = noise / wanted / math.sqrt(part)
        found = matrix_shares(problem, Allowance.gaussian(mu))
        assert found.bread == pytest.approx(part)


@pytest.mark.parametrize(
    ("bounded", "indicators", "longest"),
    [(False, (True, False, False), 1.0), (True, (True, False, False), 2.0), (True, (True, False, True), 8.0)],
)
def test_the_bread_of_counts_and_of_long_rows_by_hand(bounded, indicators, longest):
    """Curvatures of counts are nine times as large at most as usual ones, whatever is declared."""
    loss = Poisson(math.log(30.0), 30.0)
    problem = problem_for(loss, np.ones((10_000, 3)))
    problem = dataclasses.replace(problem, bounded=bounded, indicators=indicators)
    sd = problem.sensitivity("hessian") / loss.constants.curvature * longest
    noise = math.sqrt(6.0) * sd * 9.0
    mu = noise / (0.05 * math.sqrt(6.0)) / math.sqrt(0.1)
    found = matrix_shares(problem, Allowance.gaussian(mu))
    assert found.bread == pytest.approx(0.1)


@pytest.mark.parametrize("weight", [None, ("w", NumericColumn(0, 4))])
@pytest.mark.parametrize("n", [300, 2000])
@pytest.mark.parametrize("columns_and_mu", [(2, 0.5), (2, 3.0), (15, 1.0), (15, 8.0)])
@pytest.mark.parametrize(
    ("loss", "most"),
    [(Poisson(3.0, 20.0), 9.0), (Squared(3.0), 5.0), (Squared(30.0), 5.0), (Logistic(), 5.0)],
)
def test_the_meat_is_the_least_with_which_intervals_are_about_as_short_as_can_be(
    loss, most, columns_and_mu, n, weight
):
    """Survey weights are thought to be a third of their bound, and meat and sampling go by their square."""
    p, mu = columns_and_mu
    problem = dataclasses.replace(problem_for(loss, np.ones((n, p))), shares=ShareRule(weights=weight))
    part = 1.0 if weight is None else 1.0 / 9.0
    slope, score = loss.constants.slope, typical(loss, residual=1.0)[1]
    squared = min(slope**2 / score, most**2)
    gradient = n * squared * (problem.sensitivity("gradient") / slope / mu) ** 2 / part
    meat = squared * problem.sensitivity("meat") / slope**2 / mu / part
    parts = [0.02 * 12.5 ** (k / 23.0) for k in range(24)]
    lengths = []
    for tried in parts:
        sd = meat / math.sqrt(tried)
        variance = 1.0 + 0.198 * sd + gradient / (0.74 - tried)
        unsure = sd**2 * (0.309 + 0.691 / p) / variance**2
        lengths.append(0.5 * math.log(variance) + 0.605 * unsure)
    wanted = next(
        tried for tried, length in zip(parts, lengths, strict=True) if length <= min(lengths) + 1e-3
    )
    found = matrix_shares(problem, Allowance.gaussian(mu)).meat
    assert found == pytest.approx(wanted)
