"""Objective perturbation in coordinates that a released second moment whitens."""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, final

import numpy as np

from privfit._checks import FloatArray, in_range
from privfit.losses import Poisson, SmoothedQuantile
from privfit.losses.typical import curvatures_along, typical_curvature, usual_residual
from privfit.privacy.allowance import Allowance
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import PlannedRelease, Release
from privfit.problem.schedule import planned_release, planned_releases
from privfit.procedures.landscape import Landscape, fully_penalised
from privfit.procedures.objective_perturbation import PerturbedObjective, calibrate_spread, settled
from privfit.solvers.base import AbstractSolver, Moments, Solution, Step
from privfit.solvers.curvature import model_hessian, normal_nodes
from privfit.solvers.drawn import denoised
from privfit.solvers.exponential import largest_epsilon
from privfit.solvers.geometry import Frame
from privfit.solvers.hessian_model import limited, norm_limit
from privfit.solvers.perturbation_rows import row_bound
from privfit.solvers.pure_looks import labels_seen, looks_planned, suited_to_looks
from privfit.solvers.requirements import need_minimiser
from privfit.solvers.residual_bounds import widest
from privfit.solvers.slack import slack_at
from privfit.solvers.widths import narrowest

METHOD = "WhitenedObjectivePerturbation()"

_RIDGES = tuple(1e-4 * 4.0**-k for k in range(7))
"""Least ridges relative to a row's curvature, from the largest: the smaller, the more rounding is felt."""

_FREE_NOISE, _MOST_FOR_CURVATURE = 0.35, 0.6
"""What the noise of a quantile's gradient may be, relative to the sampling error, and what part of epsilon
its curvature may cost, for a ridge that pulls little."""

_MOST_WITHIN = 4.0
"""How many times as many rows as are thought to may be within a quantile's smoothing."""

_LARGEST_OUTCOME = 0.15
"""What the noise on the outcome may be, relative to the other noise and the sampling error together."""

_DAMPING = 2.0
"""What is added to the eigenvalues of the second moment, in standard deviations of its diagonal's noise."""

_LEAST_DAMPING = 1e-8
"""The same, at least, relative to the squared norm bound."""

_LEAST_DIMENSION = 0.1

_LARGEST_SPREAD = 2.0
"""Largest standard deviation of log odds or logarithms of counts that is believed."""

_FELT, _SURE = 0.2, 6.0
"""Standard deviations of a gradient that a step may be off by before the whole way is gone, and of noise that
coefficients must exceed."""

_ROUNDS = 2
"""In which the way to the optimum is looked for."""

_LEAST_CURVATURE, _LEAST_PART = 0.02, 0.1
"""Smallest mean curvature relative to its bound, and smallest one in a direction relative to the mean, that a
model of the Hessian may claim."""

MOST_STRETCH = 64.0
"""Bound on how much longer than in these coordinates a row may be in encoded ones, for rounding."""

_REACH = 4.0
"""Radius of the ball in which the minimiser is sought, per root of the number of columns: the largest
standard deviation that the predictor of usual rows has there about a constant."""


