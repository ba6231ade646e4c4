"""A bound on counts that a look has lowered, raised where more counts are beyond it than their means tell."""

import math

import numpy as np
from scipy.special import pdtrc

from privfit._checks import FloatArray
from privfit.losses import Poisson
from privfit.losses.poisson import predictor_up_to
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.solvers.base import with_loss
from privfit.solvers.counts import look_at_counts
from privfit.solvers.curvature import normal_nodes
from privfit.solvers.geometry import Frame
from privfit.solvers.hessian_model import noise_of_bound, predictor_moments
from privfit.solvers.hidden_tail import HiddenTail, hidden_tail
from privfit.solvers.histogram import class_edges, counting_part, farthest_seen, mean_seen

_BIAS, _NOISE = 0.05, 1.0
"""Standard errors that an estimate may be off by for counts beyond a bound, and what noise may add to one,
relative to that of sampling, for it to be no more."""

_NOISE_ALONE = 0.5
"""The latter where nothing is known of means: that they differ may be all there is to their tail."""

_POISSON = 0.95
"""How likely it is, before rows are asked, that counts follow a Poisson law with the expected means."""

_BOUNDS = 24
"""Bounds that are tried, from the lowered one to the largest."""


def raised_at(problem: Problem, oracle: Oracle, frame: Frame, point: FloatArray, mu: float) -> Problem:
    """Return the problem with a bound on counts that suits their tail, by the means that steps have found.

    Other problems are left alone, and those whose bound no look has lowered. The oracle goes on with it.

    Parameters
    ----------
    problem : Problem
        In encoded coordinates.
    oracle : Oracle
    frame : Frame
    point : array of shape (p,)
        In the coordinates of the frame. Noise in it makes means differ more, and explain more.
    mu : float
        Signal of the solver's budget.
    """
    if not isinstance(problem.loss, Poisson) or not problem.has_intercept:
        return problem
    middle, variance = predictor_moments(frame, point)
    if problem.exposure is not None:
        shift, uneven = problem.exposure.bare
        middle, variance = middle + shift, variance + uneven
    return _raised(problem, oracle, (middle, variance), mu, _NOISE)


def raised_alone(problem: Problem, oracle: Oracle, mu: float) -> Problem:
    """Return the same before anything is known of the means but that of all counts.

    Parameters
    ----------
    problem : Problem
        In encoded coordinates.
    oracle : Oracle
    mu : float
        Signal of the solver's budget.
    """
    look, declared = look_at_counts(oracle.released), problem.response_bound
    mean = None if look is None or declared is None else mean_seen(look, declared, declared)
    return problem if mean is None else _raised(problem, oracle, (math.log(mean), 0.0), mu, _NOISE_ALONE)


def _raised(
    problem: Problem, oracle: Oracle, means: tuple[float, float], mu: float, most_noise: float
) -> Problem:
    """Return the problem with the bound for log ``means`` of this mean and variance, taken for normal.

    Counts that a Poisson law with these means does not explain are to be beyond the bound by no more than a
    twentieth of a standard error, unless noise adds more to one than ``most_noise`` with it. What may be
    there is told by a look at counts (`privfit.solvers.hidden_tail`), times how likely it is that they do not
    follow that law; what it certainly shows is not cut. Means beyond the bound are held to it as counts are,
    and bias nothing.
    """
    loss, look, declared = problem.loss, look_at_counts(oracle.released), problem.response_bound
    if not isinstance(loss, Poisson) or look is None or declared is None or not problem.shares.plain:
        return problem
    mean, square = (mean_seen(look, declared, declared, power=power) for power in (1.0, 2.0))
    farthest = farthest_seen(look)
    if loss.count_bound >= declared or mean is None or square is None or farthest is None:
        return problem
    n, part, edges = problem.n_rows, counting_part(look.value, look.sd), class_edges(declared)
    shares, noise = look.value / part, look.sd / part
    expected = expected_shares(edges, *means)
    tail = hidden_tail(shares, noise, edges, whole=True, explained=expected)
    if tail is None:
        return problem
    doubt = _doubt(tail, (shares - expected) / noise)
    each = noise_of_bound(problem, mu * part)
    spread = max(math.sqrt(mean), 0.5 * math.sqrt(max(square - mean**2, 0.0)))
    most = min(most_noise * spread / each, declared)
    if most <= loss.count_bound:
        return problem

    def suits(bound: float) -> bool:
        return doubt * tail.beyond(bound) <= _BIAS / math.sqrt(n) * math.hypot(spread, each * bound)

    least = min(max(loss.count_bound, farthest.below(declared)), most)
    bounds = np.geomspace(least, most, _BOUNDS).tolist()
    bound = next((one for one in bounds if suits(one)), most)
    return problem if bound == loss.count_bound else with_loss(problem, oracle, _up_to(loss, bound))


def _up_to(loss: Poisson, bound: float) -> Poisson:
    """Return the loss with a larger bound on counts, and one on log means to suit where both were lowered."""
    of_means = loss.bound
    if of_means >= predictor_up_to(loss.count_bound):
        of_means = max(predictor_up_to(bound), of_means)
    return Poisson(of_means, bound)


def _doubt(tail: HiddenTail, errors: FloatArray) -> float:
    """Return how likely it is that there is a tail, where noise may have made the errors (n,) of a law."""
    against = (
        math.log((1.0 - _POISSON) / _POISSON) + tail.evidence + 0.5 * float(np.sum(errors[tail.first :] ** 2))
    )
    return 1.0 / (1.0 + math.exp(-against)) if against > -700.0 else 0.0


def expected_shares(edges: FloatArray, middle: float, variance: float) -> FloatArray:
    """Return the shares (n,) of a Poisson law's counts in classes with edges (n + 1,), the last open."""
    nodes, chances = normal_nodes(1)
    means = np.exp(np.minimum(middle + math.sqrt(variance) * nodes[0], 300.0))
    last = np.ceil(edges[1:-1] * (1.0 - 1e-12))[:, None] - 1.0
    beyond = np.where(last < 0.0, 1.0, pdtrc(np.maximum(last, 0.0), means)) @ chances
    return -np.diff(np.concatenate([[1.0], beyond, [0.0]]))
