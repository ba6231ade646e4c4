"""The same coefficients told from other levels of reference, where noise hides the declared one."""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Self, final

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray
from privfit.errors import Incompatible
from privfit.inference.contrasts import combination_errors
from privfit.inference.controls import shares_of_levels
from privfit.inference.covariance import Bread
from privfit.inference.wald import JointTest, standard_errors, wald_test
from privfit.problem.objective import Problem

_ZERO = 1e-9
"""Part of the largest weight of a combination up to which another one is rounding."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Recoded:
    """What is known of ``matrix @ coefficients``: the same model with other levels of reference.

    A level of reference that noise hides takes the constant and all levels that are told from it along, and
    what it takes cannot be told from the covariance of these. Their differences are known all the same.

    Parameters
    ----------
    matrix : array of shape (q, q)
        Of -1, 0 and 1, and so is its inverse.
    cov_sampling, cov_noise : array of shape (q, q)
        An infinite variance marks one of which nothing is known.
    dof, joint_dof : array of shape (q,)
    """

    matrix: FloatArray
    cov_sampling: FloatArray
    cov_noise: FloatArray
    dof: FloatArray
    joint_dof: FloatArray

    def __post_init__(self) -> None:
        size = len(self.dof)
        for field in fields(self):
            value = np.array(getattr(self, field.name), dtype=np.float64)
            if value.shape != ((size,) if field.name.endswith("dof") else (size, size)):
                raise Incompatible(f"recoded.{field.name} has another size than dof")
            value.setflags(write=False)
            object.__setattr__(self, field.name, value)
        whole = np.isin(self.matrix, (-1.0, 0.0, 1.0)).all()
        if not whole or abs(abs(np.linalg.det(self.matrix)) - 1.0) > _ZERO:
            raise Incompatible("recoded.matrix must be of -1, 0 and 1, and so must its inverse be")

    def weights(self, weights: FloatArray) -> FloatArray:
        """Return the combinations, (k, q), of the recoded coefficients that are these of the others."""
        found = weights @ np.rint(np.linalg.inv(self.matrix))
        most = np.max(np.abs(weights), axis=1, keepdims=True, initial=0.0)
        return np.where(np.abs(found) > _ZERO * most, found, 0.0)


@final
@dataclass(frozen=True, eq=False)
class Known:
    """What is known of q coefficients: the covariance of their estimate, and how well that is known.

    Parameters
    ----------
    estimate : array of shape (q,)
    covariance : array of shape (q, q)
        An infinite variance marks a coefficient of which nothing is known.
    dof, joint_dof : array of shape (q,)
        For one combination, and for several together.
    recoded : Recoded or None
    """

    estimate: FloatArray
    covariance: FloatArray
    dof: FloatArray
    joint_dof: FloatArray
    recoded: Recoded | None = None

    @property
    def se(self) -> FloatArray:
        """Standard errors of the coefficients, (q,)."""
        return standard_errors(self.covariance)

    @cached_property
    def otherwise(self) -> Self | None:
        """The same of the recoded coefficients; None where there are none."""
        other = self.recoded
        if other is None:
            return None
        covariance = other.cov_sampling + other.cov_noise
        return type(self)(other.matrix @ self.estimate, covariance, other.dof, other.joint_dof)

    def errors(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return standard errors and degrees of freedom of combinations, as `combination_errors` does."""
        se, dof = combination_errors(weights, self.covariance, self.dof)
        turned = self._turned(weights) if np.isinf(se).any() else None
        if turned is None:
            return se, dof
        other_se, other_dof = combination_errors(turned[1], turned[0].covariance, turned[0].dof)
        better = np.isinf(se) & np.isfinite(other_se)
        return np.where(better, other_se, se), np.where(better, other_dof, dof)

    def dof_of(self, count: int) -> FloatArray:
        """Return the degrees of freedom, (q,), for so many combinations together."""
        return self.dof if count == 1 else self.joint_dof

    def told_by(self, weights: FloatArray) -> tuple["Known", FloatArray]:
        """Return what tells of these combinations together, and their weights there."""
        turned = self._turned(weights) if self._lost(weights) else None
        return (self, weights) if turned is None or turned[0]._lost(turned[1]) else turned

    def part_of(self, matrix: FloatArray) -> FloatArray:
        """Return what of the rows of a matrix of coefficients, (k, q), something is known of; all if none is.

        Either of these rows, or of those of the recoded coefficients of the same places.
        """
        parts = [matrix[~np.isinf(self.errors(matrix)[0])]]
        if self.recoded is not None:
            turned = matrix @ self.recoded.matrix
            parts.append(turned[~np.isinf(self.errors(turned)[0])])
        most = max(parts, key=len)
        return most if len(most) else matrix

    def tested(self, matrix: FloatArray, values: FloatArray) -> tuple[JointTest, bool]:
        """Test ``matrix @ coefficients = values`` jointly; return whether it touches what is unknown, too."""
        told, weights = self.told_by(matrix)
        outcome = wald_test(told.estimate, told.covariance, weights, values, told.dof_of(len(matrix)))
        return outcome, told._lost(weights)

    def _turned(self, weights: FloatArray) -> tuple["Known", FloatArray] | None:
        if self.recoded is None or self.otherwise is None:
            return None
        return self.otherwise, self.recoded.weights(weights)

    def _lost(self, weights: FloatArray) -> bool:
        return not np.isfinite(np.diagonal(self.covariance)[(weights != 0.0).any(axis=0)]).all()


def other_references(problem: Problem, bread: Bread, unknown: NDArray[np.bool_]) -> FloatArray | None:
    """Return the matrix of `Recoded` for the factors whose reference may be what hides the constant, if any.

    Parameters
    ----------
    problem : Problem
    bread : Bread
        It says how frequent levels are: others are told from the most frequent one.
    unknown : array of shape (q,)
        Which reported coefficients noise hides: p for each linear predictor that is reported. None is found
        for other numbers of them.
    """
    p = problem.n_coef
    if not problem.has_intercept or unknown.size % p:
        return None
    lost = unknown.reshape(-1, p)
    if not lost[:, 0].any():
        return None
    hidden = [
        list(places) for places in problem.factors if (lost[:, 0] & lost[:, list(places)].any(axis=1)).any()
    ]
    if not hidden:
        return None
    frequent = shares_of_levels(problem, bread).mean(axis=0)
    matrix = np.eye(p)
    for places in hidden:
        to = max(places, key=lambda place: frequent[place])
        matrix[0, to] = 1.0
        matrix[places, to] = -1.0
    return np.asarray(np.kron(np.eye(len(lost)), matrix), dtype=np.float64)