@final
@dataclass(frozen=True, slots=True)
class WhitenedObjectivePerturbation(AbstractSolver):
    """One perturbed minimiser, in coordinates in which the rows are about equally spread in all directions.

    Where a budget is pure every release costs a part of epsilon and not of its square, so that few releases
    are best: a second moment, the minimiser of the objective with a random linear term, and, with
    inference, bread and meat. At the minimiser the gradient of the objective is minus the linear term, so it
    is known up to noise of a known law, as if the gradient had been released there with all of that budget.
    One Newton step with the released bread takes away what the ridge of the method does. With enough rows
    looks at the response, for a small part of epsilon, lower the bound on counts or residuals before.

    Parameters
    ----------
    geometry_share : float
        Part of the squared budget (see `Allowance.split`) that buys the second moment.
    curvature_share : float
        Most of the minimiser's epsilon that may pay for the curvature of a row (the determinants).
    output_share : float
        Part of the minimiser's epsilon that pays for noise on the outcome, see `ObjectivePerturbation`.

    Notes
    -----
    *Guarantee.* epsilon-differential privacy of a row, or of a unit of several rows, under either relation,
    by composition of a matrix, looks and a perturbed minimiser, whose bounds on slopes are functions of
    earlier releases. The coordinates are a function of the released matrix; the Mallows weights bound every
    row in them, so that the cost of the minimiser is known beforehand.

    References
    ----------
    Chaudhuri, Monteleoni and Sarwate 2011, algorithm 2; Kifer, Smith and Thakurta 2012; Iyengar et al. 2019;
    Mallows 1975, *On some topics in robustness*, for the weights.
    """

    geometry_share: float = 0.05
    curvature_share: float = 0.15
    output_share: float = 0.04

    sums_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        in_range(0.0, 0.5, closed="neither", geometry_share=self.geometry_share)
        in_range(0.0, 0.9, closed="neither", curvature_share=self.curvature_share)
        in_range(1e-6, 0.5, output_share=self.output_share)

    @property
    def name(self) -> str:
        """Name."""
        return "whitened objective perturbation"

    def plan(self, problem: Problem, allowance: Allowance) -> tuple[PlannedRelease, ...]:
        """Plan a second moment and a perturbed minimiser."""
        need_minimiser(problem, METHOD)
        pure = allowance if math.isinf(allowance.amount) else Allowance(largest_epsilon(allowance), pure=True)
        looks = looks_planned(problem, pure.amount)
        shares = [part**2 for _, part in looks]
        *for_looks, for_moment, for_point = pure.split(
            [*shares, self.geometry_share, 1.0 - self.geometry_share]
        )
        final = self.final_problem(problem, ())
        return (
            planned_release(problem, "second_moment", for_moment),
            *planned_releases(problem, (kind for kind, _ in looks), for_looks),
            self.procedure(final, for_point.amount).planned(final),
        )

    def final_problem(self, problem: Problem, releases: tuple[PlannedRelease, ...]) -> Problem:
        """Return the problem with the bound that holds in the final coordinates, scaled to suit it."""
        del releases
        return perturbed(narrowest(widest(problem)), None)

    def run(self, problem: Problem, oracle: Oracle) -> Solution:
        """Release the second moment and looks at the response, then the minimiser."""
        start = np.array(problem.start)
        epsilon = oracle.plan.solver_releases[-1].epsilon or math.inf
        moment = oracle.release("second_moment", start)
        labels = labels_seen(problem, oracle)
        slack = slack_at(problem.loss, labels) if labels else problem.loss.slack
        whitening = Whitening.of(problem, moment, epsilon, slack)
        problem, constant = suited_to_looks(problem, oracle, whitening.frame, unit=whitening.unit)
        constants = labels.constant() if labels else np.full(problem.loss.n_outputs, constant)
        final = perturbed(problem, whitening.basis)
        oracle.change_basis(final)
        one = whitening.frame.constant(1.0) if problem.has_intercept else np.zeros(problem.n_coef)
        center = np.outer(constants, one).ravel()
        procedure = self.procedure(final, epsilon, whitening, tuple(center.tolist()))
        release = oracle.carry_out(procedure, start)
        step = _as_gradient(final, procedure, release, whitening)
        changes = problem.loss.target_kind != "numeric"
        model = partial(_expected_bread, final, whitening) if changes else None
        at = _optimum(final, step, whitening, center)
        return Solution(final, at, (step,), (), "one-step", model=model, moments=whitening.moments)

    def procedure(
        self,
        problem: Problem,
        epsilon: float,
        whitening: "Whitening | None" = None,
        center: tuple[float, ...] | None = None,
    ) -> PerturbedObjective:
        """Return the procedure that costs ``epsilon``, from public facts and the coordinates, once known.

        Its ridge is the smallest for which the noise on the outcome, which goes by its inverse, is small:
        where curvature is small, as with few positives, one Newton step does not undo what a larger one does.
        A quantile's is small beside its bound; where noise is, too, more of epsilon goes into the curvature.
        It pulls to ``center``, and the ball is as much larger: at its sphere the gradient is not the linear
        term's. Of counts nothing tells how large a constant is but its bound.
        """
        loss, stretch, unit = problem.loss, MOST_STRETCH, 1.0
        if whitening is not None:
            stretch, unit = whitening.stretch, whitening.unit
        stretch *= math.sqrt(problem.n_coef)  # of the Frobenius norm of a basis
        bare = Landscape.of(fully_penalised(problem, 0.0), stretch=stretch)
        reach = _REACH * math.sqrt(problem.size) + (loss.bound if isinstance(loss, Poisson) else 0.0)
        radius = reach * max(1.0, 1.0 / unit) + math.hypot(*(center or ()))
        shape = {"radius": radius, "stretch": stretch, "beside": True, "center": center}
        if math.isinf(epsilon):
            return PerturbedObjective(epsilon, 0.0, _RIDGES[-1] * bare.curvature, 0.0, 0.0, **shape)
        output = self.output_share * epsilon
        left = (epsilon - output) * (1.0 - 1e-12)
        sampling = (
            0.5 * problem.loss.constants.slope * unit / math.sqrt(problem.n_rows * (problem.size + 1.0))
        )
        share = self.curvature_share
        if isinstance(problem.loss, SmoothedQuantile):
            free = calibrate_spread(bare, epsilon=left, delta=0.0) / (_FREE_NOISE * sampling)
            share = max(share, min(1.0 - free, _MOST_FOR_CURVATURE))
        found: PerturbedObjective | None = None
        for ridge in _RIDGES:
            least = ridge * bare.curvature
            l2, spread = settled(bare, epsilon=left, delta=0.0, curvature_share=share, least=least)
            tried = PerturbedObjective(epsilon, 0.0, l2, spread, output, **shape)
            outcome = _outcome_noise(problem, tried, unit)
            if found and outcome > _LARGEST_OUTCOME * math.hypot(spread, sampling):
                return found
            found = tried
            if l2 > least:
                break
        assert found  # noqa: S101 -- there are ridges
        return found


