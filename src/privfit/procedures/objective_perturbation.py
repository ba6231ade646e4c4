"""Objective perturbation: add a random linear term to the objective, minimise, release.

Why the minimiser may be released
---------------------------------
Let ``b`` be the random vector over n, ``F_S`` the objective of table S with ridge ``l2`` and without the
linear term, and θ the minimiser of ``F_S(θ) + b'θ``. Then ``b = -∇F_S(θ)``, a bijection whose Jacobian
determinant is that of the Hessian ``H_S(θ)``, so θ has the density ``ν(-∇F_S(θ)) |det H_S(θ)|``. Replace
row x by row z.

*Determinants.* A row adds a matrix of rank one, ``aa'/n`` with ``|a|² <= h``, to a Hessian that is at least
``l2 I`` without it. So ``det H_S / det H_S'`` is a quotient of two numbers between 1 and ``1 + h / (n
l2)``, and its logarithm is at most ``J = log(1 + h / (n l2))`` in absolute value. The rows of a privacy unit
have shares that sum to 1 at most, so together they add ``A/n``, A positive semi-definite with a trace of at
most h. With the Hessian M without them, the determinant is ``det(I + M^(-1/2) A M^(-1/2) / n)`` times as
large: the product of ``1 + λ_k`` over the r directions that a unit can have curvature in, all of them, and
``Σ λ_k <= h / (n l2)``. It is at most ``(1 + h / (r n l2))**r``, as logarithms are concave: J is ``r log(1 +
h / (r n l2))``. So does a row whose loss has several predictors, r of them.

*Noise.* ``∇F_S - ∇F_S' = v`` with ``v = s x + t z`` and ``s, t`` in fixed intervals around 0, so v lies in
a parallelogram around 0 with sides of at most ``2 L / n``, and ``|v| <= D = 2 L / n``. For noise of density
``exp(-|b| / scale)`` the log ratio is at most ``D / scale``, hence ``ε = D / scale + J`` in all (Chaudhuri,
Monteleoni and Sarwate 2011, theorem 9, have ``2 J``). That asks nothing of v but its length, so it holds for
units, whose v is a mean of such and of shorter ones.

*Gaussian noise.* In the coordinate b the hockey-stick divergence is at most the integral of ``max(0, ν(b) -
exp(ε - J) ν(b - v(b)))``. Since ``|b - v|²`` is convex in v it is at most the sum of that over the four
corners ±v1, ±v2 of the parallelogram: ``2 H(|v1| / σ) + 2 H(|v2| / σ)``, with ``H(m)`` the divergence of an
m-GDP Gaussian at ``ε - J``. By the parallelogram law ``|v1|² + |v2|² <= D²``. As a function of ``m²``, H
has the derivative ``φ(e / m - m / 2) / (2 m)``, ``e = ε - J``, which grows as long as ``m sqrt(1 + m² / 4)
<= e``; so H is convex there, 0 at 0, hence superadditive, and ``δ(ε) <= 2 H(μ)`` with ``μ = D / σ``
wherever ``μ sqrt(1 + μ² / 4) <= ε - J``. For one row added see theorem 3.1 of Redberg, Koskela and Wang
2023, *Improving the privacy and practicality of objective perturbation*. A factor above 1 is needed: noise
can end on either side, and the slope of a row may have the sign that is worse on both.

*A row more or less*, with sums divided by a public n: ``v = s x``, so D is ``L / n``, and there is one
determinant's quotient in place of two, within the same J. For Gaussian noise v is on a segment with two
corners, so that ``δ(ε) <= 2 H(μ)`` without a condition: the bound of Redberg, Koskela and Wang 2023. Nothing
rests on the number of rows, as the ridge is there without any.

*A ball* as domain is the limit of smooth convex penalties, which add to both Hessians alike; bounds on
divergences survive limits.

Why an approximate minimiser may be released
--------------------------------------------
What is computed lies within a public distance r of the exact minimiser. For any value of the latter,
outcomes of two tables are within 2 r; noise of their own is added to the outcome (Iyengar et al. 2019,
*Towards practical differentially private convex optimization*, algorithm 1). r covers the tolerance of the
minimiser, rounding, and the lattice on which the noise is drawn: that noise is a continuous one with the
stated law, but for a factor of ``exp(±exp(-1000))``, plus a rounding of less than 64 times 8 lattice
spacings a coordinate, but for a probability of ``exp(-2000)``. These two, and the same for the tail of the
noise, are neglected.
"""

import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from privfit._checks import FloatArray
from privfit.errors import PlanViolation
from privfit.privacy.curves import gdp_delta, gdp_mu
from privfit.privacy.mechanisms import NoiseSource, calibrate_gaussian, gaussian_mu, gaussian_vector
from privfit.privacy.pure_mechanisms import calibrate_radial, radial_epsilon, radial_vector
from privfit.problem.objective import Problem
from privfit.problem.plan import PlannedRelease
from privfit.problem.procedure import AbstractProcedure
from privfit.problem.rows import Rows
from privfit.procedures.landscape import Landscape, Objective, fully_penalised
from privfit.procedures.minimise import CertifiedMinimiser

