"""What parts of the budget bread and meat get after whitening, and what that does to the bound on rows."""

import dataclasses
import math

import numpy as np
import pytest

from privfit.losses import ConcomitantHuber, Huber, Logistic, Multinomial, Poisson, SmoothedQuantile, Squared
from privfit.planning import make_plan
from privfit.privacy.allowance import Allowance
from privfit.privacy.budget import Budget
from privfit.solvers import NoisyNewton, WhitenedGradientDescent
from privfit.solvers.base import USUAL_SHARES, noise_norm
from privfit.solvers.matrix_shares import BREADS, MEATS
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
        squared_bound(problem, 4.0, signal=0.9, bread=one, slack=(1.0, 1.0)) for one in (signals[0], 0.9)
    ]
    assert bounds[0] / bounds[1] == pytest.approx(signals[0] / 0.9)