def perturbed(problem: Problem, basis: FloatArray | None) -> Problem:
    """Return the problem in coordinates in which rows are bounded by `norm_limit`."""
    return limited(problem, basis, stretch=MOST_STRETCH)


@dataclass(frozen=True, slots=True, eq=False)
class Whitening:
    """Coordinates ``basis' x`` in which a released second moment is about even.

    Parameters
    ----------
    basis : array of shape (p, p)
        In such a unit that rows are weighted down beyond `norm_limit`.
    unit : float
        Standard deviation of a coordinate, or less where noise hides it.
    moment : array of shape (p, p)
        Second moment of the rows in them, as far as it is seen.
    center : array of shape (p,)
        Mean of the rows in them; 0 where there is no constant, whose products would show it.
    stretch : float
        Bound on how much longer a row may be in encoded coordinates, relative to the largest in these.
    """

    basis: FloatArray
    unit: float
    moment: FloatArray
    center: FloatArray
    stretch: float = MOST_STRETCH

    @property
    def frame(self) -> Frame:
        """These coordinates for looks at residuals, in which rows have about the usual lengths."""
        return Frame(self.basis, self.center, float(len(self.basis)), self.moment, 0.0)

    def moments(self) -> Moments:
        """Return the second moment and its noise: half of what was added to its eigenvalues for that."""
        added = self.unit**2 * np.eye(len(self.basis)) - self.moment
        return Moments(self.moment, added / _DAMPING)

    @classmethod
    def of(cls, problem: Problem, moment: Release, epsilon: float, slack: tuple[float, float]) -> "Whitening":
        """Return the coordinates for a problem in encoded ones.

        Parameters
        ----------
        problem : Problem
        moment : Release
            Of kind ``"second_moment"``.
        epsilon : float
            What the minimiser costs.
        slack : tuple of float
            How generous the loss's bounds are, see `privfit.solvers.slack`.
        """
        values, vectors = np.linalg.eigh(moment.value)
        found = denoised(values, moment.sd)
        added = max(_DAMPING * moment.sd, _LEAST_DAMPING * problem.norm_bound**2)
        while True:
            basis = vectors / np.sqrt(found + added) @ vectors.T
            dimension = max(float(np.sum(found / (found + added))), _LEAST_DIMENSION)
            square = float(found.sum())
            bound = row_bound(problem, basis, dimension, epsilon=epsilon, square=square, slack=slack)
            stretch = problem.norm_bound * float(np.linalg.norm(basis, 2)) / bound
            if stretch <= MOST_STRETCH:
                unit = norm_limit(problem) / bound
                known = max(stretch, 1.0) * (1.0 + 1e-9) if problem.bounded else MOST_STRETCH
                part = np.maximum(found, 0.5 * added) / (found + added)
                basis *= unit
                mean = basis.T @ moment.value[0] if problem.has_intercept else np.zeros(len(basis))
                return cls(basis, unit, unit**2 * (vectors * part) @ vectors.T, mean, known)
            added *= 4.0


def even_hessian(problem: Problem, whitening: Whitening, at: FloatArray) -> FloatArray:
    """Return the second moment times the mean curvature of normal rows at a parameter (q,), shape (q, q)."""
    loss = problem.loss
    if isinstance(loss, SmoothedQuantile) and loss.within is not None:
        return loss.within * loss.constants.curvature * whitening.moment
    if loss.target_kind == "numeric":
        curvature = typical_curvature(loss, residual=usual_residual(problem.response_bound))
        return max(curvature, _LEAST_CURVATURE * loss.constants.curvature) * whitening.moment
    rows = at.reshape(-1, problem.n_coef)
    mean = rows @ whitening.center
    values, vectors = np.linalg.eigh(rows @ whitening.moment @ rows.T - np.outer(mean, mean))
    nodes, chance = normal_nodes(len(rows))
    spreads = np.minimum(np.sqrt(np.maximum(values, 0.0)), _LARGEST_SPREAD)
    eta = mean[:, None] + (vectors * spreads) @ nodes
    curvature = np.tensordot(chance, curvatures_along(loss, eta, least=_LEAST_CURVATURE), 1)
    return np.asarray(np.kron(curvature, whitening.moment), dtype=np.float64)