MOST_CURVATURE_LOSS = 1.0
"""Most of epsilon that the determinants may use: beyond it a smaller ridge is of no further use, and
amplifies rounding."""

_GAUSSIAN_LATTICE = 2.0**-31
_RADIAL_LATTICE = 2.0**-50
"""Bound on the rounding of noise to its lattice, over sd (or scale) and the root of the size."""


def determinant_loss(landscape: Landscape) -> float:
    """Return J, the privacy loss that the determinants contribute at most."""
    r = landscape.directions
    return r * math.log1p(landscape.curvature / (r * landscape.n_rows * landscape.l2)) * (1.0 + 1e-12)


def ridge_for(landscape: Landscape, loss: float) -> float:
    """Return the ridge with which `determinant_loss` is at most ``loss``."""
    r = landscape.directions
    return landscape.curvature / (r * landscape.n_rows * math.expm1(loss / r)) * (1.0 + 1e-9)


def settled(
    bare: Landscape, *, epsilon: float, delta: float, curvature_share: float, least: float
) -> tuple[float, float]:
    """Return the ridge and the spread of the linear term that cost (``epsilon``, ``delta``) together.

    Parameters
    ----------
    bare : Landscape
        Without the ridge.
    epsilon, delta : float
    curvature_share : float
        Most of epsilon that the determinants may use, up to `MOST_CURVATURE_LOSS`.
    least : float
        Smallest ridge.
    """
    l2 = max(least, ridge_for(bare, min(curvature_share * epsilon, MOST_CURVATURE_LOSS)))
    ridged = replace(bare, l2=l2)
    return l2, calibrate_spread(ridged, epsilon=epsilon - determinant_loss(ridged), delta=delta)


def profile_delta(mu: float, epsilon: float) -> float:
    """Return the δ at ``epsilon``, determinants already subtracted, of a Gaussian linear term.

    Parameters
    ----------
    mu : float
        Sensitivity of the mean gradient over the standard deviation of the noise.
    epsilon : float

    Notes
    -----
    *Guarantee.* ``2 H(mu)`` of the module's proof where its condition holds, else 1.
    """
    if epsilon <= 0.0 or mu * math.sqrt(1.0 + mu * mu / 4.0) > epsilon:
        return 1.0
    return min(1.0, 2.0 * gdp_delta(mu, epsilon))


