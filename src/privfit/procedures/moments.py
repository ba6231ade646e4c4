"""The sufficient statistics of least squares, in one release, and the smallest eigenvalue of their matrix."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from privfit._checks import UNIT_ROUNDOFF, FloatArray, in_range, positive
from privfit.data.blocks import TravellingKernel
from privfit.privacy.allowance import Allowance
from privfit.privacy.mechanisms import NoiseSource, smat, svec
from privfit.privacy.relation import Relation
from privfit.problem.moment_kernels import joint_moments_kernel
from privfit.problem.objective import Problem
from privfit.problem.perturb import perturb_vector
from privfit.problem.plan import PlannedRelease
from privfit.problem.procedure import AbstractProcedure
from privfit.problem.queries import mean_sensitivity
from privfit.problem.rows import Rows
from privfit.problem.schedule import planned_noise

_SAFE = 1.0 + 2.0**-40
"""Covers the rounding of a row's products."""

_EIGENVALUE_ERRORS = 64.0
"""Allowed error of a computed eigenvalue, in units of ``p * 2**-53`` times the norm of the matrix."""


@final
@dataclass(frozen=True, slots=True)
class JointMoments(AbstractProcedure):
    """``M = (1/n) sum w x x'`` and ``v = (1/n) sum w y x``, released together as one noisy vector.

    Parameters
    ----------
    response_bound : float
        ``R``: responses are clamped to [-R, R].
    balance : float
        ``k`` in (0, 1]. ``v`` is released times ``c = sqrt(2 k) B / R`` with ``B`` the norm bound of rows:
        a larger ``k`` gives ``v`` less noise and ``M`` more.
    allowance : Allowance
        What the release costs.

    Notes
    -----
    *Guarantee.* The map ``z, t -> (z z', c t z)``, with ``z = sqrt(w) x`` and ``t = sqrt(w) y``, changes by
    at most ``sqrt(2) (1 + k) B**2`` (replace) or is at most ``sqrt(1 + 2 k) B**2`` (add or remove) in
    Frobenius and L2 norm together; ``docs/solvers/comparators.md`` has the proof.
    """

    response_bound: float
    balance: float
    allowance: Allowance

    def __post_init__(self) -> None:
        positive(response_bound=self.response_bound)
        in_range(0.0, 1.0, closed="right", balance=self.balance)

    def factor(self, problem: Problem) -> float:
        """Return ``c``, which ``v`` is multiplied by."""
        return math.sqrt(2.0 * self.balance) * problem.norm_bound / self.response_bound

    def planned(self, problem: Problem) -> PlannedRelease:
        """Return the planned release of ``p (p + 1) / 2 + p`` numbers."""
        p, squared = problem.n_coef, problem.norm_bound**2
        single = math.sqrt(1.0 + 2.0 * self.balance) * squared * _SAFE
        pair = math.sqrt(2.0) * (1.0 + self.balance) * squared * _SAFE
        exact = pair if problem.relation is Relation.REPLACE else single
        sensitivity = mean_sensitivity(
            exact, largest=single, n_rows=problem.n_rows, most_rows=problem.most_rows
        )
        return planned_noise("moments", p * (p + 1) // 2 + p, sensitivity, self.allowance)

    def carry_out(self, problem: Problem, rows: Rows, noise: NoiseSource) -> FloatArray:
        """Return `svec` of the noisy ``M``, and after it the noisy ``c v``."""
        p = problem.n_coef
        kernel = TravellingKernel(joint_moments_kernel, self.response_bound, self.factor(problem))
        mean = rows.sum(kernel, p * p + p) / problem.n_rows
        exact = np.concatenate([svec(mean[: p * p].reshape(p, p)), mean[p * p :]])
        return perturb_vector(exact, self.planned(problem), noise)

    def parts(self, problem: Problem, outcome: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``M`` (p, p) and ``v`` (p,) from an outcome."""
        p = problem.n_coef
        return smat(outcome[:-p]), outcome[-p:] / self.factor(problem)


@final
@dataclass(frozen=True, slots=True)
class SmallestEigenvalue(AbstractProcedure):
    """The smallest eigenvalue of ``(1/n) sum w x x'``, with noise.

    Parameters
    ----------
    allowance : Allowance
        What the release costs.

    Notes
    -----
    *Guarantee.* By Weyl's inequality the eigenvalue moves by at most the spectral norm of the change of the
    matrix: ``norm(z)**2`` where a row is added or removed, and ``norm(z z' - u u') <= max(norm(z),
    norm(u))**2`` where one is replaced, as the difference of two positive matrices. So it is ``B**2 / n``
    under both relations, not ``2 B**2 / n``. The rounding of the sum and of the eigenvalue (LAPACK's is
    backward stable: an error of a modest multiple of ``p 2**-53`` times the norm; `_EIGENVALUE_ERRORS`
    allows 64) is added.
    """

    allowance: Allowance

    def planned(self, problem: Problem) -> PlannedRelease:
        """Return the planned release of one number."""
        squared, p = problem.norm_bound**2, problem.n_coef
        of_eigenvalue = 2.0 * _EIGENVALUE_ERRORS * p * UNIT_ROUNDOFF * (2 * problem.n_rows) * squared
        sensitivity = mean_sensitivity(
            squared + of_eigenvalue, largest=squared, n_rows=problem.n_rows, most_rows=problem.most_rows
        )
        return planned_noise("eigenvalue", 1, sensitivity, self.allowance)

    def carry_out(self, problem: Problem, rows: Rows, noise: NoiseSource) -> FloatArray:
        """Return the noisy eigenvalue, shape (1,)."""
        matrix = rows.mean("second_moment", np.array(problem.start))
        smallest = np.array(np.linalg.eigvalsh(matrix)[:1], dtype=np.float64)
        return perturb_vector(smallest, self.planned(problem), noise)