def expected_hessian(problem: Problem, whitening: Whitening, at: FloatArray) -> FloatArray:
    """Return the mean Hessian (q, q) of such rows, which differs from direction to direction."""
    if problem.loss.target_kind == "numeric":
        return even_hessian(problem, whitening, at)
    values, vectors = np.linalg.eigh(whitening.moment)
    root = (vectors * np.sqrt(values)) @ vectors.T
    curvatures = partial(curvatures_along, problem.loss, least=_LEAST_CURVATURE)
    center: FloatArray = np.asarray(np.linalg.solve(root, whitening.center), dtype=np.float64)
    rows, turn = at.reshape(-1, problem.n_coef) @ root, problem.each_output(root)
    return turn @ model_hessian(curvatures, rows, center, smallest=_LEAST_PART) @ turn


def _expected_bread(problem: Problem, whitening: Whitening, at: FloatArray) -> FloatArray:
    return expected_hessian(problem, whitening, at) + problem.ridge


def _outcome_noise(problem: Problem, procedure: PerturbedObjective, unit: float) -> float:
    """Return the scale of the noise on the outcome, times twice the largest curvature of rows together.

    Of a quantile few rows have any: four times as many as are thought to are counted at most.
    """
    loss, part = problem.loss, 1.0
    if isinstance(loss, SmoothedQuantile) and loss.within is not None:
        part = min(_MOST_WITHIN * loss.within, 1.0)
    return 2.0 * part * loss.constants.curvature * unit**2 * procedure.output_scale(problem)


def _optimum(problem: Problem, step: Step, whitening: Whitening, center: FloatArray) -> FloatArray:
    """Return about the point where the gradient leads that a perturbed minimiser stands for.

    Half-way to it a bread is asked. The ridge of the method makes the way long where curvature is small, as
    with few positives. It is that of a model of the Hessian half-way, at most as long as that from the
    ridge's ``center`` (q,) to the minimiser; less of it is gone where noise may have made the latter, or
    where a step by the Hessian at the minimiser is off by little beside the noise.
    """
    at, sd = step.release.at, step.release.sd
    length = max(float(np.linalg.norm(at - center)), 1e-300)
    noise = _SURE * sd * float(np.linalg.norm(step.preconditioner))
    here = _expected_bread(problem, whitening, at)
    move, hessian = step.preconditioner @ step.gradient, here
    for _ in range(_ROUNDS):
        hessian = _expected_bread(problem, whitening, at - 0.5 * move)
        move = np.linalg.solve(hessian, step.gradient)
        move *= min(1.0, length / max(float(np.linalg.norm(move)), 1e-300))
    sampling = math.sqrt(float(np.mean(np.diag(hessian))) / problem.n_rows)
    off = float(np.linalg.norm((here - hessian) @ move)) / math.hypot(sd, sampling)
    return at - max(1.0 - (noise / length) ** 2, 0.0) * min((off / _FELT) ** 2, 1.0) * move


def _as_gradient(
    problem: Problem, procedure: PerturbedObjective, release: Release, whitening: Whitening
) -> Step:
    """Return what a perturbed minimiser says of the gradient there: minus that of the method's ridge.

    The noise is that of the linear term; that on the outcome is added, times twice the largest curvature that
    such rows can have together. The step from there, for those who have no bread, is one by a model of the
    Hessian, with the method's ridge in it: it takes most of what that ridge does away, and where noise
    is large no more than half.
    """
    at = release.value
    outcome = _outcome_noise(problem, procedure, whitening.unit) if procedure.noisy else 0.0
    sd = math.hypot(procedure.spread, outcome) * math.sqrt(problem.size + 1.0)
    pull = -procedure.pull(at)
    data_part = Release(replace(release.planned, kind="gradient", sd=sd), at, pull - problem.ridge @ at)
    hessian = even_hessian(problem, whitening, at) + problem.ridge
    inverse = np.linalg.inv(hessian + procedure.l2 * np.eye(problem.size))
    return Step(data_part, pull, np.asarray(inverse, dtype=np.float64))