def profile_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu, but for a relative 1e-9, with ``profile_delta(mu, epsilon) <= delta``."""
    largest = epsilon * math.sqrt(2.0 / (1.0 + math.sqrt(1.0 + epsilon * epsilon)))
    return min(gdp_mu(epsilon, delta / 2.0), largest) * (1.0 - 1e-9)


@final
@dataclass(frozen=True, slots=True)
class PerturbedObjective(AbstractProcedure):
    """The minimiser of the objective plus a random linear term, with a little noise on the outcome.

    Parameters
    ----------
    epsilon : float
        Cost; ``inf`` for neither a linear term nor noise.
    delta : float
        Cost; 0 for radial noise, else Gaussian.
    l2 : float
        Ridge weight, on all coefficients.
    spread : float
        Standard deviation per coordinate of the linear term (Gaussian), or the scale of a radial one.
    output_epsilon : float
        What of ``epsilon`` pays for the noise on the outcome.
    radius : float
        Of the ball around the start in which the minimiser is sought.
    stretch : float
        See `Landscape`.
    beside : bool
        Whether the problem's own ridge stays, beside that of weight ``l2``.
    center : tuple of float, optional
        Point (size,) that the ridge of weight ``l2`` pulls to, a function of public facts and earlier
        releases. Default: the origin.

    Notes
    -----
    *Guarantee.* (epsilon, delta)-differential privacy of a row, or for delta = 0 of a unit, under the
    problem's relation.
    """

    epsilon: float
    delta: float
    l2: float
    spread: float
    output_epsilon: float
    radius: float
    stretch: float = 1.0
    beside: bool = False
    center: tuple[float, ...] | None = None

    @property
    def noisy(self) -> bool:
        """Whether there is noise at all."""
        return math.isfinite(self.epsilon)

    def landscape(self, problem: Problem) -> Landscape:
        """Return the bounds on the objective, linear term included."""
        tail = 0.0
        if self.noisy and self.delta > 0:
            tail = 64.0 * math.sqrt(problem.size)
        elif self.noisy:
            tail = 1000.0 + 10.0 * problem.size
        return Landscape.of(
            fully_penalised(problem, self.l2),
            tilt=tail * self.spread + self.l2 * math.hypot(*(self.center or ())) * (1.0 + 1e-9),
            penalty=float(np.abs(self._own_ridge(problem)).sum(axis=1).max()) * (1.0 + 1e-9),
            stretch=self.stretch,
        )

    def _own_ridge(self, problem: Problem) -> FloatArray:
        return problem.ridge if self.beside else np.zeros_like(problem.ridge)

    def pull(self, at: FloatArray) -> FloatArray:
        """Return the gradient of the ridge of weight ``l2`` at a point."""
        return self.l2 * (at if self.center is None else at - np.array(self.center))

    def minimiser(self, landscape: Landscape) -> CertifiedMinimiser:
        """Return the minimiser, as exact as rounding lets it be proven."""
        bare = CertifiedMinimiser(radius=self.radius)
        exact = CertifiedMinimiser(tolerance=2.01 * bare.floor(landscape), radius=self.radius)
        return exact.settled(landscape, distance=self.radius, spread=0.0)

    def error(self, problem: Problem) -> float:
        """Return r: how far the computed outcome can be from the exact minimiser."""
        landscape = self.landscape(problem)
        lattice = _GAUSSIAN_LATTICE if self.delta > 0 else _RADIAL_LATTICE
        off = lattice * self.spread * math.sqrt(problem.size) if self.noisy else 0.0
        return self.minimiser(landscape).error(landscape) + off / self.l2

    def output_scale(self, problem: Problem) -> float:
        """Return the scale of the radial noise on the outcome."""
        return calibrate_radial(
            sensitivity=2.0 * self.error(problem), epsilon=self.output_epsilon, size=problem.size
        )

    def planned(self, problem: Problem) -> PlannedRelease:
        """Return the entry of the plan, after checking the cost from the noise up."""
        landscape = self.landscape(problem)
        size, sensitivity = problem.size, landscape.sensitivity
        if not self.noisy:
            return PlannedRelease("perturbed_minimiser", size, sensitivity, math.inf, 0.0)
        if self.delta > 0 and landscape.directions > 1:
            raise PlanViolation(
                "a Gaussian linear term hides a row of one predictor, not a unit or a row of several"
            )
        left = math.nextafter(self.epsilon - self.output_epsilon - determinant_loss(landscape), -math.inf)
        if self.delta > 0:
            kept = profile_delta(gaussian_mu(size, sensitivity, self.spread), left) <= self.delta
        else:
            kept = radial_epsilon(size, sensitivity, self.spread) <= left
        if not kept:
            raise PlanViolation("the noise of a perturbed objective does not give its stated cost")
        return PlannedRelease(
            "perturbed_minimiser",
            size,
            sensitivity,
            math.inf,
            0.0,
            epsilon=self.epsilon,
            delta=self.delta,
        )

    def carry_out(self, problem: Problem, rows: Rows, noise: NoiseSource) -> FloatArray:
        """Draw the linear term, minimise, add the noise."""
        landscape = self.landscape(problem)
        ridged = fully_penalised(problem, self.l2)
        tilt = self._tilt(landscape, noise) + self.pull(np.zeros(problem.size))
        objective = Objective(ridged, rows, tilt, self._own_ridge(problem))
        outcome = self.minimiser(landscape).minimise(landscape, objective)
        if not self.noisy:
            return outcome
        return radial_vector(
            outcome,
            sensitivity=2.0 * self.error(problem),
            epsilon=self.output_epsilon,
            scale=self.output_scale(problem),
            source=noise,
        )

    def _tilt(self, landscape: Landscape, noise: NoiseSource) -> FloatArray:
        nothing = np.zeros(landscape.size)
        if not self.noisy:
            return nothing
        if self.delta > 0:
            mu = gaussian_mu(landscape.size, landscape.sensitivity, self.spread)
            return gaussian_vector(
                nothing, sensitivity=landscape.sensitivity, mu=mu, sd=self.spread, source=noise
            )
        epsilon = radial_epsilon(landscape.size, landscape.sensitivity, self.spread)
        return radial_vector(
            nothing, sensitivity=landscape.sensitivity, epsilon=epsilon, scale=self.spread, source=noise
        )


def calibrate_spread(landscape: Landscape, *, epsilon: float, delta: float) -> float:
    """Return the spread of a linear term that costs (``epsilon``, ``delta``), determinants excluded.

    Parameters
    ----------
    landscape : Landscape
    epsilon : float
    delta : float
        0 for radial noise.
    """
    size, sensitivity = landscape.size, landscape.sensitivity
    if delta == 0:
        return calibrate_radial(sensitivity=sensitivity, epsilon=epsilon * (1.0 - 1e-12), size=size)
    return calibrate_gaussian(sensitivity=sensitivity, mu=profile_mu(epsilon, delta), size=size)
